/* Groups that train apart, and what joins their gradients: on a data x domain mesh each group has samples of its own
 * size and cut, on its own slice, and its own program. What comes out is what one process would have. */
#include "ranks.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 3, HIDDEN = 4, WEIGHTS = COLUMNS * HIDDEN };

/* The model: loss = mean over the sample's points of sum_h b_h tanh(sum_c x_c w_ch), and for odd groups of its
 * square too. */
struct model {
    stn_tensor *w, *b;
};

/* Points of a group's sample: 5, 7, 6 in its first step, then one more. */
static int64_t points_of(int group, int step)
{
    static const int64_t first[] = {5, 7, 6};
    return first[group % 3] + step;
}

static double weight(int64_t i)
{
    return 0.3 * test_value(i + 11);
}

static double bias(int64_t i)
{
    return 0.5 + 0.1 * (double)i;
}

static stn_tensor *parameter(stn_context *context, const stn_mesh *mesh, const stn_placement *place, int ndim,
                             const int64_t *shape, double (*value)(int64_t))
{
    stn_tensor *t = test_tensor(context, mesh, place, STN_DTYPE_F64, ndim, shape, NULL, value);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

static struct model model_of(stn_context *context, const stn_mesh *mesh, const stn_placement *place)
{
    return (struct model){parameter(context, mesh, place, 2, (int64_t[]){COLUMNS, HIDDEN}, weight),
                          parameter(context, mesh, place, 1, (int64_t[]){HIDDEN}, bias)};
}

static stn_tensor *loss_of(const struct model *m, stn_tensor *x, int group)
{
    stn_tensor *y = stn_matmul(stn_tanh(stn_matmul(x, m->w)), stn_unsqueeze(m->b, 1));
    if (group % 2 == 1) /* a program of its own */
        y = stn_add(y, stn_mul(y, y));
    return stn_mean(y, 0, NULL, 0);
}

/* A group's sample, cut by its own rule: evenly, or all but one point on its first rank. */
static stn_tensor *sample(stn_context *context, const stn_mesh *mesh, int group, int step)
{
    const int64_t n = points_of(group, step), shape[] = {n, COLUMNS};
    const int p = mesh ? stn_mesh_size(mesh) : 1;
    const stn_placement rows = stn_shard(0);
    int64_t cut[8] = {p > 1 ? n - 1 : n, p > 1};
    const int64_t *const sizes[] = {cut, NULL};
    return test_tensor(context, mesh, mesh ? &rows : NULL, STN_DTYPE_F64, 2, shape,
                       mesh && group % 2 == 1 ? sizes : NULL, test_value);
}

static void read_grad(stn_tensor *leaf, double *out, int64_t n)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(leaf, &grad), STN_OK);
    if (CHECK_PTR(grad))
        test_read(grad, out, n);
}

static int steps_of(int group)
{
    return 1 + group;
}

/* One process: the mean over groups of what each accumulates in its steps. */
static void expect_joined(stn_context *context, const struct model *m, int groups, stn_reduce_op op)
{
    double got[WEIGHTS + HIDDEN], want[WEIGHTS + HIDDEN];
    struct model one = model_of(context, NULL, NULL);
    for (int g = 0; g < groups; g++)
        for (int step = 0; step < steps_of(g); step++)
            CHECK_STATUS(stn_backward(loss_of(&one, sample(context, NULL, g, step), g)), STN_OK);
    read_grad(one.w, want, WEIGHTS);
    read_grad(one.b, want + WEIGHTS, HIDDEN);
    read_grad(m->w, got, WEIGHTS);
    read_grad(m->b, got + WEIGHTS, HIDDEN);
    for (int i = 0; i < WEIGHTS + HIDDEN; i++)
        CHECK_NEAR(got[i], want[i] / (op == STN_AVG ? groups : 1), 1e-12);
}

struct grid {
    int rows, columns;
    stn_reduce_op op;
    int sharded, no_sync;
};

static const stn_mesh *slice_of(const stn_mesh *grid, int axis)
{
    const stn_mesh *own = NULL;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &own), STN_OK);
    return own;
}

