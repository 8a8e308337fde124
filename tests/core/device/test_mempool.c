/* The caching pool: what it wastes, what it reuses, what it gives back. */
#include "core/counted.h"
#include "harness.h"

#include "core/device/mempool.h"

#include <string.h>
#include <sys/resource.h>

struct fixture {
    stn_device *device;
    stn_queue *queue;
    struct stni_mempool *pool;
};

/* `allocator` NULL: the device's own memory, for which it reserves addresses. */
static bool open_pool_on(struct fixture *f, const stn_allocator *allocator)
{
    stn_queue_options options = {.size = sizeof options};
    if (test_queue() == TEST_QUEUE_WORKER)
        options = (stn_queue_options){.size = sizeof options, .kind = STN_QUEUE_WORKER, .delay_seed = 7};
    return CHECK_STATUS(stni_device_create_cpu(allocator, &f->device), STN_OK) &&
           CHECK_STATUS(stni_queue_create(f->device, &options, &f->queue), STN_OK) &&
           CHECK_STATUS(stni_mempool_create(f->queue, &f->pool), STN_OK);
}

static bool open_pool(struct fixture *f)
{
    return open_pool_on(f, &counted_allocator);
}

static void close_pool(struct fixture *f)
{
    stni_mempool_destroy(&f->pool);
    stni_queue_destroy(&f->queue);
    stni_device_destroy(&f->device);
    CHECK_I64(counted_live(), 0);
    CHECK_I64(counted_device_bytes(), 0);
}

static void take_and_check(struct fixture *f, size_t bytes)
{
    void *p;
    size_t capacity;
    stni_mempool_trim(f->pool);
    int64_t before = counted_device_bytes();
    CHECK_STATUS(stni_mempool_take(f->pool, bytes, &p, &capacity), STN_OK);
    int64_t got = counted_device_bytes() - before, asked = (int64_t)bytes;
    CHECK_I64((int64_t)((uintptr_t)p % 64), 0);
    CHECK(got >= asked);
    CHECK(got - asked < 64 || (got - asked) * 8 <= asked);
    memset(p, 0xa5, bytes);
    stni_mempool_release(f->pool, p, capacity);
}

/* Of small ones, which are blocks of their own. */
static void no_size_loses_more_than_an_eighth(void)
{
    struct fixture f;
    if (!open_pool(&f))
        return;
    for (size_t bytes = 1; bytes < 2000; bytes++)
        take_and_check(&f, bytes);
    for (int k = 11; k < 16; k++)
        for (int i = 8; i < 16; i++)
            for (size_t d = 0; d < 3; d++)
                take_and_check(&f, ((size_t)i << (k - 3)) - 1 + d);
    close_pool(&f);
}

static void what_was_released_last_is_taken_first(void)
{
    struct fixture f;
    void *a, *b, *c;
    size_t size_a, size_b, size_c;
    if (!open_pool(&f))
        return;
    stni_mempool_take(f.pool, 50000, &a, &size_a);
    stni_mempool_take(f.pool, 50000, &b, &size_b);
    CHECK(a != b);
    stni_mempool_release(f.pool, a, size_a);
    stni_mempool_release(f.pool, b, size_b);
    int64_t calls = counted_calls();
    stni_mempool_take(f.pool, 49990, &c, &size_c); /* of the same class */
    CHECK(c == b);
    stni_mempool_take(f.pool, 50000, &b, &size_b);
    CHECK(b == a);
    CHECK_I64(counted_calls(), calls);
    CHECK_I64(stni_mempool_stats(f.pool)->device_calls, 2);
    close_pool(&f);
}

static void zero_bytes_are_no_memory(void)
{
    struct fixture f;
    void *p = &f;
    size_t capacity = 1;
    if (!open_pool(&f))
        return;
    CHECK_STATUS(stni_mempool_take(f.pool, 0, &p, &capacity), STN_OK);
    CHECK(p == NULL);
    CHECK_I64((int64_t)capacity, 0);
    stni_mempool_release(f.pool, p, capacity);
    CHECK_I64(stni_mempool_stats(f.pool)->allocations, 0);
    close_pool(&f);
}

