/* What a rank does otherwise than its peers in a program of collectives and backwards: what all ranks are told, and
 * how soon. The table of docs/gradients.md. */
#include "ranks.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANKS = 4, ODD = 1, N = 3 };

/* Seconds. Nothing that is told at once comes near the long deadline, on a machine under load either. */
static const double at_once = 10, long_deadline = 60, short_deadline = 1;

enum when { AT_ONCE, BY_THE_DEADLINE };

/* What is left: all can go on; the family is aborted; those who find it abort it, so that ranks outside of the odd
 * one's row, or all but one, get STN_ERR_PEER. */
enum end { USABLE, ABORTED, ABORTED_ELSEWHERE, ABORTED_BY_ONE };

struct misuse {
    const char *name;
    void (*run)(stn_context *context, const stn_mesh *mesh, int odd);
    stn_status status;
    const char *text; /* a part of what all ranks keep; NULL: the rank that is odd is told nothing */
    enum when when;
    enum end end;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stn_tensor *local(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value);
    return dtype == STN_DTYPE_F64 ? x : stn_cast(x, dtype);
}

static stn_tensor *leaf(stn_context *context)
{
    stn_tensor *x = local(context, STN_DTYPE_F64, N);
    stn_set_requires_grad(x, 1);
    return x;
}

static stn_tensor *leaf_on(stn_context *context, const stn_mesh *mesh, int64_t n)
{
    const stn_placement shard[] = {stn_shard(0), stn_replicate()};
    stn_tensor *x = test_tensor(context, mesh, shard, STN_DTYPE_F64, 1, &n, NULL, test_value);
    stn_set_requires_grad(x, 1);
    return x;
}

static stn_tensor *total(stn_tensor *t)
{
    return stn_sum(stn_mul(t, t), 0, NULL, 0);
}

static stn_tensor *all_reduce(stn_tensor *x, const stn_mesh *mesh, stn_reduce_op op)
{
    return stn_dist_all_reduce(x, mesh, op, STN_GRAD_PER_RANK);
}

/* Calls that differ */

static void other_op(stn_context *context, const stn_mesh *mesh, int odd)
{
    all_reduce(leaf(context), mesh, odd ? STN_PROD : STN_SUM);
}

static void other_dtype(stn_context *context, const stn_mesh *mesh, int odd)
{
    all_reduce(local(context, odd ? STN_DTYPE_F32 : STN_DTYPE_F64, N), mesh, STN_SUM);
}

static void other_count(stn_context *context, const stn_mesh *mesh, int odd)
{
    all_reduce(local(context, STN_DTYPE_F64, odd ? N + 1 : N), mesh, STN_SUM);
}

static void other_collective(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf(context);
    odd ? stn_dist_broadcast(x, mesh, 0, STN_GRAD_PER_RANK) : all_reduce(x, mesh, STN_SUM);
}

static void bad_root(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_dist_broadcast(leaf(context), mesh, odd ? RANKS : 0, STN_GRAD_PER_RANK);
}

static void other_root(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_dist_broadcast(leaf(context), mesh, odd, STN_GRAD_PER_RANK);
}

static void sizes_that_do_not_fit(stn_context *context, const stn_mesh *mesh, int odd)
{
    const int64_t sizes[] = {N, odd ? N + 1 : N, N, N};
    stn_dist_all_gather(leaf(context), mesh, 0, sizes, STN_GRAD_PER_RANK);
}

/* Rank 0 sends two elements to rank 1, which waits for three. */
static void counts_that_do_not_match(stn_context *context, const stn_mesh *mesh, int odd)
{
    const int rank = stn_context_rank(context);
    const int64_t sends[RANKS] = {0, rank == 0 ? 2 : 0, 0, 0}, receives[RANKS] = {odd ? 3 : 0, 0, 0, 0};
    stn_dist_all_to_all(local(context, STN_DTYPE_F64, rank == 0 ? 2 : 0), mesh, 0, sends, receives, STN_GRAD_PER_RANK);
}

