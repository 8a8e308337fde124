/* Parts of a program that are run again for backward: the same gradients, less memory, and refusals where the second
 * run is not the first. */
#include "ranks.h"
#include "stats.h"

#include <string.h>

enum { ROWS = 7, WIDTH = 5, PARTS = 6 };

/* A block: x -> dropout(gelu(x w)) + x, with the leaf w found by way of `user`. */
struct block {
    stn_tensor *weight;
    int calls, released;
    int change_at; /* the call from which it does something else; 0: never */
    int drops;     /* with random numbers */
};

static stn_status run_block(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                            stn_tensor **outputs)
{
    struct block *block = user;
    (void)context;
    CHECK_I64(n_inputs, 1);
    CHECK_I64(n_outputs, 1);
    block->calls++;
    stn_tensor *hidden = stn_matmul(inputs[0], block->weight);
    hidden = block->change_at && block->calls >= block->change_at ? stn_tanh(hidden) : stn_gelu(hidden, STN_GELU_ERF);
    outputs[0] = stn_add(block->drops ? stn_dropout(hidden, 0.3, 1) : hidden, inputs[0]);
    return STN_OK;
}

static void count_release(void *user)
{
    ((struct block *)user)->released++;
}

static stn_tensor *call_block(struct block *block, stn_tensor *x, int recomputed)
{
    stn_tensor *out = NULL;
    stn_context *context = stn_tensor_context(x);
    CHECK_STATUS(recomputed ? stn_recompute(context, run_block, block, count_release, 1, &x, 1, &out)
                            : run_block(context, block, 1, &x, 1, &out), STN_OK);
    return out;
}

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, int64_t rows)
{
    const int64_t shape[] = {rows, WIDTH};
    stn_tensor *t = test_tensor(context, mesh, placements, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_tensor *sum_of_squares(stn_tensor *x)
{
    return stn_sum(stn_mul(x, x), 0, NULL, 0);
}

struct layout {
    int rows, columns;
    stn_placement x[2], w[2];
};

static void read_gradient(stn_tensor *tensor, double *out, int64_t n)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(tensor, &grad), STN_OK);
    if (CHECK(grad != NULL))
        test_read(grad, out, n);
    stn_zero_grad(tensor);
}

/* A chain of blocks that share a weight, plainly and with every block run again: gradients to the bit, random
 * numbers included. */
static stn_status same_body(stn_context *context, void *arg)
{
    const struct layout *l = arg;
    double x_grad[2][ROWS * WIDTH], w_grad[2][WIDTH * WIDTH];
    uint64_t seed, stream;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, l->rows, l->columns);
    stn_tensor *x = leaf(context, mesh, l->x, ROWS), *w = leaf(context, mesh, l->w, WIDTH);
    stn_context_random_state(context, &seed, &stream);
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        struct block block = {.weight = w, .drops = 1};
        stn_context_set_random_state(context, seed, stream);
        stn_tensor *y = x;
        for (int p = 0; p < PARTS; p++)
            y = call_block(&block, y, recomputed);
        CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_OK);
        CHECK_I64(block.calls, PARTS * (1 + recomputed));
        CHECK_I64(block.released, recomputed ? PARTS : 0);
        read_gradient(x, x_grad[recomputed], ROWS * WIDTH);
        read_gradient(w, w_grad[recomputed], WIDTH * WIDTH);
    }
    CHECK_BYTES(x_grad[1], x_grad[0], sizeof x_grad[0]);
    CHECK_BYTES(w_grad[1], w_grad[0], sizeof w_grad[0]);
    return stn_scope_end(context);
}

static void gradients_are_those_of_a_plain_call(void)
{
    const stn_placement s0 = STN_S(0), s1 = STN_S(1), r = STN_R;
    struct layout layouts[] = {{1, 0, {r}, {r}},           {2, 0, {s0}, {r}},        {3, 0, {s0}, {s0}},          {3, 0, {s1}, {s1}},
                               {2, 3, {s0, s1}, {r, s0}}, {2, 3, {r, s0}, {s1, r}}, {5, 0, {s1}, {stn_replicate()}}};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        test_ranks(layouts[l].rows * (layouts[l].columns ? layouts[l].columns : 1), same_body, &layouts[l]);
}

/* On a mesh of some ranks, which draws from a stream of its own: what is drawn later, there and on the whole, goes
 * on where it was. */
