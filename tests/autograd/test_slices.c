/* Backwards over slices of a grid along several of its axes. A rank knows its own slices alone, and yet all agree
 * with the ranks that these join: those of its plane, and no others. */
#include "ranks.h"

#include <string.h>
#include <time.h>

static const stn_mesh *slice_of(const stn_mesh *grid, int axis)
{
    const stn_mesh *own = NULL;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &own), STN_OK);
    return own;
}

static stn_tensor *vector(stn_context *context, const stn_mesh *mesh, stn_placement along_each, int64_t n)
{
    const stn_placement place[] = {along_each, stn_replicate(), stn_replicate()};
    return test_tensor(context, mesh, place, STN_DTYPE_F64, 1, &n, NULL, test_value);
}

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, stn_placement place, int64_t n)
{
    stn_tensor *t = vector(context, mesh, place, n);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

static stn_tensor *sum_of_squares(stn_tensor *t)
{
    return stn_sum(stn_mul(t, t), 0, NULL, 0);
}

static void expect_gradient(stn_tensor *t, int64_t n, double factor)
{
    stn_tensor *grad = NULL;
    double want[16];
    for (int64_t i = 0; i < n; i++)
        want[i] = factor * test_value(i);
    CHECK_STATUS(stn_grad_of(t, &grad), STN_OK);
    if (CHECK_PTR(grad))
        test_compare(grad, want, n, 1e-14);
}

enum { ROW = 5, COLUMN = 7, WHOLE = 4 };

/* A shard on the row, a replica on the column that meets a shard there, and a shard on the grid: in one backward, by
 * losses of their own, or by a loss of each rank that takes in its chunks. */
static stn_status planes_body(stn_context *context, void *arg)
{
    const int *sizes = arg;
    const stn_mesh *grid = test_mesh(context, sizes[0], sizes[1]), *row = slice_of(grid, 1),
                   *column = slice_of(grid, 0);
    for (int local = 0; local < 2; local++) {
        stn_scope_begin(context);
        stn_tensor *x = leaf(context, row, stn_shard(0), ROW), *w = leaf(context, column, stn_replicate(), COLUMN);
        stn_tensor *v = vector(context, column, stn_shard(0), COLUMN), *g = leaf(context, grid, stn_shard(0), WHOLE);
        stn_tensor *terms[] = {stn_mul(x, x), stn_mul(w, v), stn_mul(g, g)}, *loss[3];
        for (int i = 0; i < 3; i++)
            loss[i] = stn_sum(local && i < 2 ? stn_to_local(terms[i], STN_GRAD_PER_RANK) : terms[i], 0, NULL, 0);
        if (local)
            loss[0] = stn_add(loss[0], loss[1]);
        CHECK_STATUS(stn_backward_many(context, local ? 1 : 3, loss, NULL, 1), STN_OK);
        if (local)
            CHECK_STATUS(stn_backward(loss[2]), STN_OK);
        expect_gradient(x, ROW, 2);
        expect_gradient(w, COLUMN, 1);
        expect_gradient(g, WHOLE, 2);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void rows_and_columns_go_backward_together(void)
{
    static const int grids[][2] = {{2, 2}, {2, 3}, {3, 2}, {1, 3}, {3, 1}};
    for (int i = 0; i < 5; i++)
        test_ranks(grids[i][0] * grids[i][1], planes_body, (void *)grids[i]);
}

static const stn_mesh *cube_of(stn_context *context)
{
    const int sizes[] = {2, 2, 2};
    const char *names[] = {"data", "y", "x"};
    const stn_mesh *cube = NULL;
    CHECK_STATUS(stn_mesh_create(context, 3, sizes, names, NULL, &cube), STN_OK);
    return cube;
}

/* Two planes of a cube train apart: other sizes, other programs, other numbers of steps. The rows are slices of a
 * slice. */
static stn_status cube_body(stn_context *context, void *arg)
{
    const stn_mesh *cube = cube_of(context), *plane = NULL;
    const int yx[] = {1, 2}, group = stn_mesh_coordinate(cube, 0);
    (void)arg;
    CHECK_STATUS(stn_mesh_slice(cube, 2, yx, &plane), STN_OK);
    const stn_mesh *row = slice_of(plane, 1), *column = slice_of(cube, 1);
    for (int step = 0; step < 1 + 2 * group; step++) {
        stn_scope_begin(context);
        stn_tensor *x = leaf(context, row, stn_shard(0), ROW + group),
                   *y = leaf(context, column, stn_shard(0), COLUMN - group);
        stn_tensor *loss[] = {sum_of_squares(x), sum_of_squares(y)};
        if (group == 1)
            loss[1] = stn_mul_number(loss[1], 3);
        CHECK_STATUS(stn_backward_many(context, 2, loss, NULL, 0), STN_OK);
        expect_gradient(x, ROW + group, 2);
        expect_gradient(y, COLUMN - group, group == 1 ? 6 : 2);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void planes_of_a_cube_are_apart(void)
{
    test_ranks(8, cube_body, NULL);
}

/* Rows of other sizes and programs, which the columns join. */
static stn_status differing_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 3), *row = slice_of(grid, 1), *column = slice_of(grid, 0);
    const int group = stn_mesh_coordinate(grid, 0);
    const int64_t n = ROW + group;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, row, stn_shard(0), n), *y = leaf(context, column, stn_shard(0), COLUMN);
    stn_tensor *loss[] = {sum_of_squares(x), sum_of_squares(y)};
    if (group == 1)
        loss[0] = stn_add(loss[0], stn_sum(stn_mul(x, x), 0, NULL, 0));
    CHECK_STATUS(stn_backward_many(context, 2, loss, NULL, 0), STN_OK);
    expect_gradient(x, n, group == 1 ? 4 : 2);
    expect_gradient(y, COLUMN, 2);
    return stn_scope_end(context);
}

static void rows_that_differ_go_backward_with_columns_that_join_them(void)
{
    test_ranks(6, differing_body, NULL);
}

/* A column differs: the ranks of all rows that it joins are told, and can go on. */
static stn_status column_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 3), *row = slice_of(grid, 1), *column = slice_of(grid, 0);
    const int64_t n = ROW + stn_mesh_coordinate(grid, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, row, stn_shard(0), n), *y = leaf(context, column, stn_shard(0), COLUMN);
    stn_tensor *loss[] = {sum_of_squares(x),
                          stn_context_rank(context) == 4 ? stn_sum(y, 0, NULL, 0) : sum_of_squares(y)};
    CHECK_STATUS(stn_backward_many(context, 2, loss, NULL, 1), STN_ERR_MISMATCH);
    CHECK_ERROR_PART(context, STN_ERR_MISMATCH,
                     "rank 1: stn_backward: ranks would communicate differently: step 1 is 'mul'");
    CHECK_STATUS(stn_backward(loss[0]), STN_OK);
    expect_gradient(x, n, 2);
    return stn_scope_end(context);
}

