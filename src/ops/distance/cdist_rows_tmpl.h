/* One dtype's distances (core/box/each_float.h). Sizes: R and J rows of the two sides in a tile, K elements of a row
 * at a time; x[i][k] and, where vectors run over j, its transpose. A metric is what n elements of TOGETHER rows of
 * one side add to their sums with J rows of the other (`add`), what the sums become (`finish`), and for the gradient
 * a factor of each pair (`weight`) and the derivative of its distance with respect to the elements of a row
 * (`derivative`). */
#ifndef NAME /* read alone */
#include "ops/distance/cdist_walk.h"
#include "core/box/as_f32.h"
#endif

struct NAME(metric) {
    void (*add)(ACC *restrict sum, const ACC *restrict x, const ACC *restrict y, ACC p, int n);
    void (*finish)(ACC *sum, ACC p); /* J of them */
    ACC (*weight)(ACC grad, ACC distance, ACC p);
    void (*derivative)(ACC *restrict out, const ACC *restrict x, const ACC *restrict y, ACC weight, ACC distance, ACC p,
                       int n);
};

/* NaN stays, as in all sums. */
static void NAME(add_zero)(ACC *restrict sum, const ACC *restrict x, const ACC *restrict y, ACC p, int n)
{
    (void)p;
    for (int r = 0; r < TOGETHER; r++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < J; j++) {
                const ACC d = x[r * K + k] - y[k * J + j];
                sum[r * J + j] += d != d ? d : (ACC)(d != 0);
            }
}

static void NAME(add_one)(ACC *restrict sum, const ACC *restrict x, const ACC *restrict y, ACC p, int n)
{
    (void)p;
    for (int r = 0; r < TOGETHER; r++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < J; j++)
                sum[r * J + j] += fabs(x[r * K + k] - y[k * J + j]);
}

typedef ACC NAME(vector) __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* In vectors, whose sums stay in registers. As loops over arrays they go through memory. */
static void NAME(add_two)(ACC *restrict sum, const ACC *restrict x, const ACC *restrict y, ACC p, int n)
{
    enum { VECTORS = J * sizeof(ACC) / VECTOR_BYTES };
    const NAME(vector) *at = (const void *)y;
    NAME(vector) part[TOGETHER][VECTORS];
    (void)p;
    memcpy(part, sum, sizeof part);
    for (int k = 0; k < n; k++, at += VECTORS)
        for (int r = 0; r < TOGETHER; r++)
            for (int v = 0; v < (int)VECTORS; v++) {
                const NAME(vector) d = x[r * K + k] - at[v];
                part[r][v] += d * d;
            }
    memcpy(sum, part, sizeof part);
}

/* NaN stays. */
static void NAME(add_largest)(ACC *restrict sum, const ACC *restrict x, const ACC *restrict y, ACC p, int n)
{
    (void)p;
    for (int r = 0; r < TOGETHER; r++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < J; j++) {
                const ACC d = fabs(x[r * K + k] - y[k * J + j]);
                sum[r * J + j] = d > sum[r * J + j] || d != d ? d : sum[r * J + j];
            }
}

static void NAME(add_other)(ACC *restrict sum, const ACC *restrict x, const ACC *restrict y, ACC p, int n)
{
    for (int r = 0; r < TOGETHER; r++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < J; j++)
                sum[r * J + j] += pow(fabs(x[r * K + k] - y[k * J + j]), p);
}

static void NAME(finish_none)(ACC *sum, ACC p)
{
    (void)sum, (void)p;
}

static void NAME(finish_two)(ACC *sum, ACC p)
{
    (void)p;
    for (int j = 0; j < J; j++)
        sum[j] = sqrt(sum[j]);
}

static void NAME(finish_other)(ACC *sum, ACC p)
{
    for (int j = 0; j < J; j++)
        sum[j] = pow(sum[j], 1 / p);
}

static ACC NAME(weight_none)(ACC grad, ACC distance, ACC p)
{
    (void)p;
    return distance == 0 ? 0 : grad;
}

static ACC NAME(weight_other)(ACC grad, ACC distance, ACC p)
{
    return distance == 0 ? 0 : grad / (p == 2 ? distance : pow(distance, p - 1));
}