/* Over this rank's column of a grid of 2 x 2; NULL where `axis` is none. */
static void reduce_column(stn_context *context, stn_tensor *x, int axis)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *column = NULL;
    stn_mesh_slice(grid, 1, &axis, &column);
    all_reduce(x, column, STN_SUM);
}

static void no_such_axis(stn_context *context, const stn_mesh *mesh, int odd)
{
    (void)mesh;
    reduce_column(context, leaf(context), odd ? 2 : 0);
}

static void no_mesh(stn_context *context, const stn_mesh *mesh, int odd)
{
    all_reduce(leaf(context), odd ? NULL : mesh, STN_SUM);
}

static void no_mesh_by_name(stn_context *context, const stn_mesh *mesh, int odd)
{
    const stn_attr attr = {.name = "mesh", .type = STN_ATTR_INT, .value.i = odd ? 7 : 0}; /* its context's first */
    stn_tensor *x = leaf(context), *y;
    (void)mesh;
    stn_call(context, "dist_all_reduce", 1, &x, 1, &attr, 1, &y);
}

static void fails_before_it_slices(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf(context);
    (void)mesh;
    reduce_column(context, odd ? stn_matmul(x, stn_cat(2, (stn_tensor *[]){x, x}, 0)) : x, 0);
}

static void not_recorded(stn_context *context, const stn_mesh *mesh, int odd)
{
    if (odd)
        stn_no_grad_begin(context);
    all_reduce(leaf(context), mesh, STN_SUM);
    if (odd)
        stn_no_grad_end(context);
}

/* One call more on one rank: it meets its peers' next one. */
static void one_more(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = all_reduce(leaf(context), mesh, STN_SUM);
    if (odd)
        x = stn_dist_all_gather(x, mesh, 0, NULL, STN_GRAD_PER_RANK);
    if (!stn_tensor_is_error(x)) /* who has been refused is no longer one call behind */
        all_reduce(x, mesh, STN_SUM);
}

/* Backwards that differ */

static void failed_before(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf(context), *y = all_reduce(x, mesh, STN_SUM);
    stn_backward(total(odd ? stn_matmul(y, stn_cat(2, (stn_tensor *[]){x, x}, 0)) : y));
}

static void other_graph(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf_on(context, mesh, 2 * N);
    stn_backward(total(odd ? stn_neg(x) : stn_exp(x)));
}

/* What one rank alone changes in place is another graph. A change through a view is refused there: what was to be a
 * tensor on the mesh is an error then, as what is made of a local failure. */
static void refused_view(stn_context *context, const stn_mesh *mesh, int odd)
{
    const stn_placement replicate = stn_replicate();
    stn_tensor *x = leaf_on(context, mesh, 2 * N), *y = stn_redistribute_to(stn_mul(x, x), &replicate);
    if (odd)
        stn_fill_(stn_slice(y, 0, 0, 2, 1), 3);
    stn_backward(total(y));
}

static void refused_locally(stn_context *context, const stn_mesh *mesh, int odd)
{
    const int64_t n = N * RANKS;
    const stn_placement shard = stn_shard(0);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = leaf(context), *y = odd ? stn_matmul(x, stn_cat(2, (stn_tensor *[]){x, x}, 0)) : stn_exp(x);
    stn_backward(total(stn_from_local(y, spec, STN_GRAD_PER_RANK)));
    stn_spec_release(&spec);
}

/* What fails is on no mesh; the loss, which was made before, is. */
static void failed_elsewhere(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *loss = total(stn_exp(leaf_on(context, mesh, 2 * N)));
    if (odd)
        stn_full(context, NULL, 1);
    stn_backward(loss);
}

static void failed_elsewhere_before_grad(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf_on(context, mesh, 2 * N), *loss = total(stn_exp(x)), *gradient;
    if (odd)
        stn_full(context, NULL, 1);
    stn_grad(context, 1, &loss, NULL, 1, &x, 0, 0, &gradient);
}

static void other_write(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf_on(context, mesh, 2 * N), *y = stn_add(x, x);
    if (odd)
        stn_neg_(y);
    stn_backward(total(y));
}

