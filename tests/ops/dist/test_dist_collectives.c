/* Every collective of dist.h: its values, its adjoint under both conventions, its second derivative, from loops over
 * all ranks' inputs. */
#include "collectives.h"

static double gradient_at(const struct setup *s, int rank, int64_t i, int64_t j)
{
    (void)rank;
    return gradient_value(s, i, j);
}

static double cotangent_at(const struct setup *s, int rank, int64_t i, int64_t j)
{
    (void)s;
    return cotangent_value(rank, i, j);
}

static void values_and_gradient(stn_context *context, const struct setup *s, const stn_mesh *mesh)
{
    stn_scope_begin(context);
    stn_tensor *x = local(context, s, s->rank, in_length(s, s->rank), in_value), *grad = NULL;
    stn_set_requires_grad(x, 1);
    stn_tensor *y = call_collective(s, x, mesh);
    expect("the value", s, y, out_length(s, s->rank), out_value, 1e-14);
    stn_tensor *cotangent = local(context, s, s->rank, out_length(s, s->rank), cotangent_at);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    expect("the gradient", s, grad, in_length(s, s->rank), gradient_at, 1e-13);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status values_body(stn_context *context, void *arg)
{
    (void)arg;
    for_each_setup(context, values_and_gradient);
    return stn_context_status(context);
}

static void values_and_adjoints_are_those_of_loops_over_all_ranks(void)
{
    on_each_size(values_body, NULL);
}

/* L = sum over ranks of <y y, w> / 2, y = A x: its gradient is A'(w A x), and the derivative of <gradient, v> is
 * A'(w A v), since A is linear. */
static void second_derivative(stn_context *context, const struct setup *s, const stn_mesh *mesh)
{
    const int64_t n = in_length(s, s->rank), m = out_length(s, s->rank);
    if (s->convention == STN_GRAD_REPLICATED &&
        (s->collective == REDUCE || s->collective == REDUCE_SCATTER || s->collective == ALL_REDUCE))
        return; /* the adjoint is not A' there: the ranks' inputs are addends of one value */
    stn_scope_begin(context);
    stn_tensor *x = local(context, s, s->rank, n, in_value), *v = local(context, s, s->rank, n, cotangent_at),
               *u = local(context, s, s->rank, n, cotangent_at);
    stn_tensor *w = local(context, s, s->rank, m, cotangent_at), *first = NULL, *second = NULL, *wanted = NULL;
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(u, 1);
    stn_tensor *y = call_collective(s, x, mesh), *z = call_collective(s, u, mesh);
    stn_tensor *wy = stn_mul(w, y), *wz = stn_mul(w, stn_detach(z));
    CHECK_STATUS(stn_grad(context, 1, &y, &wy, 1, &x, 1, 1, &first), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &first, &v, 1, &x, 1, 0, &second), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &z, &wz, 1, &u, 1, 0, &wanted), STN_OK);
    double got[200] = {0}, want[200] = {0};
    test_read(second, got, n * OTHER);
    test_read(wanted, want, n * OTHER);
    for (int64_t i = 0; i < n * OTHER; i++)
        if (!CHECK_NEAR(got[i], want[i], 1e-13))
            CHECK_STR(collective_names[s->collective], "");
    CHECK(n == 0 || s->collective == SCATTER || s->collective == BROADCAST || want[0] != 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status second_body(stn_context *context, void *arg)
{
    (void)arg;
    for_each_setup(context, second_derivative);
    return stn_context_status(context);
}

static void second_derivatives_are_those_of_a_linear_map(void)
{
    on_each_size(second_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_and_adjoints_are_those_of_loops_over_all_ranks",
         values_and_adjoints_are_those_of_loops_over_all_ranks},
        {"second_derivatives_are_those_of_a_linear_map", second_derivatives_are_those_of_a_linear_map},
    };
    return TEST_MAIN(argc, argv, cases);
}
