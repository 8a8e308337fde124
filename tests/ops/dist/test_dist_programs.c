/* Programs of several collectives, and of ranks that differ: losses on some ranks, values that nobody uses, grids of
 * ranks, ranks outside, calls by name. */
#include "collectives.h"

#include <stdio.h>

static stn_tensor *vector_of(stn_context *context, stn_dtype dtype, int64_t n, const void *values)
{
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return t;
}

static stn_tensor *vector(stn_context *context, int64_t n, const double *values)
{
    return vector_of(context, STN_DTYPE_F64, n, values);
}

static void expect_values(stn_tensor *t, int64_t n, const double *want)
{
    double got[64] = {0};
    if (!CHECK_PTR(t) || !CHECK(!stn_tensor_is_error(t)) || !CHECK_I64(stn_spec_numel(stn_tensor_spec(t)), n))
        return;
    test_read(t, got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], want[i], 0);
}

static stn_tensor *grad_of(stn_tensor *leaf)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(leaf, &grad), STN_OK);
    return grad;
}

/* A row of the table in docs/gradients.md, with what both ranks found. */
static void print_c12(stn_context *context, stn_tensor *grad, stn_grad_convention convention)
{
    double mine[2] = {0}, all[4] = {0};
    test_read(grad, mine, 2);
    test_gather(context, mine, 2, STN_DTYPE_F64, all);
    if (stn_context_rank(context) == 0)
        printf("| C12 %s | | %g %g, %g %g |\n", convention == STN_GRAD_PER_RANK ? "B" : "A", all[0], all[1], all[2],
               all[3]);
}

/* C12: b_r = [1, 3] + 2 r, gathered; each rank's loss is the mean of b^2. In f32, exactly. */
static stn_status c12_body(stn_context *context, void *arg)
{
    const stn_grad_convention convention = *(const stn_grad_convention *)arg;
    const int r = stn_context_rank(context);
    const float b[] = {1 + 2 * (float)r, 3 + 2 * (float)r};
    const int64_t two = 2;
    const stn_spec *spec;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, &two, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, b);
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_tensor *all = stn_dist_all_gather(x, test_mesh(context, 2, 0), 0, NULL, convention);
    expect_values(all, 4, (const double[]){1, 3, 3, 5});
    CHECK_STATUS(stn_backward(stn_mean(stn_mul(all, all), 0, NULL, 0)), STN_OK);
    const double share = convention == STN_GRAD_PER_RANK ? 1 : 0.5;
    stn_tensor *grad = grad_of(x);
    expect_values(grad, 2, (const double[]){share * (double)b[0], share * (double)b[1]});
    print_c12(context, grad, convention);
    return stn_scope_end(context);
}

static void c12_is_exact_under_both_conventions(void)
{
    for (stn_grad_convention c = STN_GRAD_PER_RANK; c <= STN_GRAD_REPLICATED; c++)
        test_ranks(2, c12_body, &c);
}

/* A ring shift: y of rank r is x of the rank before; L_r = r y. So dL/dx of rank r is the weight of the next rank. */
static stn_status ring_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context), next = (r + 1) % p,
              before = (r + p - 1) % p;
    const stn_dist_part send = {next, 0, 2}, receive = {before, 0, 2};
    const stn_dist_messages messages = {sizeof messages, 1, 1, &send, &receive, 2};
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context, 2, (const double[]){r, 10 + r});
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_dist_exchange(x, mesh, 0, &messages, STN_GRAD_PER_RANK);
    expect_values(y, 2, (const double[]){before, 10 + before});
    CHECK_STATUS(stn_backward(stn_mul_number(stn_sum(y, 0, NULL, 0), r)), STN_OK);
    expect_values(grad_of(x), 2, (const double[]){next, next});
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    /* All the way round, and a loss on the last rank alone: the others bring none. */
    stn_scope_begin(context);
    x = vector(context, 2, (const double[]){r, 10 + r});
    stn_set_requires_grad(x, 1);
    y = x;
    for (int k = 0; k < p - 1; k++)
        y = stn_dist_exchange(y, mesh, 0, &messages, STN_GRAD_PER_RANK);
    expect_values(y, 2, (const double[]){next, 10 + next});
    stn_tensor *loss = stn_sum(stn_mul(y, y), 0, NULL, 0);
    CHECK_STATUS(stn_backward_many(context, r == p - 1, &loss, NULL, 0), STN_OK);
    const double none[] = {0, 0}, first[] = {0, 20};
    stn_tensor *grad = grad_of(x);
    if (p == 1)
        expect_values(grad, 2, first);
    else if (grad || r == 0)
        expect_values(grad, 2, r == 0 ? first : none);
    return stn_scope_end(context);
}