/* Sizes, cuts, ops and numbers of steps differ between groups; nothing but the last call joins them. */
static stn_status groups_body(stn_context *context, void *arg)
{
    const struct grid *g = arg;
    const stn_mesh *grid = test_mesh(context, g->rows, g->columns), *own = slice_of(grid, 1);
    const int group = stn_mesh_coordinate(grid, 0);
    const stn_placement place = g->sharded ? stn_shard(0) : stn_replicate();
    stn_scope_begin(context);
    struct model m = model_of(context, own, &place);
    for (int step = 0; step < steps_of(group); step++) {
        if (g->no_sync)
            stn_no_sync_begin(context);
        CHECK_STATUS(stn_backward(loss_of(&m, sample(context, own, group, step), group)), STN_OK);
        if (g->no_sync)
            stn_no_sync_end(context);
    }
    CHECK_STATUS(stn_grad_all_reduce(2, (stn_tensor *[]){m.w, m.b}, grid, 0, g->op), STN_OK);
    expect_joined(context, &m, g->rows, g->op);
    return stn_scope_end(context);
}

static void groups_that_differ_in_everything_train_as_one_process(void)
{
    static const struct grid grids[] = {{2, 2, STN_AVG, 0, 0}, {3, 2, STN_SUM, 0, 0}, {2, 3, STN_AVG, 1, 0},
                                        {3, 2, STN_AVG, 1, 1}, {2, 3, STN_SUM, 0, 1}, {3, 1, STN_AVG, 0, 0},
                                        {1, 3, STN_SUM, 0, 0}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        struct grid grid = grids[i];
        test_ranks(grid.rows * grid.columns, groups_body, &grid);
    }
}

/* Steps of an optimizer on what was joined: replicas of the groups stay the same bits. */
static stn_status training_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *own = slice_of(grid, 1);
    const int group = stn_mesh_coordinate(grid, 0);
    const stn_placement place = stn_replicate();
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.1, .momentum = 0.9};
    stn_optimizer *optimizer = NULL;
    double all_ranks[4 * WEIGHTS], got[WEIGHTS];
    (void)arg;
    stn_scope_begin(context);
    struct model m = model_of(context, own, &place);
    const stn_named_tensor named[] = {{"w", m.w}, {"b", m.b}};
    const stn_parameter_group all = {.size = sizeof all, .n = 2, .parameters = named};
    CHECK_STATUS(stn_sgd_create(context, &options, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &all), STN_OK);
    for (int step = 0; step < 4; step++) {
        CHECK_STATUS(stn_optimizer_zero_grad(optimizer), STN_OK);
        CHECK_STATUS(stn_backward(loss_of(&m, sample(context, own, group, step), group)), STN_OK);
        CHECK_STATUS(stn_grad_all_reduce(2, (stn_tensor *[]){m.w, m.b}, grid, 0, STN_AVG), STN_OK);
        CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    }
    test_read(m.w, got, WEIGHTS);
    test_gather(context, got, WEIGHTS, STN_DTYPE_F64, all_ranks);
    CHECK_BYTES(got, all_ranks, sizeof got);
    CHECK(fabs(got[0] - weight(0)) > 1e-3); /* it moved */
    stn_optimizer_destroy(&optimizer);
    return stn_scope_end(context);
}

static void replicas_of_the_groups_stay_the_same_bits(void)
{
    test_ranks(4, training_body, NULL);
}

/* Many gradients of two dtypes cost one all-reduce for each run of one dtype; empty chunks count for nothing. */
static stn_status buckets_body(stn_context *context, void *arg)
{
    enum { MANY = 40 };
    const stn_mesh *grid = test_mesh(context, 2, 3), *own = slice_of(grid, 1);
    const int group = stn_mesh_coordinate(grid, 0);
    const stn_placement place = stn_shard(0);
    stn_tensor *list[MANY];
    stn_stats before = {.size = sizeof before}, after = before;
    double got[MANY];
    (void)arg;
    stn_scope_begin(context);
    for (int i = 0; i < MANY; i++) {
        const int64_t n = i % 5; /* fewer elements than ranks too */
        list[i] =
            test_tensor(context, own, &place, i < MANY / 2 ? STN_DTYPE_F32 : STN_DTYPE_F64, 1, &n, NULL, test_value);
        CHECK_STATUS(stn_set_requires_grad(list[i], 1), STN_OK);
        CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(list[i], (group + 1) * (i + 1)), 0, NULL, 0)), STN_OK);
    }
    stn_context_stats(context, &before);
    CHECK_STATUS(stn_grad_all_reduce(MANY, list, grid, 0, STN_SUM), STN_OK);
    stn_context_stats(context, &after);
    CHECK_I64((int64_t)(after.collectives - before.collectives), 2 + 2); /* agreements, and buckets */
    for (int i = 0; i < MANY; i++) {
        read_grad(list[i], got, i % 5);
        for (int k = 0; k < i % 5; k++)
            CHECK_NEAR(got[k], 3 * (i + 1), 0);
    }
    return stn_scope_end(context);
}

