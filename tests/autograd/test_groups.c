/* Groups of ranks whose backwards differ: they agree among themselves, and nobody waits for anybody else (contract
 * 29). */
#include "ranks.h"

#include <stdatomic.h>
#include <time.h>

enum { WORLD = 4 };

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, int64_t n)
{
    const stn_placement shard = stn_shard(0);
    stn_tensor *t = test_tensor(context, mesh, &shard, STN_DTYPE_F64, 1, &n, NULL, test_value);
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_tensor *sum(stn_tensor *t)
{
    return stn_sum(t, 0, NULL, 0);
}

/* The gradient of a leaf of `n` elements is factor * its value, on every rank of its mesh. */
static void check_grad(stn_tensor *leaf, int64_t n, double factor)
{
    double got[16];
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(leaf, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    test_read(grad, got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], factor * test_value(i), 1e-12);
}

/* Data x domain: each data group cuts samples of its own size over its own slice. */
static stn_status samples_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *own;
    const int domain = 1;
    (void)arg;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &domain, &own), STN_OK);
    int group = stn_mesh_coordinate(grid, 0);
    int64_t n = group == 0 ? 5 : 7;
    stn_scope_begin(context);
    for (int step = 0; step < 3; step++) {
        stn_tensor *x = leaf(context, own, n + step);
        stn_tensor *y = stn_mul(x, x);
        if (group == 1 && step > 0) /* and programs of their own */
            y = stn_add(y, y);
        CHECK_STATUS(stn_backward(sum(y)), STN_OK);
        check_grad(x, n + step, group == 1 && step > 0 ? 4 : 2);
    }
    for (int step = 0; step < 2 * group; step++) { /* or more steps */
        stn_tensor *x = leaf(context, own, n);
        CHECK_STATUS(stn_backward(sum(stn_mul(x, x))), STN_OK);
        check_grad(x, n, 2);
    }
    return stn_scope_end(context);
}

static void data_groups_may_have_samples_of_other_sizes(void)
{
    test_ranks(WORLD, samples_body, NULL);
}

static const stn_mesh *mesh_of(stn_context *context, int first, int n)
{
    int ranks[WORLD];
    const char *name = "x";
    const stn_mesh *mesh = NULL;
    for (int i = 0; i < n; i++)
        ranks[i] = first + i;
    CHECK_STATUS(stn_mesh_create(context, 1, &n, &name, ranks, &mesh), STN_OK);
    return mesh;
}

/* Rank 2 holds the tensors too, and goes backward once with its handle, or never; rank 3 has left. */
static stn_status outside_body(stn_context *context, void *arg)
{
    int rank = stn_context_rank(context), outside_calls = *(const int *)arg;
    const stn_mesh *mesh = mesh_of(context, 0, 2);
    if (rank == 3)
        return STN_OK;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, mesh, 5);
    for (int step = 0; step < (rank == 2 ? outside_calls : 3); step++)
        CHECK_STATUS(stn_backward(sum(stn_mul(x, x))), STN_OK);
    if (rank < 2)
        check_grad(x, 5, 6);
    return stn_scope_end(context);
}

static void ranks_outside_the_meshes_neither_wait_nor_are_needed(void)
{
    for (int calls = 0; calls <= 3; calls += 3)
        test_ranks(WORLD, outside_body, &calls);
}

/* Group 0 disagrees, group 1 does not hear of it. */
static stn_status mismatch_body(stn_context *context, void *arg)
{
    int rank = stn_context_rank(context);
    (void)arg;
    const stn_mesh *mesh = mesh_of(context, rank < 2 ? 0 : 2, 2);
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, mesh, 5);
    CHECK_STATUS(stn_backward(sum(rank == 1 ? stn_add(x, x) : stn_mul(x, x))), rank < 2 ? STN_ERR_MISMATCH : STN_OK);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_backward(sum(stn_mul(x, x))), STN_OK);
    check_grad(x, 5, rank < 2 ? 2 : 4);
    return stn_scope_end(context);
}

static void a_disagreement_stays_in_its_group(void)
{
    test_ranks(WORLD, mismatch_body, NULL);
}

/* Two stages: the move between them joins their ranks, so that rank 0 hears of what rank 3 does differently. */
static stn_status stages_body(stn_context *context, void *arg)
{
    const int differs = *(const int *)arg;
    const stn_placement shard = stn_shard(0);
    const int64_t n = 7;
    const stn_mesh *first = mesh_of(context, 0, 2), *second = mesh_of(context, 2, 2);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, second, &shard, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, first, n);
    stn_tensor *y = stn_redistribute(stn_mul(x, x), spec);
    if (differs && stn_context_rank(context) == 3)
        y = stn_neg(y);
    CHECK_STATUS(stn_backward(sum(y)), differs ? STN_ERR_MISMATCH : STN_OK);
    if (differs)
        stn_context_take_error(context, NULL, 0);
    else if (stn_mesh_contains_me(first))
        check_grad(x, n, 2);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void a_move_joins_the_meshes_that_it_is_between(void)
{
    for (int differs = 0; differs < 2; differs++)
        test_ranks(WORLD, stages_body, &differs);
}

