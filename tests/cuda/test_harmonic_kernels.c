/* Sums of Legendre functions on a CUDA device against the CPU's: of more functions, latitudes and fields than a tile
 * has, of more orders than a slab has (tests of the stand-in give it little memory), of values and of derivatives, with
 * gradients. */
#include "both.h"

#include "harness.h"

#include <stddef.h>

static const struct transform {
    const char *name;
    int vector;
    int64_t lmax, mmax, nlat, nlon; /* of the way back */
    stn_sht_basis basis;
} transforms[] = {
    {"gauss", 0, 0, 0, 21, 74, {sizeof(stn_sht_basis), STN_SHT_LEGENDRE_GAUSS, STN_SHT_ORTHO, 0}},
    {"more degrees than orders", 0, 150, 5, 70, 9, {sizeof(stn_sht_basis), STN_SHT_EQUIANGULAR, STN_SHT_SCHMIDT, 1}},
    {"more orders than degrees", 0, 3, 35, 7, 71, {sizeof(stn_sht_basis), STN_SHT_LOBATTO, STN_SHT_FOUR_PI, 0}},
    {"vectors", 1, 0, 0, 30, 75, {sizeof(stn_sht_basis), STN_SHT_LOBATTO, STN_SHT_ORTHO, 0}},
    {"vectors at poles", 1, 40, 4, 11, 12, {sizeof(stn_sht_basis), STN_SHT_EQUIANGULAR, STN_SHT_SCHMIDT, 1}},
};

static const struct transform *current;

/* Coefficients, fields of them, and the gradient of the sum of the fields' squares. */
static int there_and_back(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const struct transform *t = current;
    stn_tensor *x = stn_detach(both_input(context, dtype, 4, shape, 1));
    stn_set_requires_grad(x, 1);
    stn_tensor *c = t->vector ? stn_vsht(x, t->lmax, t->mmax, &t->basis) : stn_sht(x, t->lmax, t->mmax, &t->basis);
    out[0] = stn_view_as_real(c);
    out[1] = t->vector ? stn_ivsht(c, t->nlat, t->nlon, &t->basis) : stn_isht(c, t->nlat, t->nlon, &t->basis);
    CHECK_STATUS(stn_backward(stn_sum(stn_square(out[1]), 0, NULL, 0)), STN_OK);
    return stn_grad_of(x, &out[2]) == STN_OK ? 3 : 0;
}

static void compare(const struct transform *t, const int64_t *shape)
{
    const both_work work = {t->name, there_and_back};
    current = t;
    both_compare_sums(&work, STN_DTYPE_F64, shape, 1e-11);
    both_compare_sums(&work, STN_DTYPE_F32, shape, 2e-5);
}

static void sums_and_gradients_are_the_cpus(void)
{
    static const int64_t shapes[][4] = {{1, 2, 21, 74}, {17, 2, 70, 10}, {3, 1, 7, 70}, {1, 2, 30, 74}, {2, 2, 75, 9}};
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        compare(&transforms[i], shapes[i]);
}

/* Functions that begin below the least double and grow to the size of others: of high orders, away from the equator. */
static int high_orders(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_sht_basis basis = {.size = sizeof basis};
    stn_tensor *c = stn_view_as_complex(both_input(context, dtype, 3, shape, 1));
    out[0] = stn_isht(c, 8, 2 * shape[1], &basis);
    return 1;
}

static void functions_grow_from_far_below(void)
{
    const both_work work = {"high orders", high_orders};
    both_compare(&work, STN_DTYPE_F64, (const int64_t[]){560, 220, 2}, 1e-10);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sums_and_gradients_are_the_cpus", sums_and_gradients_are_the_cpus},
        {"functions_grow_from_far_below", functions_grow_from_far_below},
    };
    return TEST_MAIN(argc, argv, cases);
}