static void neighbours_of_one_dtype_share_a_collective(void)
{
    test_ranks(6, buckets_body, NULL);
}

/* A parameter that one group alone has a gradient of, one that none has, and one that is local. */
static stn_status absent_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *own = slice_of(grid, 1);
    const int group = stn_mesh_coordinate(grid, 0);
    const stn_placement place = stn_replicate();
    const int64_t n = 3;
    double got[3];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *some = parameter(context, own, &place, 1, &n, bias),
               *none = parameter(context, own, &place, 1, &n, bias),
               *local = parameter(context, NULL, NULL, 1, &n, bias), *grad = NULL;
    if (group == 1)
        CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(some, 8), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(local, stn_context_rank(context)), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_all_reduce(3, (stn_tensor *[]){some, none, local}, grid, 0, STN_AVG), STN_OK);
    read_grad(some, got, n);
    CHECK_NEAR(got[2], 4, 0);
    CHECK_STATUS(stn_grad_of(none, &grad), STN_OK);
    CHECK(grad == NULL);
    read_grad(local, got, n);
    CHECK_NEAR(got[0], stn_context_rank(context) % 2 + 1, 0); /* ranks r and r + 2 */
    return stn_scope_end(context);
}

static void a_gradient_that_one_group_has_is_joined_with_zeros(void)
{
    test_ranks(4, absent_body, NULL);
}

/* Hooks */

struct heard {
    int calls, fails;
    double first; /* element 0 of the gradient at the last call */
};

static stn_status hear(stn_tensor *leaf, void *arg)
{
    struct heard *heard = arg;
    double values[2];
    read_grad(leaf, values, 2);
    heard->first = values[0];
    heard->calls++;
    return heard->fails ? STN_ERR_IO : STN_OK;
}

static void expect_heard(const struct heard *heard, int calls, double first)
{
    CHECK_I64(heard->calls, calls);
    CHECK_NEAR(heard->first, first, 0);
}

/* Groups of one column each: gradients g + 1 of the group g, and 8 where group 1 alone has one. A backward outside
 * no-sync completes the group's own, and the call what is joined; a parameter without a gradient is not told of. */
static stn_status hooks_body(stn_context *context, void *arg)
{
    const int no_sync = *(const int *)arg, groups = stn_context_size(context) / 2;
    const stn_mesh *grid = test_mesh(context, groups, 2), *own = slice_of(grid, 1);
    const int group = stn_mesh_coordinate(grid, 0);
    const stn_placement place = stn_replicate(), rows = stn_shard(0);
    const int64_t n = 2;
    struct heard heard[3] = {{0, 0, 0}};
    stn_tensor *list[3];
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, own, &rows, STN_DTYPE_F64, 1, &n, NULL, bias);
    for (int i = 0; i < 3; i++) {
        list[i] = parameter(context, own, &place, 1, &n, bias);
        CHECK_STATUS(stn_add_grad_hook(list[i], hear, &heard[i], NULL), STN_OK);
    }
    if (no_sync)
        stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(list[0], stn_mul_number(x, group + 1)), 0, NULL, 0)), STN_OK);
    if (group == 1)
        CHECK_STATUS(stn_backward(stn_sum(stn_mul(list[1], stn_mul_number(x, 8)), 0, NULL, 0)), STN_OK);
    if (no_sync)
        stn_no_sync_end(context);
    expect_heard(&heard[0], !no_sync, no_sync ? 0 : bias(0) * (group + 1));
    CHECK_STATUS(stn_grad_all_reduce(3, list, grid, 0, STN_SUM), STN_OK);
    expect_heard(&heard[0], no_sync ? 1 : 2, bias(0) * (groups == 2 ? 3 : 1));
    if (groups == 2)
        expect_heard(&heard[1], no_sync || group == 0 ? 1 : 2, bias(0) * 8);
    CHECK_I64(heard[2].calls, 0);
    return stn_scope_end(context);
}

static void hooks_are_told_of_what_was_joined(void)
{
    for (int ranks = 2; ranks <= 4; ranks += 2)
        for (int no_sync = 0; no_sync < 2; no_sync++)
            test_ranks(ranks, hooks_body, &no_sync);
}