static stn_status streams_body(stn_context *context, void *arg)
{
    double x_grad[2][ROWS * WIDTH];
    const int n = stn_context_size(context) - 1;
    const stn_placement shard = STN_S(0), replicate = STN_R;
    const stn_mesh *mesh;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &n, NULL, NULL, &mesh), STN_OK);
    stn_tensor *x = leaf(context, mesh, &shard, ROWS), *w = leaf(context, mesh, &replicate, WIDTH);
    stn_mesh_set_random_stream(mesh, 100);
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        struct block block = {.weight = w, .drops = 1};
        stn_mesh_set_random_stream(mesh, 100);
        stn_tensor *y = call_block(&block, call_block(&block, x, recomputed), recomputed);
        stn_dropout(y, 0.5, 1);
        CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_OK);
        CHECK_I64((int64_t)stn_mesh_random_stream(mesh), 103);
        if (stn_mesh_contains_me(mesh))
            read_gradient(x, x_grad[recomputed], ROWS * WIDTH);
    }
    if (stn_mesh_contains_me(mesh))
        CHECK_BYTES(x_grad[1], x_grad[0], sizeof x_grad[0]);
    return stn_scope_end(context);
}

static void random_streams_of_meshes_are_drawn_again_and_left(void)
{
    test_ranks(2, streams_body, NULL);
    test_ranks(4, streams_body, NULL);
}

static int64_t live_bytes(stn_context *context)
{
    return test_stats(context).live_bytes;
}

/* Between forward and backward a part keeps its inputs and outputs alone. */
static stn_status memory_body(stn_context *context, void *arg)
{
    enum { BIG = 4096 };
    const int64_t shape[] = {BIG, WIDTH}, bytes = BIG * WIDTH * (int64_t)sizeof(double);
    int64_t kept[2];
    (void)arg;
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        stn_scope_begin(context);
        const stn_mesh *mesh = test_mesh(context, 1, 0);
        const stn_placement replicate = STN_R;
        struct block block = {.weight = leaf(context, mesh, &replicate, WIDTH)};
        stn_tensor *y = test_tensor(context, mesh, &replicate, STN_DTYPE_F64, 2, shape, NULL, test_value);
        const int64_t before = live_bytes(context);
        for (int p = 0; p < PARTS; p++) {
            stn_scope_begin(context);
            y = call_block(&block, y, recomputed);
            CHECK_STATUS(stn_scope_end_keep(context, y, &y), STN_OK);
        }
        kept[recomputed] = live_bytes(context) - before;
        CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_OK);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK(kept[1] >= PARTS * bytes && kept[1] < PARTS * bytes + 4096);
    CHECK(kept[0] >= 2 * PARTS * bytes); /* and what gelu reads */
    return STN_OK;
}

static void what_lies_between_is_not_kept(void)
{
    test_ranks(1, memory_body, NULL);
}

/* Twice through a graph that is retained, and through the gradient's own graph. */
static stn_status again_body(stn_context *context, void *arg)
{
    double first[2][ROWS * WIDTH], second[2][ROWS * WIDTH];
    const stn_placement shard = STN_S(0), replicate = STN_R;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, &shard, ROWS), *w = leaf(context, mesh, &replicate, WIDTH);
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        struct block block = {.weight = w};
        stn_tensor *loss = sum_of_squares(call_block(&block, call_block(&block, x, recomputed), recomputed)), *g = NULL,
                   *gg = NULL;
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 0, &g), STN_OK);
        test_read(g, first[recomputed], ROWS * WIDTH);
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 1, &g), STN_OK);
        stn_tensor *penalty = sum_of_squares(g);
        CHECK_STATUS(stn_grad(context, 1, &penalty, NULL, 1, &x, 0, 0, &gg), STN_OK);
        test_read(gg, second[recomputed], ROWS * WIDTH);
        CHECK_I64(block.calls, 2 * (1 + recomputed)); /* what was made again stays as long as the graph does */
    }
    CHECK_BYTES(first[1], first[0], sizeof first[0]);
    CHECK_BYTES(second[1], second[0], sizeof second[0]);
    return stn_scope_end(context);
}

static void graphs_are_retained_and_differentiated_again(void)
{
    test_ranks(1, again_body, NULL);
    test_ranks(3, again_body, NULL);
}

/* A part of a part */

static stn_status run_two(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                          stn_tensor **outputs)
{
    (void)context, (void)n_inputs, (void)n_outputs;
    outputs[0] = stn_mul(inputs[0], inputs[0]);
    outputs[1] = call_block(user, outputs[0], 1);
    return STN_OK;
}