static void other_crossings(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *x = leaf_on(context, mesh, 2 * N), *y = stn_mul(x, x), *chunk = stn_to_local(y, STN_GRAD_PER_RANK);
    if (odd)
        stn_to_local(y, STN_GRAD_PER_RANK);
    stn_backward(total(chunk));
}

/* Its values become those of a tensor on the mesh that requires grad elsewhere. */
static void requires_grad_elsewhere(stn_context *context, const stn_mesh *mesh, int odd)
{
    const int64_t n = N * RANKS;
    const stn_placement shard = stn_shard(0);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = odd ? local(context, STN_DTYPE_F64, N) : leaf(context);
    stn_backward(total(stn_from_local(x, spec, STN_GRAD_PER_RANK)));
    stn_spec_release(&spec);
}

/* Rows and columns of a grid of 2 x 2; the odd rank has a tensor on its column, which nobody else has. */
static void lone_slice(stn_context *context, int odd, int on_grid)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = NULL, *column = NULL;
    stn_tensor *loss[3];
    int n = 0;
    CHECK_STATUS(stn_mesh_slice(grid, 1, (int[]){1}, &row), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, (int[]){0}, &column), STN_OK);
    loss[n++] = total(leaf_on(context, row, 2 * N));
    if (odd)
        loss[n++] = total(leaf_on(context, column, 2 * N));
    if (on_grid)
        loss[n++] = total(leaf_on(context, grid, 2 * N));
    stn_backward_many(context, n, loss, NULL, 0);
}

static void slice_within_a_grid(stn_context *context, const stn_mesh *mesh, int odd)
{
    (void)mesh;
    lone_slice(context, odd, 1);
}

static void slice_alone(stn_context *context, const stn_mesh *mesh, int odd)
{
    (void)mesh;
    if (stn_context_rank(context) < 2) /* the others are not concerned */
        lone_slice(context, odd, 0);
    else
        test_mesh(context, 2, 2);
}

/* The odd rank fails on its row, before it has a tensor on its column, where a rank of the other row waits for it. */
static void fails_on_a_slice(stn_context *context, const stn_mesh *mesh, int odd)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = NULL, *column = NULL;
    (void)mesh;
    CHECK_STATUS(stn_mesh_slice(grid, 1, (int[]){1}, &row), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, (int[]){0}, &column), STN_OK);
    stn_tensor *x = leaf_on(context, row, 2 * N), *y = leaf_on(context, column, 2 * N);
    stn_tensor *loss[] = {total(odd ? stn_add(x, leaf_on(context, row, N)) : x), total(y)};
    stn_backward_many(context, 2, loss, NULL, 0);
}

/* Each rank waits for the next: 0 on its row for 1, 1 on its column for 3, 3 on its row for 2, 2 on its column for
 * 0. */
static void circle(stn_context *context, const stn_mesh *mesh, int odd)
{
    const int rank = stn_context_rank(context), rows_first = rank == 0 || rank == 3;
    const stn_mesh *grid = test_mesh(context, 2, 2), *slice[2] = {NULL, NULL};
    (void)mesh, (void)odd;
    for (int axis = 0; axis < 2; axis++)
        CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &slice[axis]), STN_OK);
    stn_tensor *x = leaf(context);
    all_reduce(x, slice[rows_first], STN_SUM);
    all_reduce(x, slice[!rows_first], STN_SUM);
}

/* The odd rank fails on its row, in an op of which its peers differentiate nothing: they go backward over the grid,
 * and it tells its row. */
static void fails_on_another_mesh(stn_context *context, const stn_mesh *mesh, int odd)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = NULL;
    (void)mesh;
    CHECK_STATUS(stn_mesh_slice(grid, 1, (int[]){1}, &row), STN_OK);
    stn_tensor *x = leaf_on(context, row, 2 * N), *loss = total(leaf_on(context, grid, 2 * N));
    stn_add(x, odd ? leaf_on(context, row, N) : x);
    stn_backward(loss);
}

/* Ranks that do not come */