/* Gradients are joined then, and the mesh is usable. */
static stn_status failing_hook_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *own = slice_of(grid, 1);
    const stn_placement place = stn_replicate();
    const int64_t n = 2;
    struct heard heard = {.fails = 0};
    double got[2];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *w = parameter(context, own, &place, 1, &n, bias);
    CHECK_STATUS(stn_add_grad_hook(w, hear, &heard, NULL), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(w, 0, NULL, 0)), STN_OK);
    heard.fails = stn_context_rank(context) == 1;
    CHECK_STATUS(stn_grad_all_reduce(1, &w, grid, 0, STN_SUM), STN_ERR_CALLBACK);
    CHECK_ERROR_PART(context, STN_ERR_CALLBACK, "rank 1: a gradient hook returned");
    read_grad(w, got, n);
    CHECK_NEAR(got[0], 2, 0);
    heard.fails = 0;
    CHECK_STATUS(stn_grad_all_reduce(1, &w, grid, 0, STN_SUM), STN_OK);
    expect_heard(&heard, 3, 4);
    return stn_scope_end(context);
}

static void a_hook_that_fails_on_one_rank_fails_the_call_on_all(void)
{
    test_ranks(4, failing_hook_body, NULL);
}

/* What one rank passes wrong, or otherwise */

enum fault { AXIS, OP, LIST, NO_LEAF, TWICE, JOINED, OUTSIDE, COUNT, DTYPE, SHAPE, PART, FAILED, N_FAULTS };

static const struct {
    stn_status status;
    const char *text;
} refusals[N_FAULTS] = {
    [AXIS] = {STN_ERR_ARGUMENT, "rank 1: grad_all_reduce: axis got 2, wanted 0 to 1"},
    [OP] = {STN_ERR_ARGUMENT, "rank 1: grad_all_reduce: op got 4, wanted STN_SUM or STN_AVG"},
    [LIST] = {STN_ERR_ARGUMENT, "rank 1: grad_all_reduce: parameters got 2 at "},
    [NO_LEAF] = {STN_ERR_STATE, "rank 1: grad_all_reduce: parameters[1] is no leaf of this context that requires grad"},
    [TWICE] = {STN_ERR_ARGUMENT, "rank 1: grad_all_reduce: parameters[1] stands in the list before"},
    [JOINED] = {STN_ERR_LAYOUT, "rank 1: grad_all_reduce: parameters[1] is on one mesh with rank 3, whose"},
    [OUTSIDE] = {STN_ERR_LAYOUT, "rank 1: grad_all_reduce: parameters[1] is on a mesh that rank 1 is outside of"},
    [COUNT] = {STN_ERR_MISMATCH, "rank 1 calls grad_all_reduce(parameters 1, axis 0, op sum), rank 0 "
                                 "grad_all_reduce(parameters 2, axis 0, op sum); nothing was moved"},
    [DTYPE] = {STN_ERR_MISMATCH,
               "rank 1 calls grad_all_reduce(parameters 2, axis 0, op sum, number 1, dtype f32, ndim 1, "
               "shape[0] 4), rank 0 grad_all_reduce(parameters 2, axis 0, op sum, number 1, dtype f64, "},
    [SHAPE] = {STN_ERR_MISMATCH,
               "rank 1 calls grad_all_reduce(parameters 2, axis 0, op sum, number 1, dtype f64, ndim 1, "
               "shape[0] 5), rank 0 "},
    [PART] = {STN_ERR_MISMATCH,
              "grad_all_reduce: rank 3 holds other parts of the parameters than rank 1, which is in line "
              "with it along axis 0; nothing was moved"},
    [FAILED] = {STN_ERR_SHAPE, "rank 1: "},
};

static stn_tensor *odd_parameter(stn_context *context, const stn_mesh *grid, enum fault fault, const struct model *m)
{
    const stn_placement shards[] = {stn_shard(0), stn_shard(0)}, replicas[] = {stn_replicate(), stn_replicate()};
    const stn_placement *place = fault == PART ? shards : replicas;
    const int zero = 0, one = 1;
    const stn_mesh *mesh = slice_of(grid, 1);
    if (fault == JOINED)
        mesh = grid;
    if (fault == OUTSIDE)
        CHECK_STATUS(stn_mesh_create(context, 1, &one, NULL, &zero, &mesh), STN_OK);
    const int64_t n = fault == SHAPE ? 5 : 4;
    if (fault == TWICE)
        return m->w;
    stn_tensor *t =
        test_tensor(context, mesh, place, fault == DTYPE ? STN_DTYPE_F32 : STN_DTYPE_F64, 1, &n, NULL, bias);
    CHECK_STATUS(stn_set_requires_grad(t, fault != NO_LEAF), STN_OK);
    return t;
}

