#include "cuda/standin/memory.h"

#include "cuda/standin/grid_cpu.h"
#include "cuda/standin/sanitizer.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace standin {

namespace {

enum : std::size_t { PAGE = 4096, ALIGNMENT = 256, ROOM = static_cast<std::size_t>(1) << 42 };
enum { FRESH = 0xff }; /* NaN in every float format */

struct piece {
    std::size_t bytes;
    bool live;
};

/* The room is a mapping of a file without content: a page of it cannot be touched whatever its protection, so that one call opens and closes all
 * pieces, which are mapped over it, and leaves the guards between them as they are. */
class arena {
public:
    arena();
    void *allocate(std::size_t bytes);
    bool free(void *pointer);
    bool owns(const void *pointer);
    void opens();
    void closes();
    bool describes(const void *address, char *text, std::size_t size);

private:
    std::mutex lock;
    std::map<uintptr_t, piece> pieces; /* by their first byte */
    char *base = nullptr;
    int file = -1;
    std::size_t used = 0, working = 0;
    bool guarded = !ADDRESS_SANITIZER && !THREAD_SANITIZER;
};

arena::arena()
{
    if (!guarded)
        return;
    file = memfd_create("device memory", MFD_CLOEXEC);
    void *room = mmap(nullptr, ROOM, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (file < 0 || room == MAP_FAILED) {
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
    void *data = nullptr;
    if (!guarded) {
        if (posix_memalign(&data, ALIGNMENT, bytes) != 0)
            return nullptr;
        std::memset(data, FRESH, bytes);
    } else {
        const std::size_t room = in_pages(bytes);
        if (used + room + PAGE > ROOM)
            return nullptr;
        void *pages = mmap(base + used, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED)
            return nullptr;
        std::memset(pages, FRESH, room);
        data = static_cast<char *>(pages) + room - (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        used += room + PAGE;
        if (working == 0)
            mprotect(pages, room, PROT_NONE);
    }
    pieces[reinterpret_cast<uintptr_t>(data)] = {bytes, true};
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
    const std::size_t at = static_cast<std::size_t>(static_cast<char *>(pointer) - base) / PAGE * PAGE;
    void *pages = mmap(base + at, in_pages(found->second.bytes), PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
                       static_cast<off_t>(at));
    found->second.live = false;
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

void arena::opens()
{
    std::lock_guard<std::mutex> held(lock);
    if (guarded && working++ == 0 && used > 0)
        mprotect(base, used, PROT_READ | PROT_WRITE);
}

void arena::closes()
{
    std::lock_guard<std::mutex> held(lock);
    if (guarded && --working == 0 && used > 0)
        mprotect(base, used, PROT_NONE);
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
    const char *what = at >= found->first + in_pages(found->second.bytes) || (found->second.live && here) ? "access past the end of device memory"
                       : !found->second.live                                                            ? "access to device memory that was freed"
                                                                                                        : "the host touches device memory";
    snprintf(text, size, "%s: %zu bytes into a piece of %zu", what, static_cast<std::size_t>(at - found->first), found->second.bytes);
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

void device_memory_opens()
{
    memory().opens();
}

void device_memory_closes()
{
    memory().closes();
}

bool device_describes(const void *address, char *text, std::size_t size)
{
    return memory().describes(address, text, size);
}

}
