/* Reductions over boxes: several addends, one or several results.
 *
 * The walk divides the boxes into blocks that fit into the L1 cache with their accumulators. Of each block, every
 * source is read once, in order; then every destination is written once. A piece that is not dense in memory is
 * packed or unpacked by a box copy. */
#include "core/box/box.h"

#include "core/box/box_kernel.h"
#include "core/box/box_walk.h"
#include "core/base/dtype.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

enum {
    BLOCK_BYTES = 8192, /* of accumulators */
    STREAM_BYTES = 1 << 20
};

struct reduction {
    const struct stni_box_reduce_kernels *kernels;
    const struct stni_copy_kernels *copies;
    enum stni_isa isa;
    enum stni_combine combine;
    struct stni_box_walk walk;
    int64_t size, divisor; /* bytes of an element; what AVG divides by */
    int streamed, sum_streamed; /* results go past the caches: from a buffer, or where they are added */
    int n_dst, n_src;
    const stn_box *dst, *src;
    /* A block: the dims after `cut` whole, `step` elements of dim `cut`, one of those before. */
    int cut;
    int64_t step;
};

/* Buffers of one block. */
struct scratch {
    alignas(64) char acc[BLOCK_BYTES], a[BLOCK_BYTES], b[BLOCK_BYTES];
};

static const enum stni_combine combines[STN_REDUCE_OP_COUNT] = {
    [STN_SUM] = STNI_COMBINE_SUM, [STN_AVG] = STNI_COMBINE_SUM, [STN_PROD] = STNI_COMBINE_PROD,
    [STN_MIN] = STNI_COMBINE_MIN, [STN_MAX] = STNI_COMBINE_MAX,
};

int stni_box_reduces(stn_dtype dtype, stn_reduce_op op)
{
    return (unsigned)dtype < STN_DTYPE_COUNT && (unsigned)op < STN_REDUCE_OP_COUNT &&
           STNI_ISA_BASE_OF(stni_reduce_table).dtype[dtype].next[combines[op]] != NULL;
}

/* As many whole inner dims as fit into a block, and a part of the next. */
static void choose_block(struct reduction *r)
{
    int64_t buffer = BLOCK_BYTES / r->kernels->accumulator_size, inner = 1;
    r->cut = r->walk.ndim - 1;
    while (r->cut > 0 && inner * r->walk.shape[r->cut] <= buffer)
        inner *= r->walk.shape[r->cut--];
    r->step = buffer / inner;
}

/* A box without dims is walked as one dim of one element. */
static int64_t stride_of(const stn_box *box, int dim)
{
    return dim < box->ndim ? box->strides[dim] : 0;
}

/* The block at `index`, with `rows` elements of the dim that is divided, as a box of the memory of `box`. */
static stn_box block_of(const struct reduction *r, const stn_box *box, const int64_t *index, int64_t rows)
{
    const struct stni_box_walk *walk = &r->walk;
    stn_box block = {.data = box->data, .ndim = walk->ndim - r->cut};
    for (int i = 0; i <= r->cut; i++)
        block.data = (char *)block.data + index[i] * stride_of(box, walk->dim[i]) * r->size;
    for (int i = 0; i < block.ndim; i++) {
        block.shape[i] = i == 0 ? rows : walk->shape[r->cut + i];
        block.strides[i] = stride_of(box, walk->dim[r->cut + i]);
    }
    return block;
}

/* The same shape, dense at `data`. */
static stn_box dense_block(const stn_box *block, void *data)
{
    stn_box dense = {.data = data, .ndim = block->ndim};
    int64_t stride = 1;
    for (int i = block->ndim - 1; i >= 0; i--) {
        dense.shape[i] = block->shape[i];
        dense.strides[i] = stride;
        stride *= block->shape[i];
    }
    return dense;
}

static int is_dense(const stn_box *block)
{
    int64_t stride = 1;
    for (int i = block->ndim - 1; i >= 0; i--) {
        if (block->shape[i] != 1 && block->strides[i] != stride)
            return 0;
        stride *= block->shape[i];
    }
    return 1;
}

/* A block as one dense piece: where it lies, or packed into `buffer`. */
static const void *pack(const struct reduction *r, const stn_box *block, void *buffer)
{
    if (is_dense(block))
        return block->data;
    stn_box dense = dense_block(block, buffer);
    stni_box_copy_now(r->isa, &dense, block, (size_t)r->size);
    return buffer;
}

static void unpack(const struct reduction *r, const stn_box *block, const void *from, int64_t n)
{
    if (is_dense(block) && r->streamed) {
        r->copies->stream(block->data, from, n * r->size);
    } else if (is_dense(block)) {
        memcpy(block->data, from, (size_t)(n * r->size));
    } else {
        stn_box dense = dense_block(block, (void *)(uintptr_t)from);
        stni_box_copy_now(r->isa, block, &dense, (size_t)r->size);
    }
}

/* Source `s` at a block. */
static const void *addend(const struct reduction *r, int s, const int64_t *index, int64_t rows, void *buffer)
{
    stn_box block = block_of(r, &r->src[s], index, rows);
    return pack(r, &block, buffer);
}

