/* to_local, from_local, full_tensor: memory, and the gradients of both conventions. docs/gradients.md tells which
 * function is differentiated. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <stdio.h>

enum { RANKS = 3, ROWS = 7, COLUMNS = 2, N = ROWS * COLUMNS };

static const int64_t shape_2d[] = {ROWS, COLUMNS}, sizes_rows[] = {4, 0, 3};

static stn_tensor *on_mesh(stn_context *context, stn_placement placement)
{
    const int64_t *const sizes[] = {sizes_rows, NULL};
    return test_tensor(context, test_mesh(context, RANKS, 0), &placement, STN_DTYPE_F64, 2, shape_2d,
                       placement.kind == STN_PLACE_SHARD && placement.dim == 0 ? sizes : NULL, test_value);
}

/* A local tensor of this shape, full of `value`. */
static stn_tensor *filled(stn_context *context, const int64_t *shape, double value)
{
    const stn_spec *spec;
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec);
    int64_t n = stn_spec_numel(spec);
    double *data = calloc((size_t)n + 1, sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = value;
    stn_tensor *tensor = stn_from_host(context, spec, data);
    free(data);
    stn_spec_release(&spec);
    return tensor;
}

static void check_all(stn_tensor *tensor, double want)
{
    double *values = calloc((size_t)stn_spec_numel(stn_tensor_spec(tensor)) + 1, sizeof *values);
    for (int64_t i = 0; i < stn_spec_numel(stn_tensor_spec(tensor)); i++)
        values[i] = want;
    against_one_compare(tensor, values, 0);
    free(values);
}

static stn_status memory_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = on_mesh(context, stn_shard(0)), *local = stn_to_local(x, STN_GRAD_PER_RANK);
    CHECK(stn_tensor_data(local) == stn_tensor_data(x));
    CHECK(stn_spec_mesh(stn_tensor_spec(local)) == NULL);
    CHECK_I64(stn_tensor_shape(local)[0], sizes_rows[stn_context_rank(context)]);
    CHECK_I64(stn_tensor_shape(local)[1], COLUMNS);
    stn_tensor *back = stn_from_local(local, stn_tensor_spec(x), STN_GRAD_PER_RANK);
    CHECK(stn_tensor_data(back) == stn_tensor_data(x));
    CHECK(stn_tensor_spec(back) == stn_tensor_spec(x));
    stn_tensor *r = on_mesh(context, stn_replicate()), *full = stn_full_tensor(r);
    CHECK(stn_tensor_data(full) == stn_tensor_data(r));
    /* Columns before rows in memory is not the spec's order: that is copied. */
    stn_tensor *turned = stn_transpose(stn_full_tensor(stn_transpose(r, 0, 1)), 0, 1);
    CHECK(stn_tensor_data(stn_from_local(turned, stn_tensor_spec(r), STN_GRAD_REPLICATED)) == stn_tensor_data(r));
    double gap[ROWS * 5];
    const int64_t wide[] = {ROWS, 5};
    const stn_spec *spec;
    for (int i = 0; i < ROWS * 5; i++)
        gap[i] = i;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, wide, NULL, &spec), STN_OK);
    stn_tensor *sparse = stn_slice(stn_from_host(context, spec, gap), 1, 0, 2 * COLUMNS, 2);
    stn_spec_release(&spec);
    CHECK(stn_tensor_strides(sparse)[0] == 5 && stn_tensor_strides(sparse)[1] == 2);
    stn_tensor *dense = stn_from_local(sparse, stn_tensor_spec(r), STN_GRAD_REPLICATED);
    CHECK(stn_tensor_data(dense) != stn_tensor_data(sparse));
    double got[N];
    test_read(dense, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], 5 * (i / COLUMNS) + 2 * (i % COLUMNS), 0);
    return stn_scope_end(context);
}

static void chunks_and_local_tensors_share_memory_where_it_is_dense(void)
{
    test_ranks(RANKS, memory_body, NULL);
}

static stn_tensor *gradient(stn_tensor *of, stn_tensor *loss, stn_tensor *weight)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad(stn_tensor_context(of), 1, &loss, &weight, 1, &of, 0, 0, &grad), STN_OK);
    return grad;
}

/* Each rank's loss is (r + 2) times the sum of its local tensor. */
static stn_tensor *weight_of_rank(stn_context *context, const stn_tensor *local)
{
    return filled(context, stn_tensor_shape(local), stn_context_rank(context) + 2);
}