static stn_status nested_body(stn_context *context, void *arg)
{
    double x_grad[2][ROWS * WIDTH];
    const stn_placement shard = STN_S(0), replicate = STN_R;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, &shard, ROWS), *w = leaf(context, mesh, &replicate, WIDTH);
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        struct block block = {.weight = w};
        stn_tensor *out[2];
        CHECK_STATUS(recomputed ? stn_recompute(context, run_two, &block, NULL, 1, &x, 2, out)
                                : run_two(context, &block, 1, &x, 2, out),
                     STN_OK);
        CHECK_STATUS(stn_backward(stn_add(sum_of_squares(out[1]), stn_sum(out[0], 0, NULL, 0))), STN_OK);
        CHECK_I64(block.calls, 2); /* again by its own part, or with the one around */
        CHECK_I64(block.released, recomputed ? 2 : 1);
        read_gradient(x, x_grad[recomputed], ROWS * WIDTH);
    }
    CHECK_BYTES(x_grad[1], x_grad[0], sizeof x_grad[0]);
    return stn_scope_end(context);
}

static void a_part_may_have_parts_and_several_outputs(void)
{
    test_ranks(1, nested_body, NULL);
    test_ranks(2, nested_body, NULL);
}

/* Hooks that a part sets on what it makes, and on a tensor that nothing goes on from, are there when it runs again. */

static stn_status count_gradient(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead;
    ++*(int *)arg;
    return STN_OK;
}

static stn_status run_hooked(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                             stn_tensor **outputs)
{
    stn_tensor *square = stn_mul(inputs[0], inputs[0]), *aside = stn_tanh(inputs[0]);
    (void)context, (void)n_inputs, (void)n_outputs;
    CHECK_STATUS(stn_add_tensor_hook(square, count_gradient, user, NULL), STN_OK);
    CHECK_STATUS(stn_add_tensor_hook(aside, count_gradient, user, NULL), STN_OK);
    outputs[0] = stn_mul(square, square);
    return STN_OK;
}

static stn_status hooks_body(stn_context *context, void *arg)
{
    const stn_placement replicate = STN_R;
    int runs = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, test_mesh(context, 1, 0), &replicate, ROWS), *y = NULL;
    CHECK_STATUS(stn_recompute(context, run_hooked, &runs, NULL, 1, &x, 1, &y), STN_OK);
    CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_OK);
    CHECK_I64(runs, 1);
    return stn_scope_end(context);
}

static void hooks_of_a_part_run_once(void)
{
    test_ranks(1, hooks_body, NULL);
}

/* Collectives of a part are called again on every rank, also where no loss comes from it. */
static stn_status run_gathered(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                               stn_tensor **outputs)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)user, (void)n_inputs, (void)n_outputs;
    stn_tensor *all = stn_dist_all_gather(stn_mul(inputs[0], inputs[0]), mesh, 0, NULL, STN_GRAD_PER_RANK);
    outputs[0] = stn_mul(all, all);
    return STN_OK;
}

static stn_status collectives_body(stn_context *context, void *arg)
{
    const int64_t n = 2;
    const double r = stn_context_rank(context), values[] = {1 + r, 2 - r};
    const stn_spec *spec;
    stn_tensor *grad = NULL, *y = NULL;
    double got[2];
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_recompute(context, run_gathered, NULL, NULL, 1, &x, 1, &y), STN_OK);
    stn_tensor *loss = stn_sum(y, 0, NULL, 0);
    CHECK_STATUS(stn_backward_many(context, stn_context_rank(context) == 0, &loss, NULL, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    test_read(grad, got, 2);
    for (int i = 0; i < 2; i++)
        CHECK_NEAR(got[i], 4 * values[i] * values[i] * values[i], 1e-15);
    return stn_scope_end(context);
}

static void collectives_of_a_part_are_called_again_by_all(void)
{
    test_ranks(1, collectives_body, NULL);
    test_ranks(3, collectives_body, NULL);
}

/* What cannot be */

static stn_status refusals_body(stn_context *context, void *arg)
{
    const stn_placement shard = STN_S(0), replicate = STN_R;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *w = leaf(context, mesh, &replicate, WIDTH), *a = leaf(context, mesh, &shard, ROWS);

    struct block changed = {.weight = w};
    stn_tensor *x = stn_mul_number(a, 2), *y = call_block(&changed, x, 1);
    stn_no_grad_begin(context);
    stn_mul_number_(stn_detach(x), 3);
    stn_no_grad_end(context);
    CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "input 0 was changed in place");

    struct block seen = {.weight = w};
    stn_tensor *base = stn_mul_number(stn_detach(a), 2);
    y = call_block(&seen, stn_narrow(base, 1, 0, WIDTH), 1);
    stn_mul_number_(base, 3); /* the input shows it */
    CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "was changed in place");

    stn_tensor *out = NULL;
    CHECK_STATUS(stn_recompute(context, NULL, NULL, NULL, 1, &x, 1, &out), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "function is NULL");
    CHECK(stn_tensor_is_error(out));
    struct block failed = {.weight = w};
    CHECK_STATUS(stn_recompute(context, run_block, &failed, count_release, STN_MAX_INPUTS + 1, &x, 1, &out),
                 STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "too many");
    CHECK_I64(failed.released, 1);
    CHECK_I64(failed.calls, 0);
    return stn_scope_end(context);
}

