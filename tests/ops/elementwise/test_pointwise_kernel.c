/* The CPU's pointwise kernel on raw memory against a plain loop: all dtypes, strides, broadcasting, odd sizes.
 * Values are small whole numbers, so that every result is exact. */
#include "harness.h"
#include "every_isa.h"

#include "core/device/device.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/elements.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/cpu/strided.h"

#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ELEMENTS = 1 << 16 };

struct problem {
    struct stni_pointwise_args args;
    void *memory[STNI_POINTWISE_MAX_IN + 1]; /* of in[i], and of out */
    int64_t index_shape[STN_MAX_NDIM];       /* before dims were merged */
    int index_ndim;
    int64_t strides[STNI_POINTWISE_MAX_IN + 1][STN_MAX_NDIM];
};

static stn_dtype dtype_of(const struct problem *p, int l)
{
    return l == p->args.n_in ? p->args.out.dtype : p->args.in[l].dtype;
}

static double _Complex computed(const struct problem *p, double _Complex x, double _Complex y)
{
    double _Complex a = p->args.a.f;
    if (p->args.op == STNI_POINTWISE_conj)
        return conj(x);
    if (p->args.op == STNI_POINTWISE_cast)
        return x;
    if (p->args.op == STNI_POINTWISE_eq)
        return x == y;
    if (p->args.op == STNI_POINTWISE_lt)
        return creal(x) < creal(y);
    if (p->args.compute == STN_DTYPE_BOOL)
        return p->args.op == STNI_POINTWISE_add ? (x != 0 || (a != 0 && y != 0)) : (x != 0 && y != 0);
    return p->args.op == STNI_POINTWISE_add ? x + a * y : x * y;
}

static double _Complex operand_at(const struct problem *p, int i, int64_t at)
{
    return p->memory[i] ? element_get(p->args.in[i].dtype, p->memory[i], at) : p->args.number[i].f;
}

/* Offsets of an index in every lane; returns 0 after the last index. */
static int step(const struct problem *p, int64_t *index, int64_t *offset)
{
    for (int d = p->index_ndim - 1; d >= 0; d--) {
        for (int l = 0; l <= p->args.n_in; l++)
            offset[l] += p->strides[l][d];
        if (++index[d] < p->index_shape[d])
            return 1;
        for (int l = 0; l <= p->args.n_in; l++)
            offset[l] -= p->strides[l][d] * p->index_shape[d];
        index[d] = 0;
    }
    return 0;
}

static void make(struct problem *p, int l, uint64_t *seed)
{
    p->memory[l] = malloc(MAX_ELEMENTS * 16);
    for (int64_t i = 0; i < MAX_ELEMENTS; i++)
        element_set(dtype_of(p, l), p->memory[l], i, element_draw(dtype_of(p, l), seed));
}

static void set_strides(struct problem *p, int l, const int64_t *strides)
{
    memcpy(p->strides[l], strides, sizeof p->strides[l]);
    struct stni_pointwise_operand *operand = l == p->args.n_in ? &p->args.out : &p->args.in[l];
    memcpy(operand->strides, strides, sizeof operand->strides);
    operand->data = p->memory[l];
}

static void merge(struct problem *p)
{
    int64_t *strides[STNI_POINTWISE_MAX_IN + 1] = {p->args.out.strides};
    int n = 1;
    for (int i = 0; i < p->args.n_in; i++)
        if (p->args.in[i].data)
            strides[n++] = p->args.in[i].strides;
    p->index_ndim = p->args.ndim;
    memcpy(p->index_shape, p->args.shape, sizeof p->index_shape);
    p->args.ndim = stni_merge_dims(p->args.ndim, p->args.shape, n, strides);
}

/* Runs the kernel; every element of the output is the plain loop's, and nothing beside them was written. */
static int run_and_compare(struct problem *p, const char *what)
{
    stn_dtype out = p->args.out.dtype;
    size_t bytes = MAX_ELEMENTS * stn_dtype_size(out);
    char *wanted = malloc(bytes);
    memcpy(wanted, p->memory[p->args.n_in], bytes);
    int64_t index[STN_MAX_NDIM] = {0}, offset[STNI_POINTWISE_MAX_IN + 1] = {0};
    merge(p);
    do {
        double _Complex x = operand_at(p, 0, offset[0]), y = p->args.n_in > 1 ? operand_at(p, 1, offset[1]) : 0;
        element_set(out, wanted, offset[p->args.n_in], computed(p, x, y));
    } while (step(p, index, offset));
    stn_queue queue = {.isa = next_isa()};
    CHECK_STATUS(stni_pointwise_cpu(&queue, &p->args), STN_OK);
    int64_t wrong = -1;
    for (int64_t i = 0; i < MAX_ELEMENTS && wrong < 0; i++)
        if (element_get(out, wanted, i) != element_get(out, p->memory[p->args.n_in], i))
            wrong = i;
    free(wanted);
    return test_check_i64(wrong, -1, __FILE__, __LINE__, what);
}

