/* Quadratures, and the CPU's sums of Legendre functions on raw memory up to degree 2000, for every instruction set that
 * this processor has. */
#include "core/device/device.h"
#include "every_isa.h"
#include "harness.h"
#include "ops/sht/legendre_functions.h"
#include "ops/sht/legendre_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static stn_queue queue;

enum { N_GRIDS = 3 };
static const stn_sht_grid grids[N_GRIDS] = {STN_SHT_EQUIANGULAR, STN_SHT_LEGENDRE_GAUSS, STN_SHT_LOBATTO};

/* The Legendre polynomial of degree n. */
static double polynomial(int n, double x)
{
    double p = 1, q = 0;
    for (int k = 1; k <= n; k++) {
        const double next = ((2 * k - 1) * x * p - (k - 1) * q) / k;
        q = p;
        p = next;
    }
    return p;
}

static void quadratures_are_exact_up_to_their_degree(void)
{
    const int sizes[] = {2, 3, 4, 5, 16, 33, 200};
    double theta[200], weight[200];
    for (int g = 0; g < N_GRIDS; g++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int n = sizes[i];
            const int degree = grids[g] == STN_SHT_LEGENDRE_GAUSS ? 2 * n - 1
                               : grids[g] == STN_SHT_LOBATTO      ? 2 * n - 3
                                                                  : n - 1;
            CHECK_STATUS(stn_sht_latitudes(grids[g], n, theta, weight), STN_OK);
            for (int d = 0; d <= degree; d++) {
                double sum = 0;
                for (int k = 0; k < n; k++)
                    sum += weight[k] * polynomial(d, cos(theta[k]));
                CHECK(fabs(sum - (d == 0 ? 2 : 0)) < 1e-14);
            }
            for (int k = 1; k < n; k++)
                CHECK(theta[k] > theta[k - 1]);
            if (grids[g] != STN_SHT_LEGENDRE_GAUSS)
                CHECK(theta[0] == 0 && fabs(theta[n - 1] - M_PI) < 1e-15);
        }
}

/* Abramowitz and Stegun, table 25.4 and 25.6: five points. */
static void nodes_and_weights_are_those_of_tables(void)
{
    double theta[5], weight[5];
    stn_sht_latitudes(STN_SHT_LEGENDRE_GAUSS, 5, theta, weight);
    CHECK_NEAR(cos(theta[0]), 0.906179845938664, 1e-15);
    CHECK_NEAR(cos(theta[1]), 0.538469310105683, 1e-15);
    CHECK(fabs(theta[2] - M_PI / 2) < 1e-15);
    CHECK_NEAR(weight[4], 0.236926885056189, 1e-14);
    CHECK_NEAR(weight[3], 0.478628670499366, 1e-14);
    CHECK_NEAR(weight[2], 128.0 / 225, 1e-15);
    stn_sht_latitudes(STN_SHT_LOBATTO, 5, theta, weight);
    CHECK_NEAR(cos(theta[1]), sqrt(3.0 / 7), 1e-15);
    CHECK_NEAR(weight[0], 0.1, 1e-15);
    CHECK_NEAR(weight[1], 49.0 / 90, 1e-15);
    CHECK_NEAR(weight[2], 32.0 / 45, 1e-15);
    stn_sht_latitudes(STN_SHT_EQUIANGULAR, 5, NULL, weight);
    CHECK_NEAR(weight[0], 1.0 / 15, 1e-15);
    CHECK_NEAR(weight[1], 8.0 / 15, 1e-15);
    CHECK_NEAR(weight[2], 4.0 / 5, 1e-15);
    CHECK_STATUS(stn_sht_latitudes(STN_SHT_LOBATTO, 1, theta, weight), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_sht_latitudes((stn_sht_grid)3, 5, theta, weight), STN_ERR_ARGUMENT);
}

/* By Newton's method in 80-bit numbers: near the poles a cosine in f64 says little of the angle. */
static void nodes_near_the_poles_have_their_digits(void)
{
    static const struct {
        int k;
        double theta, weight;
    } known[] = {{0, 2.40362364577193404e-3, 7.413338416432104804e-6},
                 {1, 5.517319220902010009e-3, 1.725676977373919769e-5},
                 {250, 7.873608019346159705e-1, 2.224684178668292939e-3}};
    double theta[1000], weight[1000];
    stn_sht_latitudes(STN_SHT_LEGENDRE_GAUSS, 1000, theta, weight);
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(theta[known[i].k], known[i].theta, 1e-15 / known[i].theta);
        CHECK_NEAR(theta[999 - known[i].k], M_PI - known[i].theta, 1e-15);
        CHECK_NEAR(weight[known[i].k], known[i].weight, 2e-12);
    }
}

static void run(stn_kernel_fn kernel, struct stni_legendre_args *a)
{
    const size_t bytes = stni_legendre_workspace(&queue, a);
    a->workspace = aligned_alloc(64, bytes);
    memset(a->workspace, 0xff, bytes); /* no numbers */
    CHECK_STATUS(kernel(&queue, a), STN_OK);
    free(a->workspace);
}

