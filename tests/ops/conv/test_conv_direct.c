/* Our own kernels for convolutions of few channels, problem by problem: against plain loops in double, on each
 * instruction set. */
#include "harness.h"

#include "ops/conv/conv_kernel.h"
#include "ops/conv/conv_naive.h"
#include "ops/conv/direct.h"
#include "ops/conv/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 4503599627370496.0 - 1;
}

/* dims n groups c o, then per dim in kernel dilation low high; stride 1. */
static struct stni_conv_problem problem(int32_t kind, stn_dtype dtype, const int64_t *g)
{
    struct stni_conv_problem p;
    memset(&p, 0, sizeof p);
    p.kind = kind, p.dims = (int32_t)g[0], p.dtype = p.weight_dtype = (int32_t)dtype;
    p.n = g[1], p.groups = g[2], p.c = g[3], p.o = g[4];
    for (int d = 0; d < p.dims; d++) {
        const int64_t *e = g + 5 + 5 * d;
        p.in[d] = e[0], p.kernel[d] = e[1], p.stride[d] = 1, p.dilation[d] = e[2];
        p.pad_low[d] = e[3], p.pad_high[d] = e[4];
        p.out[d] = e[0] + e[3] + e[4] - e[2] * (e[1] - 1);
    }
    return p;
}

static const int64_t geometries[][20] = {
    /* Stencils: odd sizes, blocks that end anywhere, rows of one element, of less than a vector, of more blocks. */
    {1, 1, 1, 1, 1, 1001, 3, 1, 1, 1},
    {1, 2, 1, 1, 1, 70001, 5, 3, 6, 6},
    {1, 1, 1, 1, 1, 40, 33, 1, 0, 0},
    {2, 1, 1, 1, 1, 301, 3, 1, 1, 1, 203, 3, 1, 1, 1},
    {2, 1, 1, 1, 1, 11, 3, 1, 1, 1, 3001, 3, 1, 1, 1},
    {2, 1, 1, 1, 1, 3001, 3, 1, 1, 1, 1, 3, 1, 1, 1},
    {2, 2, 1, 1, 1, 97, 3, 1, 1, 1, 5, 3, 1, 1, 1},
    {3, 1, 1, 1, 1, 41, 3, 1, 1, 1, 37, 3, 1, 1, 1, 29, 3, 1, 1, 1},
    {3, 2, 1, 2, 2, 5, 3, 1, 1, 1, 4, 2, 1, 0, 1, 7, 3, 2, 2, 1},
    /* Pads on one side, wider than the window, below zero; windows over pads alone; dilation, even kernels. */
    {2, 1, 1, 1, 1, 50, 3, 1, 0, 2, 41, 2, 1, 1, 0},
    {2, 1, 1, 1, 1, 30, 3, 1, 7, 5, 21, 3, 1, 6, 9},
    {2, 1, 1, 1, 1, 30, 4, 1, -2, -1, 45, 3, 1, -5, 1},
    {2, 1, 1, 1, 1, 150, 3, 16, 16, 16, 170, 3, 21, 21, 21},
    {2, 1, 1, 1, 1, 9, 3, 11, 11, 11, 9, 3, 11, 11, 11},
    {2, 1, 1, 1, 1, 20, 1, 1, 0, 0, 31, 1, 1, 0, 0},
    {2, 1, 1, 1, 1, 20, 1, 1, 3, 0, 31, 7, 2, 6, 5},
    /* Channels and groups: more than are taken at once, uneven, few inputs of many outputs. */
    {2, 1, 16, 16, 16, 40, 3, 1, 1, 1, 33, 3, 1, 1, 1},
    {2, 2, 37, 37, 37, 15, 3, 1, 1, 1, 17, 3, 2, 2, 2},
    {2, 1, 3, 6, 9, 31, 3, 1, 1, 1, 29, 3, 1, 1, 1},
    {2, 1, 5, 10, 5, 31, 3, 1, 1, 1, 26, 3, 1, 1, 1},
    {2, 3, 1, 1, 7, 23, 3, 1, 1, 1, 35, 3, 1, 1, 1},
    {2, 3, 1, 7, 1, 23, 3, 1, 1, 1, 35, 3, 1, 1, 1},
    {2, 1, 1, 4, 8, 33, 5, 1, 2, 2, 27, 3, 1, 1, 1},
    {3, 1, 4, 8, 4, 9, 3, 1, 1, 1, 12, 3, 1, 1, 1, 14, 2, 1, 1, 1},
};
enum { N_GEOMETRIES = sizeof geometries / sizeof *geometries, GUARD = 64, GUARD_BYTE = 0xa5 };

