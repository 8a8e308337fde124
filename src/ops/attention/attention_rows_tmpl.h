/* One dtype's attention (core/box/each_float.h). Blocks are dense, computed in ACC. */
#ifndef NAME /* read alone */
#include "ops/attention/attention_block.h"
#include "core/box/as_f32.h"
#endif

struct NAME(space) {
    ACC *query, *key, *value;  /* (rows, e), multiplied by the scale; (keys, e); (keys, v) */
    ACC *weight, *grad_score;  /* (rows, KEYS): probabilities; gradients of these, then of the scores */
    ACC *sum, *largest, *mean; /* of each row */
    ACC *out, *grad;           /* (rows, v) */
    void *product;           /* the products' own */
};

static void NAME(open)(const struct stni_attention_args *p, struct NAME(space) *s)
{
    const int64_t rows = least(ROWS, p->l), keys = least(KEYS, p->s);
    char *space = p->workspace;
    s->query = take(&space, rows * p->e, sizeof(ACC));
    s->key = take(&space, keys * p->e, sizeof(ACC));
    s->value = take(&space, keys * p->v, sizeof(ACC));
    s->weight = take(&space, rows * KEYS, sizeof(ACC));
    s->grad_score = take(&space, rows * KEYS, sizeof(ACC));
    s->sum = take(&space, STNI_ATTENTION_STATISTICS * rows, sizeof(ACC));
    s->largest = s->sum + rows;
    s->mean = s->largest + rows;
    s->out = take(&space, rows * p->v, sizeof(ACC));
    s->grad = take(&space, rows * p->v, sizeof(ACC));
    s->product = space;
}

/* Rows of an operand, times a factor. */
static void NAME(load)(const struct stni_attention_operand *o, int64_t at, int64_t first, int64_t rows, int64_t cols,
                       ACC factor, ACC *out)
{
    const T *from = (const T *)o->data + at + first * o->row;
    for (int64_t r = 0; r < rows; r++, from += o->row, out += cols) {
        if (o->col == 1)
            for (int64_t c = 0; c < cols; c++)
                out[c] = LOAD(from[c]) * factor;
        else
            for (int64_t c = 0; c < cols; c++)
                out[c] = LOAD(from[c * o->col]) * factor;
    }
}

static void NAME(mask_row)(const struct stni_attention_args *p, int64_t at, int64_t n, ACC *row)
{
    if (p->mask_kind == STNI_ATTENTION_ALLOWS) {
        const uint8_t *mask = (const uint8_t *)p->mask.data + at;
        for (int64_t c = 0; c < n; c++)
            row[c] = mask[c * p->mask.col] ? row[c] : -(ACC)INFINITY;
    } else if (p->mask_kind == STNI_ATTENTION_ADDS) {
        const T *mask = (const T *)p->mask.data + at;
        for (int64_t c = 0; c < n; c++)
            row[c] += LOAD(mask[c * p->mask.col]);
    }
}

/* Scores of a block: query key^T + mask; -infinity where one may not attend. */
static void NAME(score)(const struct stni_attention_args *p, const struct at *at, const struct block *b,
                        struct NAME(space) * s)
{
    NAME(load)(&p->key, at->key, b->j, b->keys, p->e, 1, s->key);
    multiply(sizeof(ACC), s->product, 0, b->rows, b->keys, p->e, (struct factor){s->query, p->e, 1},
             (struct factor){s->key, 1, p->e}, (struct factor){s->weight, KEYS, 1});
    for (int64_t r = 0; r < b->rows; r++) {
        ACC *row = s->weight + r * KEYS;
        NAME(mask_row)(p, at->mask + (b->i + r) * p->mask.row + b->j * p->mask.col, b->keys, row);
        const int64_t end = p->is_causal ? p->row_offset + b->i + r - b->j + 1 : b->keys;
        for (int64_t c = end > 0 ? end : 0; c < b->keys; c++)
            row[c] = -(ACC)INFINITY;
    }
}