static void refuse(stn_context *context, const stn_mesh *grid, enum fault fault)
{
    const stn_placement place = stn_replicate();
    const int odd = stn_context_rank(context) == 1;
    double before[WEIGHTS], after[WEIGHTS];
    char text[512];
    struct model m = model_of(context, slice_of(grid, 1), &place);
    CHECK_STATUS(stn_backward(loss_of(&m, sample(context, slice_of(grid, 1), 0, 0), 0)), STN_OK);
    read_grad(m.w, before, WEIGHTS);
    stn_tensor *list[] = {m.w, odd ? odd_parameter(context, grid, fault, &m) : m.b};
    if (fault == FAILED && odd)
        CHECK(stn_tensor_is_error(stn_add(m.w, sample(context, slice_of(grid, 1), 0, 0))));
    CHECK_STATUS(stn_grad_all_reduce(odd && fault == COUNT ? 1 : 2, odd && fault == LIST ? NULL : list, grid,
                                     odd && fault == AXIS ? 2 : 0, odd && fault == OP ? STN_MAX : STN_SUM),
                 refusals[fault].status);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), refusals[fault].status);
    if (!CHECK(strncmp(text, refusals[fault].text, strlen(refusals[fault].text)) == 0))
        CHECK_STR(text, refusals[fault].text);
    test_same_text(context, text);
    read_grad(m.w, after, WEIGHTS);
    CHECK_BYTES(after, before, sizeof after);
    CHECK_STATUS(stn_grad_all_reduce(2, (stn_tensor *[]){m.w, m.b}, grid, 0, STN_SUM), STN_OK); /* still usable */
}

static stn_status refusal_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2);
    (void)arg;
    for (int fault = 0; fault < N_FAULTS; fault++) {
        stn_scope_begin(context);
        refuse(context, grid, (enum fault)fault);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void all_ranks_refuse_what_one_passes_wrong(void)
{
    test_ranks(4, refusal_body, NULL);
}

static stn_status no_mesh_body(stn_context *context, void *arg)
{
    const int odd = stn_context_rank(context) == 1;
    const int64_t n = 2;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *w = parameter(context, NULL, NULL, 1, &n, bias);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, odd ? NULL : mesh, 0, STN_SUM), odd ? STN_ERR_ARGUMENT : STN_ERR_PEER);
    CHECK_ERROR_PART(context, odd ? STN_ERR_ARGUMENT : STN_ERR_PEER,
                     odd ? "grad_all_reduce: mesh is NULL" : "rank 1: grad_all_reduce: mesh is NULL");
    stn_scope_end(context);
    return STN_OK;
}

static void a_rank_without_a_mesh_says_so(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    test_launch(2, &options, no_mesh_body, NULL);
}

/* Ranks outside of the mesh neither wait nor are needed. */
static stn_status outside_body(stn_context *context, void *arg)
{
    const int sizes[] = {2, 1}, ranks[] = {2, 0};
    const int64_t n = 2;
    const stn_mesh *grid;
    double got[2];
    (void)arg;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, ranks, &grid), STN_OK);
    stn_scope_begin(context);
    stn_tensor *w = parameter(context, NULL, NULL, 1, &n, bias);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(w, stn_context_rank(context) + 1), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, grid, 0, STN_SUM), STN_OK);
    read_grad(w, got, n);
    CHECK_NEAR(got[1], stn_context_rank(context) == 1 ? 2 : 4, 0);
    return stn_scope_end(context);
}

static void ranks_outside_keep_their_gradients(void)
{
    test_ranks(3, outside_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"groups_that_differ_in_everything_train_as_one_process",
         groups_that_differ_in_everything_train_as_one_process},
        {"replicas_of_the_groups_stay_the_same_bits", replicas_of_the_groups_stay_the_same_bits},
        {"neighbours_of_one_dtype_share_a_collective", neighbours_of_one_dtype_share_a_collective},
        {"a_gradient_that_one_group_has_is_joined_with_zeros", a_gradient_that_one_group_has_is_joined_with_zeros},
        {"hooks_are_told_of_what_was_joined", hooks_are_told_of_what_was_joined},
        {"a_hook_that_fails_on_one_rank_fails_the_call_on_all", a_hook_that_fails_on_one_rank_fails_the_call_on_all},
        {"all_ranks_refuse_what_one_passes_wrong", all_ranks_refuse_what_one_passes_wrong},
        {"a_rank_without_a_mesh_says_so", a_rank_without_a_mesh_says_so},
        {"ranks_outside_keep_their_gradients", ranks_outside_keep_their_gradients},
    };
    return TEST_MAIN(argc, argv, cases);
}