static void drop(struct problem *p)
{
    for (int l = 0; l <= p->args.n_in; l++)
        free(p->memory[l]);
}

static void set_number(struct stni_pointwise_number *number, double value)
{
    number->f = value;
    number->i = (int64_t)value;
}

static void every_pair_of_dtypes_computes_in_the_promoted_one(void)
{
    static const int64_t dense[STN_MAX_NDIM] = {1};
    uint64_t seed = 11;
    for (int a = 0; a < STN_DTYPE_COUNT; a++)
        for (int b = 0; b < STN_DTYPE_COUNT; b++)
            for (int op = 0; op < 2; op++) {
                stn_dtype out = stn_dtype_promote((stn_dtype)a, (stn_dtype)b);
                struct problem p = {.args = {.op = op ? STNI_POINTWISE_mul : STNI_POINTWISE_add,
                                             .compute = stni_compute_dtype(out),
                                             .ndim = 1,
                                             .n_in = 2,
                                             .shape = {2500 + 37 * a + b},
                                             .out = {.dtype = out},
                                             .in = {{.dtype = (stn_dtype)a}, {.dtype = (stn_dtype)b}}}};
                set_number(&p.args.a, out == STN_DTYPE_U8 || b % 2 ? 1 : 2);
                for (int l = 0; l < 3; l++) {
                    make(&p, l, &seed);
                    set_strides(&p, l, dense);
                }
                char what[64];
                snprintf(what, sizeof what, "%s %s %s", stn_dtype_name((stn_dtype)a), op ? "*" : "+",
                         stn_dtype_name((stn_dtype)b));
                run_and_compare(&p, what);
                drop(&p);
            }
}

/* Up to 4 dims, now and then a long one, and no more elements than fit the memory with every gap. */
static void draw_shape(struct stni_pointwise_args *args, uint64_t *seed)
{
    int64_t numel = 1;
    args->ndim = (int)draw_below(seed, 5);
    for (int d = 0; d < args->ndim; d++) {
        args->shape[d] = draw_below(seed, 4) ? 1 + draw_below(seed, 9) : 1 + draw_below(seed, 40);
        if (d == args->ndim - 1 && d < 2)
            args->shape[d] = 1 + draw_below(seed, 1500);
        if (numel * args->shape[d] > 4096)
            args->shape[d] = 1;
        numel *= args->shape[d];
    }
}

/* Strides of a tensor of `shape` with the dims in a drawn order and a drawn gap behind each; 0 along the dims in
 * `broadcast`. */
static void draw_strides(int ndim, const int64_t *shape, unsigned broadcast, uint64_t *seed, int64_t *strides)
{
    int order[STN_MAX_NDIM];
    int64_t step = draw_below(seed, 4) ? 1 : 2;
    for (int d = 0; d < ndim; d++)
        order[d] = d;
    for (int d = ndim - 1; d > 0 && draw_below(seed, 2); d--) {
        int other = (int)draw_below(seed, d + 1), held = order[d];
        order[d] = order[other];
        order[other] = held;
    }
    memset(strides, 0, STN_MAX_NDIM * sizeof *strides);
    for (int k = ndim - 1; k >= 0; k--) {
        if (broadcast >> order[k] & 1)
            continue;
        strides[order[k]] = step;
        step *= shape[order[k]];
        step += draw_below(seed, 4) ? 0 : draw_below(seed, 3);
    }
}