/* Values in double and in a dtype. */
struct operand {
    int64_t n;
    double *wide;
    char *narrow;
    int is_double;
};

static void put(struct operand *a, int64_t i, double value)
{
    a->wide[i] = (double)(float)value;
    if (a->is_double)
        ((double *)(void *)a->narrow)[i] = a->wide[i];
    else
        ((float *)(void *)a->narrow)[i] = (float)value;
}

static double get(const struct operand *a, int64_t i)
{
    const double *as_double = (const void *)a->narrow;
    const float *as_float = (const void *)a->narrow;
    return a->is_double ? as_double[i] : (double)as_float[i];
}

static struct operand operand(int64_t n, stn_dtype dtype)
{
    const size_t bytes = ((size_t)n + 1) * sizeof(double);
    struct operand a = {n, calloc(1, bytes), calloc(1, bytes), dtype == STN_DTYPE_F64};
    for (int64_t i = 0; i < n; i++)
        put(&a, i, draw());
    return a;
}

/* A problem with the three tensors of `images` images and a bias. */
struct trial {
    struct stni_conv_problem p;
    struct stni_conv_data data;
    struct operand x, y, weight, bias;
};

static struct trial trial(int32_t kind, stn_dtype dtype, const int64_t *geometry, int64_t images)
{
    struct trial t = {.p = problem(kind, dtype, geometry)};
    const int64_t nx = problem_size(&t.p, t.p.c, t.p.in), ny = problem_size(&t.p, t.p.o, t.p.out);
    t.x = operand(images * nx, dtype), t.y = operand(images * ny, dtype), t.weight = operand(weight_size(&t.p), dtype);
    t.bias = operand(t.p.o, dtype);
    t.p.has_bias = kind == STNI_CONV_FORWARD && images > 1;
    t.data = (struct stni_conv_data){.x = t.x.narrow, .y = t.y.narrow, .weight = t.weight.narrow, .images = images,
                                     .bias = t.p.has_bias ? t.bias.narrow : NULL, .x_step = nx, .y_step = ny,
                                     .accumulate = kind == STNI_CONV_GRAD_WEIGHT && images > 1};
    return t;
}

static void trial_free(struct trial *t)
{
    const struct operand *all[] = {&t->x, &t->y, &t->weight, &t->bias};
    for (int i = 0; i < 4; i++) {
        free(all[i]->wide);
        free(all[i]->narrow);
    }
}

static struct operand *result_of(struct trial *t)
{
    return t->p.kind == STNI_CONV_FORWARD ? &t->y : t->p.kind == STNI_CONV_GRAD_INPUT ? &t->x : &t->weight;
}

/* In double, by loops; what is added to stays. */
static void solve_plainly(struct trial *t)
{
    struct operand *out = result_of(t);
    for (int64_t i = 0; i < out->n && !t->data.accumulate; i++)
        out->wide[i] = t->p.has_bias ? t->bias.wide[i % t->p.o] : 0;
    for (int64_t i = 0; i < t->data.images; i++)
        naive_add(&t->p, t->x.wide + i * t->data.x_step, t->y.wide + i * t->data.y_step, t->weight.wide);
}