/* Multiplies by dropout's factors: 0, or the scale of what is kept. */
static void NAME(drop)(const struct stni_attention_args *p, const struct at *at, const struct block *b, ACC *block)
{
    struct stni_philox words = {{0}};
    for (int64_t r = 0; r < b->rows && p->threshold > 0; r++) {
        const uint64_t first = at->number + (uint64_t)(b->i + r) * p->row_count + (uint64_t)b->j;
        for (int64_t c = 0; c < b->keys; c++) {
            const uint64_t number = first + (uint64_t)c;
            if (c == 0 || number % 4 == 0)
                words = stni_rng_block((uint64_t)p->stream[1], (uint64_t)p->stream[0], number / 4);
            block[r * KEYS + c] *= words.v[number % 4] < p->threshold ? 0 : (ACC)p->kept_scale;
        }
    }
}

/* Scores become exponentials relative to the largest score so far; what was summed before is rescaled to the new
 * largest score (online softmax). */
static void NAME(raise)(const struct stni_attention_args *p, const struct block *b, struct NAME(space) *s)
{
    for (int64_t r = 0; r < b->rows; r++) {
        ACC *row = s->weight + r * KEYS, largest = s->largest[r], sum = 0;
#pragma omp simd reduction(max : largest)
        for (int64_t c = 0; c < b->keys; c++)
            largest = row[c] > largest ? row[c] : largest;
        const ACC measure = largest > -(ACC)INFINITY ? largest : 0;
        const ACC before = s->largest[r] > -(ACC)INFINITY ? MATH(exp_addend)(s->largest[r] - measure) : 0;
        for (int64_t c = 0; c < b->keys; c++)
            row[c] = MATH(exp_addend)(row[c] - measure);
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < b->keys; c++)
            sum += row[c];
        s->sum[r] = s->sum[r] * before + sum;
        s->largest[r] = largest;
        for (int64_t c = 0; c < p->v && before != 1; c++)
            s->out[r * p->v + c] *= before;
    }
}

static void NAME(forward)(const struct stni_attention_args *p, const struct at *at, struct block *b)
{
    struct NAME(space) s;
    NAME(open)(p, &s);
    NAME(load)(&p->query, at->query, b->i, b->rows, p->e, (ACC)p->scale, s.query);
    memset(s.out, 0, (size_t)(b->rows * p->v) * sizeof(ACC));
    for (int64_t r = 0; r < b->rows; r++) {
        s.sum[r] = 0;
        s.largest[r] = -(ACC)INFINITY;
    }
    while (next_keys(p, b)) {
        NAME(score)(p, at, b, &s);
        NAME(raise)(p, b, &s);
        NAME(drop)(p, at, b, s.weight);
        NAME(load)(&p->value, at->value, b->j, b->keys, p->v, 1, s.value);
        multiply(sizeof(ACC), s.product, 1, b->rows, p->v, b->keys, (struct factor){s.weight, KEYS, 1},
                 (struct factor){s.value, p->v, 1}, (struct factor){s.out, p->v, 1});
    }
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t out = at->out + (b->i + r) * p->out.row;
        const ACC sum = s.sum[r];
        for (int64_t c = 0; c < p->v; c++) {
            const ACC value = sum == 0 ? 0 : s.out[r * p->v + c] / sum;
            if (p->is_wide)
                ((ACC *)p->out.data)[out + c * p->out.col] = value;
            else
                ((T *)p->out.data)[out + c * p->out.col] = STORE(value);
        }
        ((ACC *)p->lse.data)[at->lse + (b->i + r) * p->lse.row] = sum == 0 ? (ACC)INFINITY : s.largest[r] + log(sum);
    }
}

/* Loads the cotangent's rows, and computes the product of each with the result's row: the mean over the keys, weighted
 * by the probabilities, of the probabilities' gradients. */