static void a_ring_shift_has_the_gradient_of_its_source(void)
{
    on_each_size(ring_body, NULL);
}

/* What one rank received and did not use still goes back as zeros, and what another used as its weight. */
static stn_status unused_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context, 1, (const double[]){r + 1});
    stn_set_requires_grad(x, 1);
    stn_tensor *all = stn_dist_all_gather(x, mesh, 0, NULL, STN_GRAD_PER_RANK);
    stn_tensor *unused = stn_dist_broadcast(x, mesh, p - 1, STN_GRAD_PER_RANK);
    CHECK(!stn_tensor_is_error(unused));
    stn_tensor *loss = stn_sum(stn_mul(all, all), 0, NULL, 0);
    CHECK_STATUS(stn_backward_many(context, r == 0, &loss, NULL, 0), STN_OK);
    expect_values(grad_of(x), 1, (const double[]){2 * (r + 1)});
    return stn_scope_end(context);
}

static void values_that_a_rank_does_not_use_cost_nobody_a_deadlock(void)
{
    on_each_size(unused_body, NULL);
}

enum { FORMS = 4 };

/* This rank's two elements of a reduction of 2 p, in four ways; the last one cuts a dim that is not the first. */
static stn_tensor *reduced_part(stn_tensor *x, const stn_mesh *mesh, stn_reduce_op op, int r, int form)
{
    const int root = stn_mesh_size(mesh) - 1;
    stn_tensor *twice[] = {x, x};
    if (form == 0)
        return stn_narrow(stn_dist_all_reduce(x, mesh, op, STN_GRAD_PER_RANK), 0, 2 * r, 2);
    if (form == 1)
        return stn_dist_reduce_scatter(x, mesh, 0, NULL, op, STN_GRAD_PER_RANK);
    if (form == 2)
        return stn_narrow(
            stn_dist_broadcast(stn_dist_reduce(x, mesh, op, root, STN_GRAD_PER_RANK), mesh, root, STN_GRAD_PER_RANK), 0,
            2 * r, 2);
    return stn_select(stn_dist_reduce_scatter(stn_stack(2, twice, 0), mesh, 1, NULL, op, STN_GRAD_PER_RANK), 0, 0);
}

/* reduce and reduce_scatter with every op have the gradients of all_reduce with the rest of the result unused. */
static stn_status ops_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    for (stn_reduce_op op = STN_SUM; op < STN_REDUCE_OP_COUNT; op++) {
        double values[64], mine[2], grads[FORMS][64];
        stn_scope_begin(context);
        for (int i = 0; i < 2 * p; i++)
            values[i] = (7 * i + 3 * r) % 5 - 1; /* zeros and ties */
        mine[0] = r + 1;
        mine[1] = 2 * r - 1;
        stn_tensor *w = vector(context, 2, mine);
        for (int k = 0; k < FORMS; k++) {
            stn_tensor *x = vector(context, 2 * p, values);
            stn_set_requires_grad(x, 1);
            stn_tensor *y = reduced_part(x, mesh, op, r, k);
            CHECK_STATUS(stn_backward(stn_sum(stn_mul(y, w), 0, NULL, 0)), STN_OK);
            test_read(grad_of(x), grads[k], 2 * p);
        }
        for (int i = 0; i < 2 * p * FORMS; i++)
            CHECK_NEAR(grads[i % FORMS][i / FORMS], grads[0][i / FORMS], 1e-15);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void reductions_of_each_op_have_the_gradients_of_all_reduce(void)
{
    on_each_size(ops_body, NULL);
}

/* On 2 x 3 ranks: joined along the columns, then along the rows, each rank with the slices of its own row and
 * column. */
static stn_status grid_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 3), *row, *column;
    const int r = stn_context_rank(context);
    const int64_t sizes[] = {1, 0, 2};
    const int x_axis = 1, y_axis = 0;
    double values[] = {10 * r, 10 * r + 1}, weights[6], want[2] = {0, 0};
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_slice(grid, 1, &x_axis, &row), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, &y_axis, &column), STN_OK);
    const int64_t n = sizes[r % 3], before = r % 3 == 2 ? 1 : 0;
    stn_tensor *x = vector(context, n, values);
    stn_set_requires_grad(x, 1);
    stn_tensor *all = stn_dist_all_gather(stn_dist_all_gather(x, row, 0, sizes, STN_GRAD_PER_RANK), column, 0, NULL,
                                          STN_GRAD_PER_RANK);
    expect_values(all, 6, (const double[]){0, 20, 21, 30, 50, 51});
    for (int i = 0; i < 6; i++)
        weights[i] = (r + 1) * (i + 1);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(all, vector(context, 6, weights)), 0, NULL, 0)), STN_OK);
    for (int i = 0; i < n; i++)
        want[i] = 21 * (double)(3 * (r / 3) + before + i + 1); /* 21: the sum of 1 … 6 */
    expect_values(grad_of(x), n, want);
    return stn_scope_end(context);
}