static void drawn_strides_and_broadcasts_match_a_plain_loop(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_I64,
                                       STN_DTYPE_I32, STN_DTYPE_BOOL, STN_DTYPE_C64, STN_DTYPE_C128};
    uint64_t seed = 12;
    for (int round = 0; round < 600; round++) {
        struct problem p = {.args = {.n_in = 1 + (int)draw_below(&seed, 2)}};
        p.args.op = p.args.n_in == 2 ? draw_below(&seed, 2) ? STNI_POINTWISE_mul : STNI_POINTWISE_add
                         : draw_below(&seed, 2) ? STNI_POINTWISE_conj : STNI_POINTWISE_cast;
        draw_shape(&p.args, &seed);
        stn_dtype first = dtypes[draw_below(&seed, 9)],
                  second = draw_below(&seed, 2) ? first : dtypes[draw_below(&seed, 9)];
        p.args.in[0].dtype = first;
        p.args.in[1].dtype = second;
        p.args.out.dtype = p.args.n_in == 2 ? stn_dtype_promote(first, second) : first;
        p.args.compute = stni_compute_dtype(p.args.out.dtype);
        set_number(&p.args.a, 1);
        int number = p.args.n_in == 2 && draw_below(&seed, 5) == 0;
        set_number(&p.args.number[1], 3);
        for (int l = 0; l <= p.args.n_in; l++) {
            int64_t strides[STN_MAX_NDIM];
            unsigned broadcast = l < p.args.n_in && draw_below(&seed, 2) ? (unsigned)draw_below(&seed, 16) : 0;
            draw_strides(p.args.ndim, p.args.shape, broadcast, &seed, strides);
            if (!(number && l == 1))
                make(&p, l, &seed);
            set_strides(&p, l, strides);
        }
        char what[32];
        snprintf(what, sizeof what, "round %d", round);
        run_and_compare(&p, what);
        drop(&p);
    }
}

/* Truths are a byte each, whatever is compared: 1, 2, 4, 8 or 16 bytes; neighbours, apart, broadcast, of two dtypes,
 * numbers among them. */
static void drawn_comparisons_match_a_plain_loop(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64,  STN_DTYPE_BF16, STN_DTYPE_I64,
                                       STN_DTYPE_U8,  STN_DTYPE_BOOL, STN_DTYPE_C64,  STN_DTYPE_C128};
    uint64_t seed = 17;
    for (int round = 0; round < 400; round++) {
        const stn_dtype first = dtypes[draw_below(&seed, 8)],
                        second = draw_below(&seed, 2) ? first : dtypes[draw_below(&seed, 8)];
        const stn_dtype compute = stni_compute_dtype(stn_dtype_promote(first, second));
        const int ordered = !stni_dtype_is_complex(compute), number = draw_below(&seed, 5) == 0;
        struct problem p = {.args = {.op = ordered && round % 2 ? STNI_POINTWISE_lt : STNI_POINTWISE_eq,
                                     .compute = compute,
                                     .n_in = 2,
                                     .out = {.dtype = STN_DTYPE_BOOL},
                                     .in = {{.dtype = first}, {.dtype = second}}}};
        draw_shape(&p.args, &seed);
        set_number(&p.args.number[1], 1);
        for (int l = 0; l <= p.args.n_in; l++) {
            int64_t strides[STN_MAX_NDIM];
            draw_strides(p.args.ndim, p.args.shape, l < p.args.n_in ? (unsigned)draw_below(&seed, 4) : 0, &seed,
                         strides);
            if (!(number && l == 1))
                make(&p, l, &seed);
            set_strides(&p, l, strides);
        }
        char what[32];
        snprintf(what, sizeof what, "round %d", round);
        run_and_compare(&p, what);
        drop(&p);
    }
}

/* So many truths that they are written past the caches: one run, and beside a number. */
static void long_truths_are_written_to_their_last_byte(void)
{
    stn_queue queue = {.isa = next_isa()};
    enum { N = (8 << 20) + 1237 };
    float *x = malloc((N + 3) * sizeof *x);
    uint8_t *y = malloc(N + 2);
    for (int64_t i = 0; i < N + 3; i++)
        x[i] = i % 1021 ? (float)(i % 7) : NAN;
    for (int number = 0; number < 2; number++) {
        struct stni_pointwise_args args = {
            .op = STNI_POINTWISE_lt, .compute = STN_DTYPE_F32, .ndim = 1, .n_in = 2, .shape = {N}};
        args.in[0] = (struct stni_pointwise_operand){x, STN_DTYPE_F32, {1}};
        args.in[1] = (struct stni_pointwise_operand){number ? NULL : x + 3, STN_DTYPE_F32, {number ? 0 : 1}};
        args.out = (struct stni_pointwise_operand){y + 1, STN_DTYPE_BOOL, {1}};
        set_number(&args.number[1], 3);
        y[0] = y[N + 1] = 42;
        CHECK_STATUS(stni_pointwise_cpu(&queue, &args), STN_OK);
        int64_t wrong = 0;
        for (int64_t i = 0; i < N; i++)
            wrong += y[1 + i] != (x[i] < (number ? 3 : x[i + 3]));
        CHECK_I64(wrong, 0);
        CHECK(y[0] == 42 && y[N + 1] == 42); /* nothing beside it */
    }
    free(x);
    free(y);
}

