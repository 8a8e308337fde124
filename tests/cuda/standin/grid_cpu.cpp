/* Grids on the CPU (grid_cpu.h). A block is a set of simulated threads; each that has begun and not ended stands on a
 * fiber. A fiber whose thread has ended takes the next thread, so that kernels without barriers never switch. */
#include "cuda/standin/grid_cpu.h"

#include "cuda/standin/fiber.h"
#include "cuda/standin/guard.h"
#include "cuda/standin/settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

namespace standin {

__thread const place *here;

namespace {

enum { LANES = 32, MOST_SHARED = 48 << 10 /* bytes */, BY_LAUNCH = -1 /* the site of an array */ };

enum class state { fresh, running, ready, at_barrier, in_warp, ended };

struct late_copy {
    void *to;
    const void *from; /* NULL: zeros */
    std::size_t bytes;
};

struct simulated {
    place at;
    state now = state::fresh;
    fiber *stack = nullptr;
    line waits = {nullptr, 0};
    /* In a warp operation. */
    unsigned mask = 0, from = 0, votes = 0;
    uint64_t given = 0, got = 0;
    warp_work work = nullptr;
    std::vector<late_copy> copies; /* that it has not waited for */
};

struct shared_array {
    int site;
    line declared;
    guarded memory;
    bool in_use; /* by the block that runs */
};

class machine {
public:
    ~machine();
    void run(dim3 grid, dim3 block, const kernel_call &thread);
    void barrier(line at);
    simulated &meet(unsigned mask, uint64_t given, unsigned from, line at, warp_work work = nullptr);
    void copy_late(const late_copy &copy, line at);
    void wait_for_copies();
    [[noreturn]] void refuse(const char *what, line at);
    void *shared(int site, std::size_t bytes, const char *name, line at);
    void *shared_by_launch(std::size_t bytes, const char *name, line at);
    void serve(); /* a fiber's loop over threads */

private:
    void begin(dim3 grid, dim3 block);
    void run_block(dim3 grid, int64_t index);
    void order_threads();
    void schedule();
    [[noreturn]] void end_of_waiting();
    fiber &next_ready();
    void wait();
    bool warp_is_complete(int first, unsigned mask, line at);
    void hand_out(int first, unsigned mask);
    void work_together(const simulated *warp, warp_work work);
    fiber *take_fiber();
    uint64_t draw();
    [[noreturn]] void end(const char *what, const simulated &t);