static void impossible_sizes_are_a_status(void)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4 * 3};
    struct fixture f;
    void *p;
    size_t capacity;
    if (!open_pool(&f))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_STATUS(stni_mempool_take(f.pool, sizes[i], &p, &capacity), STN_ERR_MEMORY);
        CHECK(p == NULL && capacity == 0);
    }
    CHECK_I64(stni_mempool_stats(f.pool)->live_bytes, 0);
    close_pool(&f);
}

static void trim_gives_back_what_is_free_and_keeps_what_is_live(void)
{
    enum { N = 256 };
    static char *p[N];
    static size_t capacity[N];
    struct fixture f;
    if (!open_pool(&f))
        return;
    for (int i = 0; i < N; i++) {
        stni_mempool_take(f.pool, (size_t)(1 + i * i), (void **)&p[i], &capacity[i]);
        memset(p[i], i % 128, (size_t)(1 + i * i));
    }
    for (int i = 0; i < N; i += 2)
        stni_mempool_release(f.pool, p[i], capacity[i]);
    stni_mempool_trim(f.pool);
    int64_t asked = 0;
    for (int i = 1; i < N; i += 2) {
        CHECK_I64(p[i][0], i % 128);
        CHECK_I64(p[i][i * i], i % 128);
        asked += 1 + i * i;
    }
    CHECK_I64(stni_mempool_stats(f.pool)->live_bytes, asked);
    CHECK_I64(stni_mempool_stats(f.pool)->reserved_bytes, counted_device_bytes());
    CHECK(counted_device_bytes() <= asked + asked / 8 + N / 2 * 64);
    for (int i = 1; i < N; i += 2)
        stni_mempool_release(f.pool, p[i], capacity[i]);
    stni_mempool_trim(f.pool);
    CHECK_I64(counted_device_bytes(), 0);
    CHECK_I64(stni_mempool_stats(f.pool)->reserved_bytes, 0);
    close_pool(&f);
}

struct taken {
    char *p;
    size_t capacity;
};

static struct taken take(struct fixture *f, size_t bytes)
{
    struct taken t = {0};
    if (CHECK_STATUS(stni_mempool_take(f->pool, bytes, (void **)&t.p, &t.capacity), STN_OK)) {
        CHECK_I64((int64_t)((uintptr_t)t.p % 64), 0);
        t.p[0] = t.p[bytes - 1] = 1; /* a sanitizer looks */
    }
    return t;
}

static void release(struct fixture *f, struct taken t)
{
    stni_mempool_release(f->pool, t.p, t.capacity);
}

/* What one of a few sizes leaves serves the next: the device is not asked again. */
static void check_neighbours_become_one(struct fixture *f)
{
    const struct taken first = take(f, 300000), a = take(f, 200000), b = take(f, 400000), last = take(f, 100000);
    const int64_t calls = stni_mempool_stats(f->pool)->device_calls;
    release(f, a);
    release(f, b);
    const struct taken both = take(f, 600000);
    CHECK(both.p == a.p);
    release(f, both);
    const struct taken again = take(f, 250000), rest = take(f, 330000);
    CHECK(again.p == a.p && rest.p > again.p && rest.p < last.p);
    CHECK_I64(stni_mempool_stats(f->pool)->device_calls, calls);
    CHECK_I64(stni_mempool_stats(f->pool)->live_bytes, 300000 + 250000 + 330000 + 100000);
    release(f, first);
    release(f, last);
    release(f, again);
    release(f, rest);
    stni_mempool_trim(f->pool);
    CHECK_I64(stni_mempool_stats(f->pool)->reserved_bytes, 0);
}

static void large_neighbours_become_one(void)
{
    struct fixture f;
    if (open_pool(&f)) {
        check_neighbours_become_one(&f);
        close_pool(&f);
    }
    if (open_pool_on(&f, NULL)) {
        check_neighbours_become_one(&f);
        close_pool(&f);
    }
}