static void check_matrices(stn_dtype dtype, int64_t rows, int64_t cols, int64_t gap, uint64_t *seed)
{
    const int64_t along[STN_MAX_NDIM] = {cols + gap, 1}, across[STN_MAX_NDIM] = {1, rows + gap},
                  column[STN_MAX_NDIM] = {1, 0}, row[STN_MAX_NDIM] = {0, 1};
    const int64_t *const lies[][3] = {{along, across, along},  {across, along, along},   {along, along, across},
                                      {across, across, along}, {across, column, across}, {across, row, along},
                                      {along, column, along},  {along, row, along}};
    for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
        struct problem p = {.args = {.op = STNI_POINTWISE_mul,
                                     .compute = stni_compute_dtype(dtype),
                                     .ndim = 2,
                                     .n_in = 2,
                                     .shape = {rows, cols},
                                     .out = {.dtype = dtype},
                                     .in = {{.dtype = dtype}, {.dtype = dtype}}}};
        char what[64];
        snprintf(what, sizeof what, "%s, %d x %d, form %d", stn_dtype_name(dtype), (int)rows, (int)cols, (int)k);
        for (int l = 0; l < 3; l++) {
            make(&p, l, seed);
            set_strides(&p, l, lies[k][l]);
        }
        run_and_compare(&p, what);
        drop(&p);
    }
}

/* Operands and results that lie column by column beside others that lie row by row: wider and longer than a tile,
 * and about as wide as a row must be for a call of its own, or as a tile that is transposed is at most. */
static void matrices_that_lie_across_match_a_plain_loop(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_BOOL, STN_DTYPE_C128};
    static const int64_t cols[] = {15, 17, 31, 32, 33, 65, 129, 457};
    uint64_t seed = 15;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
            check_matrices(dtypes[d], 131, cols[c], 3, &seed);
            check_matrices(dtypes[d], 131, cols[c], 0, &seed);
        }
}

/* So long a result is written past the caches, piece by piece; every offset within a line, an end that is no whole
 * piece. */
static void long_runs_are_added_to_their_last_element(void)
{
    stn_queue best = {.isa = stni_isa_best()};
    enum { N = (8 << 20) / 4 + 1237 };
    float *x = malloc((N + 16) * sizeof *x), *y = malloc((N + 16) * sizeof *y);
    for (int64_t i = 0; i < N + 16; i++)
        x[i] = (float)(i % 1021);
    for (int shift = 0; shift < 3; shift++) {
        struct stni_pointwise_args args = {.op = STNI_POINTWISE_add, .compute = STN_DTYPE_F32, .ndim = 1, .n_in = 2,
                                           .shape = {N}};
        args.in[0] = (struct stni_pointwise_operand){x + shift, STN_DTYPE_F32, {1}};
        args.in[1] = (struct stni_pointwise_operand){x + 2 * shift, STN_DTYPE_F32, {1}};
        args.out = (struct stni_pointwise_operand){y + 1, STN_DTYPE_F32, {1}};
        set_number(&args.a, 2);
        y[0] = y[N + 1] = -1;
        CHECK_STATUS(stni_pointwise_cpu(&best, &args), STN_OK);
        int64_t wrong = 0;
        for (int64_t i = 0; i < N; i++)
            wrong += y[1 + i] != x[shift + i] + 2 * x[2 * shift + i];
        CHECK_I64(wrong, 0);
        CHECK(y[0] == -1 && y[N + 1] == -1); /* nothing beside it */
    }
    free(x);
    free(y);
}

