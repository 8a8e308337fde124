/* Kernels of indexed access, shared by every device: elements of a table that an index names along one dim, read or
 * written.
 *
 * There are as many positions as values; each has an index and a value. Strides are in elements, and 0 along dims
 * that an operand does not have: an index of one dim names whole slices, one of all dims names elements. */
#ifndef STNI_OPS_INDEX_ACCESS_KERNEL_H
#define STNI_OPS_INDEX_ACCESS_KERNEL_H

#include "core/base/inline.h"
#include "core/base/isa.h"

#include <shardtensor/op.h>

/* What a write does to an element of the table. RESET gives it what `reset_for` begins with: 0, 1, the smallest or
 * the largest. */
enum stni_access_mode {
    STNI_ACCESS_SET,
    STNI_ACCESS_ADD,
    STNI_ACCESS_MUL,
    STNI_ACCESS_MAX,
    STNI_ACCESS_MIN,
    STNI_ACCESS_RESET
};

/* An index outside 0 … n - 1 is a value error of this op. */
struct stni_access_report {
    int on; /* 0: it is not reported */
    int op; /* stn_op_number of the op that users called */
    int64_t offset[STN_MAX_NDIM]; /* of the chunk of positions in the whole */
};

struct stni_access {
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    const void *index;
    stn_dtype index_dtype; /* I64 or I32 */
    int64_t index_strides[STN_MAX_NDIM];
    void *values;
    int64_t value_strides[STN_MAX_NDIM];
    /* The table. An index is one number, or a number of several digits, the last one fastest: digit k counts
     * key_shape[k] steps of key_strides[k]; the first one counts from `first`, and others than those here are left
     * alone (written) or read as 0. */
    void *table;
    int64_t base, table_strides[STN_MAX_NDIM]; /* base: the first position's, without its index */
    int n_keys;
    int64_t key_shape[STN_MAX_NDIM], key_strides[STN_MAX_NDIM], first;
    int64_t n;    /* of the first digit, whole */
    int wrap;     /* 1: negative ones count from the end */
    int64_t skip; /* one more than the index that names nothing; 0: none */
    struct stni_access_report report;
};

struct stni_access_read_args {
    struct stni_access at;
    size_t element_size;
    int keeps; /* 1: where an index names nothing that is here the value is left alone; on the CPU only, elsewhere 0 */
};

/* The table has the dtype in which is computed: f32 for the 16-bit floats. Written in row-major order of positions:
 * the last of several that set an element wins, and sums are added in that order. */
struct stni_access_write_args {
    struct stni_access at;
    enum stni_access_mode mode, reset_for;
    stn_dtype dtype;  /* of the values */
    stn_number value; /* stands for all values where at.values is NULL */
    stn_number scale; /* ADD: of the values; NONE: 1 */
    void *work;       /* as many bytes as the kernel asks for; NULL where that is 0 */
};

/* Of bools the sum is "or", the product "and"; what is scaled by 0 is false. */
STNI_INLINE void stni_access_for_bool(struct stni_access_write_args *a)
{
    const int adds_nothing = a->scale.kind != STN_NUMBER_NONE && a->scale.f == 0;
    if (a->mode == STNI_ACCESS_ADD && !adds_nothing)
        a->mode = STNI_ACCESS_MAX;
    else if (a->mode == STNI_ACCESS_MUL)
        a->mode = STNI_ACCESS_MIN;
    a->value.kind = STN_NUMBER_INT;
    a->value.i = a->value.f != 0;
}

/* keys[v] = the offset that `at` finds in a table of one element per key, -1 for a bad index; v is where `at` finds
 * the value. */
struct stni_access_keys_args {
    struct stni_access at;
    int64_t *keys;
};

/* dst = src, of a 16-bit float and of f32. */
struct stni_access_convert_args {
    stn_box dst, src;
    stn_dtype to, from;
};

STNI_INLINE int64_t stni_access_index(const void *index, stn_dtype dtype, int64_t at)
{
    return dtype == STN_DTYPE_I32 ? ((const int32_t *)index)[at] : ((const int64_t *)index)[at];
}

/* Where the table has what an index names, without its position, -1 where it is not here; *is_bad becomes 1 where it
 * is out of range. */
STNI_INLINE int64_t stni_access_locate(const struct stni_access *a, int64_t got, int *is_bad)
{
    int64_t key = got < 0 && a->wrap ? got + a->n : got, at = 0;
    for (int k = a->n_keys - 1; k > 0 && key >= 0; k--) {
        at += key % a->key_shape[k] * a->key_strides[k];
        key /= a->key_shape[k];
    }
    if (key < 0 || key >= a->n) {
        *is_bad = 1;
        return -1;
    }
    if (key + 1 == a->skip)
        return -1;
    key -= a->first;
    return key >= 0 && key < a->key_shape[0] ? at + key * a->key_strides[0] : -1;
}

/* What is said of an index out of range, of position `position` in row-major order: the position in dims that the
 * index has, as the caller counts them. Returns how many numbers. */
enum { STNI_ACCESS_NUMBERS = 4 + STN_MAX_NDIM };
STNI_INLINE int stni_access_bad_numbers(const struct stni_access *a, int64_t got, int64_t position,
                                        int64_t numbers[STNI_ACCESS_NUMBERS])
{
    int64_t at[STN_MAX_NDIM];
    int n = 0;
    for (int d = a->ndim - 1; d >= 0; d--) {
        at[d] = position % a->shape[d] + a->report.offset[d];
        position /= a->shape[d];
    }
    for (int d = 0; d < a->ndim; d++)
        if (a->index_strides[d] != 0)
            numbers[4 + n++] = at[d];
    numbers[0] = got;
    numbers[1] = a->wrap ? -a->n : 0;
    numbers[2] = a->n - 1;
    numbers[3] = n;
    return 4 + n;
}

STNI_ISA_KERNEL(stni_access_keys);
STNI_ISA_KERNEL(stni_access_read);
STNI_ISA_KERNEL(stni_access_write);
stn_status stni_access_convert_cpu(stn_queue *queue, const void *args);

#endif