/* Fields of a whole tensor for which functions are not, and are written to a table. */
static const int64_t forms[] = {1, STNI_LEGENDRE_FEW + 1};
enum { FORMS = sizeof forms / sizeof *forms };
static int64_t form = 1;

/* A column of one order. */
static struct stni_legendre_args args_of(int64_t nlat, int64_t lmax, int64_t m, int synthesis)
{
    struct stni_legendre_args a = {.of = {.grid = STN_SHT_LEGENDRE_GAUSS, .weighted = !synthesis, .inverse = synthesis},
                                   .nlat = nlat,
                                   .lmax = lmax,
                                   .m_first = m,
                                   .m_count = 1,
                                   .in_row = 1,
                                   .in_order = 1,
                                   .out_row = 1,
                                   .out_order = 1,
                                   .n_batch = 1,
                                   .batch = {1},
                                   .fields = form,
                                   .dtype = STN_DTYPE_C128};
    return a;
}

static stn_kernel_fn analysis_of(enum stni_isa isa)
{
    const stn_kernel_fn of[] = {STNI_ISA_BASE_OF(stni_legendre_analysis), STNI_ISA_AVX2_OF(stni_legendre_analysis),
                                STNI_ISA_AVX512_OF(stni_legendre_analysis)};
    return of[isa];
}

static stn_kernel_fn synthesis_of(enum stni_isa isa)
{
    const stn_kernel_fn of[] = {STNI_ISA_BASE_OF(stni_legendre_synthesis), STNI_ISA_AVX2_OF(stni_legendre_synthesis),
                                STNI_ISA_AVX512_OF(stni_legendre_synthesis)};
    return of[isa];
}

/* Any coefficients come back, so that all functions of an order are orthonormal: at degrees whose functions begin far
 * below the least double. */
static void check_orthonormal_2000(void)
{
    enum { N = 2000 };
    static const int64_t orders[] = {0, 1, 2, 57, 640, 1203, 1777, 1990, 1999};
    double *c = malloc(2 * N * sizeof *c), *f = malloc(2 * N * sizeof *f), *back = malloc(2 * N * sizeof *back);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const enum stni_isa isa = next_isa();
        const int64_t m = orders[i];
        struct stni_legendre_args to = args_of(N, N, m, 1), from = args_of(N, N, m, 0);
        double largest = 0;
        for (int64_t l = 0; l < 2 * N; l++)
            c[l] = cos(0.7 * (double)(l + m)) + 0.3;
        to.in = c, to.out = f;
        run(synthesis_of(isa), &to);
        from.in = f, from.out = back;
        run(analysis_of(isa), &from);
        for (int64_t l = 0; l < 2 * N; l++)
            largest = test_worst(largest, fabs(2 * M_PI * back[l] - (l < 2 * m ? 0 : c[l])));
        CHECK(largest < (m < 10 ? 5e-11 : 2e-12)); /* functions of low orders are large near the poles */
    }
    free(c);
    free(f);
    free(back);
}

static void functions_of_2000_degrees_are_orthonormal(void)
{
    for (int i = 0; i < FORMS; i++) {
        form = forms[i];
        check_orthonormal_2000();
    }
}

/* One function in f32 beside f64: what is small near the poles is rounded, and not lost before it is nothing. */
static void check_single_functions(void)
{
    enum { N = 600 };
    static const int64_t orders[] = {3, 40, 300, 580}, above = 15;
    static double c[2 * N], f[2 * N];
    static float c32[2 * N], f32[2 * N];
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const enum stni_isa isa = next_isa();
        const int64_t l = orders[i] + above;
        struct stni_legendre_args wide = args_of(N, N, orders[i], 1), narrow = wide;
        double largest = 0, difference = 0;
        c[2 * l] = c32[2 * l] = 1;
        wide.in = c, wide.out = f;
        narrow.in = c32, narrow.out = f32, narrow.dtype = STN_DTYPE_C64;
        run(synthesis_of(isa), &wide);
        run(synthesis_of(isa), &narrow);
        for (int64_t k = 0; k < 2 * N; k++) {
            largest = fmax(largest, fabs(f[k]));
            difference = test_worst(difference, fabs(f[k] - (double)f32[k]));
        }
        CHECK(largest > 0.1 && difference <= 1e-6 * largest);
        c[2 * l] = c32[2 * l] = 0;
    }
}

static void single_functions_in_f32_are_those_in_f64(void)
{
    for (int i = 0; i < FORMS; i++) {
        form = forms[i];
        check_single_functions();
    }
}

/* The squares of all functions of a degree add up to (2 l + 1) / (4 pi) at any latitude; those of their derivatives in
 * both directions, divided by l (l + 1), to the same. */