/* As long, but not one run of one dtype: a number, a cast, broadcasts, an operand that lies across, rows with gaps. */
static void long_results_of_tiles_match_a_plain_loop(void)
{
    stn_queue best = {.isa = stni_isa_best()};
    enum { ROWS = 2053, COLUMNS = 2051, GAP = 21, N = ROWS * (COLUMNS + GAP), SMALL = 120 };
    static const struct {
        const char *name;
        stn_dtype out;
        int64_t out_row, row, col; /* strides of the result's rows, and of the second operand: both 0, a number */
    } cases[] = {{"number", STN_DTYPE_F32, COLUMNS, 0, 0},
                 {"to bf16", STN_DTYPE_BF16, COLUMNS, COLUMNS, 1},
                 {"row", STN_DTYPE_F32, COLUMNS, 0, 1},
                 {"column", STN_DTYPE_F32, COLUMNS, 1, 0},
                 {"across", STN_DTYPE_F32, COLUMNS, 1, ROWS},
                 {"gaps", STN_DTYPE_F32, COLUMNS + GAP, COLUMNS, 1},
                 {"across to bf16", STN_DTYPE_BF16, COLUMNS + GAP, 1, ROWS},
                 {"every second", STN_DTYPE_F32, COLUMNS, COLUMNS - 1, 2}};
    float *x = malloc(N * sizeof *x), *z = malloc(N * sizeof *z);
    for (int64_t i = 0; i < N; i++)
        x[i] = (float)(i % SMALL);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int number = cases[k].row == 0 && cases[k].col == 0;
        struct stni_pointwise_args args = {.op = STNI_POINTWISE_add, .compute = STN_DTYPE_F32, .ndim = 2, .n_in = 2,
                                           .shape = {ROWS, COLUMNS}, .out = {z, cases[k].out, {cases[k].out_row, 1}},
                                           .in = {{x + 1, STN_DTYPE_F32, {COLUMNS, 1}},
                                                  {number ? NULL : x, STN_DTYPE_F32, {cases[k].row, cases[k].col}}}};
        set_number(&args.a, 1);
        set_number(&args.number[1], 7);
        for (int64_t i = 0; i < N; i++)
            element_set(cases[k].out, z, i, -1);
        CHECK_STATUS(stni_pointwise_cpu(&best, &args), STN_OK);
        int64_t wrong = 0;
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t c = 0; c < cases[k].out_row; c++) {
                float y = number ? 7 : c < COLUMNS ? x[r * cases[k].row + c * cases[k].col] : 0;
                double want = c < COLUMNS ? (double)(x[1 + r * COLUMNS + c] + y) : -1;
                wrong += creal(element_get(cases[k].out, z, r * cases[k].out_row + c)) != want;
            }
        test_check_i64(wrong, 0, __FILE__, __LINE__, cases[k].name);
    }
    free(x);
    free(z);
}

/* x op 7 or 7 op x, of whole numbers up to 120. */
static double _Complex beside_seven(enum stni_pointwise_op op, int number_is_first, double _Complex x)
{
    const double _Complex left = number_is_first ? 7 : x, right = number_is_first ? x : 7;
    switch ((int)op) {
    case STNI_POINTWISE_lt: return creal(left) < creal(right);
    case STNI_POINTWISE_div_floor: return floor(creal(left) / creal(right));
    default: return left * right;
    }
}

/* Written past the caches from the middle of a line on, beside a number that only one piece of is kept. */
static void check_long_run(enum stni_pointwise_op op, stn_dtype dtype, int number_is_first)
{
    stn_queue queue = {.isa = next_isa()};
    const stn_dtype result = stni_pointwise_result(op, dtype);
    const int64_t n = (8 << 20) / (int64_t)stn_dtype_size(result) + 1237;
    const size_t size = stn_dtype_size(dtype), to = stn_dtype_size(result);
    char *x = malloc((size_t)n * size), *y = malloc((size_t)(n + 2) * to);
    for (int64_t i = 0; i < n; i++)
        element_set(dtype, x, i, (double)(1 + i % 120));
    struct stni_pointwise_args args = {.op = op,
                                       .compute = dtype,
                                       .ndim = 1,
                                       .n_in = 2,
                                       .shape = {n},
                                       .out = {y + to, result, {1}},
                                       .divides = op == STNI_POINTWISE_div_floor};
    args.in[number_is_first] = (struct stni_pointwise_operand){x, dtype, {1}};
    args.in[!number_is_first].dtype = dtype;
    set_number(&args.number[!number_is_first], 7);
    memset(y, 42, (size_t)(n + 2) * to);
    CHECK_STATUS(stni_pointwise_cpu(&queue, &args), STN_OK);
    int64_t wrong = 0, around = 0;
    for (int64_t i = 0; i < n; i++)
        wrong += element_get(result, y + to, i) != beside_seven(op, number_is_first, (double)(1 + i % 120));
    for (size_t i = 0; i < to; i++)
        around += y[i] != 42 || y[(size_t)(n + 1) * to + i] != 42;
    CHECK_I64(wrong, 0);
    CHECK_I64(around, 0);
    free(x);
    free(y);
}