/* However tensors grow: it is never more than what was live at once, in steps of the device's. */
static void what_is_reserved_is_what_was_needed_at_once(void)
{
    struct fixture f;
    if (!open_pool_on(&f, NULL))
        return;
    const struct stni_mempool_stats *stats = stni_mempool_stats(f.pool);
    for (size_t bytes = 70000; bytes < 20000000; bytes += bytes / 3) {
        const struct taken a = take(&f, bytes);
        release(&f, take(&f, bytes / 2 + 70000));
        release(&f, a);
        CHECK(stats->reserved_bytes <= stats->peak_bytes + STN_COMMIT_STEP + 2 * 4096);
    }
    close_pool(&f);
}

/* Pages come back zero: they had gone. */
static void trim_gives_back_what_lies_between_tensors(void)
{
    enum { MIB = 1 << 20 };
    struct fixture f;
    if (!open_pool_on(&f, NULL))
        return;
    const struct taken below = take(&f, 3 * MIB), between = take(&f, 16 * MIB), above = take(&f, 3 * MIB);
    memset(between.p, 1, 16 * MIB);
    release(&f, between);
    const int64_t before = stni_mempool_stats(f.pool)->reserved_bytes;
    stni_mempool_trim(f.pool);
    CHECK_I64(before - stni_mempool_stats(f.pool)->reserved_bytes, 14 * MIB); /* whole steps of 2 MiB */
    CHECK_I64(below.p[3 * MIB - 1] + above.p[0], 2);
    const struct taken again = take(&f, 16 * MIB);
    CHECK(again.p == between.p);
    CHECK_I64(again.p[8 * MIB], 0);
    CHECK_I64(stni_mempool_stats(f.pool)->reserved_bytes, before);
    release(&f, below);
    release(&f, again);
    stni_mempool_trim(f.pool);
    CHECK(stni_mempool_stats(f.pool)->reserved_bytes <= 6 * MIB); /* the steps that the last one lies in */
    close_pool(&f); /* one still live */
}

/* What it handed out goes back when it is released, not before. */
static void check_closed_pool(struct fixture *f)
{
    const struct taken small = take(f, 4096), large = take(f, 500000), other = take(f, 600000);
    release(f, other);
    stni_mempool_close(f->pool);
    CHECK_I64(small.p[0] + large.p[0] + large.p[499999], 3);
    release(f, large);
    release(f, small);
    CHECK_I64(stni_mempool_stats(f->pool)->live_bytes, 0);
    CHECK_I64(stni_mempool_stats(f->pool)->reserved_bytes, 0);
}

static void a_closed_pool_keeps_nothing(void)
{
    struct fixture f;
    if (open_pool(&f)) {
        check_closed_pool(&f);
        close_pool(&f);
    }
    if (open_pool_on(&f, NULL)) {
        check_closed_pool(&f);
        close_pool(&f);
    }
}

/* Addresses that are counted as memory are not reserved. */
static void with_a_limit_of_addresses_there_are_segments(void)
{
    struct fixture f;
    struct rlimit before, limit;
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 62;
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        test_skip("addresses cannot be limited here");
        return;
    }
    if (open_pool_on(&f, NULL)) {
        release(&f, take(&f, 100000));
        CHECK_I64(stni_mempool_stats(f.pool)->reserved_bytes, 4 * 102400);
        stni_mempool_trim(f.pool);
        check_neighbours_become_one(&f);
        close_pool(&f);
    }
    setrlimit(RLIMIT_AS, &before);
}

static void a_refusal_is_answered_with_what_was_cached(void)
{
    struct fixture f;
    void *p, *q;
    size_t size_p, size_q;
    if (!open_pool(&f))
        return;
    stni_mempool_take(f.pool, 4096, &p, &size_p);
    stni_mempool_release(f.pool, p, size_p);
    stni_mempool_take(f.pool, 100000, &q, &size_q);
    const int64_t before = counted_device_bytes();
    counted_fail_at(1, 0); /* four times as much */
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 20, &p, &size_p), STN_OK);
    CHECK(counted_device_bytes() - before < 1100000);
    stni_mempool_release(f.pool, p, size_p);
    counted_fail_at(1, 0);
    /* What was cached goes, and the whole comes. */
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 24, &p, &size_p), STN_OK);
    counted_fail_at(0, 0);
    CHECK_I64(stni_mempool_stats(f.pool)->reserved_bytes, counted_device_bytes());
    stni_mempool_release(f.pool, p, size_p);
    counted_fail_at(1, 1);
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 25, &p, &size_p), STN_ERR_MEMORY);
    counted_fail_at(0, 0);
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 25, &p, &size_p), STN_OK);
    close_pool(&f);
}

