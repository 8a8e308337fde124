/* Switching stacks: the registers that a function must keep go onto the old stack, the new stack's come from it. The
 * sanitizers are told. */
#include "cuda/standin/fiber.h"

#include "cuda/standin/sanitizer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <vector>

extern "C" void standin_switch_stack(void **save, void *load);

#if defined(__x86_64__)

enum { SAVED_WORDS = 7, ENTRY_WORD = 6 };
/* Above the saved registers: where ret goes, and a word that leaves the stack aligned as after a call. */
enum { FRAME_WORDS = 8 };

asm(".text\n"
    ".globl standin_switch_stack\n"
    ".type standin_switch_stack,@function\n"
    "standin_switch_stack:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp,(%rdi)\n"
    "  mov %rsi,%rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  pop %rcx\n  jmp *%rcx\n" /* ret is foreseen to go back to the old stack's call */
    ".size standin_switch_stack,.-standin_switch_stack\n");

#elif defined(__aarch64__)

/* x19 to x30, then d8 to d15; x30 is where ret goes. */
enum { FRAME_WORDS = 20, ENTRY_WORD = 11 };

asm(".text\n"
    ".globl standin_switch_stack\n"
    ".type standin_switch_stack,%function\n"
    "standin_switch_stack:\n"
    "  sub sp,sp,#160\n"
    "  stp x19,x20,[sp]\n  stp x21,x22,[sp,#16]\n  stp x23,x24,[sp,#32]\n  stp x25,x26,[sp,#48]\n  stp "
    "x27,x28,[sp,#64]\n"
    "  stp x29,x30,[sp,#80]\n  stp d8,d9,[sp,#96]\n  stp d10,d11,[sp,#112]\n  stp d12,d13,[sp,#128]\n  stp "
    "d14,d15,[sp,#144]\n"
    "  mov x9,sp\n  str x9,[x0]\n  mov sp,x1\n"
    "  ldp x19,x20,[sp]\n  ldp x21,x22,[sp,#16]\n  ldp x23,x24,[sp,#32]\n  ldp x25,x26,[sp,#48]\n  ldp "
    "x27,x28,[sp,#64]\n"
    "  ldp x29,x30,[sp,#80]\n  ldp d8,d9,[sp,#96]\n  ldp d10,d11,[sp,#112]\n  ldp d12,d13,[sp,#128]\n  ldp "
    "d14,d15,[sp,#144]\n"
    "  add sp,sp,#160\n"
    "  ret\n"
    ".size standin_switch_stack,.-standin_switch_stack\n");

#else
#error "the stand-in for a GPU knows how to switch stacks on x86-64 and on aarch64 only"
#endif

namespace standin {

enum { PAGE = 4096, STACK = ADDRESS_SANITIZER ? 512 << 10 : 128 << 10, LINES = 64 };

namespace {

/* Stacks that no fiber has at the moment: streams come and go, and to map their stacks and guards anew took the kernel
 * a third of the time of some tests. The address sanitizer's are large, and it should see whoever uses one that is
 * gone. */
enum { MOST_KEPT = ADDRESS_SANITIZER ? 0 : 4096 };

struct kept_stacks {
    std::mutex lock;
    std::vector<char *> stacks;
};

kept_stacks &kept()
{
    static kept_stacks *const all = new kept_stacks; /* streams may end after what has a destructor */
    return *all;
}

char *take_stack()
{
    {
        kept_stacks &all = kept();
        const std::lock_guard<std::mutex> held(all.lock);
        if (!all.stacks.empty()) {
            char *const stack = all.stacks.back();
            all.stacks.pop_back();
            return stack;
        }
    }
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(nullptr, PAGE + STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0) {
        perror("stand-in: a stack");
        abort();
    }
    return static_cast<char *>(memory);
}

void give_stack(char *stack)
{
    {
        kept_stacks &all = kept();
        const std::lock_guard<std::mutex> held(all.lock);
        if (all.stacks.size() < MOST_KEPT) {
            all.stacks.push_back(stack);
            return;
        }
    }
    munmap(stack, PAGE + STACK);
}

}

void fiber_create(fiber &out, void (*body)(), std::size_t number)
{
    out.memory = take_stack();
    out.bottom = out.memory + PAGE;
    out.size = STACK;
    char *top = out.memory + PAGE + STACK - number % LINES * PAGE / LINES;
    void **frame = reinterpret_cast<void **>(top) - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[ENTRY_WORD] = reinterpret_cast<void *>(body);
    out.stack_pointer = frame;
    out.sanitizer = tsan_fiber_create();
}

void fiber_destroy(fiber &f)
{
    if (!f.memory)
        return;
    tsan_fiber_destroy(f.sanitizer);
    asan_forget(f.bottom, f.size); /* other stacks will lie there */
    give_stack(f.memory);
    f = fiber();
}

void fiber_of_thread(fiber &out)
{
    out.sanitizer = tsan_fiber_current();
}

void fiber_switch(fiber &from, fiber &to)
{
    void *fake_stack = nullptr;
    asan_switch_begins(&fake_stack, to.bottom, to.size);
    tsan_switch_to(to.sanitizer);
    standin_switch_stack(&from.stack_pointer, to.stack_pointer);
    asan_switch_ended(fake_stack, nullptr, nullptr);
}

void fiber_leave(fiber &from, fiber &to)
{
    asan_switch_begins(nullptr, to.bottom, to.size);
    tsan_switch_to(to.sanitizer);
    standin_switch_stack(&from.stack_pointer, to.stack_pointer);
}

void fiber_begun(fiber &from)
{
    asan_switch_ended(nullptr, &from.bottom, &from.size);
}

}
