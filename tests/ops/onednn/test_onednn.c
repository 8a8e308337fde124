/* Dense convolutions and products, by oneDNN and by our own kernels, against plain loops in double. */
#include "harness.h"

#include "ops/conv/reference.h"
#include "ops/conv/conv_naive.h"
#include "ops/onednn/onednn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 4503599627370496.0 - 1;
}

/* Geometry by the list: n groups c o, then per dim in kernel stride dilation low high. */
static struct stni_conv_problem problem(int32_t kind, stn_dtype dtype, int dims, const int64_t *g)
{
    struct stni_conv_problem p;
    memset(&p, 0, sizeof p);
    p.kind = kind, p.dims = dims, p.dtype = p.weight_dtype = (int32_t)dtype;
    p.n = g[0], p.groups = g[1], p.c = g[2], p.o = g[3];
    for (int d = 0; d < dims; d++) {
        const int64_t *e = g + 4 + 6 * d;
        p.in[d] = e[0], p.kernel[d] = e[1], p.stride[d] = e[2], p.dilation[d] = e[3], p.pad_low[d] = e[4];
        p.out[d] = (e[0] + e[4] + e[5] - e[3] * (e[1] - 1) - 1) / e[2] + 1;
        p.pad_high[d] = (p.out[d] - 1) * e[2] + e[3] * (e[1] - 1) + 1 - e[0] - e[4];
    }
    return p;
}

/* Values in double and in the dtype of the problem. */
struct operand {
    int64_t n;
    double *wide;
    void *narrow;
};

static struct operand operand(int64_t n, int32_t dtype, int random)
{
    struct operand a = {n, calloc((size_t)n + 1, sizeof(double)), calloc((size_t)n + 1, sizeof(double))};
    for (int64_t i = 0; random && i < n; i++) {
        a.wide[i] = (double)(float)draw();
        if (dtype == STN_DTYPE_F64)
            ((double *)a.narrow)[i] = a.wide[i];
        else
            ((float *)a.narrow)[i] = (float)a.wide[i];
    }
    return a;
}

static void operand_free(struct operand *a)
{
    free(a->wide);
    free(a->narrow);
}

/* Largest difference relative to the largest value. */
static double distance(const struct operand *a, int32_t dtype)
{
    double worst = 0, scale = 1e-30;
    for (int64_t i = 0; i < a->n; i++) {
        double got = dtype == STN_DTYPE_F64 ? ((double *)a->narrow)[i] : (double)((float *)a->narrow)[i];
        worst = fabs(got - a->wide[i]) <= worst ? worst : fabs(got - a->wide[i]);
        scale = fmax(scale, fabs(a->wide[i]));
    }
    return worst / scale;
}

/* One problem of `images` images of n by `library` (NULL: our own kernels); the result is added to where
 * `accumulate`. */
static stn_status solve(const struct stni_conv_problem *p, int64_t images, int accumulate, struct stni_onednn *library,
                        double *error)
{
    int64_t nx = problem_size(p, p->c, p->in), ny = problem_size(p, p->o, p->out);
    int forward = p->kind == STNI_CONV_FORWARD, gradient = p->kind == STNI_CONV_GRAD_WEIGHT;
    struct operand x = operand(nx * images, p->dtype, p->kind != STNI_CONV_GRAD_INPUT),
                   y = operand(ny * images, p->dtype, !forward);
    struct operand w = operand(weight_size(p), p->dtype, !gradient || accumulate),
                   bias = operand(p->o, p->dtype, p->has_bias);
    for (int64_t i = 0; i < images; i++) {
        for (int64_t j = 0; forward && j < ny; j++)
            y.wide[i * ny + j] = bias.wide[j % p->o];
        naive_add(p, x.wide + i * nx, y.wide + i * ny, w.wide);
    }
    struct stni_conv_data data = {x.narrow, y.narrow,   w.narrow, p->has_bias ? bias.narrow : NULL, images, nx,
                                  ny,       accumulate, 0};
    stn_status status = STN_OK;
    if (library != NULL) {
        int64_t solved;
        status = stni_onednn_conv(library, p, &data, &solved);
        CHECK_I64(solved, status == STN_OK ? images : 0);
    } else {
        void *workspace = aligned_alloc(64, stni_conv_reference_workspace(p) + 64);
        stni_conv_reference(stni_isa_best(), p, &data, workspace);
        free(workspace);
    }
    *error = distance(forward ? &y : gradient ? &w : &x, p->dtype);
    operand_free(&x), operand_free(&y), operand_free(&w), operand_free(&bias);
    return status;
}

