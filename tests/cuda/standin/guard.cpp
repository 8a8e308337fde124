#include "cuda/standin/guard.h"

#include "cuda/standin/sanitizer.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <vector>

namespace standin {

namespace {

enum : std::size_t { PAGE = 4096, ALIGNMENT = 16 };
enum { BEHIND = 0xa5 }; /* what the bytes behind the end hold */

struct declared {
    const char *guard;
    const char *name, *file;
    int number;
};

std::mutex lock;
std::vector<declared> all;

std::size_t rounded(std::size_t bytes, std::size_t to)
{
    return (bytes + to - 1) / to * to;
}

[[noreturn]] void no_memory()
{
    perror("stand-in: shared memory");
    abort();
}

guarded allocate_watched(std::size_t bytes)
{
    void *data = nullptr;
    if (posix_memalign(&data, ALIGNMENT, bytes) != 0)
        no_memory();
    return {static_cast<char *>(data), bytes, nullptr, 0};
}

}

guarded guarded_allocate(std::size_t bytes, const char *name, const char *file, int number)
{
    if (ADDRESS_SANITIZER)
        return allocate_watched(bytes);
    const std::size_t room = rounded(bytes, PAGE), taken = rounded(bytes, ALIGNMENT);
    void *pages = mmap(nullptr, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(static_cast<char *>(pages) + room, PAGE, PROT_NONE) != 0)
        no_memory();
    guarded memory = {static_cast<char *>(pages) + room - taken, bytes, static_cast<char *>(pages), room + PAGE};
    std::memset(memory.data + bytes, BEHIND, taken - bytes);
    std::lock_guard<std::mutex> held(lock);
    all.push_back({memory.pages + room, name, file, number});
    return memory;
}

void guarded_free(guarded &memory)
{
    if (!memory.pages) {
        free(memory.data);
        return;
    }
    std::lock_guard<std::mutex> held(lock);
    for (std::size_t i = 0; i < all.size(); i++)
        if (all[i].guard == memory.pages + memory.mapped - PAGE)
            all.erase(all.begin() + static_cast<long>(i--));
    munmap(memory.pages, memory.mapped);
}

bool guarded_is_intact(const guarded &memory)
{
    for (std::size_t i = memory.bytes; memory.pages && i < rounded(memory.bytes, ALIGNMENT); i++)
        if (static_cast<unsigned char>(memory.data[i]) != BEHIND)
            return false;
    return true;
}

/* The program ends here: nobody else is waited for. */
bool guarded_describes(const void *address, char *text, std::size_t size)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    for (const declared &d : all) {
        const uintptr_t guard = reinterpret_cast<uintptr_t>(d.guard);
        if (at < guard || at >= guard + PAGE)
            continue;
        snprintf(text, size, "access past the end of shared memory %s, declared at %s:%d", d.name, d.file, d.number);
        return true;
    }
    return false;
}

}