static void wrong_calls_are_refused(void)
{
    test_ranks(1, refusals_body, NULL);
    test_ranks(2, refusals_body, NULL);
}

/* All ranks do something else the second time: nobody waits for anybody, each says so. */
static stn_status differs_body(stn_context *context, void *arg)
{
    const stn_placement replicate = STN_R;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    struct block block = {.weight = leaf(context, mesh, &replicate, WIDTH), .change_at = 2};
    stn_tensor *y = call_block(&block, leaf(context, mesh, &replicate, ROWS), 1);
    CHECK_STATUS(stn_backward(sum_of_squares(y)), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "call 1 of 3 was gelu, now tanh");
    CHECK_I64(block.calls, 2);
    stn_scope_end(context);
    CHECK_I64(block.released, 1);
    return STN_OK;
}

static void a_function_that_does_something_else_is_told(void)
{
    test_ranks(1, differs_body, NULL);
}

static stn_status run_backward_inside(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs,
                                      int n_outputs, stn_tensor **outputs)
{
    (void)user, (void)n_inputs, (void)n_outputs;
    outputs[0] = sum_of_squares(inputs[0]);
    return stn_backward_many(context, 1, outputs, NULL, 1);
}

static stn_status run_and_fail(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                               stn_tensor **outputs)
{
    (void)context, (void)n_inputs, (void)n_outputs;
    ((struct block *)user)->calls++;
    outputs[0] = sum_of_squares(inputs[0]);
    return STN_ERR_VALUE;
}

static stn_status failures_body(stn_context *context, void *arg)
{
    const stn_placement replicate = STN_R;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, test_mesh(context, 1, 0), &replicate, ROWS), *out = NULL;
    CHECK_STATUS(stn_recompute(context, run_backward_inside, NULL, NULL, 1, &x, 1, &out), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "inside of a function of stn_recompute");
    struct block block = {0};
    CHECK_STATUS(stn_recompute(context, run_and_fail, &block, count_release, 1, &x, 1, &out), STN_ERR_VALUE);
    CHECK_ERROR_PART(context, STN_ERR_VALUE, "the function returned");
    CHECK(stn_tensor_is_error(out));
    CHECK_I64(block.calls, 1);
    CHECK_I64(block.released, 1);

    block = (struct block){.weight = leaf(context, test_mesh(context, 1, 0), &replicate, WIDTH)};
    stn_no_grad_begin(context);
    out = call_block(&block, x, 1); /* recorded nowhere: nothing to wait for */
    stn_no_grad_end(context);
    CHECK(!stn_requires_grad(out));
    CHECK_I64(block.released, 1);
    return stn_scope_end(context);
}

static void failures_are_the_callers(void)
{
    test_ranks(1, failures_body, NULL);
}

/* Graphs that no backward runs go with their tensors. */
static stn_status unused_body(stn_context *context, void *arg)
{
    const stn_placement shard = STN_S(0), replicate = STN_R;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    struct block block = {.weight = leaf(context, mesh, &replicate, WIDTH)};
    call_block(&block, call_block(&block, leaf(context, mesh, &shard, ROWS), 1), 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_I64(block.released, 2);
    CHECK_I64(block.calls, 2);
    return STN_OK;
}

static void unused_graphs_are_released(void)
{
    test_ranks(2, unused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_are_those_of_a_plain_call", gradients_are_those_of_a_plain_call},
        {"random_streams_of_meshes_are_drawn_again_and_left", random_streams_of_meshes_are_drawn_again_and_left},
        {"what_lies_between_is_not_kept", what_lies_between_is_not_kept},
        {"graphs_are_retained_and_differentiated_again", graphs_are_retained_and_differentiated_again},
        {"a_part_may_have_parts_and_several_outputs", a_part_may_have_parts_and_several_outputs},
        {"hooks_of_a_part_run_once", hooks_of_a_part_run_once},
        {"collectives_of_a_part_are_called_again_by_all", collectives_of_a_part_are_called_again_by_all},
        {"wrong_calls_are_refused", wrong_calls_are_refused},
        {"a_function_that_does_something_else_is_told", a_function_that_does_something_else_is_told},
        {"failures_are_the_callers", failures_are_the_callers},
        {"unused_graphs_are_released", unused_graphs_are_released},
    };
    return TEST_MAIN(argc, argv, cases);
}