static stn_status to_local_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = on_mesh(context, stn_replicate()), *local;
    stn_set_requires_grad(x, 1);
    local = stn_to_local(x, STN_GRAD_PER_RANK);
    stn_tensor *grad = gradient(x, local, weight_of_rank(context, local));
    CHECK_I64(stn_spec_placement(stn_tensor_spec(grad), 0).kind, STN_PLACE_REPLICATE);
    check_all(grad, 2 + 3 + 4);
    local = stn_to_local(x, STN_GRAD_REPLICATED); /* one loss: every rank has the same weight */
    check_all(gradient(x, local, filled(context, shape_2d, 5)), 5);
    stn_tensor *s = on_mesh(context, stn_shard(0));
    stn_set_requires_grad(s, 1);
    local = stn_to_local(s, STN_GRAD_PER_RANK);
    grad = gradient(s, local, weight_of_rank(context, local));
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(s));
    double got[N];
    test_read(grad, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], i / COLUMNS < 4 ? 2 : 4, 0);
    return stn_scope_end(context);
}

static void cotangents_of_to_local_add_under_b_and_are_one_under_a(void)
{
    test_ranks(RANKS, to_local_body, NULL);
}

struct give_case {
    stn_placement placement;
    stn_grad_convention convention;
    double wanted[RANKS]; /* the gradient of each rank's local tensor for a cotangent of 6 everywhere */
};

static stn_status from_local_body(stn_context *context, void *arg)
{
    const struct give_case *c = arg;
    stn_scope_begin(context);
    stn_tensor *like = on_mesh(context, c->placement);
    stn_tensor *local = filled(context, stn_tensor_local_shape(like), 1), *x;
    stn_set_requires_grad(local, 1);
    x = stn_from_local(local, stn_tensor_spec(like), c->convention);
    CHECK(stn_tensor_spec(x) == stn_tensor_spec(like));
    stn_placement cotangents[] = {stn_replicate(), stn_shard(1), stn_partial(STN_SUM)};
    for (int k = 0; k < 3; k++) {
        double six[N];
        const stn_spec *spec;
        stn_spec_create(context, stn_spec_mesh(stn_tensor_spec(x)), &cotangents[k], STN_DTYPE_F64, 2, shape_2d, NULL,
                        &spec);
        for (int i = 0; i < N; i++)
            six[i] = 6;
        stn_tensor *cotangent = against_one_tensor(context, spec, six), *grad = NULL;
        CHECK_STATUS(stn_grad(context, 1, &x, &cotangent, 1, &local, 1, 0, &grad), STN_OK);
        check_all(grad, c->wanted[stn_context_rank(context)]);
        stn_spec_release(&spec);
    }
    return stn_scope_end(context);
}

static void cotangents_of_from_local_go_where_values_came_from(void)
{
    struct give_case cases[] = {
        {stn_shard(0), STN_GRAD_PER_RANK, {6, 6, 6}},           {stn_replicate(), STN_GRAD_PER_RANK, {6, 0, 0}},
        {stn_replicate(), STN_GRAD_REPLICATED, {6, 6, 6}},      {stn_partial(STN_SUM), STN_GRAD_PER_RANK, {6, 6, 6}},
        {stn_partial(STN_SUM), STN_GRAD_REPLICATED, {6, 6, 6}}, {stn_partial(STN_AVG), STN_GRAD_PER_RANK, {2, 2, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_ranks(RANKS, from_local_body, &cases[i]);
}

/* y = sum over ranks of a_r x^2 with a_r = r + 2: through to_local, a local op and a pending sum. dy/dx = 2 (2 + 3 +
 * 4) x, and again 18. */
static stn_status second_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = on_mesh(context, stn_replicate()), *first, *second;
    stn_set_requires_grad(x, 1);
    stn_tensor *local = stn_to_local(x, STN_GRAD_PER_RANK);
    stn_tensor *term = stn_mul_number(stn_mul(local, local), stn_context_rank(context) + 2);
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(x));
    stn_placement sum[] = {stn_partial(STN_SUM)}, whole[] = {stn_replicate()};
    const stn_spec *spec;
    stn_spec_create(context, mesh, sum, STN_DTYPE_F64, 2, shape_2d, NULL, &spec);
    stn_tensor *y = stn_from_local(term, spec, STN_GRAD_PER_RANK);
    stn_spec_release(&spec);
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = 9 * test_value(i) * test_value(i);
    against_one_compare(y, want, 1e-15);
    stn_tensor *ones = stn_redistribute_to(
        stn_from_local(filled(context, shape_2d, 1), stn_tensor_spec(x), STN_GRAD_REPLICATED), whole);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 1, 1, &first), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = 18 * test_value(i);
    against_one_compare(first, want, 1e-15);
    CHECK_STATUS(stn_grad(context, 1, &first, &ones, 1, &x, 0, 0, &second), STN_OK);
    check_all(second, 18);
    return stn_scope_end(context);
}

static void crossing_over_and_back_can_be_differentiated_twice(void)
{
    test_ranks(RANKS, second_body, NULL);
}

struct second_case {
    stn_placement placement;
    double wanted; /* the gradient of the cotangent, where rank r's gradient has the weight r + 2 */
};

