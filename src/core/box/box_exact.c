/* The sum of each element is kept as two f64 numbers whose sum it is, s + e, as long as that is exact, which all but
 * addends of very different sizes are. Source: Knuth 1969, TwoSum; Ogita, Rump and Oishi 2005, its cascade. Where it is
 * not exact, the element is added up again in integers. */
#include "core/box/box_exact.h"

#include "core/base/dtype.h"
#include "core/box/exact.h"

#include <string.h>

enum { BLOCK = 256, MOST_DIGITS = STNI_EXACT_DIGITS_F64 + STNI_EXACT_COUNTS };

/* Elements along the last dim: of reals, or of one part of complex numbers. */
struct run {
    stn_dtype dtype; /* of reals */
    int per, part;   /* reals per element, and which of them */
    int divisor;     /* 1: the sum */
    int n_src, last;
    const stn_box *dst, *src;
    int64_t index[STN_MAX_BOX_NDIM]; /* of the dims before the last */
};

struct block {
    double s[BLOCK], e[BLOCK], x[BLOCK];
    unsigned char inexact[BLOCK];
};

int stni_box_order_shows(stn_dtype dtype, stn_reduce_op op)
{
    return (stni_dtype_is_floating(dtype) || stni_dtype_is_complex(dtype)) && (op == STN_SUM || op == STN_AVG);
}

static double load(stn_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case STN_DTYPE_F64: return ((const double *)data)[at];
    case STN_DTYPE_F32: return (double)((const float *)data)[at];
    case STN_DTYPE_BF16: return (double)stni_bf16_to_f32(((const uint16_t *)data)[at]);
    default: return (double)stni_f16_to_f32(((const uint16_t *)data)[at]);
    }
}

static void load_block(stn_dtype dtype, const void *data, int64_t at, int64_t stride, int64_t n, double *x)
{
    if (dtype == STN_DTYPE_F32) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (double)((const float *)data)[at + i * stride];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = load(dtype, data, at + i * stride);
}

static void store(stn_dtype dtype, void *data, int64_t at, double value)
{
    switch (dtype) {
    case STN_DTYPE_F64: ((double *)data)[at] = value; return;
    case STN_DTYPE_F32: ((float *)data)[at] = (float)value; return;
    case STN_DTYPE_BF16: ((uint16_t *)data)[at] = stni_f32_to_bf16((float)value); return;
    default: ((uint16_t *)data)[at] = stni_f32_to_f16((float)value); return;
    }
}

/* s + e += x, exactly but where `inexact` says so: also where something is infinite or NaN. */
static void add_block(struct block *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double s = b->s[i] + b->x[i], from_x = s - b->s[i];
        const double lost = (b->s[i] - (s - from_x)) + (b->x[i] - from_x);
        const double e = b->e[i] + lost, from_lost = e - b->e[i];
        const double rest = (b->e[i] - (e - from_lost)) + (lost - from_lost);
        b->s[i] = s;
        b->e[i] = e;
        b->inexact[i] |= rest != 0;
    }
}

/* Boxes without dims have one element. */
static int64_t stride_of(const struct run *r, const stn_box *box)
{
    return r->last < 0 ? 0 : box->strides[r->last];
}

/* Where element i of the run is, in reals. */
static int64_t place(const struct run *r, const stn_box *box, int64_t i)
{
    int64_t at = i * stride_of(r, box);
    for (int d = 0; d < r->last; d++)
        at += r->index[d] * box->strides[d];
    return at * r->per + r->part;
}

/* One element in integers. */
static double add_long(const struct run *r, int64_t i)
{
    int64_t sum[MOST_DIGITS] = {0};
    for (int k = 0; k < r->n_src; k++) {
        const double x = load(r->dtype, r->src[k].data, place(r, &r->src[k], i));
        const struct stni_exact_addend a =
            r->dtype == STN_DTYPE_F64 ? stni_exact_addend_f64(x) : stni_exact_addend_f32((float)x);
        for (int j = 0; j < 3; j++)
            if (a.word[j])
                sum[a.at + j] += a.word[j];
    }
    return stni_exact_value(sum, r->dtype);
}

/* All sources are read before anything is written: the result may be one of them. Of f32 and less s is rounded once
 * more, so that e has to be 0. */
static void finish_block(const struct run *r, const struct block *b, int64_t from, int64_t n)
{
    double value[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        const int is_exact = !b->inexact[i] && (r->dtype == STN_DTYPE_F64 || b->e[i] == 0);
        value[i] = is_exact ? b->s[i] + b->e[i] : add_long(r, from + i);
    }
    for (int64_t i = 0; i < n; i++) {
        const double sum = r->dtype == STN_DTYPE_F64 ? value[i] : (double)(float)value[i];
        store(r->dtype, r->dst->data, place(r, r->dst, from + i), r->divisor == 1 ? sum : sum / r->divisor);
    }
}

static void add_run(const struct run *r)
{
    const int64_t count = r->last < 0 ? 1 : r->dst->shape[r->last];
    struct block b;
    for (int64_t from = 0; from < count; from += BLOCK) {
        const int64_t n = count - from < BLOCK ? count - from : BLOCK;
        memset(&b, 0, sizeof b);
        for (int k = 0; k < r->n_src; k++) {
            const stn_box *src = &r->src[k];
            load_block(r->dtype, src->data, place(r, src, from), r->per * stride_of(r, src), n, b.x);
            add_block(&b, n);
        }
        finish_block(r, &b, from, n);
    }
}

/* The next run; 0 behind the last. */
static int step(struct run *r)
{
    for (int d = r->last - 1; d >= 0; d--) {
        if (++r->index[d] < r->dst->shape[d])
            return 1;
        r->index[d] = 0;
    }
    return 0;
}

static stn_dtype real_of(stn_dtype dtype)
{
    return dtype == STN_DTYPE_C64 ? STN_DTYPE_F32 : dtype == STN_DTYPE_C128 ? STN_DTYPE_F64 : dtype;
}

static int is_empty(const stn_box *box)
{
    for (int d = 0; d < box->ndim; d++)
        if (box->shape[d] == 0)
            return 1;
    return 0;
}

void stni_box_exact_sum_now(const stn_box *dst, int n_src, const stn_box *src, stn_dtype dtype, stn_reduce_op op)
{
    struct run r = {.dtype = real_of(dtype),
                    .per = real_of(dtype) == dtype ? 1 : 2,
                    .divisor = op == STN_AVG ? n_src : 1,
                    .n_src = n_src,
                    .last = dst->ndim - 1,
                    .dst = dst,
                    .src = src};
    if (is_empty(dst))
        return;
    do
        for (r.part = 0; r.part < r.per; r.part++)
            add_run(&r);
    while (step(&r));
}