/* With a workspace of what was asked for, whose bytes are no numbers, and bytes behind it that must stay. */
static void solve(enum stni_isa isa, const struct stni_conv_problem *p, const struct stni_conv_data *data)
{
    const size_t bytes = stni_conv_reference_workspace(p);
    unsigned char *workspace = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(workspace, 0xff, bytes);
    memset(workspace + bytes, GUARD_BYTE, GUARD);
    stni_conv_reference(isa, p, data, workspace);
    int damaged = 0;
    for (int i = 0; i < GUARD; i++)
        damaged += workspace[bytes + (size_t)i] != GUARD_BYTE;
    CHECK_I64(damaged, 0);
    free(workspace);
}

static double largest_error(const struct operand *a)
{
    double worst = 0, scale = 1e-30;
    for (int64_t i = 0; i < a->n; i++) {
        const double error = fabs(get(a, i) - a->wide[i]);
        worst = error <= worst ? worst : error;
        scale = fmax(scale, fabs(a->wide[i]));
    }
    return worst / scale;
}

static void check_geometry(enum stni_isa isa, stn_dtype dtype, int g, int32_t kind)
{
    struct trial t = trial(kind, dtype, geometries[g], (g + (int)isa + (int)dtype) % 2 ? 3 : 1);
    CHECK_I64(stni_conv_direct_serves(&t.p), 1);
    solve_plainly(&t);
    solve(isa, &t.p, &t.data);
    const double error = largest_error(result_of(&t));
    if (!CHECK(error < (dtype == STN_DTYPE_F64 ? 1e-13 : 1e-6)))
        fprintf(stderr, "  geometry %d, kind %d, set %s: %g\n", g, (int)kind, stni_isa_name(isa), error);
    trial_free(&t);
}

static void every_kind_and_set_gives_what_plain_loops_give(void)
{
    state = 5;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int g = 0; g < N_GEOMETRIES; g++)
            for (int32_t kind = 0; kind < 3 && stni_isa_is_built((enum stni_isa)isa); kind++) {
                check_geometry((enum stni_isa)isa, STN_DTYPE_F64, g, kind);
                check_geometry((enum stni_isa)isa, STN_DTYPE_F32, g, kind);
            }
}

/* Rows begin … end - 1 of the target as a problem of their own, as a rank has it whose chunk they are: the same
 * bits. */
static void check_rows(enum stni_isa isa, struct trial *t, int64_t begin, int64_t end)
{
    const int turned = t->p.kind == STNI_CONV_GRAD_INPUT;
    struct operand *out = result_of(t);
    const int64_t *shape = turned ? t->p.in : t->p.out, row = out->n / shape[0], size = out->is_double ? 8 : 4;
    struct trial part = *t;
    char *rows = calloc((size_t)((end - begin) * row), (size_t)size);
    if (turned)
        part.p.in[0] = end - begin, part.p.pad_low[0] += begin, part.data.x = rows;
    else
        part.p.out[0] = end - begin, part.p.pad_low[0] -= begin, part.data.y = rows;
    CHECK_I64(stni_conv_direct_serves(&part.p), 1);
    solve(isa, &part.p, &part.data);
    CHECK_I64(memcmp(rows, out->narrow + begin * row * size, (size_t)((end - begin) * row * size)), 0);
    free(rows);
}

static void cut_rows_have_the_bits_of_whole_images(void)
{
    static const int64_t cut[][20] = {{2, 1, 1, 1, 1, 301, 3, 1, 1, 1, 203, 3, 1, 1, 1},
                                      {2, 1, 1, 3, 4, 90, 3, 2, 2, 2, 37, 5, 1, 2, 2},
                                      {2, 1, 9, 9, 9, 90, 3, 1, 1, 1, 43, 2, 1, 1, 0},
                                      {3, 1, 1, 1, 1, 41, 3, 1, 1, 1, 17, 3, 1, 1, 1, 19, 3, 1, 1, 1}};
    state = 7;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (size_t g = 0; g < sizeof cut / sizeof *cut && stni_isa_is_built((enum stni_isa)isa); g++)
            for (int form = 0; form < 4; form++) {
                const stn_dtype dtype = form & 2 ? STN_DTYPE_F64 : STN_DTYPE_F32;
                struct trial t = trial(form & 1 ? STNI_CONV_GRAD_INPUT : STNI_CONV_FORWARD, dtype, cut[g], 1);
                solve((enum stni_isa)isa, &t.p, &t.data);
                check_rows((enum stni_isa)isa, &t, 0, 1);
                check_rows((enum stni_isa)isa, &t, 13, 32);
                check_rows((enum stni_isa)isa, &t, 40, 41);
                trial_free(&t);
            }
}