static void long_runs_beside_a_number_match_a_plain_loop(void)
{
    static const struct {
        enum stni_pointwise_op op;
        stn_dtype dtype;
    } cases[] = {{STNI_POINTWISE_mul, STN_DTYPE_F32},
                 {STNI_POINTWISE_mul, STN_DTYPE_F64},
                 {STNI_POINTWISE_mul, STN_DTYPE_C128},
                 {STNI_POINTWISE_lt, STN_DTYPE_F64},
                 {STNI_POINTWISE_div_floor, STN_DTYPE_I64}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (int number_is_first = 0; number_is_first < 2; number_is_first++)
            check_long_run(cases[k].op, cases[k].dtype, number_is_first);
}

static void result_may_overwrite_an_operand(void)
{
    static const int64_t dense[STN_MAX_NDIM] = {1}, scalar[STN_MAX_NDIM] = {0};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_C64, STN_DTYPE_I32, STN_DTYPE_BOOL};
    uint64_t seed = 13;
    for (int k = 0; k < 5; k++) {
        struct problem p = {.args = {.op = STNI_POINTWISE_add,
                                     .compute = stni_compute_dtype(dtypes[k]),
                                     .ndim = 1,
                                     .n_in = 2,
                                     .shape = {9001},
                                     .out = {.dtype = dtypes[k]},
                                     .in = {{.dtype = dtypes[k]}, {.dtype = dtypes[k]}}}};
        set_number(&p.args.a, 1);
        make(&p, 1, &seed);
        make(&p, 2, &seed);
        p.memory[0] = p.memory[2];
        set_strides(&p, 0, dense);
        set_strides(&p, 1, k % 2 ? scalar : dense);
        set_strides(&p, 2, dense);
        run_and_compare(&p, "in place");
        p.memory[0] = NULL;
        drop(&p);
    }
}

static void integers_wrap_and_narrow_ones_are_cut(void)
{
    stn_queue best = {.isa = stni_isa_best()};
    int64_t big[2] = {INT64_MAX, INT64_MIN}, sum[2];
    uint8_t byte = 250, cut;
    struct stni_pointwise_args args = {.op = STNI_POINTWISE_add,
                                       .compute = STN_DTYPE_I64,
                                       .ndim = 1,
                                       .n_in = 2,
                                       .shape = {2},
                                       .out = {sum, STN_DTYPE_I64, {1}},
                                       .in = {{big, STN_DTYPE_I64, {1}}, {NULL, STN_DTYPE_I64, {0}}}};
    set_number(&args.a, 1);
    set_number(&args.number[1], 1);
    CHECK_STATUS(stni_pointwise_cpu(&best, &args), STN_OK);
    CHECK_I64(sum[0], INT64_MIN);
    CHECK_I64(sum[1], INT64_MIN + 1);
    args.ndim = 0;
    args.out = (struct stni_pointwise_operand){&cut, STN_DTYPE_U8, {0}};
    args.in[0] = (struct stni_pointwise_operand){&byte, STN_DTYPE_U8, {0}};
    set_number(&args.number[1], 10);
    CHECK_STATUS(stni_pointwise_cpu(&best, &args), STN_OK);
    CHECK_I64(cut, 4);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_pair_of_dtypes_computes_in_the_promoted_one", every_pair_of_dtypes_computes_in_the_promoted_one},
        {"drawn_strides_and_broadcasts_match_a_plain_loop", drawn_strides_and_broadcasts_match_a_plain_loop},
        {"drawn_comparisons_match_a_plain_loop", drawn_comparisons_match_a_plain_loop},
        {"long_truths_are_written_to_their_last_byte", long_truths_are_written_to_their_last_byte},
        {"matrices_that_lie_across_match_a_plain_loop", matrices_that_lie_across_match_a_plain_loop},
        {"long_runs_are_added_to_their_last_element", long_runs_are_added_to_their_last_element},
        {"long_results_of_tiles_match_a_plain_loop", long_results_of_tiles_match_a_plain_loop},
        {"long_runs_beside_a_number_match_a_plain_loop", long_runs_beside_a_number_match_a_plain_loop},
        {"result_may_overwrite_an_operand", result_may_overwrite_an_operand},
        {"integers_wrap_and_narrow_ones_are_cut", integers_wrap_and_narrow_ones_are_cut},
    };
    return TEST_MAIN(argc, argv, cases);
}