static void sleeps(stn_context *context, const stn_mesh *mesh, int odd)
{
    const struct timespec long_enough = {.tv_sec = 2};
    stn_tensor *y = all_reduce(leaf(context), mesh, STN_SUM);
    if (odd)
        nanosleep(&long_enough, NULL);
    stn_backward(total(y));
}

static void scope_has_ended(stn_context *context, const stn_mesh *mesh, int odd)
{
    const struct timespec long_enough = {.tv_sec = 2};
    stn_tensor *y = all_reduce(leaf(context), mesh, STN_SUM);
    if (odd) {
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_scope_begin(context);
        CHECK_STATUS(stn_backward_many(context, 0, NULL, NULL, 0), STN_OK);
        nanosleep(&long_enough, NULL);
    } else {
        stn_backward(total(y));
    }
}

/* Ranks that come to something else */

static void goes_on(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *y = all_reduce(leaf(context), mesh, STN_SUM);
    if (odd)
        all_reduce(y, mesh, STN_SUM);
    else
        stn_backward(total(y));
}

static void goes_on_to_the_next_step(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *y = all_reduce(leaf(context), mesh, STN_SUM);
    if (odd) {
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_scope_begin(context);
        CHECK_STATUS(stn_backward_many(context, 0, NULL, NULL, 0), STN_OK);
        all_reduce(leaf(context), mesh, STN_SUM);
    } else {
        stn_backward(total(y));
    }
}

static void leaves(stn_context *context, const stn_mesh *mesh, int odd)
{
    stn_tensor *y = all_reduce(leaf(context), mesh, STN_SUM);
    if (!odd)
        stn_backward(total(y));
}

static const char another_agreement[] = "rank 1 calls all_reduce i64 count 3 sum for a collective of dist.h, rank 0 ";

