/* Products of a matrix and a vector, compiled once per instruction set. They read the matrix once and are bound by
 * memory, so that exact sums cost nothing where it is large. Fused where the processor fuses. */
#include "ops/cpu/gemv_kernels.h"

#include "core/base/isa.h"

#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

/* CHAIN terms are added up in f32 before they go to f64. A block of a row is four vectors of such chains. */
enum { CHAIN = 32, LANES = VECTOR_BYTES / sizeof(float), UNROLL = 4, STEP = UNROLL * LANES, BLOCK = CHAIN * STEP };

typedef float vector __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(4)));
typedef float half __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef double wide __attribute__((vector_size(VECTOR_BYTES)));

static inline double add_lanes(vector v)
{
    half halves[2];
    double lanes[LANES / 2], sum = 0;
    memcpy(halves, &v, sizeof v);
    const wide w = __builtin_convertvector(halves[0], wide) + __builtin_convertvector(halves[1], wide);
    memcpy(lanes, &w, sizeof w);
    for (int i = 0; i < LANES / 2; i++)
        sum += lanes[i];
    return sum;
}

/* The sum of at most BLOCK products of contiguous elements. */
static inline double dot_block(int64_t k, const float *a, const float *x)
{
    vector sum[UNROLL] = {{0}};
    double tail = 0;
    int64_t at = 0;
    for (; at + STEP <= k; at += STEP)
        for (int u = 0; u < UNROLL; u++)
            sum[u] += *(const vector *)(a + at + u * LANES) * *(const vector *)(x + at + u * LANES);
    for (; at + LANES <= k; at += LANES)
        sum[0] += *(const vector *)(a + at) * *(const vector *)(x + at);
    for (; at < k; at++)
        tail += (double)a[at] * (double)x[at];
    return add_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])) + tail;
}

static void put(const struct stni_gemv *g, int64_t first, int64_t n, const double *totals)
{
    for (int64_t i = 0; i < n; i++) {
        float *y = g->y + (first + i) * g->y_step;
        *y = (float)(g->accumulate ? *y + totals[i] : totals[i]);
    }
}

static inline double dot(int64_t k, const float *a, const float *x)
{
    double sum = 0;
    for (int64_t at = 0; at < k; at += BLOCK)
        sum += dot_block(k - at < BLOCK ? k - at : BLOCK, a + at, x + at);
    return sum;
}

/* Rows whose elements are contiguous, each from its first element on as far as x stays in the L2 cache. */
static void along_rows(const struct stni_gemv *g)
{
    enum { ROWS = 64, COPIED = 2048, CACHED = 1 << 15 };
    const int64_t most = g->x_step != 1 ? COPIED : CACHED;
    float copy[COPIED];
    for (int64_t first = 0; first < g->rows; first += ROWS) {
        int64_t n = g->rows - first < ROWS ? g->rows - first : ROWS;
        double totals[ROWS] = {0};
        for (int64_t at = 0; at < g->k; at += most) {
            int64_t k = g->k - at < most ? g->k - at : most;
            const float *x = g->x + at * g->x_step;
            for (int64_t t = 0; g->x_step != 1 && t < k; t++)
                copy[t] = x[t * g->x_step];
            for (int64_t i = 0; i < n; i++)
                totals[i] += dot(k, g->a + (first + i) * g->a_row + at, g->x_step != 1 ? copy : x);
        }
        put(g, first, n, totals);
    }
}

/* part += four columns times their elements of x. */
static inline void add_columns(int64_t n, float *restrict part, const float *restrict a, int64_t step,
                               const float x[UNROLL])
{
    const float *a1 = a + step, *a2 = a1 + step, *a3 = a2 + step;
    for (int64_t i = 0; i < n; i++)
        part[i] += x[0] * a[i] + x[1] * a1[i] + (x[2] * a2[i] + x[3] * a3[i]);
}

static inline void add_chain(const struct stni_gemv *g, int64_t first, int64_t n, int64_t at, int64_t k,
                             float *restrict part)
{
    const float *a = g->a + first + at * g->a_col, *x = g->x + at * g->x_step;
    int64_t t = 0;
    for (; t + UNROLL <= k; t += UNROLL) {
        const float four[UNROLL] = {x[t * g->x_step], x[(t + 1) * g->x_step], x[(t + 2) * g->x_step],
                                    x[(t + 3) * g->x_step]};
        add_columns(n, part, a + t * g->a_col, g->a_col, four);
    }
    for (; t < k; t++)
        for (int64_t i = 0; i < n; i++)
            part[i] += x[t * g->x_step] * a[t * g->a_col + i];
}

/* Columns whose elements are contiguous: as many rows at a time as have their sums in the L1 cache. */
static void along_columns(const struct stni_gemv *g)
{
    enum { ROWS = 1024 };
    float part[ROWS];
    double totals[ROWS];
    for (int64_t first = 0; first < g->rows; first += ROWS) {
        int64_t n = g->rows - first < ROWS ? g->rows - first : ROWS;
        memset(totals, 0, sizeof *totals * (size_t)n);
        for (int64_t at = 0; at < g->k; at += CHAIN) {
            memset(part, 0, sizeof *part * (size_t)n);
            add_chain(g, first, n, at, g->k - at < CHAIN ? g->k - at : CHAIN, part);
            for (int64_t i = 0; i < n; i++)
                totals[i] += (double)part[i];
        }
        put(g, first, n, totals);
    }
}

/* A matrix with no contiguous dim. */
static void one_by_one(const struct stni_gemv *g)
{
    for (int64_t i = 0; i < g->rows; i++) {
        double total = 0;
        for (int64_t t = 0; t < g->k; t++)
            total += (double)g->a[i * g->a_row + t * g->a_col] * (double)g->x[t * g->x_step];
        put(g, i, 1, &total);
    }
}

static void run(const struct stni_gemv *given)
{
    struct stni_gemv product = *given;
    const struct stni_gemv *g = &product;
    if (g->rows == 1 && g->x_step == 1) { /* of two vectors either may be the row */
        product.a = given->x, product.x = given->a;
        product.a_col = 1, product.x_step = given->a_col;
    }
    if (g->a_col == 1)
        along_rows(g);
    else if (g->a_row == 1 && g->rows > 1)
        along_columns(g);
    else
        one_by_one(g);
}

extern const struct stni_gemv_kernels STNI_ISA_NAME(stni_gemv_kernels);
const struct stni_gemv_kernels STNI_ISA_NAME(stni_gemv_kernels) = {run};
