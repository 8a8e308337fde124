/* Several indices made one, on the CPU. */
#include "ops/index/put_keys_kernel.h"

#include "ops/common/bad_value.h"

/* Where position `i`, in row-major order, lies: its coordinates. */
static void find(const struct stni_put_keys_args *a, int64_t i, int64_t *at)
{
    for (int d = a->ndim - 1; d >= 0; d--) {
        at[d] = i % a->shape[d];
        i /= a->shape[d];
    }
}

static int64_t key_at(const struct stni_put_keys_args *a, stn_queue *queue, const int64_t *at)
{
    int64_t numbers[STNI_PUT_KEYS_NUMBERS], got;
    int bad = -1;
    const int64_t key = stni_put_keys_at(a, at, &bad, &got);
    if (bad >= 0)
        stn_queue_value_error(queue, a->op, STNI_BAD_INDEX_OF, stni_put_keys_bad_numbers(a, at, bad, got, numbers),
                              numbers);
    return key;
}

stn_status stni_put_keys_cpu(stn_queue *queue, const void *args)
{
    const struct stni_put_keys_args *a = args;
    int64_t n = 1, at[STN_MAX_NDIM] = {0};
    for (int d = 0; d < a->ndim; d++)
        n *= a->shape[d];
    for (int64_t i = 0; i < n; i++) {
        find(a, i, at);
        a->keys[stni_put_keys_offset(a, a->strides, at)] = key_at(a, queue, at);
    }
    return STN_OK;
}
