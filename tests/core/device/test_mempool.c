/* The caching pool: what it wastes, what it reuses, what it gives back. */
#include "core/counted.h"
#include "harness.h"

#include "core/device/mempool.h"

#include <string.h>

struct fixture {
    stn_device *device;
    stn_queue *queue;
    struct stni_mempool *pool;
};

static bool open_pool(struct fixture *f)
{
    stn_queue_options options = {.size = sizeof options};
    if (test_queue() == TEST_QUEUE_WORKER)
        options = (stn_queue_options){.size = sizeof options, .kind = STN_QUEUE_WORKER, .delay_seed = 7};
    return CHECK_STATUS(stni_device_create_cpu(&counted_allocator, &f->device), STN_OK) &&
           CHECK_STATUS(stni_queue_create(f->device, &options, &f->queue), STN_OK) &&
           CHECK_STATUS(stni_mempool_create(f->queue, &f->pool), STN_OK);
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

static void no_size_loses_more_than_an_eighth(void)
{
    struct fixture f;
    if (!open_pool(&f))
        return;
    for (size_t bytes = 1; bytes < 2000; bytes++)
        take_and_check(&f, bytes);
    for (int k = 11; k < 26; k++)
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
    stni_mempool_take(f.pool, 100000, &a, &size_a);
    stni_mempool_take(f.pool, 100000, &b, &size_b);
    CHECK(a != b);
    stni_mempool_release(f.pool, a, size_a);
    stni_mempool_release(f.pool, b, size_b);
    int64_t calls = counted_calls();
    stni_mempool_take(f.pool, 99990, &c, &size_c); /* of the same class */
    CHECK(c == b);
    stni_mempool_take(f.pool, 100000, &b, &size_b);
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
    enum { N = 300 };
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

static void a_refusal_is_answered_with_what_was_cached(void)
{
    struct fixture f;
    void *p, *q;
    size_t size_p, size_q;
    if (!open_pool(&f))
        return;
    stni_mempool_take(f.pool, 4096, &p, &size_p);
    stni_mempool_release(f.pool, p, size_p);
    stni_mempool_take(f.pool, 100000, &q, &size_q); /* so that the class is known: the device alone is asked next */
    counted_fail_at(2, 0);
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 20, &p, &size_p), STN_OK);
    counted_fail_at(0, 0);
    CHECK_I64(stni_mempool_stats(f.pool)->reserved_bytes, counted_device_bytes());
    CHECK(counted_device_bytes() < (1 << 20) + 110000); /* without the 4096 */
    counted_fail_at(1, 1);
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 21, &p, &size_p), STN_ERR_MEMORY);
    counted_fail_at(0, 0);
    CHECK_STATUS(stni_mempool_take(f.pool, 1 << 21, &p, &size_p), STN_OK);
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
        {"a_refusal_is_answered_with_what_was_cached", a_refusal_is_answered_with_what_was_cached},
        {"counters_tell_live_peak_and_calls", counters_tell_live_peak_and_calls},
        {"released_memory_serves_later_work_of_the_queue", released_memory_serves_later_work_of_the_queue},
    };
    return TEST_MAIN(argc, argv, cases);
}
