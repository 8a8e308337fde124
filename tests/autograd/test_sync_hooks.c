/* Hooks that fail in stn_grad_sync, on one rank alone or on each in another way: all ranks return one error and keep
 * their meshes. */
#include "ranks.h"

#include <string.h>

enum { N = 6 };

static stn_tensor *vector(stn_context *context, const stn_mesh *mesh, stn_placement placement)
{
    const int64_t shape[] = {N};
    const stn_placement places[] = {placement, stn_replicate()};
    return test_tensor(context, mesh, places, STN_DTYPE_F64, 1, shape, NULL, test_value);
}

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, stn_placement placement)
{
    stn_tensor *t = vector(context, mesh, placement);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

/* A backward whose hooks have to wait. Of a leaf that is Replicate the reduction waits, too. */
static void accumulate(stn_context *context, const stn_mesh *mesh, stn_tensor *p)
{
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(vector(context, mesh, stn_shard(0)), p), 0, NULL, 0)), STN_OK);
    stn_no_sync_end(context);
}

static stn_status give_back(stn_tensor *tensor, void *arg)
{
    (void)tensor;
    return *(const stn_status *)arg;
}

static void check_usable(stn_context *context, const stn_mesh *mesh)
{
    double value, sum = 0;
    for (int i = 0; i < N; i++)
        sum += test_value(i);
    CHECK_STATUS(stn_item(stn_sum(vector(context, mesh, stn_shard(0)), 0, NULL, 0), &value), STN_OK);
    CHECK_NEAR(value, sum, 1e-12);
}

/* What the hook of each rank returns; -1: the rank has none. */
struct hooks {
    int returns[4];
    const char *text;
    stn_placement placement;
};

static stn_status sync_body(stn_context *context, void *arg)
{
    const struct hooks *hooks = arg;
    stn_status returned = (stn_status)hooks->returns[stn_context_rank(context)];
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, hooks->placement);
    if ((int)returned >= 0)
        CHECK_STATUS(stn_add_grad_hook(p, give_back, &returned, NULL), STN_OK);
    accumulate(context, mesh, p);
    CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_ERR_CALLBACK);
    CHECK_ERROR(context, STN_ERR_CALLBACK, hooks->text);
    check_usable(context, mesh);
    CHECK_STATUS(stn_grad_of(p, &grad), STN_OK); /* complete, as hooks found it */
    CHECK_PTR(grad);
    return stn_scope_end(context);
}

#define IO "a gradient hook returned \"input or output failed\""
#define VALUE "a gradient hook returned \"a value is out of range\""

static void a_hook_that_fails_on_one_rank_fails_on_all(void)
{
    const stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    for (int p = 0; p < 2; p++) {
        struct hooks of_all = {{STN_OK, STN_ERR_IO, STN_OK}, "rank 1: " IO, placements[p]};
        struct hooks of_one = {{-1, -1, STN_ERR_IO}, "rank 2: " IO, placements[p]};
        test_ranks(3, sync_body, &of_all);
        test_ranks(3, sync_body, &of_one);
    }
}

static void of_hooks_that_fail_in_other_ways_all_ranks_return_the_first(void)
{
    struct hooks several = {{-1, STN_ERR_IO, STN_ERR_VALUE}, "rank 1: " IO, stn_replicate()};
    struct hooks each = {{STN_ERR_VALUE, STN_ERR_IO}, "rank 0: " VALUE, stn_replicate()};
    struct hooks alike = {{STN_ERR_IO, STN_ERR_IO}, IO, stn_replicate()};
    test_ranks(3, sync_body, &several);
    test_ranks(2, sync_body, &each);
    test_ranks(2, sync_body, &alike);
}

static const stn_mesh *slice_of(const stn_mesh *grid, int axis)
{
    const stn_mesh *own = NULL;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &own), STN_OK);
    return own;
}

/* Rank 3 fails. It shares its row with rank 2 and its column with rank 1; rank 0 waits for these in what comes next.
 * With leaves on one column alone it learns it through rank 2, and rank 1 through it. */
static stn_status chain_body(stn_context *context, void *arg)
{
    const int rank = stn_context_rank(context), n = arg && rank % 2 == 1 ? 1 : 2;
    stn_status returned = rank == 3 ? STN_ERR_IO : STN_OK;
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = slice_of(grid, 1), *column = slice_of(grid, 0);
    stn_scope_begin(context);
    stn_tensor *leaves[] = {leaf(context, row, stn_replicate()), leaf(context, column, stn_shard(0))};
    for (int l = 0; l < n; l++) {
        CHECK_STATUS(stn_add_grad_hook(leaves[l], give_back, &returned, NULL), STN_OK);
        accumulate(context, l == 0 ? row : column, leaves[l]);
    }
    CHECK_STATUS(stn_grad_sync(context, n, leaves), STN_ERR_CALLBACK);
    CHECK_ERROR(context, STN_ERR_CALLBACK, "rank 3: " IO);
    check_usable(context, row);
    check_usable(context, column);
    return stn_scope_end(context);
}

static void ranks_that_share_no_mesh_learn_it_through_others(void)
{
    test_ranks(4, chain_body, NULL);
    test_ranks(4, chain_body, (void *)"one column");
}

static int64_t collectives(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.collectives;
}

/* Where hooks wait ranks meet once more, until they have run: a backward that completes the leaf has agreed on them
 * itself. */
static stn_status count_body(stn_context *context, void *arg)
{
    stn_status returned = STN_OK;
    const int with_hooks = arg != NULL;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_replicate());
    if (with_hooks)
        CHECK_STATUS(stn_add_grad_hook(p, give_back, &returned, NULL), STN_OK);
    for (int i = 0; i < 2; i++) {
        accumulate(context, mesh, p);
        const int64_t before = collectives(context);
        CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_OK);
        CHECK_I64(collectives(context) - before, 1 + with_hooks);
        CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_OK);
        CHECK_I64(collectives(context) - before, 1 + with_hooks);
    }
    accumulate(context, mesh, p);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(p, p), 0, NULL, 0)), STN_OK);
    const int64_t before = collectives(context);
    CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_OK);
    CHECK_I64(collectives(context) - before, 0);
    return stn_scope_end(context);
}

static void without_hooks_there_is_nothing_to_agree_on(void)
{
    test_ranks(2, count_body, NULL);
    test_ranks(2, count_body, (void *)"with");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_hook_that_fails_on_one_rank_fails_on_all", a_hook_that_fails_on_one_rank_fails_on_all},
        {"of_hooks_that_fail_in_other_ways_all_ranks_return_the_first",
         of_hooks_that_fail_in_other_ways_all_ranks_return_the_first},
        {"ranks_that_share_no_mesh_learn_it_through_others", ranks_that_share_no_mesh_learn_it_through_others},
        {"without_hooks_there_is_nothing_to_agree_on", without_hooks_there_is_nothing_to_agree_on},
    };
    return TEST_MAIN(argc, argv, cases);
}