static void a_column_that_differs_is_told_to_all_that_it_joins(void)
{
    test_ranks(6, column_body, NULL);
}

struct odd {
    int rank;  /* that has tensors along columns too */
    int whole; /* all have one on the grid, which joins everybody */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Its peers have tensors on rows alone. */
static stn_status odd_body(stn_context *context, void *arg)
{
    const struct odd *odd = arg;
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = slice_of(grid, 1), *column = slice_of(grid, 0);
    const int rank = stn_context_rank(context), is_odd = rank == odd->rank;
    char text[512];
    const double start = now();
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, row, stn_shard(0), ROW),
               *y = is_odd ? leaf(context, column, stn_shard(0), COLUMN) : NULL;
    stn_tensor *g = odd->whole ? leaf(context, grid, stn_shard(0), WHOLE) : NULL, *loss[3] = {sum_of_squares(x)};
    int n = 1;
    if (y)
        loss[n++] = sum_of_squares(y);
    if (g)
        loss[n++] = sum_of_squares(g);
    const stn_status status = stn_backward_many(context, n, loss, NULL, 1);
    CHECK(now() - start < 10);
    if (odd->whole || rank < 2) {
        CHECK_STATUS(status, STN_ERR_MISMATCH);
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_MISMATCH);
        CHECK(strstr(text, " has tensors on slices along x") && strstr(text, "along x and y") &&
              strstr(text, "both are of one slice"));
    } else {
        CHECK(status == STN_OK || status == STN_ERR_PEER); /* its row had gone backward before the family was aborted, or had not */
    }
    if (odd->whole) { /* and can go on */
        CHECK_STATUS(stn_backward(loss[n - 1]), STN_OK);
        expect_gradient(g, WHOLE, 2);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    } else {
        stn_scope_end(context);
    }
    return STN_OK;
}

static void slices_that_peers_lack_are_refused_where_the_grid_joins_all(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    for (int rank = 0; rank < 4; rank++) {
        struct odd odd = {.rank = rank, .whole = 1};
        CHECK_STATUS(test_launch(4, &options, odd_body, &odd), STN_OK);
    }
}

/* Rank 2 or 3 might wait for rank 0 or 1, or never come: the family is aborted, with the reason. */
static void slices_that_peers_lack_are_refused_at_once(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    for (int rank = 0; rank < 2; rank++) {
        struct odd odd = {.rank = rank};
        test_launch(4, &options, odd_body, &odd);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"rows_and_columns_go_backward_together", rows_and_columns_go_backward_together},
        {"planes_of_a_cube_are_apart", planes_of_a_cube_are_apart},
        {"rows_that_differ_go_backward_with_columns_that_join_them",
         rows_that_differ_go_backward_with_columns_that_join_them},
        {"slices_that_peers_lack_are_refused_where_the_grid_joins_all",
         slices_that_peers_lack_are_refused_where_the_grid_joins_all},
        {"slices_that_peers_lack_are_refused_at_once", slices_that_peers_lack_are_refused_at_once},
        {"a_column_that_differs_is_told_to_all_that_it_joins", a_column_that_differs_is_told_to_all_that_it_joins},
    };
    return TEST_MAIN(argc, argv, cases);
}