static void NAME(load_grad)(const struct stni_attention_args *p, const struct at *at, const struct block *b,
                            struct NAME(space) * s)
{
    NAME(load)(&p->grad, at->grad, b->i, b->rows, p->v, 1, s->grad);
    NAME(load)(&p->out, at->out, b->i, b->rows, p->v, 1, s->out);
    for (int64_t r = 0; r < b->rows; r++) {
        s->mean[r] = 0;
        for (int64_t c = 0; c < p->v; c++)
            s->mean[r] += s->grad[r * p->v + c] * s->out[r * p->v + c];
    }
}

/* Recomputes the probabilities, and from their gradients, in `grad_score`, makes those of the scores:
 * weight (grad_score - mean). */
static void NAME(grad_scores)(const struct stni_attention_args *p, const struct at *at, const struct block *b,
                              struct NAME(space) * s)
{
    for (int64_t r = 0; r < b->rows; r++) {
        const ACC lse = ((const ACC *)p->lse.data)[at->lse + (b->i + r) * p->lse.row];
        ACC *weight = s->weight + r * KEYS, *grad_score = s->grad_score + r * KEYS;
        for (int64_t c = 0; c < b->keys; c++) {
            weight[c] = MATH(exp_addend)(weight[c] - lse);
            grad_score[c] = weight[c] * (grad_score[c] - s->mean[r]);
        }
    }
}

static void NAME(add_to_mask)(const struct stni_attention_args *p, const struct at *at, const struct block *b,
                              const struct NAME(space) * s)
{
    const struct stni_attention_operand *o = &p->grad_mask.at;
    for (int64_t r = 0; r < b->rows && o->data != NULL; r++) {
        ACC *sum = (ACC *)o->data + at->grad_mask + (b->i + r) * o->row + b->j * o->col;
        for (int64_t c = 0; c < b->keys; c++)
            sum[c * o->col] += s->grad_score[r * KEYS + c];
    }
}

static struct factor NAME(sum_of)(const struct stni_attention_sum *sum, int64_t at, int64_t row)
{
    return (struct factor){(ACC *)sum->at.data + at + row * sum->at.row, sum->at.row, sum->at.col};
}

static void NAME(backward)(const struct stni_attention_args *p, const struct at *at, struct block *b)
{
    struct NAME(space) s;
    NAME(open)(p, &s);
    NAME(load)(&p->query, at->query, b->i, b->rows, p->e, (ACC)p->scale, s.query);
    NAME(load_grad)(p, at, b, &s);
    while (next_keys(p, b)) {
        const struct factor transposed = {s.weight, 1, KEYS};
        const struct factor grad_score = {s.grad_score, KEYS, 1}, grad_score_transposed = {s.grad_score, 1, KEYS};
        NAME(load)(&p->value, at->value, b->j, b->keys, p->v, 1, s.value);
        multiply(sizeof(ACC), s.product, 0, b->rows, b->keys, p->v, (struct factor){s.grad, p->v, 1},
                 (struct factor){s.value, 1, p->v}, grad_score);
        NAME(drop)(p, at, b, s.grad_score);
        NAME(score)(p, at, b, &s);
        NAME(grad_scores)(p, at, b, &s);
        NAME(add_to_mask)(p, at, b, &s);
        NAME(drop)(p, at, b, s.weight);
        multiply(sizeof(ACC), s.product, 1, b->keys, p->v, b->rows, transposed, (struct factor){s.grad, p->v, 1},
                 NAME(sum_of)(&p->grad_value, at->grad_value, b->j));
        multiply(sizeof(ACC), s.product, 1, b->keys, p->e, b->rows, grad_score_transposed,
                 (struct factor){s.query, p->e, 1}, NAME(sum_of)(&p->grad_key, at->grad_key, b->j));
        for (int64_t k = 0; k < b->keys * p->e; k++)
            s.key[k] *= (ACC)p->scale;
        multiply(sizeof(ACC), s.product, 1, b->rows, p->e, b->keys, grad_score, (struct factor){s.key, p->e, 1},
                 NAME(sum_of)(&p->grad_query, at->grad_query, b->i));
    }
}