    std::vector<simulated> threads;
    std::vector<int> order;
    std::vector<simulated *> ready;
    std::vector<std::unique_ptr<fiber>> fibers;
    std::vector<fiber *> idle;
    std::vector<shared_array> arrays;
    const kernel_call *body = nullptr;
    std::size_t next = 0, ended = 0, at_barrier = 0;
    line barrier_of_block = {nullptr, 0}; /* where at_barrier threads wait */
    simulated *current = nullptr;
    fiber own, *running = nullptr;
    bool closes = false; /* fibers leave when they are entered */
    uint64_t random = 0;
};

thread_local std::unique_ptr<machine> of_thread;
/* The same, without a look at whether the owner is initialised: each barrier reads it. */
__thread machine *this_machine __attribute__((tls_model("initial-exec")));

void fiber_body()
{
    this_machine->serve();
}

machine::~machine()
{
    closes = true;
    for (fiber *f : idle) {
        running = f;
        fiber_switch(own, *f);
    }
    for (auto &f : fibers)
        fiber_destroy(*f);
    for (shared_array &a : arrays)
        guarded_free(a.memory);
}

void machine::end(const char *what, const simulated &t)
{
    const uint3 b = t.at.block, i = t.at.thread;
    fprintf(stderr, "grid: %s: block (%u, %u, %u), thread (%u, %u, %u)", what, b.x, b.y, b.z, i.x, i.y, i.z);
    if (t.waits.file)
        fprintf(stderr, " at %s:%d", t.waits.file, t.waits.number);
    fprintf(stderr, "\n");
    abort();
}

uint64_t machine::draw()
{
    random = random * 6364136223846793005u + 1442695040888963407u;
    return random >> 33;
}

fiber *machine::take_fiber()
{
    if (idle.empty()) {
        fibers.emplace_back(new fiber);
        fiber_create(*fibers.back(), fiber_body, fibers.size());
        return fibers.back().get();
    }
    fiber *f = idle.back();
    idle.pop_back();
    return f;
}

void machine::serve()
{
    fiber_begun(own);
    for (;;) {
        /* Whoever can go on goes first: the fiber of a thread that has ended begins others only while nobody waits for
         * its turn. */
        while (next < threads.size() && ready.empty()) {
            simulated &t = threads[static_cast<std::size_t>(order[next++])];
            t.now = state::running;
            t.stack = running;
            current = &t;
            here = &t.at;
            body->run();
            t.now = state::ended;
            ended++;
            if (at_barrier > 0)
                end("a thread left the kernel while others wait in __syncthreads", t);
        }
        fiber &mine = *running;
        idle.push_back(&mine);
        fiber_switch(mine, ready.empty() ? own : next_ready());
        if (closes)
            fiber_leave(*running, own);
    }
}

/* The stack of the thread that came to be ready last, which goes on. */
fiber &machine::next_ready()
{
    simulated &t = *ready.back();
    ready.pop_back();
    t.now = state::running;
    current = &t;
    here = &t.at;
    running = t.stack;
    return *running;
}

/* Nobody can go on. Where a lane waits for one that has left the kernel, that is the reason. */
void machine::end_of_waiting()
{
    simulated *waiting = nullptr;
    for (simulated &t : threads) {
        if (t.now == state::ended)
            continue;
        waiting = current = &t;
        if (t.now == state::in_warp)
            warp_is_complete(static_cast<int>(&t - threads.data()) / LANES * LANES, t.mask, t.waits);
    }
    end("threads wait for each other without end", *waiting);
}

void machine::schedule()
{
    while (ended < threads.size()) {
        if (!ready.empty()) {
            fiber_switch(own, next_ready());
        } else if (next < threads.size()) {
            running = take_fiber();
            fiber_switch(own, *running);
        } else {
            end_of_waiting();
        }
    }
}

/* Who is ready goes on without a stop at schedule(), which alone enters fibers that are new: they ask from where. */
void machine::wait()
{
    fiber &mine = *current->stack;
    fiber &to = ready.empty() ? own : next_ready();
    if (&to != &mine)
        fiber_switch(mine, to);
}

void machine::barrier(line at)
{
    simulated &self = *current;
    self.waits = at;
    if (ended > 0)
        end("__syncthreads after a thread has left the kernel", self);
    if (at_barrier > 0 && barrier_of_block.number != at.number)
        end("threads of a block wait in different __syncthreads", self);
    barrier_of_block = at;
    self.now = state::at_barrier;
    if (++at_barrier == threads.size()) {
        at_barrier = 0;
        for (int i : order) {
            threads[static_cast<std::size_t>(i)].now = state::ready;
            ready.push_back(&threads[static_cast<std::size_t>(i)]);
        }
    }
    wait();
}

/* Whether all lanes of the mask wait in the operation at this line. */
bool machine::warp_is_complete(int first, unsigned mask, line at)
{
    for (int l = 0; l < LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        const std::size_t i = static_cast<std::size_t>(first + l);
        if (i >= threads.size() || threads[i].now == state::ended)
            end("the mask of a warp operation names a lane that is not there", *current);
        if (threads[i].now != state::in_warp)
            return false;
        if (threads[i].mask != mask || threads[i].waits.number != at.number || threads[i].work != current->work)
            end("lanes of a warp meet in different operations", *current);
    }
    return true;
}

void machine::work_together(const simulated *warp, warp_work work)
{
    void *given[LANES];
    for (int l = 0; l < LANES; l++)
        given[l] = reinterpret_cast<void *>(warp[l].given);
    work(given);
}

void machine::hand_out(int first, unsigned mask)
{
    unsigned votes = 0;
    simulated *warp = &threads[static_cast<std::size_t>(first)];
    if (current->work)
        work_together(warp, current->work);
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1 && warp[l].given != 0)
            votes |= 1u << l;
    for (int l = 0; l < LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        if (!(mask >> warp[l].from & 1))
            end("a lane reads from a lane that the mask lacks", warp[l]);
        warp[l].votes = votes;
        warp[l].got = warp[warp[l].from].given;
        warp[l].now = state::ready;
        if (&warp[l] != current)
            ready.push_back(&warp[l]);
    }
    current->now = state::running;
}

simulated &machine::meet(unsigned mask, uint64_t given, unsigned from, line at, warp_work work)
{
    simulated &self = *current;
    self.waits = at;
    self.work = work;
    self.mask = mask;
    self.given = given;
    self.from = from;
    self.now = state::in_warp;
    const int first = static_cast<int>(current - threads.data()) / LANES * LANES;
    if (!(mask >> self.at.lane & 1))
        end("a lane is in a warp operation whose mask lacks it", self);
    if (warp_is_complete(first, mask, at))
        hand_out(first, mask);
    else
        wait();
    return self;
}

void machine::refuse(const char *what, line at)
{
    current->waits = at;
    end(what, *current);
}

void machine::copy_late(const late_copy &copy, line at)
{
    if ((reinterpret_cast<uintptr_t>(copy.to) | reinterpret_cast<uintptr_t>(copy.from)) % copy.bytes != 0)
        refuse("a copy into shared memory is not at a multiple of its size", at);
    current->copies.push_back(copy);
}

void machine::wait_for_copies()
{
    for (const late_copy &c : current->copies)
        c.from ? std::memcpy(c.to, c.from, c.bytes) : std::memset(c.to, 0, c.bytes);
    current->copies.clear();
}

void *machine::shared(int site, std::size_t bytes, const char *name, line at)
{
    std::size_t total = bytes;
    for (shared_array &a : arrays) {
        if (a.site == site && a.memory.bytes == bytes && a.declared.file == at.file) {
            if (!a.in_use)
                std::memset(a.memory.data, 0xff, bytes);
            a.in_use = true;
            return a.memory.data;
        }
        total += a.in_use && a.site != BY_LAUNCH ? a.memory.bytes : 0;
    }
    current->waits = at;
    if (site != BY_LAUNCH && total > MOST_SHARED)
        end("a block has more than 48 KiB of shared memory", *current);
    arrays.push_back({site, at, guarded_allocate(bytes, name, at.file, at.number), true});
    std::memset(arrays.back().memory.data, 0xff, bytes);
    return arrays.back().memory.data;
}

void *machine::shared_by_launch(std::size_t bytes, const char *name, line at)
{
    current->waits = at;
    if (bytes > body->shared)
        end("a launch gives less shared memory than its kernel takes", *current);
    return shared(BY_LAUNCH, bytes, name, at);
}

void machine::order_threads()
{
    std::iota(order.begin(), order.end(), 0);
    if (settings().seed == DESCENDING)
        std::reverse(order.begin(), order.end());
    else if (settings().seed != ASCENDING)
        for (std::size_t i = order.size() - 1; i > 0; i--)
            std::swap(order[i], order[draw() % (i + 1)]);
}

void machine::run_block(dim3 grid, int64_t index)
{
    const uint3 block = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                         static_cast<unsigned>(index / grid.x / grid.y)};
    for (simulated &t : threads) {
        t.at.block = block;
        t.now = state::fresh;
        t.waits = {nullptr, 0};
        t.copies.clear();
    }
    next = ended = at_barrier = 0;
    ready.clear();
    order_threads();
    schedule();
    for (shared_array &a : arrays) {
        if (a.in_use && !guarded_is_intact(a.memory))
            end("shared memory was written past the end of an array", *current);
        a.in_use = false;
    }
}

