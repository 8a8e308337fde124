/* Functions of one operand, their derivatives and second derivatives, and halves that gate others, on a CUDA device
 * against the CPU's: of runs, for which dense kernels are. */
#include "both.h"

#include "harness.h"

#include "ops/elementwise/unary_list.h"

#define NAME(X, name, class, reads, attributes, third) #name,
static const char *const names[] = {STNI_UNARY_LIST(NAME, )};
#undef NAME

enum { UNARY = sizeof names / sizeof *names, FUNCTIONS = UNARY + 2 };

static int current;

static const char *name_of(int function)
{
    return function < UNARY ? names[function] : function == UNARY ? "gelu by tanh" : "glu";
}

static stn_tensor *value_of(stn_context *context, stn_tensor *x)
{
    stn_tensor *y = NULL;
    if (current >= UNARY)
        return current == UNARY ? stn_gelu(x, STN_GELU_TANH) : stn_glu(x, 0);
    CHECK_STATUS(stn_call(context, names[current], 1, &x, 0, NULL, 1, &y), STN_OK);
    return y;
}

/* The value, its derivative times a cotangent, and the derivatives of that by the operand and by the cotangent. */
static int derivatives(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 1, shape, 1), *grad, *by[2];
    stn_set_requires_grad(x, 1);
    stn_tensor *y = value_of(context, x), *of_y = both_input(context, dtype, 1, stn_tensor_shape(y), 2);
    stn_set_requires_grad(of_y, 1);
    CHECK_STATUS(stn_grad(context, 1, &y, &of_y, 1, &x, 1, 1, &grad), STN_OK);
    stn_tensor *leaves[] = {x, of_y}, *of_grad = both_input(context, dtype, 1, shape, 3);
    CHECK_STATUS(stn_grad(context, 1, &grad, &of_grad, 2, leaves, 0, 0, by), STN_OK);
    out[0] = y;
    out[1] = grad;
    out[2] = by[1];
    out[3] = by[0]; /* NULL where the derivative is the same everywhere */
    return by[0] ? 4 : 3;
}

static void derivatives_are_the_cpus(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16, STN_DTYPE_F64};
    static const double tolerances[] = {1e-5, 0.1, 0.02, 1e-12}; /* a result's last place, times both cotangents */
    static const int64_t sizes[][3] = {{1026}, {1040}}; /* elements beyond packs; halves that both begin with one */
    for (current = 0; current < FUNCTIONS; current++) {
        const both_work work = {name_of(current), derivatives};
        for (int d = 0; d < 4; d++)
            for (int n = 0; n < 2; n++)
                both_compare(&work, dtypes[d], sizes[n], tolerances[d]);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"derivatives_are_the_cpus", derivatives_are_the_cpus},
    };
    return TEST_MAIN(argc, argv, cases);
}
