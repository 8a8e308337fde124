/* all_reduce, reduce and reduce_scatter by every op, under both conventions, along either dim, with parts that
 * differ and are empty: values and gradients are those of loops over all ranks' elements, each rank with a cotangent
 * of its own. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { OTHER = 2, MOST = 8, LENGTH = 17, N = LENGTH * OTHER };

enum form { ALL, ROOT, PARTS, FORMS };

static const char *const form_names[FORMS] = {"all_reduce", "reduce", "reduce_scatter"};

struct trial {
    enum form form;
    stn_reduce_op op;
    stn_grad_convention convention;
    int dim, p, rank, root;
    int64_t sizes[MOST], length; /* along the dim */
};

/* Small whole numbers with zeros and ties, so that every op but the mean is exact. */
static double element(int rank, int64_t i)
{
    return (double)((7 * i + 3 * rank + i * rank) % 5 - 1);
}

static double cotangent(int rank, int64_t i)
{
    return (double)((5 * rank + 3 * i) % 11 - 4);
}

/* An element is known by its place along the dim and the one along the other. */
static int64_t index_of(int64_t along, int64_t other)
{
    return along * OTHER + other;
}

static double joined(const struct trial *t, int64_t i)
{
    double y = element(0, i);
    for (int s = 1; s < t->p; s++)
        y = t->op == STN_PROD  ? y * element(s, i)
            : t->op == STN_MIN ? fmin(y, element(s, i))
            : t->op == STN_MAX ? fmax(y, element(s, i))
                               : y + element(s, i);
    return t->op == STN_AVG ? y / t->p : y;
}

static int owner_of(const struct trial *t, int64_t along)
{
    int owner = 0;
    for (int64_t end = t->sizes[0]; end <= along; end += t->sizes[owner])
        owner++;
    return owner;
}

/* What arrives at the reduction for an element. */
static double arriving(const struct trial *t, int64_t along, int64_t i)
{
    double sum = 0;
    if (t->form == ROOT)
        return cotangent(t->root, i);
    if (t->form == PARTS)
        return cotangent(owner_of(t, along), i);
    if (t->convention == STN_GRAD_REPLICATED)
        return cotangent(t->rank, i);
    for (int s = 0; s < t->p; s++)
        sum += cotangent(s, i);
    return sum;
}

/* The derivative of the reduced element by this rank's. */
static double slope(const struct trial *t, int64_t i)
{
    double product = 1;
    int holders = 0;
    for (int s = 0; s < t->p; s++) {
        product *= s == t->rank ? 1 : element(s, i);
        holders += element(s, i) == joined(t, i);
    }
    switch (t->op) {
    case STN_SUM: return 1;
    case STN_AVG: return 1.0 / t->p;
    case STN_PROD: return product;
    case STN_MIN:
    case STN_MAX: return element(t->rank, i) == joined(t, i) ? 1.0 / holders : 0;
    case STN_REDUCE_OP_COUNT: break;
    }
    return 0;
}

/* What this rank has of the result: from where along the dim, and how much. */
static int64_t part_of(const struct trial *t, int64_t *begin)
{
    *begin = 0;
    if (t->form != PARTS)
        return t->length;
    for (int s = 0; s < t->rank; s++)
        *begin += t->sizes[s];
    return t->sizes[t->rank];
}

/* Where an element of a tensor of `length` along the dim lies in it. */
static int64_t place_of(const struct trial *t, int64_t length, int64_t along, int64_t other)
{
    return t->dim == 0 ? along * OTHER + other : other * length + along;
}

static stn_tensor *local(stn_context *context, const struct trial *t, int64_t begin, int64_t length,
                         double (*value)(int rank, int64_t i))
{
    const int64_t shape[] = {t->dim == 0 ? length : OTHER, t->dim == 0 ? OTHER : length};
    double data[N + 1];
    const stn_spec *spec;
    for (int64_t k = 0; k < length; k++)
        for (int64_t j = 0; j < OTHER; j++)
            data[place_of(t, length, k, j)] = value(t->rank, index_of(begin + k, j));
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static stn_tensor *reduced(const struct trial *t, stn_tensor *x, const stn_mesh *mesh)
{
    if (t->form == ALL)
        return stn_dist_all_reduce(x, mesh, t->op, t->convention);
    if (t->form == ROOT)
        return stn_dist_reduce(x, mesh, t->op, t->root, t->convention);
    return stn_dist_reduce_scatter(x, mesh, t->dim, t->sizes, t->op, t->convention);
}

static void expect(const struct trial *t, const char *what, int64_t along, int64_t other, double got, double want)
{
    if (!CHECK_NEAR(got, want, 1e-15))
        fprintf(stderr, "  %s of %s, op %d, %d ranks, convention %d, dim %d: element (%d, %d)\n", what,
                form_names[t->form], (int)t->op, t->p, (int)t->convention, t->dim, (int)along, (int)other);
}

static void expect_values(const struct trial *t, stn_tensor *y)
{
    double got[N + 1];
    int64_t begin;
    const int64_t n = part_of(t, &begin);
    CHECK_I64(stn_tensor_shape(y)[t->dim], n);
    CHECK_STATUS(stn_to_host(y, got, (size_t)(n * OTHER) * sizeof *got), STN_OK);
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < OTHER; j++)
            expect(t, "the value", k, j, got[place_of(t, n, k, j)],
                   t->form == ROOT && t->rank != t->root ? 0 : joined(t, index_of(begin + k, j)));
}