static const struct misuse misuses[] = {
    {"another reduction", other_op, STN_ERR_MISMATCH, "op prod", AT_ONCE, USABLE},
    {"another dtype", other_dtype, STN_ERR_MISMATCH, "rank 1 calls dist_all_reduce(dtype f32", AT_ONCE, USABLE},
    {"another number of elements", other_count, STN_ERR_MISMATCH,
     "rank 1 calls dist_all_reduce(dtype f64, ndim 1, shape[0] 4", AT_ONCE, USABLE},
    {"another collective", other_collective, STN_ERR_MISMATCH, "rank 1 calls dist_broadcast(", AT_ONCE, USABLE},
    {"a root out of range", bad_root, STN_ERR_ARGUMENT,
     "rank 1: dist_broadcast: root got 4, wanted a rank of the mesh, 0 to 3", AT_ONCE, USABLE},
    {"another root", other_root, STN_ERR_MISMATCH, "root 1", AT_ONCE, USABLE},
    {"sizes that do not fit", sizes_that_do_not_fit, STN_ERR_SHAPE, "rank 1: dist_all_gather: input has 3 elements",
     AT_ONCE, USABLE},
    {"counts that do not match", counts_that_do_not_match, STN_ERR_MISMATCH,
     "rank 1: dist_all_to_all: rank 0 sends 1 messages of 2 elements in all, wanted 1 of 3", AT_ONCE, USABLE},
    {"an axis that the mesh has not", no_such_axis, STN_ERR_PEER, "rank 1: stn_mesh_slice: axes[0] is 2", AT_ONCE,
     ABORTED},
    {"no mesh", no_mesh, STN_ERR_PEER, "rank 1: dist_all_reduce: mesh is NULL", AT_ONCE, ABORTED},
    {"no mesh by name", no_mesh_by_name, STN_ERR_PEER, "rank 1: dist_all_reduce: mesh got 7", AT_ONCE, ABORTED},
    {"a failure before a slice is made", fails_before_it_slices, STN_ERR_SHAPE, "rank 1: matmul: ", AT_ONCE, USABLE},
    {"grad mode off", not_recorded, STN_ERR_MISMATCH, "grad mode off", AT_ONCE, USABLE},
    {"a collective more", one_more, STN_ERR_MISMATCH, "rank 1 calls dist_all_gather(", AT_ONCE, USABLE},
    {"a failure before backward", failed_before, STN_ERR_SHAPE, "rank 1: matmul: ", AT_ONCE, USABLE},
    {"another graph", other_graph, STN_ERR_MISMATCH, "stn_backward: ranks would communicate differently: step ",
     AT_ONCE, USABLE},
    {"a write in place", other_write, STN_ERR_MISMATCH, "stn_backward: ranks would communicate differently: step ",
     AT_ONCE, USABLE},
    {"a write to a view that is refused", refused_view, STN_ERR_STATE, "rank 1: fill_: 'input' is a view whose change",
     AT_ONCE, USABLE},
    {"a local failure before a tensor on a mesh", refused_locally, STN_ERR_SHAPE, "rank 1: matmul: ", AT_ONCE, USABLE},
    {"a failure on no mesh before backward", failed_elsewhere, STN_ERR_ARGUMENT, "rank 1: full: 'spec' got NULL",
     AT_ONCE, USABLE},
    {"a failure on no mesh before a gradient", failed_elsewhere_before_grad, STN_ERR_ARGUMENT,
     "rank 1: full: 'spec' got NULL", AT_ONCE, USABLE},
    {"a chunk taken alone", other_crossings, STN_ERR_MISMATCH, "times to_local of a mesh, others from 1 to 2", AT_ONCE,
     USABLE},
    {"values that do not require grad", requires_grad_elsewhere, STN_ERR_STATE,
     "rank 1: stn_backward: output 0 does not depend on anything that requires grad", AT_ONCE, USABLE},
    {"a slice within a grid", slice_within_a_grid, STN_ERR_MISMATCH,
     "stn_backward: rank 1 has tensors on slices along x and y", AT_ONCE, USABLE},
    {"a slice", slice_alone, STN_ERR_MISMATCH, "stn_backward: rank 1 has tensors on slices along x and y", AT_ONCE,
     ABORTED},
    {"a failure on a slice", fails_on_a_slice, STN_ERR_SHAPE, "rank 1: add: ", AT_ONCE, ABORTED_ELSEWHERE},
    {"another collective in place of the backward", goes_on, STN_ERR_MISMATCH, another_agreement, AT_ONCE, ABORTED},
    {"the next step in place of the backward", goes_on_to_the_next_step, STN_ERR_MISMATCH, another_agreement, AT_ONCE,
     ABORTED},
    {"the end in place of the backward", leaves, STN_ERR_PEER, "rank 1 has destroyed its communicator", AT_ONCE,
     ABORTED},
    {"a failure on another mesh", fails_on_another_mesh, STN_ERR_MISMATCH,
     "ranks wait for each other in a circle: rank ", AT_ONCE, ABORTED_BY_ONE},
    {"a circle", circle, STN_ERR_MISMATCH, "ranks wait for each other in a circle: rank ", AT_ONCE, ABORTED_BY_ONE},
    {"no backward", sleeps, STN_ERR_PEER, "rank 1 ha", BY_THE_DEADLINE, ABORTED},
    {"a scope that has ended", scope_has_ended, STN_ERR_PEER, "rank 1 ha", BY_THE_DEADLINE, ABORTED},
};

static void expect_told(stn_context *context, const struct misuse *m, double took)
{
    char text[512] = "";
    const stn_status status = stn_context_take_error(context, text, sizeof text);
    const stn_status wanted = m->end == ABORTED_ELSEWHERE && stn_context_rank(context) > ODD ? STN_ERR_PEER : m->status;
    const int in_time = m->when == AT_ONCE ? took < at_once : took > 0.9 * short_deadline && took < at_once;
    const int is_also_right = (m->when == BY_THE_DEADLINE && status == STN_ERR_TIMEOUT) ||
                              (m->end == ABORTED_BY_ONE && status == STN_ERR_PEER);
    if (!CHECK(status == wanted || is_also_right) || !CHECK(strstr(text, m->text) != NULL) ||
        !CHECK(in_time))
        printf("  %s: rank %d: status %d after %.3g s: %s\n", m->name, stn_context_rank(context), (int)status, took,
               text);
    else if (stn_context_rank(context) == 0)
        printf("  %s: %.4f s: %s\n", m->name, took, text);
}