static void slices_of_a_grid_join_rows_and_columns(void)
{
    test_ranks(6, grid_body, NULL);
}

/* A halo of a grid: along the columns, then along the rows of what has margins already, so that corners come too. */
static stn_status corners_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 3), *row, *column;
    const int r = stn_context_rank(context), y = r / 3, x = r % 3, x_axis = 1, y_axis = 0;
    const stn_dist_margin margin = {sizeof margin, 1, 1, STN_PADDING_CIRCULAR};
    const int64_t one[] = {1, 1};
    const double mine = r;
    const stn_spec *spec;
    double got[9];
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_slice(grid, 1, &x_axis, &row), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, &y_axis, &column), STN_OK);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, one, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, &mine);
    stn_spec_release(&spec);
    stn_set_requires_grad(t, 1);
    stn_tensor *with = stn_dist_halo(stn_dist_halo(t, row, 1, NULL, &margin, STN_GRAD_PER_RANK), column, 0, NULL,
                                     &margin, STN_GRAD_PER_RANK);
    test_read(with, got, 9);
    for (int i = 0; i < 9; i++)
        CHECK_NEAR(got[i], 3 * ((y + i / 3 + 1) % 2) + (x + i % 3 + 2) % 3, 0);
    CHECK_STATUS(stn_backward(stn_sum(with, 0, NULL, 0)), STN_OK);
    test_read(grad_of(t), got, 1);
    CHECK_NEAR(got[0], 9, 0);
    return stn_scope_end(context);
}

static void halos_of_a_grid_have_corners(void)
{
    test_ranks(6, corners_body, NULL);
}

/* Rank 1 is outside: it gets its input back, gradient and all. By name, with the sizes as a tensor. */
static stn_status outside_body(stn_context *context, void *arg)
{
    const int r = stn_context_rank(context), ranks[] = {2, 0}, two = 2;
    const stn_mesh *mesh;
    const stn_attr attrs[] = {{.name = "mesh", .type = STN_ATTR_INT, .value.i = 0},
                              {.name = "convention", .type = STN_ATTR_STRING, .value.s = "per_rank"}};
    const int64_t sizes[] = {1, 2}, n = r == 0 ? 2 : 1;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, ranks, &mesh), STN_OK);
    const double values[] = {r, r + 0.5};
    stn_tensor *x = vector(context, n, values), *y = NULL;
    stn_tensor *in[] = {x, vector_of(context, STN_DTYPE_I64, 2, sizes)};
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_call(context, "dist_all_gather", 2, in, 2, attrs, 1, &y), STN_OK);
    if (r == 1)
        expect_values(y, 1, (const double[]){1});
    else
        expect_values(y, 3, (const double[]){2, 0, 0.5});
    CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
    expect_values(grad_of(x), n, r == 1 ? (const double[]){1} : (const double[]){2, 2});
    return stn_scope_end(context);
}

static void ranks_outside_get_their_input_back(void)
{
    test_ranks(3, outside_body, NULL);
}