/* The first `n_src` sources, two or more, at a block of n elements, combined in scratch->acc. */
static void accumulate(const struct reduction *r, int n_src, struct scratch *scratch, const int64_t *index,
                       int64_t rows, int64_t n)
{
    const struct stni_box_reduce_kernels *k = r->kernels;
    int op = (int)r->combine;
    k->first[op](scratch->acc, addend(r, 0, index, rows, scratch->a), addend(r, 1, index, rows, scratch->b), n);
    for (int s = 2; s < n_src; s++)
        k->next[op](scratch->acc, addend(r, s, index, rows, scratch->b), n);
}

/* All sources at a block of n elements, combined; where they lie in `scratch`. */
static const void *combined(const struct reduction *r, struct scratch *scratch, const int64_t *index, int64_t rows,
                            int64_t n)
{
    const struct stni_box_reduce_kernels *k = r->kernels;
    int op = (int)r->combine, narrow = k->pair[op] != NULL, last = r->n_src - 1;
    if (narrow && last == 1) {
        k->pair[op](scratch->acc, addend(r, 0, index, rows, scratch->a), addend(r, 1, index, rows, scratch->b), n,
                    r->divisor);
        return scratch->acc;
    }
    accumulate(r, r->n_src - narrow, scratch, index, rows, n);
    if (narrow) {
        k->last[op](scratch->a, scratch->acc, addend(r, last, index, rows, scratch->b), n, r->divisor);
        return scratch->a;
    }
    if (r->divisor != 1)
        k->finish(scratch->acc, scratch->acc, n, r->divisor);
    return scratch->acc;
}

/* The last addition of a block writes its result where it belongs; a buffer between would be one more pass. */
static void sum_to(const struct reduction *r, void *dst, struct scratch *scratch, const int64_t *index, int64_t rows,
                   int64_t n)
{
    const void *before = scratch->acc;
    if (r->n_src == 2)
        before = addend(r, 0, index, rows, scratch->a);
    else
        accumulate(r, r->n_src - 1, scratch, index, rows, n);
    r->kernels->sum_streamed(dst, before, addend(r, r->n_src - 1, index, rows, scratch->b), n);
}

static void reduce_block(const struct reduction *r, struct scratch *scratch, const int64_t *index, int64_t rows)
{
    int64_t n = rows;
    for (int i = r->cut + 1; i < r->walk.ndim; i++)
        n *= r->walk.shape[i];
    const stn_box first = block_of(r, &r->dst[0], index, rows);
    if (r->sum_streamed && is_dense(&first)) {
        sum_to(r, first.data, scratch, index, rows, n);
        return;
    }
    const void *result = combined(r, scratch, index, rows, n);
    for (int d = 0; d < r->n_dst; d++) {
        stn_box block = block_of(r, &r->dst[d], index, rows);
        unpack(r, &block, result, n);
    }
}

static void reduce_blocks(const struct reduction *r)
{
    struct scratch scratch;
    int64_t index[STN_MAX_BOX_NDIM] = {0};
    int d;
    do {
        int64_t left = r->walk.shape[r->cut] - index[r->cut];
        reduce_block(r, &scratch, index, left < r->step ? left : r->step);
        index[r->cut] += r->step;
        for (d = r->cut; d >= 0 && index[d] >= r->walk.shape[d]; d--) {
            index[d] = 0;
            if (d > 0)
                index[d - 1]++;
        }
    } while (d >= 0);
}

/* One source: nothing is combined, and every op leaves the values as they are. */
static void copy_to_all(enum stni_isa isa, int n_dst, const stn_box *dst, const stn_box *src, stn_dtype dtype)
{
    for (int d = 0; d < n_dst; d++)
        if (dst[d].data != src->data)
            stni_box_copy_now(isa, &dst[d], src, stn_dtype_size(dtype));
}

void stni_box_reduce_now(enum stni_isa isa, int n_dst, const stn_box *dst, int n_src, const stn_box *src,
                         stn_dtype dtype, stn_reduce_op op)
{
    assert(n_dst >= 1 && n_src >= 1 && stni_box_reduces(dtype, op));
    if (n_src == 1) {
        copy_to_all(isa, n_dst, dst, src, dtype);
        return;
    }
    struct reduction r = {.n_dst = n_dst, .dst = dst, .n_src = n_src, .src = src, .combine = combines[op], .isa = isa};
    int64_t elements = stni_box_walk_begin(&r.walk, &dst[0]);
    if (elements == 0)
        return;
    stni_box_walk_join(&r.walk, n_dst, dst);
    stni_box_walk_join(&r.walk, n_src, src);
    stni_box_walk_end(&r.walk);
    if (r.walk.ndim == 0)
        r.walk = (struct stni_box_walk){.ndim = 1, .shape = {1}};
    r.kernels = &STNI_ISA_PICK(stni_reduce_table, isa)->dtype[dtype];
    r.copies = STNI_ISA_PICK(stni_copy_kernels, isa);
    r.size = (int64_t)stn_dtype_size(dtype);
    r.divisor = op == STN_AVG ? n_src : 1;
    r.streamed = elements * r.size >= STREAM_BYTES;
    r.sum_streamed =
        r.streamed && n_dst == 1 && r.combine == STNI_COMBINE_SUM && r.divisor == 1 && r.kernels->sum_streamed;
    choose_block(&r);
    reduce_blocks(&r);
    if (r.streamed)
        r.copies->fence();
}
