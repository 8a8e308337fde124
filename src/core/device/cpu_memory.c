/* Memory of the CPU: the C library's, a caller's, and addresses that get theirs as it is needed.
 *
 * What is large requests huge pages, which make the first touch six times as fast and avoid TLB misses of strided
 * walks. */
#include "core/device/cpu_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,     /* bytes: a cache line, and the widest vector */
    HUGE_PAGE = 1 << 21 /* bytes */
};

_Static_assert(STN_COMMIT_STEP % HUGE_PAGE == 0, "addresses that are reserved are of huge pages");

/* A hint: failing does no harm. */
static void request_huge_pages(void *pointer, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    madvise(pointer, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#else
    (void)pointer, (void)bytes;
#endif
}

void *stni_cpu_memory(size_t bytes)
{
    size_t alignment = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    void *pointer = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (pointer && alignment == HUGE_PAGE)
        request_huge_pages(pointer, bytes);
    return pointer;
}

stn_status stni_cpu_allocate(void *impl, size_t bytes, void **out)
{
    const struct stni_cpu *cpu = impl;
    void *pointer = cpu->allocator.allocate ? cpu->allocator.allocate(cpu->allocator.arg, bytes, ALIGNMENT)
                                            : stni_cpu_memory(bytes);
    if (!pointer)
        return STN_ERR_MEMORY;
    *out = pointer;
    return STN_OK;
}

void stni_cpu_deallocate(void *impl, void *pointer, size_t bytes)
{
    const struct stni_cpu *cpu = impl;
    if (cpu->allocator.allocate)
        cpu->allocator.deallocate(cpu->allocator.arg, pointer, bytes);
    else
        free(pointer);
}

/* The machine's memory, in huge pages. None where addresses are few, or counted as if they were memory. */
static size_t addresses(void)
{
    struct rlimit limit;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (sizeof(void *) < 8 || pages <= 0 || page <= 0 || page > HUGE_PAGE || getrlimit(RLIMIT_AS, &limit) != 0 ||
        limit.rlim_cur != RLIM_INFINITY)
        return 0;
    return (size_t)pages * (size_t)page / HUGE_PAGE * HUGE_PAGE;
}

/* Gives back what lies before and behind `bytes` bytes that begin at a huge page. */
static void *align(char *pointer, size_t bytes)
{
    const size_t before = (size_t)(-(uintptr_t)pointer % HUGE_PAGE);
    if (before > 0)
        munmap(pointer, before);
    munmap(pointer + before + bytes, HUGE_PAGE - before);
    return pointer + before;
}

/* The first huge page's worth is in small pages: a program of small tensors touches few of them. */
stn_status stni_cpu_reserve(void *impl, size_t *bytes, void **out)
{
    const struct stni_cpu *cpu = impl;
    const size_t wanted = cpu->allocator.allocate ? 0 : addresses();
    if (wanted <= HUGE_PAGE)
        return STN_ERR_UNSUPPORTED;
    char *pointer = mmap(NULL, wanted + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pointer == MAP_FAILED)
        return STN_ERR_UNSUPPORTED;
    pointer = align(pointer, wanted);
    request_huge_pages(pointer + HUGE_PAGE, wanted - HUGE_PAGE);
    *bytes = wanted;
    *out = pointer;
    return STN_OK;
}

void stni_cpu_unreserve(void *impl, void *pointer, size_t bytes)
{
    (void)impl;
    munmap(pointer, bytes);
}

stn_status stni_cpu_commit(void *impl, void *pointer, size_t bytes)
{
    (void)impl;
    return mprotect(pointer, bytes, PROT_READ | PROT_WRITE) == 0 ? STN_OK : STN_ERR_MEMORY;
}

/* In this order: pages that are gone are not written to meanwhile. */
void stni_cpu_decommit(void *impl, void *pointer, size_t bytes)
{
    (void)impl;
    mprotect(pointer, bytes, PROT_NONE);
    madvise(pointer, bytes, MADV_DONTNEED);
}
