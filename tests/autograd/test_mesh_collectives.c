/* Collectives of dist.h over slices of a grid concern the ranks of these slices: groups record different ones, or
 * none, each over an axis of its own, and gradients are those of one process. */
#include "ranks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 0, COLUMNS = 1, MOST = 16 };

static const int grids[][2] = {{2, 2}, {3, 2}, {2, 3}, {1, 3}, {3, 1}};

/* On MPI the job's. */
static void on_each_grid(stn_rank_main body)
{
    if (getenv("STN_TEST_MODULES")) {
        test_ranks(6, body, (void *)grids[2]);
        return;
    }
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        test_ranks(grids[i][0] * grids[i][1], body, (void *)grids[i]);
}

static const stn_mesh *slice_of(const stn_mesh *grid, int axis)
{
    const stn_mesh *own = NULL;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &own), STN_OK);
    return own;
}

/* Rank r's element i; another one on each rank. */
static double element(int rank, int64_t i)
{
    return 0.5 * test_value(17 * rank + i) + 0.1;
}

static stn_tensor *local_leaf(stn_context *context, int64_t n)
{
    const stn_spec *spec;
    double values[MOST];
    for (int64_t i = 0; i < n; i++)
        values[i] = element(stn_context_rank(context), i);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, values);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_spec_release(&spec);
    return x;
}

static stn_tensor *total(stn_tensor *t)
{
    return stn_sum(t, 0, NULL, 0);
}

/* Of what rank r counts in the sum of all losses. */
static double weight_of(int rank)
{
    return 1 + 0.5 * rank;
}

static stn_tensor *weighted(stn_context *context, stn_tensor *y)
{
    return stn_mul_number(total(y), weight_of(stn_context_rank(context)));
}

/* The sum of the weights of a mesh's ranks. */
static double weights_of(const stn_mesh *mesh)
{
    double sum = 0;
    int at[STN_MAX_MESH_NDIM] = {0};
    for (at[0] = 0; at[0] < stn_mesh_axis_size(mesh, 0); at[0]++)
        for (at[1] = 0; at[1] < (stn_mesh_ndim(mesh) > 1 ? stn_mesh_axis_size(mesh, 1) : 1); at[1]++)
            sum += weight_of(stn_mesh_rank_at(mesh, at));
    return sum;
}

/* The gradient is factor * x, element by element. */
static void expect_gradient(stn_context *context, stn_tensor *x, int64_t n, double factor)
{
    stn_tensor *grad = NULL;
    double got[MOST];
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    test_read(grad, got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], factor * element(stn_context_rank(context), i), 1e-12);
}

static stn_tensor *sum_over(stn_tensor *y, const stn_mesh *mesh, int times)
{
    for (int k = 0; k < times; k++)
        y = stn_dist_all_reduce(y, mesh, STN_SUM, STN_GRAD_PER_RANK);
    return y;
}

/* What `times` sums over a mesh make of a cotangent that is the rank's weight. */
static double factor_of(const stn_mesh *mesh, int times, int rank)
{
    double factor = times == 0 ? weight_of(rank) : weights_of(mesh);
    for (int k = 1; k < times; k++)
        factor *= stn_mesh_size(mesh);
    return factor;
}

