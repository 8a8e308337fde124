/* Where elements of the batch lie in the operands of attention on a CUDA device, and how gradients are shared among
 * them. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_PLACE_CUH
#define STNI_OPS_ATTENTION_ATTENTION_PLACE_CUH

#include "core/box/rng.h"
#include "core/device/cuda/grid.h"
#include "ops/attention/attention_kernel.h"

namespace {

typedef stni_attention_args arguments;

/* Where an element of the batch begins in each operand, and its numbers of dropout. */
struct place {
    int64_t query, key, value, mask, out, lse, grad, grad_query, grad_key, grad_value, grad_mask;
    uint64_t number;
};

STNI_DEVICE int64_t offset_of(const stni_attention_operand &o, int n, const int64_t (&index)[STN_MAX_NDIM])
{
    int64_t at = 0;
    for (int d = 0; d < n; d++)
        at += index[d] * o.batch[d];
    return at;
}

/* Index along each dim of an element of the batch. */
STNI_DEVICE void index_of(const arguments &p, int64_t element, int64_t (&index)[STN_MAX_NDIM])
{
    for (int d = p.n_batch - 1; d >= 0; d--) {
        index[d] = element % p.batch[d];
        element /= p.batch[d];
    }
}

STNI_DEVICE place place_of(const arguments &p, const int64_t (&index)[STN_MAX_NDIM])
{
    int64_t shared[STN_MAX_NDIM]; /* where query heads share keys and values, the index of these */
    for (int d = 0; d < p.n_batch; d++)
        shared[d] = index[d];
    if (p.group > 1)
        shared[p.n_batch - 1] = (p.head + index[p.n_batch - 1]) / p.group - p.key_head;
    place at;
    at.query = offset_of(p.query, p.n_batch, index);
    at.key = offset_of(p.key, p.n_batch, shared);
    at.value = offset_of(p.value, p.n_batch, shared);
    at.mask = offset_of(p.mask, p.n_batch, index);
    at.out = offset_of(p.out, p.n_batch, index);
    at.lse = offset_of(p.lse, p.n_batch, index);
    at.grad = offset_of(p.grad, p.n_batch, index);
    at.grad_query = offset_of(p.grad_query.at, p.n_batch, index);
    at.grad_key = offset_of(p.grad_key.at, p.n_batch, shared);
    at.grad_value = offset_of(p.grad_value.at, p.n_batch, shared);
    at.grad_mask = offset_of(p.grad_mask.at, p.n_batch, index);
    at.number = p.base;
    for (int d = 0; d < p.n_batch; d++)
        at.number += (uint64_t)index[d] * p.count[d];
    return at;
}

/* Dropout's factor of a probability: 0, or the scale of what is kept. */
STNI_DEVICE double kept(const arguments &p, const place &at, int64_t i, int64_t j)
{
    if (p.threshold == 0)
        return 1;
    const uint64_t number = at.number + (uint64_t)i * p.row_count + (uint64_t)j;
    const stni_philox words = stni_rng_block((uint64_t)p.stream[1], (uint64_t)p.stream[0], number / 4);
    return words.v[number % 4] < p.threshold ? 0 : p.kept_scale;
}

/* Of a tile: the first query row and the first key. */
struct corner {
    int64_t i, j;
};

/* First key that none of so many rows may attend to. */
STNI_DEVICE int64_t keys_end(const arguments &p, int64_t first_row, int rows)
{
    const int64_t end = p.row_offset + first_row + rows;
    return p.is_causal && end < p.s ? end : p.s;
}

/* First tile of query rows of which one may attend to a key from `first_key` on. */
STNI_DEVICE int64_t rows_begin(const arguments &p, int64_t first_key, int rows)
{
    const int64_t first = first_key - p.row_offset;
    return p.is_causal && first > 0 ? first / rows * rows : 0;
}

/* Where the means of an element of the batch begin. */
STNI_DEVICE float *means_of(const arguments &p, const int64_t (&index)[STN_MAX_NDIM])
{
    int64_t element = 0;
    for (int d = 0; d < p.n_batch; d++)
        element = element * p.batch[d] + index[d];
    return (float *)p.workspace + element * p.l;
}

/* Elements of the batch by those dims along which a gradient has places of its own, and by those along which it is
 * summed. Query heads that share one key head count as summed. */
struct batches {
    int64_t own, summed, own_size[STN_MAX_NDIM], summed_size[STN_MAX_NDIM];
};

/* The index of element (own, summed); false: there is no such query head. */
STNI_DEVICE bool find_index(const arguments &p, const batches &b, bool by_key, int64_t own, int64_t summed,
                            int64_t (&index)[STN_MAX_NDIM])
{
    for (int d = p.n_batch - 1; d >= 0; d--) {
        index[d] = own % b.own_size[d] + summed % b.summed_size[d];
        if (by_key && p.group > 1 && d == p.n_batch - 1) {
            index[d] = (p.head / p.group + own % b.own_size[d]) * p.group + summed % b.summed_size[d] - p.head;
            if (index[d] < 0 || index[d] >= p.batch[d])
                return false;
        }
        own /= b.own_size[d];
        summed /= b.summed_size[d];
    }
    return true;
}

/* An element of the batch, which a block adds to its sums. It lies in shared memory: not in the registers of each
 * thread. */
struct element {
    bool is_there;
    place at;
    float *means;
};

/* By one thread of the block, all of whose threads call it. */
STNI_DEVICE void find_element(const arguments &p, const batches &b, bool by_key, int64_t own, int64_t summed,
                              element *to)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t index[STN_MAX_NDIM];
        to->is_there = find_index(p, b, by_key, own, summed, index);
        if (to->is_there) {
            to->at = place_of(p, index);
            to->means = means_of(p, index);
        }
    }
    __syncthreads();
}

inline batches batches_of(const arguments &p, const stni_attention_operand &o, bool by_key)
{
    batches b;
    memset(&b, 0, sizeof b);
    b.own = b.summed = 1;
    for (int d = 0; d < p.n_batch; d++) {
        const bool is_own = o.batch[d] != 0 || p.batch[d] == 1;
        b.own_size[d] = is_own ? p.batch[d] : 1;
        b.summed_size[d] = is_own ? 1 : p.batch[d];
        if (by_key && p.group > 1 && d == p.n_batch - 1) {
            b.own_size[d] = p.batch[d] == 0 ? 0 : (p.head + p.batch[d] - 1) / p.group - p.head / p.group + 1;
            b.summed_size[d] = p.group;
        }
        b.own *= b.own_size[d];
        b.summed *= b.summed_size[d];
    }
    return b;
}

inline int64_t rows_of_batch(const arguments &p)
{
    int64_t rows = p.l;
    for (int d = 0; d < p.n_batch; d++)
        rows *= p.batch[d];
    return rows;
}

}

#endif
