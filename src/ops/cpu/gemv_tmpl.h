/* One dtype's product of a matrix and a vector; included once per dtype by gemv_kernels.c.
 *
 * Included with T, the type of an element, and NAME(x). */
#ifndef NAME /* read alone */
#include "ops/cpu/gemv_tile.h"
#define T float
#define NAME(x) x##_f32
#endif

typedef T NAME(vector) __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(sizeof(T))));

/* CHAIN terms are added up in T before they go to f64. A block of a row is UNROLL vectors of such chains. */
enum {
    NAME(LANES) = (int)(VECTOR_BYTES / sizeof(T)),
    NAME(STEP) = UNROLL * NAME(LANES),
    NAME(BLOCK) = CHAIN * NAME(STEP)
};

static inline double NAME(add_lanes)(NAME(vector) v)
{
    T lanes[NAME(LANES)];
    double sum = 0;
    memcpy(lanes, &v, sizeof v);
    for (int i = 0; i < NAME(LANES) / 2; i++)
        sum += (double)lanes[i] + (double)lanes[i + NAME(LANES) / 2];
    return sum;
}

/* The sum of at most a block of products of contiguous elements. */
static inline double NAME(dot_block)(int64_t k, const T *a, const T *x)
{
    NAME(vector) sum[UNROLL] = {{0}};
    double tail = 0;
    int64_t at = 0;
    for (; at + NAME(STEP) <= k; at += NAME(STEP))
        for (int u = 0; u < UNROLL; u++)
            sum[u] +=
                *(const NAME(vector) *)(a + at + u * NAME(LANES)) * *(const NAME(vector) *)(x + at + u * NAME(LANES));
    for (; at + NAME(LANES) <= k; at += NAME(LANES))
        sum[0] += *(const NAME(vector) *)(a + at) * *(const NAME(vector) *)(x + at);
    for (; at < k; at++)
        tail += (double)a[at] * (double)x[at];
    return NAME(add_lanes)((sum[0] + sum[1]) + (sum[2] + sum[3])) + tail;
}

static void NAME(put)(const struct stni_gemv *g, int64_t first, int64_t n, const double *totals)
{
    for (int64_t i = 0; i < n; i++) {
        T *y = (T *)g->y + (first + i) * g->y_step;
        *y = (T)(g->accumulate ? *y + totals[i] : totals[i]);
    }
}

static inline double NAME(dot)(int64_t k, const T *a, const T *x)
{
    double sum = 0;
    for (int64_t at = 0; at < k; at += NAME(BLOCK))
        sum += NAME(dot_block)(k - at < NAME(BLOCK) ? k - at : NAME(BLOCK), a + at, x + at);
    return sum;
}

/* Rows whose elements are contiguous, each from its first element on as far as x stays in the L2 cache. */
static void NAME(along_rows)(const struct stni_gemv *g)
{
    enum { ROWS = 64, COPIED = 2048, CACHED = 1 << 15 };
    const int64_t most = g->x_step != 1 ? COPIED : CACHED;
    T copy[COPIED];
    for (int64_t first = 0; first < g->rows; first += ROWS) {
        int64_t n = g->rows - first < ROWS ? g->rows - first : ROWS;
        double totals[ROWS] = {0};
        for (int64_t at = 0; at < g->k; at += most) {
            int64_t k = g->k - at < most ? g->k - at : most;
            const T *x = (const T *)g->x + at * g->x_step;
            for (int64_t t = 0; g->x_step != 1 && t < k; t++)
                copy[t] = x[t * g->x_step];
            for (int64_t i = 0; i < n; i++)
                totals[i] += NAME(dot)(k, (const T *)g->a + (first + i) * g->a_row + at, g->x_step != 1 ? copy : x);
        }
        NAME(put)(g, first, n, totals);
    }
}

/* part += four columns times their elements of x. */
static inline void NAME(add_columns)(int64_t n, T *restrict part, const T *restrict a, int64_t step, const T x[UNROLL])
{
    const T *a1 = a + step, *a2 = a1 + step, *a3 = a2 + step;
    for (int64_t i = 0; i < n; i++)
        part[i] += x[0] * a[i] + x[1] * a1[i] + (x[2] * a2[i] + x[3] * a3[i]);
}

static inline void NAME(add_chain)(const struct stni_gemv *g, int64_t first, int64_t n, int64_t at, int64_t k,
                                   T *restrict part)
{
    const T *a = (const T *)g->a + first + at * g->a_col, *x = (const T *)g->x + at * g->x_step;
    int64_t t = 0;
    for (; t + UNROLL <= k; t += UNROLL) {
        const T four[UNROLL] = {x[t * g->x_step], x[(t + 1) * g->x_step], x[(t + 2) * g->x_step],
                                x[(t + 3) * g->x_step]};
        NAME(add_columns)(n, part, a + t * g->a_col, g->a_col, four);
    }
    for (; t < k; t++)
        for (int64_t i = 0; i < n; i++)
            part[i] += x[t * g->x_step] * a[t * g->a_col + i];
}

/* Columns whose elements are contiguous: as many rows at a time as have their sums in the L1 cache. */
static void NAME(along_columns)(const struct stni_gemv *g)
{
    enum { ROWS = 1024 };
    T part[ROWS];
    double totals[ROWS];
    for (int64_t first = 0; first < g->rows; first += ROWS) {
        int64_t n = g->rows - first < ROWS ? g->rows - first : ROWS;
        memset(totals, 0, sizeof *totals * (size_t)n);
        for (int64_t at = 0; at < g->k; at += CHAIN) {
            memset(part, 0, sizeof *part * (size_t)n);
            NAME(add_chain)(g, first, n, at, g->k - at < CHAIN ? g->k - at : CHAIN, part);
            for (int64_t i = 0; i < n; i++)
                totals[i] += (double)part[i];
        }
        NAME(put)(g, first, n, totals);
    }
}

/* A matrix with no contiguous dim. */
static void NAME(one_by_one)(const struct stni_gemv *g)
{
    const T *a = g->a, *x = g->x;
    for (int64_t i = 0; i < g->rows; i++) {
        double total = 0;
        for (int64_t t = 0; t < g->k; t++)
            total += (double)a[i * g->a_row + t * g->a_col] * (double)x[t * g->x_step];
        NAME(put)(g, i, 1, &total);
    }
}

static void NAME(run)(const struct stni_gemv *given)
{
    struct stni_gemv product = *given;
    const struct stni_gemv *g = &product;
    if (g->rows == 1 && g->x_step == 1) { /* of two vectors either may be the row */
        product.a = given->x, product.x = given->a;
        product.a_col = 1, product.x_step = given->a_col;
    }
    if (g->a_col == 1)
        NAME(along_rows)(g);
    else if (g->a_row == 1 && g->rows > 1)
        NAME(along_columns)(g);
    else
        NAME(one_by_one)(g);
}

#undef T
#undef NAME