void machine::begin(dim3 grid, dim3 block)
{
    threads.resize(block.x * block.y * block.z);
    order.resize(threads.size());
    random = settings().seed;
    for (std::size_t i = 0; i < threads.size(); i++) {
        const unsigned k = static_cast<unsigned>(i);
        threads[i].at = {
            {k % block.x, k / block.x % block.y, k / block.x / block.y}, {0, 0, 0}, block, grid, k % LANES};
    }
}

void machine::run(dim3 grid, dim3 block, const kernel_call &thread)
{
    const int64_t blocks = static_cast<int64_t>(grid.x) * grid.y * grid.z;
    fiber_of_thread(own);
    body = &thread;
    begin(grid, block);
    for (int64_t b = 0; b < blocks; b++)
        run_block(grid, settings().seed == DESCENDING ? blocks - 1 - b : b);
    here = nullptr;
}

}

void barrier(line at)
{
    this_machine->barrier(at);
}

uint64_t exchange(unsigned mask, uint64_t value, unsigned from, line at)
{
    return this_machine->meet(mask, value, from, at).got;
}

unsigned ballot(unsigned mask, int value, line at)
{
    return this_machine->meet(mask, value != 0, here->lane, at).votes;
}

void together(warp_work work, void *given, line at)
{
    this_machine->meet(0xffffffffu, reinterpret_cast<uint64_t>(given), here->lane, at, work);
}

void copy_late(void *to, const void *from, std::size_t bytes, line at)
{
    this_machine->copy_late({to, from, bytes}, at);
}

void wait_for_copies()
{
    this_machine->wait_for_copies();
}

void refuse(const char *what, line at)
{
    this_machine->refuse(what, at);
}

void *shared(int site, std::size_t bytes, const char *name, const char *file, int number)
{
    return this_machine->shared(site, bytes, name, {file, number});
}

void *shared_by_launch(std::size_t bytes, const char *name, line at)
{
    return this_machine->shared_by_launch(bytes, name, at);
}

void run_grid(dim3 grid, dim3 block, const kernel_call &thread)
{
    if (!this_machine) {
        of_thread.reset(new machine);
        this_machine = of_thread.get();
    }
    this_machine->run(grid, block, thread);
}

}
