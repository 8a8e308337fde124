/* The kernel that makes several indices one, shared by every device. */
#ifndef STNI_OPS_INDEX_PUT_KEYS_KERNEL_H
#define STNI_OPS_INDEX_PUT_KEYS_KERNEL_H

#include "ops/index/access_kernel.h"

struct stni_put_keys_operand {
    const void *data;
    stn_dtype dtype;
    int64_t strides[STN_MAX_NDIM], size; /* of its dim */
};

struct stni_put_keys_args {
    int n, ndim;
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM]; /* of the chunk of keys; its first one in the whole */
    int64_t *keys, strides[STN_MAX_NDIM];
    struct stni_put_keys_operand operand[STN_MAX_NDIM];
    int op; /* whose value error it is */
};

STNI_INLINE int64_t stni_put_keys_offset(const struct stni_put_keys_args *a, const int64_t *strides, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < a->ndim; d++)
        offset += at[d] * strides[d];
    return offset;
}

/* The key of the position with coordinates `at`; -1 where operand *bad has *got, which is out of range. */
STNI_INLINE int64_t stni_put_keys_at(const struct stni_put_keys_args *a, const int64_t *at, int *bad, int64_t *got)
{
    int64_t key = 0;
    for (int i = 0; i < a->n; i++) {
        const struct stni_put_keys_operand *o = &a->operand[i];
        *got = stni_access_index(o->data, o->dtype, stni_put_keys_offset(a, o->strides, at));
        const int64_t index = *got < 0 ? *got + o->size : *got;
        if (index < 0 || index >= o->size) {
            *bad = i;
            return -1;
        }
        key = key * o->size + index;
    }
    return key;
}

/* What is said of it; returns how many numbers. */
enum { STNI_PUT_KEYS_NUMBERS = 5 + STN_MAX_NDIM };
STNI_INLINE int stni_put_keys_bad_numbers(const struct stni_put_keys_args *a, const int64_t *at, int bad, int64_t got,
                                          int64_t numbers[STNI_PUT_KEYS_NUMBERS])
{
    const int64_t n = a->operand[bad].size;
    numbers[0] = got;
    numbers[1] = bad;
    numbers[2] = -n;
    numbers[3] = n - 1;
    numbers[4] = a->ndim;
    for (int d = 0; d < a->ndim; d++)
        numbers[5 + d] = at[d] + a->offset[d];
    return 5 + a->ndim;
}

stn_status stni_put_keys_cpu(stn_queue *queue, const void *args);

#endif
