/* Second derivatives of reductions of one loss that every rank holds a replica of, exactly: the inputs are addends
 * of one value, so that their gradients are replicas again, and are counted once. */
#include "collectives.h"

enum { FORMS = 3 };

/* All of the reduction on every rank: at once, by way of a root, by way of parts. */
static stn_tensor *reduced(stn_tensor *x, const stn_mesh *mesh, stn_reduce_op op, int form)
{
    const int root = stn_mesh_size(mesh) - 1;
    if (form == 0)
        return stn_dist_all_reduce(x, mesh, op, STN_GRAD_REPLICATED);
    if (form == 1)
        return stn_dist_broadcast(stn_dist_reduce(x, mesh, op, root, STN_GRAD_REPLICATED), mesh, root,
                                  STN_GRAD_REPLICATED);
    stn_tensor *part = stn_dist_reduce_scatter(x, mesh, 0, NULL, op, STN_GRAD_REPLICATED);
    const int64_t n = stn_spec_shape(stn_tensor_spec(x))[0];
    int64_t sizes[8];
    for (int r = 0; r < stn_mesh_size(mesh); r++)
        sizes[r] = n / stn_mesh_size(mesh) + (r < n % stn_mesh_size(mesh));
    return stn_dist_all_gather(part, mesh, 0, sizes, STN_GRAD_REPLICATED);
}

/* x of rank r; whole numbers, so that all is exact. */
static double element(int r, int64_t i)
{
    return (double)((3 * r + 2 * i) % 5 - 1);
}

struct trial {
    stn_reduce_op op;
    int form;
};

static void expect_near(stn_tensor *got, const double *want, int64_t n)
{
    double values[8];
    if (!CHECK_PTR(got) || !CHECK(!stn_tensor_is_error(got)))
        return;
    test_read(got, values, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(values[i], want[i], 1e-15);
}

/* L = sum y^3, y = reduce(x): dL/dx = 3 y^2 f and d(sum_i w_i dL/dx_i)/dx_i = 6 y_i w_i f^2, where f is 1 for a sum
 * and 1/p for a mean. */
static void differentiate_twice(stn_context *context, const struct trial *t)
{
    enum { N = 5 };
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    const double f = t->op == STN_AVG ? 1.0 / p : 1;
    const int64_t n = N;
    const stn_spec *spec;
    double mine[N], y[N], first[N], second[N], weights[N];
    for (int64_t i = 0; i < n; i++) {
        mine[i] = element(r, i);
        weights[i] = (double)(i + 1);
        y[i] = 0;
        for (int s = 0; s < p; s++)
            y[i] += f * element(s, i);
        first[i] = 3 * y[i] * y[i] * f;
        second[i] = 6 * y[i] * weights[i] * f * f;
    }
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, mine), *w = stn_from_host(context, spec, weights), *g = NULL,
               *gg = NULL;
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_tensor *all = reduced(x, mesh, t->op, t->form);
    stn_tensor *loss = stn_sum(stn_mul(stn_mul(all, all), all), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 1, &g), STN_OK);
    expect_near(g, first, n);
    stn_tensor *again = stn_sum(stn_mul(g, w), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &again, NULL, 1, &x, 0, 0, &gg), STN_OK);
    expect_near(gg, second, n);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status body(stn_context *context, void *arg)
{
    (void)arg;
    for (struct trial t = {STN_SUM, 0}; t.form < FORMS; t.form++)
        for (t.op = STN_SUM; t.op <= STN_AVG; t.op++)
            differentiate_twice(context, &t);
    return STN_OK;
}

static void second_derivatives_of_reductions_are_those_of_one_loss(void)
{
    on_each_size(body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"second_derivatives_of_reductions_are_those_of_one_loss",
         second_derivatives_of_reductions_are_those_of_one_loss},
    };
    return TEST_MAIN(argc, argv, cases);
}
