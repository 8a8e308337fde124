/* Several indices made one, on the CPU. */
#include "ops/index/put_keys.h"

#include "ops/common/bad_value.h"

/* Where position `i`, in row-major order, lies: its coordinates. */
static void find(const struct stni_put_keys_args *a, int64_t i, int64_t *at)
{
    for (int d = a->ndim - 1; d >= 0; d--) {
        at[d] = i % a->shape[d];
        i /= a->shape[d];
    }
}

static int64_t offset_of(const struct stni_put_keys_args *a, const int64_t *strides, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < a->ndim; d++)
        offset += at[d] * strides[d];
    return offset;
}

static int64_t index_at(const struct stni_put_keys_operand *o, int64_t at)
{
    return o->dtype == STN_DTYPE_I32 ? ((const int32_t *)o->data)[at] : ((const int64_t *)o->data)[at];
}

static void report_bad(const struct stni_put_keys_args *a, stn_queue *queue, int i, int64_t got, const int64_t *at)
{
    int64_t n = a->operand[i].size, numbers[5 + STN_MAX_NDIM] = {got, i, -n, n - 1, a->ndim};
    for (int d = 0; d < a->ndim; d++)
        numbers[5 + d] = at[d] + a->offset[d];
    stn_queue_value_error(queue, a->op, STNI_BAD_INDEX_OF, 5 + a->ndim, numbers);
}

static int64_t key_at(const struct stni_put_keys_args *a, stn_queue *queue, const int64_t *at)
{
    int64_t key = 0;
    for (int i = 0; i < a->n; i++) {
        const struct stni_put_keys_operand *o = &a->operand[i];
        int64_t got = index_at(o, offset_of(a, o->strides, at)), index = got < 0 ? got + o->size : got;
        if (index < 0 || index >= o->size) {
            report_bad(a, queue, i, got, at);
            return -1;
        }
        key = key * o->size + index;
    }
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
        a->keys[offset_of(a, a->strides, at)] = key_at(a, queue, at);
    }
    return STN_OK;
}