/* x minimises (x - 3)^2 on the members, by gradients; the rank outside sees NaN, for which the loop's condition does
 * not hold, and does other things. */
static stn_status loop_body(stn_context *context, void *arg)
{
    const int64_t n = 1;
    const stn_placement replicate = stn_replicate();
    const stn_mesh *mesh = mesh_of(context, 0, 2);
    double residual = 0;
    int steps = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &replicate, STN_DTYPE_F64, 1, &n, NULL, test_value);
    do {
        stn_tensor *y = stn_detach(x), *grads[1];
        stn_set_requires_grad(y, 1);
        stn_tensor *loss = sum(stn_square(stn_sub_number(y, 3)));
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &y, 0, 0, grads), STN_OK);
        x = stn_sub(y, stn_mul_number(grads[0], 0.25));
        CHECK_STATUS(stn_item(loss, &residual), STN_OK);
        steps++;
    } while (residual > 1e-12 && steps < 100);
    CHECK(stn_mesh_contains_me(mesh) ? steps > 5 && steps < 100 : steps == 1);
    return stn_scope_end(context);
}

static void a_loop_on_one_mesh_needs_no_rank_outside_it(void)
{
    test_ranks(3, loop_body, NULL);
}

/* Each rank for itself, as often as it likes. */
static stn_status local_body(stn_context *context, void *arg)
{
    const int64_t n = 3;
    (void)arg;
    stn_scope_begin(context);
    for (int step = 0; step <= stn_context_rank(context); step++) {
        stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value);
        stn_set_requires_grad(x, 1);
        CHECK_STATUS(stn_backward(sum(stn_mul(x, x))), STN_OK);
        check_grad(x, n, 2);
    }
    return stn_scope_end(context);
}

static void graphs_of_local_tensors_concern_nobody_else(void)
{
    test_ranks(3, local_body, NULL);
}

/* A straggler delays nobody that it shares no tensor with: group 1 does not begin before group 0 has done all of its
 * steps. If group 0 needed it anywhere, it would wait until the deadline. */
struct relay {
    atomic_int ready; /* ranks of group 0 that have finished */
};

static stn_status train_steps(stn_context *context, const stn_mesh *own, int group, int steps)
{
    const int64_t n = 5 + 2 * group;
    for (int step = 0; step < steps; step++) {
        stn_scope_begin(context);
        stn_tensor *x = leaf(context, own, n), *y = stn_mul(x, stn_dropout(x, 0.5, 1));
        stn_tensor *chunk = stn_to_local(stn_cumsum(y, 0), STN_GRAD_PER_RANK);
        double value;
        CHECK_STATUS(stn_backward(stn_add(sum(chunk), sum(stn_mul(chunk, chunk)))), STN_OK); /* each rank's own */
        stn_tensor *z = leaf(context, own, n + step), *loss = sum(group ? stn_exp(z) : stn_mul(z, z));
        CHECK_STATUS(stn_backward(loss), STN_OK);
        CHECK_STATUS(stn_item(loss, &value), STN_OK);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return stn_context_status(context);
}

static stn_status straggler_body(stn_context *context, void *arg)
{
    struct relay *relay = arg;
    const stn_mesh *grid = test_mesh(context, 2, 2), *own;
    const int domain = 1, group = stn_mesh_coordinate(grid, 0);
    const struct timespec moment = {.tv_nsec = 1000000};
    CHECK_STATUS(stn_mesh_slice(grid, 1, &domain, &own), STN_OK);
    for (int waited = 0; group == 1 && atomic_load(&relay->ready) < 2 && waited < 60000; waited++)
        nanosleep(&moment, NULL);
    if (group == 1)
        CHECK_I64(atomic_load(&relay->ready), 2);
    CHECK_STATUS(train_steps(context, own, group, group ? 2 : 6), STN_OK);
    atomic_fetch_add(&relay->ready, group == 0);
    return STN_OK;
}

static void a_straggler_delays_nobody_outside_its_group(void)
{
    struct relay relay = {0};
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 30};
    CHECK_STATUS(test_launch(WORLD, &options, straggler_body, &relay), STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"data_groups_may_have_samples_of_other_sizes", data_groups_may_have_samples_of_other_sizes},
        {"ranks_outside_the_meshes_neither_wait_nor_are_needed", ranks_outside_the_meshes_neither_wait_nor_are_needed},
        {"a_disagreement_stays_in_its_group", a_disagreement_stays_in_its_group},
        {"a_move_joins_the_meshes_that_it_is_between", a_move_joins_the_meshes_that_it_is_between},
        {"a_loop_on_one_mesh_needs_no_rank_outside_it", a_loop_on_one_mesh_needs_no_rank_outside_it},
        {"graphs_of_local_tensors_concern_nobody_else", graphs_of_local_tensors_concern_nobody_else},
        {"a_straggler_delays_nobody_outside_its_group", a_straggler_delays_nobody_outside_its_group},
    };
    return TEST_MAIN(argc, argv, cases);
}