static void NAME(derivative_zero)(ACC *restrict out, const ACC *restrict x, const ACC *restrict y, ACC weight,
                                  ACC distance, ACC p, int n)
{
    (void)out, (void)x, (void)y, (void)weight, (void)distance, (void)p, (void)n;
}

static void NAME(derivative_one)(ACC *restrict out, const ACC *restrict x, const ACC *restrict y, ACC weight,
                                 ACC distance, ACC p, int n)
{
    (void)distance, (void)p;
    for (int k = 0; k < n; k++) {
        const ACC d = x[k] - y[k];
        out[k] += d > 0 ? weight : d < 0 ? -weight : d; /* 0 or NaN */
    }
}

static void NAME(derivative_two)(ACC *restrict out, const ACC *restrict x, const ACC *restrict y, ACC weight,
                                 ACC distance, ACC p, int n)
{
    (void)distance, (void)p;
    for (int k = 0; k < n; k++)
        out[k] += (x[k] - y[k]) * weight;
}

/* Each of several largest differences gets the whole, as PyTorch gives it. */
static void NAME(derivative_largest)(ACC *restrict out, const ACC *restrict x, const ACC *restrict y, ACC weight,
                                     ACC distance, ACC p, int n)
{
    (void)p;
    for (int k = 0; k < n; k++) {
        const ACC d = x[k] - y[k];
        if (LOAD(STORE(fabs(d))) == distance || d != d)
            out[k] += d > 0 ? weight : d < 0 ? -weight : d;
    }
}

static void NAME(derivative_other)(ACC *restrict out, const ACC *restrict x, const ACC *restrict y, ACC weight,
                                   ACC distance, ACC p, int n)
{
    (void)distance;
    for (int k = 0; k < n; k++)
        if (x[k] != y[k])
            out[k] += pow(fabs(x[k] - y[k]), p - 1) * (x[k] > y[k] ? weight : -weight);
}

static const struct NAME(metric) NAME(metrics)[] = {
    [STNI_CDIST_ZERO] = {NAME(add_zero), NAME(finish_none), NAME(weight_none), NAME(derivative_zero)},
    [STNI_CDIST_ONE] = {NAME(add_one), NAME(finish_none), NAME(weight_none), NAME(derivative_one)},
    [STNI_CDIST_TWO] = {NAME(add_two), NAME(finish_two), NAME(weight_other), NAME(derivative_two)},
    [STNI_CDIST_LARGEST] = {NAME(add_largest), NAME(finish_none), NAME(weight_none), NAME(derivative_largest)},
    [STNI_CDIST_OTHER] = {NAME(add_other), NAME(finish_other), NAME(weight_other), NAME(derivative_other)},
};

/* Loads rows x n elements, row by row. */
static void NAME(load)(const struct stni_cdist_operand *x, int64_t at, int rows, int n, ACC *restrict out)
{
    const T *from = (const T *)x->data + at;
    for (int r = 0; r < rows; r++, from += x->row, out += K) {
        if (x->col == 1)
            for (int k = 0; k < n; k++)
                out[k] = LOAD(from[k]);
        else
            for (int k = 0; k < n; k++)
                out[k] = LOAD(from[k * x->col]);
    }
}

/* The same transposed, for vectors that run over j. */
static void NAME(load_transposed)(const struct stni_cdist_operand *x, int64_t at, int rows, int n, ACC *restrict out)
{
    const T *from = (const T *)x->data + at;
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < n; k++)
            out[k * J + r] = LOAD(from[r * x->row + k * x->col]);
}

/* Rows of the two sides as a tile works on them: y is the transpose. What a side has not stays zero. */
struct NAME(tile) {
    _Alignas(VECTOR_BYTES) ACC x[R * K], y[K * J], sum[R][J];
};

static void NAME(store)(T *restrict out, int64_t step, const ACC *restrict sum, int n)
{
    if (step == 1)
        for (int c = 0; c < n; c++)
            out[c] = STORE(sum[c]);
    else
        for (int c = 0; c < n; c++)
            out[c * step] = STORE(sum[c]);
}