/* A NaN or an infinity goes where windows read it, and nowhere else. */
static void check_spread(enum stni_isa isa, int32_t kind, stn_dtype dtype, int64_t height, int64_t width)
{
    const int64_t geometry[] = {2, 1, 1, 1, 1, height, 3, 1, 0, 2, width, 3, 1, 0, 2};
    const int64_t at[] = {0, width - 1, height * width - 1, height / 2 * width};
    for (int i = 0; i < 4; i++) {
        struct trial t = trial(kind, dtype, geometry, 1);
        put(kind == STNI_CONV_GRAD_INPUT ? &t.y : &t.x, at[i], i & 1 ? (double)INFINITY : (double)NAN);
        solve_plainly(&t);
        solve(isa, &t.p, &t.data);
        const struct operand *out = result_of(&t);
        int64_t differ = 0;
        for (int64_t k = 0; k < out->n; k++)
            differ += isnan(get(out, k)) != isnan(out->wide[k]) || isinf(get(out, k)) != isinf(out->wide[k]);
        if (!CHECK_I64(differ, 0))
            fprintf(stderr, "  kind %d, %d of %lld x %lld, set %s\n", (int)kind, i, (long long)height, (long long)width,
                    stni_isa_name(isa));
        trial_free(&t);
    }
}

static void what_is_no_number_stays_where_it_is_read(void)
{
    state = 9;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int form = 0; form < 6 && stni_isa_is_built((enum stni_isa)isa); form++) {
            const stn_dtype dtype = form & 1 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            check_spread((enum stni_isa)isa, form / 2, dtype, 30, 41);
            check_spread((enum stni_isa)isa, form / 2, dtype, 9, 5);
            check_spread((enum stni_isa)isa, form / 2, dtype, 200, 133);
        }
}

static void other_problems_are_left_to_columns(void)
{
    static const int64_t fits[] = {2, 1, 1, 2, 2, 40, 3, 1, 1, 1, 40, 3, 1, 1, 1};
    for (int32_t kind = 0; kind < 3; kind++) {
        struct stni_conv_problem p = problem(kind, STN_DTYPE_F64, fits), q = p;
        CHECK_I64(stni_conv_direct_serves(&p), 1);
        q.stride[1] = 2, q.out[1] = 20, q.pad_high[1] = 0;
        CHECK_I64(stni_conv_direct_serves(&q), 0);
        q = p, q.c = q.o = 32;
        CHECK_I64(stni_conv_direct_serves(&q), 0);
        q.groups = 16;
        CHECK_I64(stni_conv_direct_serves(&q), 1);
        q = p, q.n = 0;
        CHECK_I64(stni_conv_direct_serves(&q), 0);
        q = p, q.in[0] = 0;
        CHECK_I64(stni_conv_direct_serves(&q), 0);
    }
}

/* What oneDNN has good code for is not taken from it. */
static void few_channels_go_before_onednn(void)
{
    static const struct {
        int64_t groups, c, o, kernel;
        int best[3]; /* by kind */
    } cases[] = {
        {1, 1, 1, 3, {1, 1, 1}}, {1, 4, 4, 3, {1, 1, 0}},  {1, 3, 3, 3, {1, 1, 1}}, {1, 1, 16, 3, {0, 1, 0}},
        {1, 16, 1, 3, {1, 0, 1}}, {4, 4, 4, 3, {0, 0, 0}}, {2, 4, 4, 3, {1, 1, 1}}, {1, 2, 2, 1, {0, 0, 0}},
    };
    for (int i = 0; i < 8; i++)
        for (int32_t kind = 0; kind < 3; kind++) {
            const int64_t k = cases[i].kernel, pad = k / 2;
            const int64_t g[] = {2, 1, cases[i].groups, cases[i].c, cases[i].o,
                                 200, k, 1, pad, pad, 200, k, 1, pad, pad};
            const struct stni_conv_problem p = problem(kind, STN_DTYPE_F32, g);
            if (!CHECK_I64(stni_conv_direct_is_best(&p), cases[i].best[kind]))
                fprintf(stderr, "  case %d, kind %d\n", i, (int)kind);
        }
}