/* All is as before for those who were refused, once what they recorded is gone with its scope. */
static void expect_usable(stn_context *context, const stn_mesh *mesh)
{
    double value = 0;
    stn_tensor *x = leaf_on(context, mesh, 2 * N), *grad = NULL;
    CHECK_STATUS(stn_backward(stn_sum(x, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK_STATUS(stn_item(stn_sum(grad, 0, NULL, 0), &value), STN_OK);
    CHECK_NEAR(value, 2 * N, 0);
}

static int is_concerned(const struct misuse *m, int rank)
{
    if (m->run == no_such_axis || m->run == fails_before_it_slices) /* of two columns one */
        return rank % 2 == ODD;
    return m->run != slice_alone || rank < 2;
}

/* It keeps its own error, or none. */
static int knows_by_itself(const struct misuse *m)
{
    return m->run == leaves || m->run == fails_on_another_mesh || m->run == no_such_axis || m->run == no_mesh ||
           m->run == no_mesh_by_name;
}

static stn_status body(stn_context *context, void *arg)
{
    const struct misuse *m = arg;
    const int odd = stn_context_rank(context) == ODD;
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    stn_scope_begin(context);
    const double start = now();
    m->run(context, mesh, odd);
    const double took = now() - start;
    if (is_concerned(m, stn_context_rank(context)) && !(odd && knows_by_itself(m)))
        if (m->when == AT_ONCE || !odd)
            expect_told(context, m, took);
    const stn_status ended = stn_scope_end(context);
    if (m->end != USABLE)
        return STN_OK;
    CHECK_STATUS(ended, STN_OK);
    stn_scope_begin(context);
    expect_usable(context, mesh);
    return stn_scope_end(context);
}

static void every_misuse_is_told_to_all_ranks_in_time(void)
{
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        const double deadline = misuses[i].when == AT_ONCE ? long_deadline : short_deadline;
        const stn_context_options options = {.size = sizeof options, .deadline_seconds = deadline};
        const stn_status status = test_launch(RANKS, &options, body, (void *)&misuses[i]);
        if (misuses[i].end == USABLE)
            CHECK_STATUS(status, STN_OK);
    }
}

/* Processes know of each other's calls what messages say, their lengths and that somebody leaves: told as soon, in
 * other words. */
static stn_status elsewhere_body(stn_context *context, void *arg)
{
    void (*const run)(stn_context * context, const stn_mesh *mesh, int odd) =
        *(void (**)(stn_context *, const stn_mesh *, int))arg;
    const int odd = stn_context_rank(context) == ODD;
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    char text[512] = "";
    stn_scope_begin(context);
    const double start = now();
    run(context, mesh, odd);
    const double took = now() - start;
    if (!odd || (run != leaves && run != no_mesh)) {
        const stn_status status = stn_context_take_error(context, text, sizeof text);
        CHECK(status == STN_ERR_MISMATCH || status == STN_ERR_PEER);
        CHECK(strstr(text, "rank 1") != NULL || strstr(text, "a message from rank ") != NULL);
        CHECK(took < at_once);
        if (stn_context_rank(context) == 0)
            printf("  %.4f s: %s\n", took, text);
    }
    stn_scope_end(context);
    return STN_OK;
}

static void ranks_that_are_elsewhere_are_told_at_once(void)
{
    static void (*runs[])(stn_context * context, const stn_mesh *mesh, int odd) = {goes_on, goes_on_to_the_next_step,
                                                                                   leaves, no_mesh};
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = long_deadline};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        CHECK_STATUS(test_launch(RANKS, &options, elsewhere_body, &runs[i]), STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_misuse_is_told_to_all_ranks_in_time", every_misuse_is_told_to_all_ranks_in_time},
        {"ranks_that_are_elsewhere_are_told_at_once", ranks_that_are_elsewhere_are_told_at_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