static stn_status second_give_body(stn_context *context, void *arg)
{
    const struct second_case *c = arg;
    stn_scope_begin(context);
    stn_tensor *like = on_mesh(context, c->placement), *local = filled(context, shape_2d, 1), *first, *second;
    stn_set_requires_grad(local, 1);
    stn_tensor *x = stn_from_local(local, stn_tensor_spec(like), STN_GRAD_PER_RANK),
               *h = on_mesh(context, stn_replicate());
    stn_set_requires_grad(h, 1);
    CHECK_STATUS(stn_grad(context, 1, &x, &h, 1, &local, 1, 1, &first), STN_OK);
    stn_tensor *weight = filled(context, shape_2d, stn_context_rank(context) + 2);
    CHECK_STATUS(stn_grad(context, 1, &first, &weight, 1, &h, 0, 0, &second), STN_OK);
    check_all(second, c->wanted);
    return stn_scope_end(context);
}

static void gradients_of_from_local_are_differentiated_as_what_they_are(void)
{
    struct second_case root = {stn_replicate(), 2}, sum = {stn_partial(STN_SUM), 2 + 3 + 4},
                       mean = {stn_partial(STN_AVG), 3};
    test_ranks(RANKS, second_give_body, &root);
    test_ranks(RANKS, second_give_body, &sum);
    test_ranks(RANKS, second_give_body, &mean);
}

/* full_tensor: one value, so its cotangent is the same on every rank and counts once. */
static stn_tensor *call_full(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_spec_mesh(stn_tensor_spec(in[0])) ? stn_full_tensor(in[0]) : stn_mul_number(in[0], 1);
}

static stn_status full_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct random_shape shape;
        stn_scope_begin(context);
        random_shape(&state, &shape);
        int64_t n = against_one_numel(&shape);
        double *values = against_one_draw(&state, n), *weights = against_one_draw(&state, n);
        const stn_mesh *mesh = random_mesh(&state, context);
        const stn_spec *spec = random_spec(&state, context, mesh, &shape, STN_DTYPE_F64, 1u << STN_SUM);
        stn_tensor *x = against_one_tensor(context, spec, values), *grad;
        stn_set_requires_grad(x, 1);
        stn_tensor *full = call_full(&x, NULL);
        int member = stn_mesh_contains_me(mesh);
        CHECK_I64(stn_spec_numel(stn_tensor_spec(full)), member || shape.ndim == 0 ? n : 0);
        if (member)
            against_one_compare(full, values, 0);
        stn_tensor *w = member ? against_one_local(context, STN_DTYPE_F64, &shape, weights) : stn_detach(full);
        CHECK_STATUS(stn_grad(context, 1, &full, &w, 1, &x, 0, 0, &grad), STN_OK);
        against_one_compare(grad, weights, 0);
        stn_spec_release(&spec);
        free(values);
        free(weights);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void full_tensors_and_their_gradients_are_whole(void)
{
    test_worlds(full_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t other_shape[] = {1, COLUMNS};
    char wanted[160];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *p = on_mesh(context, stn_partial(STN_SUM)), *s = on_mesh(context, stn_shard(0));
    CHECK(!stn_tensor_is_error(stn_to_local(p, STN_GRAD_PER_RANK))); /* this rank's addend */
    stn_set_requires_grad(p, 1);
    stn_to_local(p, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_PARTIAL,
                "to_local: tensor requires grad and a reduction of it is pending: redistribute it first");
    stn_from_local(filled(context, other_shape, 1), stn_tensor_spec(s), STN_GRAD_PER_RANK);
    snprintf(wanted, sizeof wanted, "from_local: local got shape (1, 2), wanted this rank's chunk (%d, 2)",
             (int)sizes_rows[stn_context_rank(context)]);
    CHECK_ERROR(context, STN_ERR_SHAPE, wanted);
    stn_from_local(s, stn_tensor_spec(s), STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "from_local: local is on a mesh, wanted a local tensor");
    return stn_scope_end(context);
}

static void what_has_no_gradient_or_does_not_fit_is_refused(void)
{
    test_ranks(RANKS, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"chunks_and_local_tensors_share_memory_where_it_is_dense",
         chunks_and_local_tensors_share_memory_where_it_is_dense},
        {"cotangents_of_to_local_add_under_b_and_are_one_under_a",
         cotangents_of_to_local_add_under_b_and_are_one_under_a},
        {"cotangents_of_from_local_go_where_values_came_from", cotangents_of_from_local_go_where_values_came_from},
        {"crossing_over_and_back_can_be_differentiated_twice", crossing_over_and_back_can_be_differentiated_twice},
        {"gradients_of_from_local_are_differentiated_as_what_they_are",
         gradients_of_from_local_are_differentiated_as_what_they_are},
        {"full_tensors_and_their_gradients_are_whole", full_tensors_and_their_gradients_are_whole},
        {"what_has_no_gradient_or_does_not_fit_is_refused", what_has_no_gradient_or_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