/* One launch of the CPU's kernel; the sum of y. */
static double sum_of(stn_queue *queue, const int64_t *geometry, float *x, float *weight, int same_weight)
{
    static float y[1600];
    struct stni_conv_args a;
    double sum = 0;
    memset(&a, 0, sizeof a);
    a.problem = problem(STNI_CONV_FORWARD, STN_DTYPE_F32, geometry);
    a.data = (struct stni_conv_data){.x = x, .y = y, .weight = weight, .images = 1, .same_weight = same_weight};
    a.workspace = aligned_alloc(64, stni_conv_cpu_workspace(queue, &a) / 64 * 64 + 64);
    CHECK_STATUS(stni_conv_cpu(queue, &a), STN_OK);
    free(a.workspace);
    for (int64_t i = 0; i < problem_size(&a.problem, a.problem.o, a.problem.out); i++)
        sum += y[i];
    return sum;
}

/* A weight at the address of one before, whose first problem is ours and whose second is oneDNN's. */
static void onednn_takes_no_weight_for_that_of_another_op(void)
{
    static const int64_t small[] = {2, 1, 1, 1, 1, 3, 2, 1, 0, 0, 3, 2, 1, 0, 0};
    static const int64_t large[] = {2, 1, 1, 1, 1, 40, 2, 1, 0, 0, 40, 2, 1, 0, 0};
    const stn_context_options options = {.size = sizeof options};
    stn_context *context = NULL;
    static float x[1600];
    float weight[4] = {1, 1, 1, 1};
    for (int i = 0; i < 1600; i++)
        x[i] = 1;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    stn_queue *queue = stn_context_queue(context);
    CHECK_NEAR(sum_of(queue, small, x, weight, 0), 16, 0);
    for (int i = 0; i < 4; i++)
        weight[i] = 2;
    CHECK_NEAR(sum_of(queue, large, x, weight, 0), 8 * 39 * 39, 0);
    CHECK_NEAR(sum_of(queue, small, x, weight, 1), 32, 0);
    stn_context_destroy(&context);
}

/* However large images and windows are. */
static void the_workspace_is_bounded(void)
{
    static const int64_t sizes[] = {100, 1000, 10000}, dilations[] = {1, 30, 100, (int64_t)1 << 40};
    for (int i = 0; i < 12; i++) {
        const int64_t n = sizes[i % 3], far = dilations[i / 3];
        const int64_t wide[] = {3, 1, 1, 1, 1, n, 3, far, far, far, n, 3, far, far, far, n, 3, far, far, far};
        for (int32_t kind = 0; kind < 3; kind++) {
            const struct stni_conv_problem p = problem(kind, STN_DTYPE_F64, wide);
            CHECK(!stni_conv_direct_serves(&p) || stni_conv_direct_workspace(&p) < (size_t)5 << 20);
            CHECK(far > 1 || stni_conv_direct_serves(&p));
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_kind_and_set_gives_what_plain_loops_give", every_kind_and_set_gives_what_plain_loops_give},
        {"cut_rows_have_the_bits_of_whole_images", cut_rows_have_the_bits_of_whole_images},
        {"what_is_no_number_stays_where_it_is_read", what_is_no_number_stays_where_it_is_read},
        {"other_problems_are_left_to_columns", other_problems_are_left_to_columns},
        {"few_channels_go_before_onednn", few_channels_go_before_onednn},
        {"onednn_takes_no_weight_for_that_of_another_op", onednn_takes_no_weight_for_that_of_another_op},
        {"the_workspace_is_bounded", the_workspace_is_bounded},
    };
    return TEST_MAIN(argc, argv, cases);
}
