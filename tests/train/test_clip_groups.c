/* The norm of gradients where groups train apart: what stn_grad_all_reduce has joined counts as in one process, what is
 * a group's own counts for that group, whatever the samples, cuts and programs of the groups. */
#include "ranks.h"

#include <math.h>

enum { WIDTH = 7 };

struct grid {
    int rows, columns;
    stn_reduce_op op;
    int sharded; /* the parameters that groups share */
};

static const struct grid grids[] = {{2, 2, STN_AVG, 0}, {3, 2, STN_SUM, 0}, {2, 2, STN_SUM, 1}, {3, 2, STN_AVG, 1},
                                    {2, 3, STN_AVG, 1}, {3, 1, STN_SUM, 0}, {1, 3, STN_AVG, 1}};

/* Points of a group's sample, of which each group has another number: 5, 7, 9. */
static int64_t points_of(int group)
{
    return 5 + 2 * group;
}

static double half(int64_t i)
{
    return 0.5 * test_value(i + 3);
}

static stn_tensor *parameter(stn_context *context, const stn_mesh *mesh, stn_placement place)
{
    const int64_t shape[] = {WIDTH};
    stn_tensor *t = test_tensor(context, mesh, &place, STN_DTYPE_F64, 1, shape, NULL, half);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

/* The sum over a sample of x w: its gradient is the sum of the points. Odd groups have all but one point on one
 * rank, and go by another op. */
static stn_tensor *loss_of(stn_tensor *w, const stn_mesh *mesh, int group)
{
    const int64_t n = points_of(group), shape[] = {n, WIDTH};
    const int p = stn_mesh_size(mesh);
    const stn_placement rows = stn_shard(0);
    int64_t cut[8] = {p > 1 ? n - 1 : n, p > 1};
    const int64_t *const sizes[] = {cut, NULL};
    stn_tensor *x =
        test_tensor(stn_tensor_context(w), mesh, &rows, STN_DTYPE_F64, 2, shape, group % 2 ? sizes : NULL, test_value);
    if (group % 2)
        return stn_sum(stn_mul(x, w), 0, NULL, 0);
    return stn_sum(stn_matmul(x, stn_unsqueeze(w, 1)), 0, NULL, 0);
}

/* Element i of the gradient of a group's loss. */
static double slope(int group, int64_t i)
{
    double sum = 0;
    for (int64_t p = 0; p < points_of(group); p++)
        sum += test_value(p * WIDTH + i);
    return sum;
}

static double joined_slope(const struct grid *g, int64_t i)
{
    double sum = 0;
    for (int group = 0; group < g->rows; group++)
        sum += slope(group, i);
    return g->op == STN_AVG ? sum / g->rows : sum;
}

/* Squares of what one process would have: the joined gradient once, each group's own once. */
static double square_of(const struct grid *g, int joined, int own)
{
    double square = 0;
    for (int64_t i = 0; i < WIDTH; i++) {
        square += joined * joined_slope(g, i) * joined_slope(g, i);
        for (int group = 0; own && group < g->rows; group++)
            square += slope(group, i) * slope(group, i);
    }
    return square;
}

static const stn_mesh *slice_of(const stn_mesh *grid, int axis)
{
    const stn_mesh *own = NULL;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &own), STN_OK);
    return own;
}

static void expect_norm(stn_context *context, int n, stn_tensor *const *list, double most, double square)
{
    double norm = -1;
    CHECK_STATUS(stn_clip_grad_norm(context, n, list, most, &norm), STN_OK);
    CHECK_NEAR(norm, sqrt(square), 1e-12);
}

static void expect_gradient(const struct grid *g, stn_tensor *leaf, double factor)
{
    double got[WIDTH];
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(leaf, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    test_read(grad, got, WIDTH);
    for (int64_t i = 0; i < WIDTH; i++)
        CHECK_NEAR(got[i], factor * joined_slope(g, i), 1e-12);
}

/* Shared by the groups, a stage's own, and what is added to a shared one after it was joined. */
static stn_status slices_body(stn_context *context, void *arg)
{
    const struct grid *g = arg;
    const stn_mesh *grid = test_mesh(context, g->rows, g->columns), *mesh = slice_of(grid, 1);
    const int group = stn_mesh_coordinate(grid, 0);
    stn_scope_begin(context);
    stn_tensor *shared = parameter(context, mesh, g->sharded ? stn_shard(0) : stn_replicate());
    stn_tensor *own = parameter(context, mesh, stn_replicate()), *list[] = {shared, own};
    CHECK_STATUS(stn_backward(stn_add(loss_of(shared, mesh, group), loss_of(own, mesh, group))), STN_OK);
    CHECK_STATUS(stn_grad_all_reduce(1, &shared, grid, 0, g->op), STN_OK);
    const double square = square_of(g, 1, 1), least = sqrt(square) / 4;
    expect_norm(context, 2, list, 1e9, square);
    expect_norm(context, 1, &shared, 1e9, square_of(g, 1, 0));
    expect_norm(context, 2, list, least, square);
    expect_norm(context, 2, list, 1e9, square / 16);
    expect_gradient(g, shared, 0.25);
    CHECK_STATUS(stn_zero_grad(shared), STN_OK); /* what comes now is each group's own again */
    CHECK_STATUS(stn_backward(loss_of(shared, mesh, group)), STN_OK);
    expect_norm(context, 1, &shared, 1e9, square_of(g, 0, 1));
    return stn_scope_end(context);
}

static void joined_gradients_count_once_and_a_groups_own_for_each_group(void)
{
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        struct grid grid = grids[i];
        test_ranks(grid.rows * grid.columns, slices_body, &grid);
    }
}

/* A parameter of each rank's own, joined along both axes one after the other. */
static stn_status local_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {WIDTH};
    const struct grid *g = arg;
    const stn_mesh *grid = test_mesh(context, g->rows, g->columns);
    const double size = g->rows * g->columns;
    double square = 0;
    stn_scope_begin(context);
    stn_tensor *w = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, shape, NULL, half);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, shape, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(w, x), 0, NULL, 0)), STN_OK);
    for (int64_t i = 0; i < WIDTH; i++)
        square += test_value(i) * test_value(i);
    expect_norm(context, 1, &w, 1e9, size * square);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, grid, 0, STN_SUM), STN_OK);
    expect_norm(context, 1, &w, 1e9, g->columns * g->rows * g->rows * square);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, grid, 1, STN_SUM), STN_OK);
    expect_norm(context, 1, &w, 1e9, size * size * square);
    return stn_scope_end(context);
}

static void axes_may_be_joined_one_after_the_other(void)
{
    struct grid two = grids[0], three = grids[1];
    test_ranks(4, local_body, &two);
    test_ranks(6, local_body, &three);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"joined_gradients_count_once_and_a_groups_own_for_each_group",
         joined_gradients_count_once_and_a_groups_own_for_each_group},
        {"axes_may_be_joined_one_after_the_other", axes_may_be_joined_one_after_the_other},
    };
    return TEST_MAIN(argc, argv, cases);
}