/* By name, both lists as ordinary tensors: rank r sends r + 1 elements to each, and gets 1, 2, … of them. */
static stn_status lists_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_attr attrs[] = {{.name = "mesh", .type = STN_ATTR_INT, .value.i = 0},
                              {.name = "convention", .type = STN_ATTR_STRING, .value.s = "per_rank"}};
    int64_t send[8], receive[8], length = 0;
    double values[64], want[64];
    (void)arg;
    stn_scope_begin(context);
    test_mesh(context, p, 0);
    for (int q = 0; q < p; q++) {
        send[q] = r + 1;
        receive[q] = q + 1;
        for (int i = 0; i < r + 1; i++)
            values[q * (r + 1) + i] = 10 * r + q;
        for (int i = 0; i < q + 1; i++)
            want[length++] = 10 * q + r;
    }
    stn_tensor *y = NULL, *in[] = {vector(context, p * (r + 1), values), NULL, NULL};
    in[1] = vector_of(context, STN_DTYPE_I64, p, send);
    in[2] = vector_of(context, STN_DTYPE_I64, p, receive);
    CHECK_STATUS(stn_call(context, "dist_all_to_all", 3, in, 2, attrs, 1, &y), STN_OK);
    expect_values(y, length, want);
    return stn_scope_end(context);
}

static void lists_of_sizes_may_be_tensors(void)
{
    test_ranks(1, lists_body, NULL);
    test_ranks(3, lists_body, NULL);
    test_ranks(5, lists_body, NULL);
}

/* Transposed memory, integers, and a tensor without dims. */
static stn_status kinds_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    const int64_t shape[] = {2, 3}, three = 3;
    double values[6], got[48];
    const stn_spec *spec;
    (void)arg;
    stn_scope_begin(context);
    for (int i = 0; i < 6; i++)
        values[i] = 10 * r + i;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *x = stn_transpose(stn_from_host(context, spec, values), 0, 1); /* (3, 2) */
    stn_spec_release(&spec);
    test_read(stn_dist_all_gather(x, mesh, 1, NULL, STN_GRAD_PER_RANK), got, 6 * p);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2 * p; j++)
            CHECK_NEAR(got[i * 2 * p + j], 10 * (j / 2) + 3 * (j % 2) + i, 0);
    const int64_t whole[] = {r, 2 * r, -1};
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &three, NULL, &spec), STN_OK);
    test_read(stn_dist_reduce_scatter(stn_from_host(context, spec, whole), mesh, 0, NULL, STN_MAX, STN_GRAD_PER_RANK),
              got, 3 / p + (r < 3 % p));
    stn_spec_release(&spec);
    if (r == 0)
        CHECK_NEAR(got[0], p - 1, 0);
    const double one = r + 1;
    double value;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 0, NULL, NULL, &spec), STN_OK);
    CHECK_STATUS(
        stn_item(stn_dist_broadcast(stn_from_host(context, spec, &one), mesh, p - 1, STN_GRAD_REPLICATED), &value),
        STN_OK);
    CHECK_NEAR(value, p, 0);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void strides_integers_and_tensors_without_dims_travel_too(void)
{
    on_each_size(kinds_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"c12_is_exact_under_both_conventions", c12_is_exact_under_both_conventions},
        {"a_ring_shift_has_the_gradient_of_its_source", a_ring_shift_has_the_gradient_of_its_source},
        {"values_that_a_rank_does_not_use_cost_nobody_a_deadlock",
         values_that_a_rank_does_not_use_cost_nobody_a_deadlock},
        {"reductions_of_each_op_have_the_gradients_of_all_reduce",
         reductions_of_each_op_have_the_gradients_of_all_reduce},
        {"slices_of_a_grid_join_rows_and_columns", slices_of_a_grid_join_rows_and_columns},
        {"halos_of_a_grid_have_corners", halos_of_a_grid_have_corners},
        {"ranks_outside_get_their_input_back", ranks_outside_get_their_input_back},
        {"lists_of_sizes_may_be_tensors", lists_of_sizes_may_be_tensors},
        {"strides_integers_and_tensors_without_dims_travel_too", strides_integers_and_tensors_without_dims_travel_too},
    };
    return TEST_MAIN(argc, argv, cases);
}