static void check_sum_over_orders(int64_t part_first, int64_t part_last, int64_t l, double divisor)
{
    enum { NLAT = 10 };
    double *c = calloc((size_t)(l + 1) * 2, sizeof *c), *f = malloc((size_t)(l + 1) * NLAT * 2 * sizeof *f),
           sums[NLAT] = {0};
    for (int64_t part = part_first; part <= part_last; part++) {
        struct stni_legendre_args a = args_of(NLAT, l + 1, 0, 1);
        a.of.part = part;
        a.of.grid = STN_SHT_EQUIANGULAR; /* with both poles */
        a.m_count = l + 1;
        a.in_order = 0; /* all orders have the same coefficients: 0, …, 0, 1 */
        a.out_order = NLAT;
        c[2 * l] = 1;
        a.in = c, a.out = f;
        run(synthesis_of(next_isa()), &a);
        for (int64_t m = 0; m <= l; m++)
            for (int64_t k = 0; k < NLAT; k++) {
                const double *z = f + 2 * (m * NLAT + k);
                sums[k] += (m == 0 ? 1 : 2) * (z[0] * z[0] + z[1] * z[1]);
            }
    }
    for (int64_t k = 0; k < NLAT; k++)
        CHECK_NEAR(sums[k] / divisor, (double)(2 * l + 1) / (4 * M_PI), 1e-14 + 5e-17 * (double)(l * l));
    free(c);
    free(f);
}

static void squares_of_a_degree_add_up_to_the_same_everywhere(void)
{
    const int64_t degrees[] = {1, 2, 31, 500, 2000};
    for (size_t i = 0; i < FORMS * sizeof degrees / sizeof *degrees; i++) {
        const double l = (double)degrees[i / FORMS];
        form = forms[i % FORMS];
        check_sum_over_orders(STNI_LEGENDRE_VALUE, STNI_LEGENDRE_VALUE, degrees[i / FORMS], 1);
        check_sum_over_orders(STNI_LEGENDRE_MERIDIONAL, STNI_LEGENDRE_ZONAL, degrees[i / FORMS], l * (l + 1));
    }
}

/* Sums of some orders, of noise: all that both forms compute, at sizes that leave parts of vectors. */
static void check_forms_agree(const struct stni_legendre_function *of, int64_t nlat, int64_t lmax, int synthesis)
{
    enum { ORDERS = 3, MOST = 300 };
    static double in[2 * ORDERS * MOST], out[FORMS][2 * ORDERS * MOST];
    const int64_t rows = synthesis ? lmax : nlat, out_rows = synthesis ? nlat : lmax;
    for (int64_t i = 0; i < 2 * ORDERS * rows; i++)
        in[i] = cos(0.7 * (double)(i * i)) + 0.3;
    for (int64_t m = 0; m < lmax + 2; m += m < 3 ? 1 : 1 + lmax / 4) {
        const enum stni_isa isa = next_isa();
        double largest = 0, difference = 0;
        for (int i = 0; i < FORMS; i++) {
            struct stni_legendre_args a = args_of(nlat, lmax, m, synthesis);
            a.of = *of;
            a.fields = forms[i];
            a.m_count = ORDERS;
            a.in_order = rows, a.out_order = out_rows;
            a.in = in, a.out = out[i];
            run(synthesis ? synthesis_of(isa) : analysis_of(isa), &a);
        }
        for (int64_t i = 0; i < 2 * ORDERS * out_rows; i++) {
            largest = fmax(largest, fabs(out[0][i]));
            difference = test_worst(difference, fabs(out[0][i] - out[1][i]));
        }
        CHECK(difference <= 1e-12 * fmax(largest, 1e-200));
    }
}

static void few_fields_get_what_many_get(void)
{
    static const int64_t sizes[][2] = {{1, 1}, {2, 1}, {5, 2}, {33, 33}, {130, 97}, {257, 300}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int code = 0; code < 3 * N_GRIDS * 3 * 2; code++) {
            const int synthesis = code / (3 * N_GRIDS * 3);
            const struct stni_legendre_function of = {.part = code % 3,
                                                      .grid = grids[code / 3 % N_GRIDS],
                                                      .norm = code / 3 / N_GRIDS % 3,
                                                      .inverse = synthesis,
                                                      .csphase = code & 1,
                                                      .weighted = !synthesis,
                                                      .potential = code >> 1 & 1};
            if (sizes[i][0] > 1 || of.grid == STN_SHT_LEGENDRE_GAUSS)
                check_forms_agree(&of, sizes[i][0], sizes[i][1], synthesis);
        }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"quadratures_are_exact_up_to_their_degree", quadratures_are_exact_up_to_their_degree},
        {"nodes_and_weights_are_those_of_tables", nodes_and_weights_are_those_of_tables},
        {"nodes_near_the_poles_have_their_digits", nodes_near_the_poles_have_their_digits},
        {"functions_of_2000_degrees_are_orthonormal", functions_of_2000_degrees_are_orthonormal},
        {"single_functions_in_f32_are_those_in_f64", single_functions_in_f32_are_those_in_f64},
        {"squares_of_a_degree_add_up_to_the_same_everywhere", squares_of_a_degree_add_up_to_the_same_everywhere},
        {"few_fields_get_what_many_get", few_fields_get_what_many_get},
    };
    return TEST_MAIN(argc, argv, cases);
}
