/* prod, cumprod and logcumsumexp of 16-bit floats: gradients beside those in f64, over every layout of the dim. */
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 6, COLS = 7, N = ROWS * COLS };
enum kind { PROD, PROD_ALL, CUMPROD, LOGCUMSUMEXP, KINDS };

static stn_tensor *result(enum kind kind, stn_tensor *x)
{
    switch (kind) {
    case PROD: return stn_prod(x, 1, (int[]){1}, 0);
    case PROD_ALL: return stn_prod(x, 0, NULL, 0);
    case CUMPROD: return stn_cumprod(x, 1);
    case LOGCUMSUMEXP: return stn_logcumsumexp(x, 1);
    case KINDS: break;
    }
    return NULL;
}

/* Three addends of each element, along a dim of their own: multiples of 1/64 that 16 bits hold. */
static double *addends(enum kind kind)
{
    double *v = malloc(3 * N * sizeof *v);
    for (int i = 0; i < N; i++) {
        const double x = kind == PROD_ALL ? 1 + (double)(i * 5 % 9 - 4) / 64 : 0.5 + (double)(i * 37 % 64) / 64;
        v[i] = x - 0.25;
        v[N + i] = i % 3 - 1;
        v[2 * N + i] = 1.25 - i % 3;
    }
    return v;
}

/* Of each addend, which is that of the element. Dim 0 is summed; the elements are pending where it is sharded. */
static void gradient(stn_context *context, const stn_mesh *mesh, enum kind kind, stn_dtype dtype, int dim, double *out)
{
    const stn_placement cut = stn_shard(dim);
    const int64_t shape[] = {3, ROWS, COLS};
    const stn_spec *spec;
    double *v = addends(kind);
    stn_tensor *grad;
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F64, 3, shape, NULL, &spec), STN_OK);
    stn_tensor *leaf = stn_detach(stn_cast(against_one_tensor(context, spec, v), dtype));
    CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
    stn_tensor *y = result(kind, stn_sum(leaf, 1, (int[]){0}, 0)),
               *ones = stn_add_number(stn_mul_number(stn_detach(y), 0), 1);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &leaf, 0, 0, &grad), STN_OK);
    test_read(stn_cast(grad, STN_DTYPE_F64), out, 3 * N);
    stn_spec_release(&spec);
    free(v);
}

static stn_status body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F16, STN_DTYPE_BF16};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double want[3 * N], got[3 * N];
    (void)arg;
    for (int t = 0; t < KINDS * 3 * 2; t++) {
        const enum kind kind = (enum kind)(t / 6);
        double largest = 0, worst = 0;
        stn_scope_begin(context);
        gradient(context, mesh, kind, STN_DTYPE_F64, t % 3, want);
        gradient(context, mesh, kind, dtypes[t / 3 % 2], t % 3, got);
        for (int i = 0; i < 3 * N; i++) {
            largest = fmax(largest, fabs(want[i]));
            worst = test_worst(worst, fabs(got[i] - want[i]));
        }
        if (!CHECK(worst <= 1.05 * (t / 3 % 2 ? 0x1p-9 : 0x1p-12) * 2 * largest)) /* one rounding */
            CHECK_NEAR(worst / largest, 0, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void gradients_of_products_in_16_bits_are_rounded_once(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_of_products_in_16_bits_are_rounded_once", gradients_of_products_in_16_bits_are_rounded_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