static void expect_gradient(const struct trial *t, stn_tensor *x)
{
    double got[N + 1];
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    CHECK_STATUS(stn_to_host(grad, got, (size_t)(t->length * OTHER) * sizeof *got), STN_OK);
    for (int64_t k = 0; k < t->length; k++)
        for (int64_t j = 0; j < OTHER; j++)
            expect(t, "the gradient", k, j, got[place_of(t, t->length, k, j)],
                   arriving(t, k, index_of(k, j)) * slope(t, index_of(k, j)));
}

static void run(stn_context *context, const struct trial *t, const stn_mesh *mesh)
{
    int64_t begin;
    const int64_t n = part_of(t, &begin);
    stn_scope_begin(context);
    stn_tensor *x = local(context, t, 0, t->length, element), *c = local(context, t, begin, n, cotangent);
    stn_set_requires_grad(x, 1);
    stn_tensor *y = reduced(t, x, mesh);
    expect_values(t, y);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &c, 0), STN_OK);
    expect_gradient(t, x);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status body(stn_context *context, void *arg)
{
    static const int64_t uneven[MOST] = {2, 0, 3, 1, 4, 0, 2, 5};
    const int p = stn_context_size(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    for (int k = 0; k < FORMS * STN_REDUCE_OP_COUNT * 4; k++) {
        struct trial t = {.form = (enum form)(k % FORMS),
                          .op = (stn_reduce_op)(k / FORMS % STN_REDUCE_OP_COUNT),
                          .convention = k / FORMS / STN_REDUCE_OP_COUNT % 2 ? STN_GRAD_REPLICATED : STN_GRAD_PER_RANK,
                          .dim = k / FORMS / STN_REDUCE_OP_COUNT / 2,
                          .p = p,
                          .rank = stn_context_rank(context),
                          .root = (k + 1) % p};
        for (int s = 0; s < p; s++)
            t.length += t.sizes[s] = uneven[s];
        run(context, &t, mesh);
    }
    return stn_context_status(context);
}

static void every_op_has_the_values_and_gradients_of_loops_over_all_ranks(void)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    if (getenv("STN_TEST_MODULES"))
        test_ranks(0, body, NULL);
    else
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            test_ranks(sizes[i], body, NULL);
}

/* One rank's NaN is everybody's, in the value and in the gradient, beside an element without one. */
static stn_status nan_body(stn_context *context, void *arg)
{
    const stn_reduce_op op = *(const stn_reduce_op *)arg;
    const int r = stn_context_rank(context);
    const int64_t n = 2;
    const double values[] = {r == 1 ? (double)NAN : 1 + r, 1 + r};
    const stn_spec *spec;
    stn_tensor *grad = NULL;
    double got[2];
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_dist_all_reduce(x, test_mesh(context, 3, 0), op, STN_GRAD_PER_RANK);
    test_read(y, got, n);
    CHECK(isnan(got[0]) && !isnan(got[1]));
    CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    test_read(grad, got, n);
    CHECK(isnan(got[0]));
    CHECK_NEAR(got[1], r == (op == STN_MIN ? 0 : 2) ? 3 : 0, 0);
    return stn_scope_end(context);
}

static void a_nan_of_one_rank_is_everybodys(void)
{
    for (stn_reduce_op op = STN_MIN; op <= STN_MAX; op++)
        test_ranks(3, nan_body, &op);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_op_has_the_values_and_gradients_of_loops_over_all_ranks",
         every_op_has_the_values_and_gradients_of_loops_over_all_ranks},
        {"a_nan_of_one_rank_is_everybodys", a_nan_of_one_rank_is_everybodys},
    };
    return TEST_MAIN(argc, argv, cases);
}