/* Distances of R rows of one side and J of the other, whose elements are there already where `has_y`. */
static void NAME(tile)(const struct stni_cdist_args *p, const struct at *at, int64_t i, int64_t j, struct NAME(tile) *t,
                       int has_y)
{
    const struct NAME(metric) *metric = &NAME(metrics)[stni_cdist_metric(p->p)];
    const int rows = least(R, p->rows1 - i), cols = least(J, p->rows2 - j);
    memset(t->sum, 0, sizeof t->sum);
    for (int64_t k = 0; k < p->m; k += K) {
        const int n = least(K, p->m - k);
        NAME(load)(&p->x1, at->x1 + i * p->x1.row + k * p->x1.col, rows, n, t->x);
        if (!has_y)
            NAME(load_transposed)(&p->x2, at->x2 + j * p->x2.row + k * p->x2.col, cols, n, t->y);
        for (int r = 0; r < rows; r += TOGETHER)
            metric->add(t->sum[r], t->x + r * K, t->y, (ACC)p->p, n);
    }
    T *out = (T *)p->distance.data + at->distance + i * p->distance.row + j * p->distance.col;
    for (int r = 0; r < rows; r++) {
        metric->finish(t->sum[r], (ACC)p->p);
        NAME(store)(out + r * p->distance.row, p->distance.col, t->sum[r], cols);
    }
}

/* The other side's rows are transposed once for all rows of the first where they are short enough to stay. */
static void NAME(forward)(const struct stni_cdist_args *p, const struct at *at)
{
    struct NAME(tile) t;
    memset(&t, 0, sizeof t);
    for (int64_t j = 0; j < p->rows2; j += J)
        for (int64_t i = 0; i < p->rows1; i += R)
            NAME(tile)(p, at, i, j, &t, i > 0 && p->m <= K);
}

/* Adds what the rows of the other side contribute to R rows x K elements of x1's gradient, for one element of the
 * batch. */
static void NAME(gather)(const struct stni_cdist_args *p, const struct at *at, int64_t i, int64_t k, ACC *sum)
{
    const struct NAME(metric) *metric = &NAME(metrics)[stni_cdist_metric(p->p)];
    ACC x[R * K], y[K];
    int rows = least(R, p->rows1 - i), n = least(K, p->m - k);
    NAME(load)(&p->x1, at->x1 + i * p->x1.row + k * p->x1.col, rows, n, x);
    for (int64_t j = 0; j < p->rows2; j++) {
        const T *grad = (const T *)p->grad.data + at->grad + i * p->grad.row + j * p->grad.col;
        const T *distance = (const T *)p->distance.data + at->distance + i * p->distance.row + j * p->distance.col;
        NAME(load)(&p->x2, at->x2 + j * p->x2.row + k * p->x2.col, 1, n, y);
        for (int r = 0; r < rows; r++) {
            const ACC d = LOAD(distance[r * p->distance.row]);
            metric->derivative(sum + r * K, x + r * K, y, metric->weight(LOAD(grad[r * p->grad.row]), d, (ACC)p->p), d,
                               (ACC)p->p, n);
        }
    }
}

/* x1's gradient for one element of its own batch, summed over `summed`, which it lacks. */
static void NAME(backward)(const struct stni_cdist_args *p, const struct stni_cdist_args *summed, const struct at *at)
{
    ACC sum[R * K];
    for (int64_t i = 0; i < p->rows1; i += R)
        for (int64_t k = 0; k < p->m; k += K) {
            struct walk walk = {.at = *at};
            memset(sum, 0, sizeof sum);
            for (int more = begin(summed, &walk); more; more = step(summed, &walk))
                NAME(gather)(p, &walk.at, i, k, sum);
            T *out = (T *)p->grad1.data + at->grad1 + i * p->grad1.row + k * p->grad1.col;
            for (int r = 0; r < R && r < p->rows1 - i; r++)
                for (int c = 0; c < K && c < p->m - k; c++)
                    out[r * p->grad1.row + c * p->grad1.col] = STORE(sum[r * K + c]);
        }
}