static const int64_t geometries[][16] = {
    {1, 1, 1, 1, 5, 3, 1, 1, 1, 1, 7, 3, 1, 1, 1, 1},
    {2, 1, 3, 5, 9, 3, 1, 1, 1, 0, 8, 2, 1, 1, 0, 1},
    {2, 1, 16, 8, 12, 5, 1, 1, 2, 2, 11, 3, 1, 1, 0, 2},
    {3, 2, 4, 6, 11, 3, 2, 1, 1, -1, 10, 2, 3, 1, 0, 0},
    {1, 3, 6, 3, 10, 4, 3, 1, 0, 2, 13, 6, 2, 1, 2, 2},
    {2, 4, 4, 4, 8, 3, 1, 2, 2, 2, 9, 3, 1, 2, 2, 2},
    {1, 8, 8, 16, 6, 1, 1, 1, 0, 0, 7, 3, 2, 1, 1, 1},
    {1, 1, 7, 9, 1, 3, 1, 1, 1, 1, 6, 3, 1, 1, 1, 1},
    {1, 1, 4, 4, 7, 1, 2, 1, 1, 1, 7, 1, 2, 1, 1, 1},
    {2, 1, 11, 3, 20, 7, 1, 1, 3, 3, 20, 7, 4, 1, 3, 3},
};
enum { N_GEOMETRIES = sizeof geometries / sizeof *geometries };