/* Group g has samples of 3 + g elements, g collectives over its own slice, and g + 1 steps. */
static stn_status apart_body(stn_context *context, void *arg)
{
    const int *sizes = arg, rank = stn_context_rank(context);
    const stn_mesh *grid = test_mesh(context, sizes[0], sizes[1]), *row = slice_of(grid, COLUMNS);
    const int group = stn_mesh_coordinate(grid, ROWS), n = 3 + group;
    for (int step = 0; step <= group; step++) {
        stn_scope_begin(context);
        stn_tensor *x = local_leaf(context, n);
        CHECK_STATUS(stn_backward(weighted(context, sum_over(stn_mul(x, x), row, group))), STN_OK);
        expect_gradient(context, x, n, 2 * factor_of(row, group, rank));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void groups_record_collectives_of_their_own_or_none(void)
{
    on_each_grid(apart_body);
}

enum { N = 4 };

/* Row g sums g times over itself, and then every column sums what its rows made, or those columns do that are even. */
static void sum_both_ways(stn_context *context, const stn_mesh *grid, int all_columns)
{
    const stn_mesh *row = slice_of(grid, COLUMNS), *column = slice_of(grid, ROWS);
    const int group = stn_mesh_coordinate(grid, ROWS),
              sums = all_columns || stn_mesh_coordinate(grid, COLUMNS) % 2 == 0;
    const int rows = stn_mesh_axis_size(grid, ROWS), columns = stn_mesh_axis_size(grid, COLUMNS);
    double factor = 0; /* what comes back to this rank's addend of the row's sum */
    for (int j = 0; j < columns; j++) {
        const int own = j == stn_mesh_coordinate(grid, COLUMNS), summed = all_columns || j % 2 == 0;
        for (int i = 0; (group > 0 || own) && i < rows; i++)
            factor += summed || i == group ? weight_of(stn_mesh_rank_at(grid, (int[]){i, j})) : 0;
    }
    for (int k = 1; k < group; k++)
        factor *= columns;
    stn_scope_begin(context);
    stn_tensor *x = local_leaf(context, N), *y = sum_over(stn_mul(x, x), row, group);
    CHECK_STATUS(stn_backward(weighted(context, sums ? sum_over(y, column, 1) : y)), STN_OK);
    expect_gradient(context, x, N, 2 * factor);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status both_body(stn_context *context, void *arg)
{
    const int *sizes = arg;
    const stn_mesh *grid = test_mesh(context, sizes[0], sizes[1]);
    for (int all_columns = 0; all_columns < 2; all_columns++)
        sum_both_ways(context, grid, all_columns);
    return STN_OK;
}

static void rows_that_record_others_are_joined_by_columns(void)
{
    on_each_grid(both_body);
}

/* One rank of the grid alone has a loss; what leads to it goes backward on all. */
static stn_status one_loss_body(stn_context *context, void *arg)
{
    const int *sizes = arg, last = sizes[0] * sizes[1] - 1;
    const stn_mesh *grid = test_mesh(context, sizes[0], sizes[1]), *row = slice_of(grid, COLUMNS),
                   *column = slice_of(grid, ROWS);
    stn_scope_begin(context);
    stn_tensor *x = local_leaf(context, N), *y = sum_over(sum_over(stn_mul(x, x), row, 1), column, 1);
    stn_tensor *loss = stn_context_rank(context) == last ? total(y) : NULL;
    CHECK_STATUS(stn_backward_many(context, loss != NULL, &loss, NULL, 0), STN_OK);
    expect_gradient(context, x, N, 2);
    return stn_scope_end(context);
}

static void a_loss_of_one_rank_reaches_rows_and_columns(void)
{
    on_each_grid(one_loss_body);
}

/* A sample of 2 + g elements a rank, whose squares a column gathers: sizes differ per rank, and between rows. Each
 * rank's loss is of what its column has, and its value that of one process. */
static stn_status sizes_body(stn_context *context, void *arg)
{
    const int *sizes = arg, rows = sizes[0];
    const stn_mesh *grid = test_mesh(context, sizes[0], sizes[1]), *row = slice_of(grid, COLUMNS),
                   *column = slice_of(grid, ROWS);
    const int group = stn_mesh_coordinate(grid, ROWS), at = stn_mesh_coordinate(grid, COLUMNS), n = 2 * group;
    int64_t counts[8];
    double want = 0, got, factor = 0;
    for (int i = 0; i < rows; i++) {
        const int rank = stn_mesh_rank_at(grid, (int[]){i, at});
        counts[i] = 2 * i;
        factor += weight_of(rank);
        for (int64_t e = 0; e < counts[i]; e++)
            want += weight_of(stn_context_rank(context)) * element(rank, e) * element(rank, e);
    }
    stn_scope_begin(context);
    stn_tensor *x = local_leaf(context, n), *own = sum_over(stn_mul(x, x), row, group > 0); /* its gradient has parts of the whole row */
    stn_tensor *loss = weighted(context, stn_dist_all_gather(stn_mul(x, x), column, 0, counts, STN_GRAD_PER_RANK));
    CHECK_STATUS(stn_item(loss, &got), STN_OK);
    CHECK_NEAR(got, want, 1e-12);
    CHECK_STATUS(stn_backward(stn_add(loss, weighted(context, own))), STN_OK);
    expect_gradient(context, x, n, 2 * (factor + factor_of(row, group > 0, stn_context_rank(context))));
    return stn_scope_end(context);
}

static void columns_gather_what_rows_have_in_other_sizes(void)
{
    on_each_grid(sizes_body);
}

/* Tensors on rows of other sizes, their chunks gathered by columns: from shards to a loss of each rank, and back. */
static stn_status shards_body(stn_context *context, void *arg)
{
    const int *sizes = arg, rows = sizes[0], columns = sizes[1];
    const stn_mesh *grid = test_mesh(context, rows, columns), *row = slice_of(grid, COLUMNS),
                   *column = slice_of(grid, ROWS);
    const stn_placement shard = stn_shard(0);
    const int group = stn_mesh_coordinate(grid, ROWS), at = stn_mesh_coordinate(grid, COLUMNS);
    int64_t counts[8], n = 5 + 2 * group;
    double factor[MOST] = {0}, got[MOST];
    stn_tensor *grad = NULL;
    for (int i = 0; i < rows; i++)
        counts[i] = (5 + 2 * i) / columns + (at < (5 + 2 * i) % columns);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, row, &shard, STN_DTYPE_F64, 1, &n, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *chunk = stn_to_local(stn_mul(x, x), STN_GRAD_PER_RANK);
    CHECK_STATUS(stn_backward(weighted(context, stn_dist_all_gather(chunk, column, 0, counts, STN_GRAD_PER_RANK))),
                 STN_OK);
    for (int64_t e = 0, j = 0, left = 0; e < n; e++, left--) {
        for (; left == 0; j++)
            left = n / columns + (j < n % columns);
        for (int i = 0; i < rows; i++)
            factor[e] += weight_of(stn_mesh_rank_at(grid, (int[]){i, (int)j - 1}));
    }
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (CHECK_PTR(grad)) {
        test_read(grad, got, n);
        for (int64_t e = 0; e < n; e++)
            CHECK_NEAR(got[e], 2 * factor[e] * test_value(e), 1e-12);
    }
    return stn_scope_end(context);
}

static void shards_on_rows_of_other_sizes_meet_in_columns(void)
{
    on_each_grid(shards_body);
}

/* Group 1 begins when group 0 has done all of its steps. If group 0 needed it anywhere, it would wait until the
 * deadline. */
static stn_status straggler_body(stn_context *context, void *arg)
{
    atomic_int *ready = arg;
    const struct timespec moment = {.tv_nsec = 1000000};
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = slice_of(grid, COLUMNS);
    const int group = stn_mesh_coordinate(grid, ROWS), rank = stn_context_rank(context);
    for (int waited = 0; group == 1 && atomic_load(ready) < 2 && waited < 60000; waited++)
        nanosleep(&moment, NULL);
    if (group == 1)
        CHECK_I64(atomic_load(ready), 2);
    stn_scope_begin(context); /* all steps in one: what was recorded before still counts */
    for (int step = 0; step < 3 + group; step++) {
        stn_tensor *x = local_leaf(context, N);
        CHECK_STATUS(stn_backward(weighted(context, sum_over(stn_mul(x, x), row, 2 - group))), STN_OK);
        expect_gradient(context, x, N, 2 * factor_of(row, 2 - group, rank));
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    atomic_fetch_add(ready, group == 0);
    return STN_OK;
}

static void a_straggler_delays_no_group_with_collectives_of_its_own(void)
{
    atomic_int ready = 0;
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 30};
    CHECK_STATUS(test_launch(4, &options, straggler_body, &ready), STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"groups_record_collectives_of_their_own_or_none", groups_record_collectives_of_their_own_or_none},
        {"rows_that_record_others_are_joined_by_columns", rows_that_record_others_are_joined_by_columns},
        {"a_loss_of_one_rank_reaches_rows_and_columns", a_loss_of_one_rank_reaches_rows_and_columns},
        {"columns_gather_what_rows_have_in_other_sizes", columns_gather_what_rows_have_in_other_sizes},
        {"shards_on_rows_of_other_sizes_meet_in_columns", shards_on_rows_of_other_sizes_meet_in_columns},
        {"a_straggler_delays_no_group_with_collectives_of_its_own",
         a_straggler_delays_no_group_with_collectives_of_its_own},
    };
    return TEST_MAIN(argc, argv, cases);
}
