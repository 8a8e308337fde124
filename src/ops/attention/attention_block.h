/* Blocks of query rows and of key rows on the CPU, the walk over them, and their products. A part of
 * attention_cpu.c. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_BLOCK_H
#define STNI_OPS_ATTENTION_ATTENTION_BLOCK_H

#include "core/base/isa.h"
#include "core/box/rng.h"
#include "ops/attention/attention_kernel.h"
#include "ops/cpu/exp.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/widen.h"

#include <string.h>
#include <tgmath.h>

enum { ROWS = STNI_ATTENTION_ROWS, KEYS = STNI_ATTENTION_KEYS };

/* Where an element of the batch begins in each operand, and its numbers of dropout. */
struct at {
    int64_t query, key, value, mask, out, lse, grad, grad_query, grad_key, grad_value, grad_mask;
    uint64_t number;
};

/* A block: query rows i … i + rows - 1 of the chunk, key rows j … j + keys - 1. */
struct block {
    int64_t i, j, rows, keys;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t offset(const struct stni_attention_operand *o, int n, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++)
        at += index[d] * o->batch[d];
    return at;
}

static struct at locate(const struct stni_attention_args *p, const int64_t *index)
{
    const int n = p->n_batch;
    int64_t shared[STN_MAX_NDIM] = {0}; /* the batch that keys and values have: where queries share heads, both have key's */
    memcpy(shared, index, (size_t)n * sizeof *shared);
    if (p->group > 1)
        shared[n - 1] = (p->head + index[n - 1]) / p->group - p->key_head;
    struct at at = {.query = offset(&p->query, n, index),
                    .key = offset(&p->key, n, shared),
                    .value = offset(&p->value, n, shared),
                    .mask = offset(&p->mask, n, index),
                    .out = offset(&p->out, n, index),
                    .lse = offset(&p->lse, n, index),
                    .grad = offset(&p->grad, n, index),
                    .grad_query = offset(&p->grad_query.at, n, index),
                    .grad_key = offset(&p->grad_key.at, n, shared),
                    .grad_value = offset(&p->grad_value.at, n, shared),
                    .grad_mask = offset(&p->grad_mask.at, n, index),
                    .number = p->base};
    for (int d = 0; d < n; d++)
        at.number += (uint64_t)index[d] * p->count[d];
    return at;
}

typedef void (*block_fn)(const struct stni_attention_args *p, const struct at *at, struct block *b);

/* Runs over the batch and over blocks of query rows. */
static void walk(const struct stni_attention_args *p, block_fn run)
{
    int64_t index[STN_MAX_NDIM] = {0}, count = 1;
    for (int d = 0; d < p->n_batch; d++)
        count *= p->batch[d];
    for (int64_t element = 0; element < count; element++) {
        for (int64_t d = p->n_batch - 1, rest = element; d >= 0; rest /= p->batch[d], d--)
            index[d] = rest % p->batch[d];
        const struct at at = locate(p, index);
        for (int64_t i = 0; i < p->l; i += ROWS) {
            struct block b = {.i = i, .rows = least(ROWS, p->l - i)};
            run(p, &at, &b);
        }
    }
}

/* Sets the next block of key rows; 0 where there is none that the last query row may attend to. */
static int next_keys(const struct stni_attention_args *p, struct block *b)
{
    b->j += b->keys;
    b->keys = least(KEYS, p->s - b->j);
    return b->keys > 0 && (!p->is_causal || b->j <= p->row_offset + b->i + b->rows - 1);
}

static void *take(char **space, int64_t elements, size_t size)
{
    void *taken = *space;
    *space += stni_attention_space(elements, size);
    return taken;
}

/* C (m, n) = or += A B; strides of rows and columns. */
struct factor {
    const void *data;
    int64_t row, col;
};

static void multiply(size_t element, void *workspace, int accumulate, int64_t m, int64_t n, int64_t k, struct factor a,
                     struct factor b, struct factor c)
{
    const struct stni_gemm g = {.dtype = element == sizeof(double) ? STN_DTYPE_F64 : STN_DTYPE_F32,
                                .accumulate = accumulate, .m = m, .n = n, .k = k,
                                .a = a.data,
                                .b = b.data,
                                .c = (void *)c.data,
                                .a_row = a.row, .a_col = a.col,
                                .b_row = b.row, .b_col = b.col,
                                .c_row = c.row, .c_col = c.col};
    stni_gemm_now(STNI_ISA_THIS, &g, workspace);
}

#endif
