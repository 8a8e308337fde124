#include "cuda/standin/memory.h"

#include "cuda/standin/grid_cpu.h"
#include "cuda/standin/sanitizer.h"
#include "cuda/standin/stream.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace standin {

namespace {

enum : std::size_t { PAGE = 4096, ALIGNMENT = 256, ROOM = static_cast<std::size_t>(1) << 42 };
enum { FRESH = 0xff }; /* NaN in every float format */
enum : std::size_t { FIRST_STEP = 8 * PAGE }; /* opened at once */

struct piece {
    std::size_t bytes;
    char *pages; /* which end at a guard */
    bool live;
    int gpu;
    char *low, *high; /* the pages that are open lie between; NULL: none is */
    std::size_t step; /* as many bytes as the next fault opens */
    piece *opened_before;
};

thread_local int works; /* of streams, in which this thread is */
thread_local int gpu_of_work = ANY_GPU;

/* Pages are opened when the work of a stream touches them, by the fault that this is, and all are closed when no stream
 * works any more. Who opens all of them before each work waits for the system to go over every one, which takes longer
 * than most works do. So it is with whole pieces, of which a caller's allocator has large ones for many tensors: the
 * first fault in one opens few pages, each further one twice as many. */
class arena {
public:
    arena();
    void *allocate(std::size_t bytes);
    bool free(void *pointer);
    bool owns(const void *pointer);
    void begins();
    void ends();
    bool opens(const void *address);
    bool describes(const void *address, char *text, std::size_t size);

private:
    std::mutex lock;
    std::map<uintptr_t, piece> pieces; /* by their first byte */
    piece *opened = nullptr;
    char *base = nullptr;
    std::size_t used = 0, working = 0;
    bool guarded = !ADDRESS_SANITIZER && !THREAD_SANITIZER;
};

arena::arena()
{
    if (!guarded)
        return;
    void *room = mmap(nullptr, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        perror("stand-in: device memory");
        abort();
    }
    base = static_cast<char *>(room);
}

std::size_t in_pages(std::size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

void *arena::allocate(std::size_t bytes)
{
    std::lock_guard<std::mutex> held(lock);
    void *data = nullptr, *pages = nullptr;
    if (!guarded) {
        if (posix_memalign(&data, ALIGNMENT, bytes) != 0)
            return nullptr;
        std::memset(data, FRESH, bytes);
    } else {
        const std::size_t room = in_pages(bytes);
        if (used + room + PAGE > ROOM)
            return nullptr;
        pages = base + used;
        if (mprotect(pages, room, PROT_READ | PROT_WRITE) != 0)
            return nullptr;
        std::memset(pages, FRESH, room);
        data = static_cast<char *>(pages) + room - (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        used += room + PAGE;
        mprotect(pages, room, PROT_NONE);
    }
    pieces[reinterpret_cast<uintptr_t>(data)] = {bytes, static_cast<char *>(pages), true, current_gpu(),
                                                  nullptr, nullptr, 0, nullptr};
    return data;
}

bool arena::free(void *pointer)
{
    std::lock_guard<std::mutex> held(lock);
    auto found = pieces.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == pieces.end() || !found->second.live)
        return false;
    if (!guarded) {
        pieces.erase(found);
        ::free(pointer);
        return true;
    }
    found->second.live = false;
    void *pages = mmap(found->second.pages, in_pages(found->second.bytes), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return pages != MAP_FAILED;
}

bool arena::owns(const void *pointer)
{
    std::lock_guard<std::mutex> held(lock);
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    auto after = pieces.upper_bound(at);
    if (after == pieces.begin())
        return false;
    --after;
    return after->second.live && at < after->first + after->second.bytes;
}

void arena::begins()
{
    std::lock_guard<std::mutex> held(lock);
    works++;
    working++;
}

void arena::ends()
{
    std::lock_guard<std::mutex> held(lock);
    works--;
    if (--working > 0)
        return;
    for (; opened; opened = opened->opened_before) {
        mprotect(opened->low, static_cast<std::size_t>(opened->high - opened->low), PROT_NONE);
        opened->low = opened->high = nullptr;
    }
}

/* Whether the access may be tried again. In a handler of faults: a work holds no lock where it touches device memory;
 * nothing is allocated. */
bool arena::opens(const void *address)
{
    if (!guarded || works == 0)
        return false;
    std::lock_guard<std::mutex> held(lock);
    auto found = pieces.upper_bound(reinterpret_cast<uintptr_t>(address));
    if (found == pieces.begin())
        return false;
    piece &p = (--found)->second;
    char *const end = p.pages + in_pages(p.bytes);
    if (!p.live || static_cast<const char *>(address) >= end || !are_peers(gpu_of_work, p.gpu))
        return false;
    if (!p.low) {
        p.step = FIRST_STEP;
        p.opened_before = opened;
        opened = &p;
    }
    char *const from = p.pages + (static_cast<const char *>(address) - p.pages) / PAGE * PAGE;
    char *const to = std::min(end, from + p.step);
    p.low = p.low ? std::min(p.low, from) : from;
    p.high = std::max(p.high, to);
    p.step = std::min(2 * p.step, in_pages(p.bytes)); /* never 0, however many faults there are */
    return mprotect(from, static_cast<std::size_t>(to - from), PROT_READ | PROT_WRITE) == 0;
}

/* The program ends here: the lock is not taken. */
bool arena::describes(const void *address, char *text, std::size_t size)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(address), first = reinterpret_cast<uintptr_t>(base);
    if (!base || at < first || at >= first + ROOM)
        return false;
    auto found = pieces.upper_bound(at);
    if (found == pieces.begin()) {
        snprintf(text, size, "access to device memory that was never given out");
        return true;
    }
    --found;
    const char *what = at >= found->first + in_pages(found->second.bytes) ||
                               (found->second.live && here && are_peers(gpu_of_work, found->second.gpu))
                           ? "access past the end of device memory"
                       : !found->second.live ? "access to device memory that was freed"
                       : !are_peers(gpu_of_work, found->second.gpu)
                           ? "a kernel touches memory of a GPU that is no peer of its own"
                           : "the host touches device memory";
    snprintf(text, size, "%s: %zu bytes into a piece of %zu", what, static_cast<std::size_t>(at - found->first),
             found->second.bytes);
    return true;
}

/* Memory of the host that was given out. */
struct pinned_pieces {
    std::mutex lock;
    std::map<void *, std::size_t> bytes;
};

pinned_pieces &pinned()
{
    static pinned_pieces *all = new pinned_pieces;
    return *all;
}

arena &memory()
{
    static arena *all = new arena; /* streams may outlive the end of main */
    return *all;
}

}

void *device_allocate(std::size_t bytes)
{
    return memory().allocate(bytes > 0 ? bytes : 1);
}

bool device_free(void *pointer)
{
    return memory().free(pointer);
}

bool device_owns(const void *pointer)
{
    return memory().owns(pointer);
}

void *pinned_allocate(std::size_t bytes)
{
    std::lock_guard<std::mutex> held(pinned().lock);
    void *data = nullptr;
    if (posix_memalign(&data, PAGE, bytes > 0 ? bytes : 1) != 0)
        return nullptr;
    std::memset(data, FRESH, bytes);
    pinned().bytes[data] = bytes;
    return data;
}

bool pinned_free(void *pointer)
{
    std::lock_guard<std::mutex> held(pinned().lock);
    auto found = pinned().bytes.find(pointer);
    if (found == pinned().bytes.end())
        return false;
    std::memset(pointer, FRESH, found->second);
    ::free(pointer);
    pinned().bytes.erase(found);
    return true;
}

bool pinned_owns(const void *pointer)
{
    std::lock_guard<std::mutex> held(pinned().lock);
    const char *at = static_cast<const char *>(pointer);
    auto behind = pinned().bytes.upper_bound(const_cast<void *>(pointer));
    if (behind == pinned().bytes.begin())
        return false;
    --behind;
    return at < static_cast<const char *>(behind->first) + behind->second;
}

void work_begins(int gpu)
{
    gpu_of_work = gpu;
    memory().begins();
}

void work_ends()
{
    memory().ends();
}

bool device_opens(const void *address)
{
    return memory().opens(address);
}

bool device_describes(const void *address, char *text, std::size_t size)
{
    return memory().describes(address, text, size);
}

}