static stn_context *context_with(int threads)
{
    stn_context_options options = {.size = sizeof options, .threads = threads};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static void own_kernels_solve_every_kind(void)
{
    state = 5;
    for (int g = 0; g < N_GEOMETRIES; g++)
        for (int32_t kind = 0; kind < 3; kind++)
            for (int form = 0; form < 8; form++) {
                stn_dtype dtype = form & 1 ? STN_DTYPE_F64 : STN_DTYPE_F32;
                struct stni_conv_problem p = problem(kind, dtype, 2, geometries[g]);
                p.has_bias = kind == STNI_CONV_FORWARD && form & 2;
                double error;
                CHECK_STATUS(solve(&p, form & 2 ? 3 : 1, form & 4 && kind == STNI_CONV_GRAD_WEIGHT, NULL, &error),
                             STN_OK);
                CHECK(error < (dtype == STN_DTYPE_F64 ? 1e-14 : 2e-6));
            }
}

static void own_kernels_take_what_is_empty(void)
{
    static const int64_t g[][16] = {{0, 1, 2, 3, 5, 3, 1, 1, 1, 1, 7, 3, 1, 1, 1, 1},
                                    {2, 1, 0, 3, 5, 3, 1, 1, 1, 1, 7, 3, 1, 1, 1, 1},
                                    {2, 1, 3, 0, 5, 3, 1, 1, 1, 1, 7, 3, 1, 1, 1, 1}};
    for (int i = 0; i < 3; i++)
        for (int32_t kind = 0; kind < 3; kind++) {
            struct stni_conv_problem p = problem(kind, STN_DTYPE_F64, 2, g[i]);
            double error;
            CHECK_STATUS(solve(&p, 2, 0, NULL, &error), STN_OK);
            CHECK(error < 1e-14);
        }
}

static void own_kernels_know_one_and_three_dims(void)
{
    static const int64_t line[] = {2, 2, 4, 6, 17, 4, 2, 1, 1, 2};
    static const int64_t block[] = {2, 1, 3, 4, 5, 3, 1, 1, 1, 1, 6, 2, 2, 1, 0, 0, 7, 3, 1, 2, 2, 1};
    for (int32_t kind = 0; kind < 3; kind++) {
        struct stni_conv_problem p = problem(kind, STN_DTYPE_F64, 1, line), q = problem(kind, STN_DTYPE_F64, 3, block);
        double error;
        CHECK_STATUS(solve(&p, 1, 0, NULL, &error), STN_OK);
        CHECK(error < 1e-14);
        CHECK_STATUS(solve(&q, 1, 0, NULL, &error), STN_OK);
        CHECK(error < 1e-14);
    }
}

static void blocks_end_in_the_middle_of_a_row(void)
{
    static const int64_t g[] = {2, 2, 64, 96, 31, 5, 1, 1, 2, 2, 33, 5, 1, 1, 2, 2};
    for (int32_t kind = 0; kind < 3; kind++) {
        struct stni_conv_problem p = problem(kind, STN_DTYPE_F32, 2, g);
        double error;
        CHECK_STATUS(solve(&p, 1, 0, NULL, &error), STN_OK);
        CHECK(error < 2e-6);
    }
}

/* Geometries that oneDNN may refuse: then our own kernels serve. */
static void onednn_solves_every_kind(void)
{
    stn_context *context = context_with(1);
    struct stni_onednn *library = stni_onednn_of(context);
    if (library == NULL) {
        stn_context_destroy(&context);
        SKIP("built without oneDNN");
    }
    state = 6;
    int solved = 0;
    for (int g = 0; g < N_GEOMETRIES; g++)
        for (int32_t kind = 0; kind < 3; kind++)
            for (int form = 0; form < 4; form++) {
                struct stni_conv_problem p = problem(kind, STN_DTYPE_F32, 2, geometries[g]);
                p.has_bias = kind == STNI_CONV_FORWARD && form & 1;
                double error;
                stn_status status =
                    solve(&p, form & 1 ? 3 : 1, form & 2 && kind == STNI_CONV_GRAD_WEIGHT, library, &error);
                CHECK(status == STN_OK || status == STN_ERR_UNSUPPORTED);
                CHECK((status == STN_OK) == (stni_onednn_conv_name(library, &p)[0] != '\0'));
                CHECK(status != STN_OK || error < 2e-6);
                solved += status == STN_OK;
            }
    CHECK(solved >= 100);
    stn_context_destroy(&context);
}

static void no_main_path_is_reference_code(void)
{
    static const struct {
        int dims;
        int64_t g[22];
    } cases[] = {
        {2, {1, 1, 64, 64, 129, 3, 1, 1, 1, 0, 256, 3, 1, 1, 1, 1}},
        {2, {4, 1, 64, 64, 128, 3, 1, 1, 1, 1, 256, 3, 1, 1, 1, 1}},
        {2, {1, 1, 64, 64, 3, 3, 1, 1, 0, 0, 256, 3, 1, 1, 1, 1}},
        {2, {8, 1, 4, 16, 37, 3, 1, 1, 1, 1, 144, 3, 1, 1, 1, 1}},
        {2, {8, 1, 16, 2, 37, 3, 1, 1, 1, 1, 144, 3, 1, 1, 1, 1}},
        {2, {8, 1, 11, 16, 37, 3, 2, 1, 1, 1, 144, 3, 2, 1, 1, 1}},
        {2, {8, 1, 16, 32, 19, 3, 2, 1, 1, 1, 72, 3, 2, 1, 1, 1}},
        {2, {2, 32, 32, 32, 20, 3, 1, 1, 1, 1, 20, 3, 1, 1, 1, 1}},
        /* A transposed one's: even kernels, the last row of x alone read. */
        {2, {4, 1, 32, 64, 65, 4, 2, 1, 1, 0, 128, 4, 2, 1, 1, 1}},
        {1, {4, 1, 16, 32, 1001, 5, 1, 2, 4, 4}},
        {3, {1, 1, 16, 32, 33, 3, 1, 1, 1, 0, 64, 3, 1, 1, 1, 1, 64, 3, 1, 1, 1, 1}},
        {3, {4, 1, 16, 32, 3, 3, 1, 1, 0, 0, 64, 3, 1, 1, 1, 1, 64, 3, 1, 1, 1, 1}},
    };
    stn_context *context = context_with(1);
    struct stni_onednn *library = stni_onednn_of(context);
    if (library == NULL) {
        stn_context_destroy(&context);
        SKIP("built without oneDNN");
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int32_t kind = 0; kind < 3; kind++) {
            struct stni_conv_problem p = problem(kind, STN_DTYPE_F32, cases[i].dims, cases[i].g);
            const char *name = stni_onednn_conv_name(library, &p);
            CHECK(name[0] != '\0' && strncmp(name, "ref", 3) != 0);
        }
    stn_context_destroy(&context);
}

/* `form`: A turned, B turned, B shared by the batch. */
static void check_product(struct stni_onednn *library, int64_t batch, int64_t m, int64_t n, int64_t k, int form)
{
    struct operand a = operand(batch * m * k, STN_DTYPE_F32, 1), b = operand(batch * k * n, STN_DTYPE_F32, 1);
    struct operand c = operand(batch * m * n, STN_DTYPE_F32, 0);
    struct stni_onednn_product q;
    memset(&q, 0, sizeof q);
    q.dtype = STN_DTYPE_F32, q.batch = batch, q.m = m, q.n = n, q.k = k;
    q.a_batch = m * k, q.a_row = form & 1 ? 1 : k, q.a_col = form & 1 ? m : 1;
    q.b_batch = form & 4 ? 0 : k * n, q.b_row = form & 2 ? 1 : n, q.b_col = form & 2 ? k : 1;
    q.c_batch = m * n, q.c_row = n;
    for (int64_t i = 0; i < batch * m * n; i++)
        for (int64_t t = 0; t < k; t++)
            c.wide[i] += a.wide[i / (m * n) * q.a_batch + i / n % m * q.a_row + t * q.a_col] *
                         b.wide[i / (m * n) * q.b_batch + t * q.b_row + i % n * q.b_col];
    CHECK_STATUS(stni_onednn_product(library, &q, a.narrow, b.narrow, c.narrow), STN_OK);
    CHECK(distance(&c, STN_DTYPE_F32) < 2e-6);
    operand_free(&a), operand_free(&b), operand_free(&c);
}

static void products_match_plain_loops(void)
{
    for (int threads = 1; threads <= 2; threads++) {
        stn_context *context = context_with(threads);
        struct stni_onednn *library = stni_onednn_of(context);
        if (library == NULL) {
            stn_context_destroy(&context);
            SKIP("built without oneDNN");
        }
        state = 7;
        for (int form = 0; form < 8; form++) {
            check_product(library, 1, 33, 17, 65, form);
            check_product(library, 5, 12, 31, 8, form);
            check_product(library, 3, 1, 20, 9, form);
            check_product(library, 3, 20, 1, 9, form);
            check_product(library, 1, 1, 64, 64, form);
            check_product(library, 1, 64, 1, 64, form);
        }
        stn_context_destroy(&context);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"own_kernels_solve_every_kind", own_kernels_solve_every_kind},
        {"own_kernels_take_what_is_empty", own_kernels_take_what_is_empty},
        {"own_kernels_know_one_and_three_dims", own_kernels_know_one_and_three_dims},
        {"blocks_end_in_the_middle_of_a_row", blocks_end_in_the_middle_of_a_row},
        {"onednn_solves_every_kind", onednn_solves_every_kind},
        {"no_main_path_is_reference_code", no_main_path_is_reference_code},
        {"products_match_plain_loops", products_match_plain_loops},
    };
    return TEST_MAIN(argc, argv, cases);
}
