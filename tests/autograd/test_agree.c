/* What ranks agree on before a backward, and what becomes of it where they cannot. */
#include "ranks.h"

enum { N = 6 };

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, stn_placement placement, int64_t n)
{
    stn_placement placements[2] = {placement, placement};
    stn_tensor *t = test_tensor(context, mesh, placements, STN_DTYPE_F64, 1, &n, NULL, test_value);
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_tensor *square_sum(stn_tensor *t)
{
    return stn_sum(stn_mul(t, t), 0, NULL, 0);
}

/* Two grids whose slices are one mesh on some ranks and two on others: meshes made later have other numbers there. */
static stn_status slices_body(stn_context *context, void *arg)
{
    const int sizes[] = {2, 2}, four = 4, other[] = {0, 1, 3, 2}, axis = 1;
    const char *names[] = {"y", "x"}, *line = "line";
    const stn_mesh *grid, *turned, *slice, *mesh;
    stn_tensor *grad;
    (void)arg;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, names, NULL, &grid), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, names, other, &turned), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &slice), STN_OK);
    CHECK_STATUS(stn_mesh_slice(turned, 1, &axis, &slice), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 1, &four, &line, NULL, &mesh), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, mesh, stn_shard(0), N);
    CHECK_STATUS(stn_backward(square_sum(x)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK_PTR(grad);
    return stn_scope_end(context);
}

static void meshes_are_known_by_their_ranks_and_names(void)
{
    test_ranks(4, slices_body, NULL);
}

/* Rank 1 has left: rank 0 is told by the action, by the kept text and at the end of its scope. */
static stn_status left_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    if (stn_context_rank(context) == 1)
        return STN_OK;
    stn_scope_begin(context);
    CHECK_STATUS(stn_backward(square_sum(leaf(context, mesh, stn_replicate(), N))), STN_ERR_PEER);
    CHECK_STATUS(stn_context_status(context), STN_ERR_PEER);
    CHECK(stn_context_error_text(context)[0] != '\0');
    CHECK_STATUS(stn_scope_end(context), STN_ERR_PEER);
    return STN_OK;
}

static void backward_that_fails_while_ranks_agree_is_kept(void)
{
    test_ranks(2, left_body, NULL);
}

static stn_status left_before_sync_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_scope_begin(context);
    stn_tensor *p[2] = {leaf(context, mesh, stn_replicate(), N), leaf(context, mesh, stn_replicate(), N)};
    stn_tensor *x = stn_detach(leaf(context, mesh, stn_shard(0), N));
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(stn_mul(x, p[0]), p[1]), 0, NULL, 0)), STN_OK);
    stn_no_sync_end(context);
    if (stn_context_rank(context) == 0) {
        double host[N];
        stn_tensor *grad = NULL;
        if (test_queue() == TEST_QUEUE_WORKER) { /* known when somebody waits for it */
            CHECK_STATUS(stn_grad_sync(context, 2, p), STN_OK);
            CHECK_STATUS(stn_grad_of(p[0], &grad), STN_OK);
            CHECK_STATUS(stn_to_host(grad, host, sizeof host), STN_ERR_PEER);
        } else {
            CHECK_STATUS(stn_grad_sync(context, 2, p), STN_ERR_PEER);
        }
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_PEER);
    }
    for (int i = 0; i < 2; i++) /* what is pending outlives its leaf */
        CHECK_STATUS(stn_zero_grad(p[i]), STN_OK);
    return stn_scope_end(context);
}

static void reduction_of_pending_gradients_that_fails_is_kept(void)
{
    test_ranks(2, left_before_sync_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"meshes_are_known_by_their_ranks_and_names", meshes_are_known_by_their_ranks_and_names},
        {"backward_that_fails_while_ranks_agree_is_kept", backward_that_fails_while_ranks_agree_is_kept},
        {"reduction_of_pending_gradients_that_fails_is_kept", reduction_of_pending_gradients_that_fails_is_kept},
    };
    return TEST_MAIN(argc, argv, cases);
}