static void counters_tell_live_peak_and_calls(void)
{
    struct fixture f;
    void *a, *b;
    size_t size_a, size_b;
    if (!open_pool(&f))
        return;
    struct stni_mempool_stats *stats = stni_mempool_stats(f.pool);
    stni_mempool_take(f.pool, 1000, &a, &size_a);
    stni_mempool_take(f.pool, 77, &b, &size_b);
    CHECK_I64(stats->live_bytes, 1077);
    stni_mempool_release(f.pool, a, size_a);
    CHECK_I64(stats->live_bytes, 77);
    CHECK_I64(stats->peak_bytes, 1077);
    stni_mempool_take(f.pool, 1000, &a, &size_a);
    CHECK_I64(stats->peak_bytes, 1077);
    CHECK_I64(stats->allocations, 3);
    CHECK_I64(stats->device_calls, 2);
    CHECK_I64(stats->reserved_bytes, counted_device_bytes());
    close_pool(&f); /* both still live: given back all the same */
}

struct fill_args {
    unsigned char *p;
    size_t n;
    unsigned char value;
};

static stn_status fill_kernel(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct fill_args *a = args;
    memset(a->p, a->value, a->n);
    return STN_OK;
}

/* Each round writes through the queue, releases at once and takes again: the next user's writes come later in the
 * same queue. */
static void released_memory_serves_later_work_of_the_queue(void)
{
    struct fixture f;
    unsigned char *p, host[5000];
    size_t capacity;
    if (!open_pool(&f))
        return;
    for (int round = 0; round < 50; round++) {
        stni_mempool_take(f.pool, sizeof host, (void **)&p, &capacity);
        struct fill_args args = {p, sizeof host, (unsigned char)round};
        CHECK_STATUS(stn_queue_launch(f.queue, fill_kernel, &args, sizeof args), STN_OK);
        stni_queue_copy(f.queue, host, p, sizeof host, STNI_COPY_TO_HOST);
        stni_mempool_release(f.pool, p, capacity);
    }
    stni_mempool_trim(f.pool); /* waits */
    CHECK_I64(host[0], 49);
    CHECK_I64(host[sizeof host - 1], 49);
    CHECK_I64(stni_mempool_stats(f.pool)->device_calls, 1);
    close_pool(&f);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"no_size_loses_more_than_an_eighth", no_size_loses_more_than_an_eighth},
        {"what_was_released_last_is_taken_first", what_was_released_last_is_taken_first},
        {"zero_bytes_are_no_memory", zero_bytes_are_no_memory},
        {"impossible_sizes_are_a_status", impossible_sizes_are_a_status},
        {"trim_gives_back_what_is_free_and_keeps_what_is_live", trim_gives_back_what_is_free_and_keeps_what_is_live},
        {"large_neighbours_become_one", large_neighbours_become_one},
        {"what_is_reserved_is_what_was_needed_at_once", what_is_reserved_is_what_was_needed_at_once},
        {"trim_gives_back_what_lies_between_tensors", trim_gives_back_what_lies_between_tensors},
        {"a_closed_pool_keeps_nothing", a_closed_pool_keeps_nothing},
        {"with_a_limit_of_addresses_there_are_segments", with_a_limit_of_addresses_there_are_segments},
        {"a_refusal_is_answered_with_what_was_cached", a_refusal_is_answered_with_what_was_cached},
        {"counters_tell_live_peak_and_calls", counters_tell_live_peak_and_calls},
        {"released_memory_serves_later_work_of_the_queue", released_memory_serves_later_work_of_the_queue},
    };
    return TEST_MAIN(argc, argv, cases);
}
