/* Pullbacks: the gradients that the tape gives, by the op's own collectives alone, and nothing left behind. */
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *numbers(stn_context *context, const stn_mesh *mesh, const char *placement, int ndim,
                           const int64_t *shape, double (*value)(int64_t))
{
    const stn_spec *spec = mesh ? stn_spec_of(mesh, STN_DTYPE_F64, placement, ndim, shape) : NULL;
    const stn_placement p = spec ? stn_spec_placement(spec, 0) : stn_replicate();
    return test_tensor(context, mesh, mesh ? &p : NULL, STN_DTYPE_F64, ndim, shape, NULL, value);
}

static double other_value(int64_t i)
{
    return 1.5 + test_value(3 * i + 1);
}

static void expect_equal(stn_tensor *got, stn_tensor *want)
{
    double a[64], b[64];
    const int64_t n = stn_spec_numel(stn_tensor_spec(want));
    if (!CHECK(!stn_tensor_is_error(got)) || !CHECK(n <= 64) || !CHECK_I64(stn_spec_numel(stn_tensor_spec(got)), n))
        return;
    test_read(got, a, n);
    test_read(want, b, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(a[i], b[i], 1e-12);
}

/* Ops of each kind: with a rule, made of others, with two outputs, a view. */
static const struct {
    const char *op;
    int n_in, ndim;
    const char *placements[2];
    stn_attr attr;
    int quiet; /* its backward sends nothing in this layout */
} kinds[] = {
    {"mul", 2, 2, {"S0", "S0"}, {0}, 1},
    {"mul", 2, 2, {"R", "S1"}, {0}, 1},
    {"matmul", 2, 2, {"S0", "R"}, {0}, 1},
    {"matmul", 2, 2, {"S1", "S0"}, {0}, 0},
    {"softmax", 1, 2, {"S1"}, {"dim", STN_ATTR_INT, {.i = 1}}, 0},
    {"logsumexp", 1, 2, {"S0"}, {"dim", STN_ATTR_INT, {.i = 1}}, 1},
    {"max", 1, 2, {"S0"}, {"dim", STN_ATTR_INT, {.i = 1}}, 1},
    {"transpose", 1, 2, {"S0"}, {"dim1", STN_ATTR_INT, {.i = 1}}, 1},
    {"cumsum", 1, 1, {"S0"}, {"dim", STN_ATTR_INT, {.i = 0}}, 0},
    {"squeeze", 1, 2, {"R"}, {0}, 1},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const int64_t square[] = {5, 5};

static void make_inputs(stn_context *context, const stn_mesh *mesh, int k, stn_tensor **in)
{
    for (int i = 0; i < kinds[k].n_in; i++)
        in[i] = numbers(context, mesh, kinds[k].placements[i], kinds[k].ndim, square, i ? other_value : test_value);
}

/* What the tape gives for the same call and cotangent. */
static void take_from_tape(stn_context *context, const stn_mesh *mesh, int k, stn_tensor *cotangent, stn_tensor **grads)
{
    stn_tensor *in[2], *out[2];
    const stn_op *op = stn_op_find(context, kinds[k].op);
    make_inputs(context, mesh, k, in);
    for (int i = 0; i < kinds[k].n_in; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    CHECK_STATUS(stn_op_invoke(op, kinds[k].n_in, in, kinds[k].attr.name != NULL, &kinds[k].attr, 1, out), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, out, &cotangent, kinds[k].n_in, in, 0, 0, grads), STN_OK);
}

static void check_kind(stn_context *context, const stn_mesh *mesh, int k)
{
    const stn_op *op = stn_op_find(context, kinds[k].op);
    stn_tensor *in[2] = {0}, *out[2] = {0}, *grads[2] = {0}, *again[2] = {0}, *wanted[2] = {0};
    stn_pullback *pullback = NULL;
    make_inputs(context, mesh, k, in);
    stn_no_grad_begin(context); /* grad mode changes nothing */
    CHECK_STATUS(
        stn_op_invoke_pullback(op, kinds[k].n_in, in, kinds[k].attr.name != NULL, &kinds[k].attr, 3, 1, out, &pullback),
        STN_OK);
    stn_no_grad_end(context);
    CHECK(!stn_requires_grad(out[0]) && !stn_requires_grad(in[0]));
    stn_tensor *cotangent = stn_add_number(stn_square(out[0]), 0.25);
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &cotangent, 3, grads, NULL), STN_OK);
    const stn_stats sent = test_stats(context);
    if (kinds[k].quiet)
        CHECK_I64(sent.collectives + sent.messages, 0);
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &cotangent, 1, again, NULL), STN_OK);
    CHECK(again[1] == NULL);
    take_from_tape(context, mesh, k, cotangent, wanted);
    for (int i = 0; i < kinds[k].n_in; i++) {
        CHECK(!stn_requires_grad(grads[i]));
        expect_equal(grads[i], wanted[i]);
    }
    expect_equal(again[0], wanted[0]);
    stn_pullback_release(&pullback);
    CHECK(pullback == NULL);
}

static stn_status kinds_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    for (int k = 0; k < N_KINDS; k++) {
        const int64_t alive = test_stats(context).live_tensors;
        stn_scope_begin(context);
        check_kind(context, mesh, k);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        CHECK_I64(test_stats(context).live_tensors, alive);
    }
    return STN_OK;
}

static void gradients_are_those_of_the_tape(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, kinds_body, NULL);
}

static stn_status pending_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_scope_begin(context);
    stn_tensor *in[] = {numbers(context, mesh, "S0", 2, square, test_value),
                        numbers(context, mesh, "R", 2, square, other_value)},
               *out, *grads[2];
    stn_pullback *pullback;
    const stn_spec *complete;
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "matmul"), 2, in, 0, NULL, 2, 1, &out, &pullback), STN_OK);
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &out, ~0u, grads, NULL), STN_OK);
    CHECK(grads[0] == NULL);
    CHECK(stn_spec_placement(stn_tensor_spec(grads[1]), 0).kind == STN_PLACE_PARTIAL);
    CHECK_STATUS(stn_gradient_spec(stn_tensor_spec(grads[1]), &complete), STN_OK);
    CHECK(complete == stn_tensor_spec(in[1]));
    stn_spec_release(&complete);
    CHECK_STATUS(stn_gradient_spec(stn_tensor_spec(in[0]), &complete), STN_OK);
    CHECK(complete == stn_tensor_spec(in[0]));
    stn_spec_release(&complete);
    CHECK_STATUS(stn_gradient_spec(NULL, &complete), STN_ERR_ARGUMENT);
    stn_pullback_release(&pullback);
    return stn_scope_end(context);
}

static void a_gradient_that_is_pending_stays_so(void)
{
    test_ranks(3, pending_body, NULL);
}

/* y = x^3: g = 3 x^2 c; of g: 6 x c d and 3 x^2 d; of the first of these with respect to d: 6 x c. */
static stn_status again_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_attr three = {"exponent", STN_ATTR_FLOAT, {.f = 3}};
    const int64_t n = 7;
    stn_scope_begin(context);
    stn_tensor *x = numbers(context, mesh, "S0", 1, &n, other_value),
               *c = numbers(context, mesh, "R", 1, &n, test_value),
               *d = numbers(context, mesh, "S0", 1, &n, other_value);
    stn_tensor *in[] = {x, NULL}, *y, *g[2], *second[3], *third[4];
    stn_pullback *first = NULL, *of_first = NULL, *of_second = NULL;
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "pow"), 2, in, 1, &three, 1, 1, &y, &first), STN_OK);
    CHECK_STATUS(stn_pullback_apply(first, 1, &c, 1, g, &of_first), STN_OK);
    stn_tensor *square_x = stn_square(x);
    expect_equal(g[0], stn_mul_number(stn_mul(square_x, c), 3));
    CHECK(!stn_requires_grad(g[0]) && !stn_requires_grad(c));
    CHECK_STATUS(stn_pullback_apply(of_first, 1, &d, 5, second, &of_second), STN_OK);
    expect_equal(second[0], stn_mul_number(stn_mul(stn_mul(x, c), d), 6));
    CHECK(second[1] == NULL);
    expect_equal(second[2], stn_mul_number(stn_mul(square_x, d), 3));
    CHECK_STATUS(stn_pullback_apply(of_second, 1, &y, 8, third, NULL), STN_OK);
    expect_equal(third[3], stn_mul_number(stn_mul(stn_mul(x, c), y), 6));
    stn_pullback_release(&first); /* each keeps what it needs */
    CHECK_STATUS(stn_pullback_apply(of_first, 1, &d, 1, second, NULL), STN_OK);
    expect_equal(second[0], stn_mul_number(stn_mul(stn_mul(x, c), d), 6));
    stn_pullback_release(&of_first);
    stn_pullback_release(&of_second);
    return stn_scope_end(context);
}

static void what_a_pullback_gives_can_be_pulled_back_again(void)
{
    test_ranks(1, again_body, NULL);
    test_ranks(3, again_body, NULL);
}

static stn_status in_place_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const int64_t n = 7;
    stn_scope_begin(context);
    stn_tensor *x = numbers(context, mesh, "S0", 1, &n, test_value),
               *y = numbers(context, mesh, "S0", 1, &n, other_value), *before = stn_clone(x);
    stn_tensor *c = numbers(context, mesh, "R", 1, &n, other_value), *in[] = {x, y}, *out, *grads[2];
    stn_pullback *pullback;
    const int64_t alive = test_stats(context).live_tensors;
    stn_set_requires_grad(x, 1); /* refused in grad mode of the tape, which is not asked here */
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "mul_"), 2, in, 0, NULL, 3, 1, &out, &pullback), STN_OK);
    CHECK(out == x && stn_is_leaf(x));
    expect_equal(x, stn_mul(before, y));
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &c, 3, grads, NULL), STN_OK);
    expect_equal(grads[0], stn_mul(c, y));
    expect_equal(grads[1], stn_mul(c, before));
    stn_pullback_release(&pullback);
    CHECK(test_stats(context).live_tensors > alive); /* the checks' own, until the scope ends */
    return stn_scope_end(context);
}

static void an_op_in_place_gives_its_input_and_gradients_of_what_it_was(void)
{
    test_ranks(3, in_place_body, NULL);
}

static void expect_failure(stn_context *context, stn_status got, stn_status status, const char *text)
{
    char said[300] = "";
    CHECK_STATUS(got, status);
    CHECK_STATUS(stn_context_take_error(context, said, sizeof said), status);
    CHECK_STR(said, text);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t n = 7, more = 8;
    stn_scope_begin(context);
    stn_tensor *x = numbers(context, mesh, "S0", 1, &n, test_value),
               *y = numbers(context, mesh, "S0", 1, &n, other_value), *in[] = {x, y}, *out[2];
    stn_tensor *longer = numbers(context, mesh, "S0", 1, &more, test_value), *two[2], *grads[2] = {y, y}, *saved = NULL;
    stn_pullback *pullback = NULL;
    expect_failure(context,
                   stn_op_invoke_pullback(stn_op_find(context, "mul"), 3, (stn_tensor *[]){x, y, x}, 0, NULL, 3, 2, out,
                                          &pullback),
                   STN_ERR_ARGUMENT, "mul: got 3 inputs, wanted at most 2");
    expect_failure(context, stn_op_invoke_pullback(stn_op_find(context, "mul"), 2, in, 0, NULL, 3, 2, out, NULL),
                   STN_ERR_ARGUMENT, "stn_op_invoke_pullback: pullback got NULL, wanted where to put it");
    CHECK(pullback == NULL && stn_tensor_is_error(out[0]) && stn_tensor_is_error(out[1]));
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "mul"), 2, in, 0, NULL, 3, 2, out, &pullback), STN_OK);
    CHECK(out[1] == NULL);
    expect_failure(context, stn_pullback_apply(pullback, 1, &longer, 3, grads, NULL), STN_ERR_SHAPE,
                   "stn_pullback_apply: cotangent 0 got f64 (8) on y=2: Shard(0) sizes 4 4, wanted shape, dtype and "
                   "mesh of its output, f64 (7) "
                   "on y=2: Shard(0) sizes 4 3");
    two[0] = two[1] = out[0];
    expect_failure(context, stn_pullback_apply(pullback, 2, two, 3, grads, NULL), STN_ERR_ARGUMENT,
                   "stn_pullback_apply: cotangent 1 has no output, which the call was not asked for or did not give");
    CHECK(grads[0] == y && grads[1] == y);
    two[0] = NULL;
    CHECK_STATUS(stn_pullback_apply(pullback, 1, two, 3, grads, NULL), STN_OK);
    CHECK(grads[0] == NULL && grads[1] == NULL);
    int n_saved = 0;
    while (stn_pullback_saved(pullback, n_saved, &saved))
        n_saved +=
            stn_tensor_data(saved) == stn_tensor_data(x) || stn_tensor_data(saved) == stn_tensor_data(y) ? 1 : 100;
    CHECK_I64(n_saved, 2);
    stn_fill_(y, 0);
    expect_failure(context, stn_pullback_apply(pullback, 1, out, 1, grads, NULL), STN_ERR_STATE,
                   "stn_backward: 'other' of mul was changed in place after it was saved (version 0, now 1)");
    CHECK_STATUS(stn_pullback_apply(NULL, 0, NULL, 0, grads, NULL), STN_ERR_ARGUMENT);
    stn_pullback_release(&pullback);
    stn_pullback_release(&pullback);
    return stn_scope_end(context);
}

static void what_cannot_be_applied_is_refused_with_its_reason(void)
{
    test_ranks(2, refusals_body, NULL);
}

/* A program per rank: its gradient is the sum over ranks, and no other backward counts with it. */
static stn_status per_rank_body(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t n = 3;
    test_mesh(context, 3, 0); /* the first one, over which it reduces */
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value), *out, *grad;
    stn_tensor *c = stn_mul_number(x, stn_context_rank(context) + 1), *leaf = stn_clone(x);
    stn_pullback *pullback;
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "dist_all_reduce"), 1, &x, 0, NULL, 1, 1, &out, &pullback),
                 STN_OK);
    stn_set_requires_grad(leaf, 1);
    if (stn_context_rank(context) == 0) /* alone: a collective on the tape would make all ranks agree on it */
        CHECK_STATUS(stn_backward(stn_sum(leaf, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &c, 1, &grad, NULL), STN_OK);
    expect_equal(grad, stn_mul_number(x, 6));
    stn_pullback_release(&pullback);
    return stn_scope_end(context);
}

static void a_collective_of_per_rank_programs_stays_off_the_tape(void)
{
    test_ranks(3, per_rank_body, NULL);
}

static void a_pullback_may_outlive_its_context(void)
{
    stn_context *context;
    stn_pullback *pullback;
    const int64_t n = 3;
    CHECK_STATUS(stn_context_create(NULL, &context), STN_OK);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value), *out, *grad, *saved;
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "square"), 1, &x, 0, NULL, 1, 1, &out, &pullback), STN_OK);
    stn_tensor_release(&x);
    stn_tensor_release(&out);
    stn_context_destroy(&context);
    CHECK_STATUS(stn_pullback_apply(pullback, 0, NULL, 1, &grad, NULL), STN_ERR_ARGUMENT);
    CHECK_I64(stn_pullback_saved(pullback, 0, &saved), 0);
    stn_pullback_release(&pullback);
    CHECK(pullback == NULL);
}

enum { MANY = 1 << 20 };

static void expect_whole(stn_tensor *got, double factor)
{
    double *values = malloc(MANY * sizeof *values);
    int64_t wrong = 0;
    if (!CHECK_PTR(values))
        return;
    CHECK_STATUS(stn_to_host(got, values, MANY * sizeof *values), STN_OK);
    for (int64_t i = 0; i < MANY; i++)
        wrong += values[i] != factor * test_value(i);
    CHECK_I64(wrong, 0);
    free(values);
}

/* An input, and a cotangent, of stn_redistribute_begin. */
static stn_status arriving_body(stn_context *context, void *arg)
{
    const int64_t n = MANY;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *whole = stn_spec_of(mesh, STN_DTYPE_F64, "R", 1, &n);
    stn_tensor *x = numbers(context, mesh, "S0", 1, &n, test_value), *in = stn_redistribute_begin(x, whole);
    stn_tensor *out, *grad;
    stn_pullback *pullback = NULL;
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, "neg"), 1, &in, 0, NULL, 1, 1, &out, &pullback), STN_OK);
    expect_whole(out, -1);
    stn_tensor *cotangent = stn_redistribute_begin(x, whole);
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &cotangent, 1, &grad, NULL), STN_OK);
    expect_whole(grad, -1);
    stn_pullback_release(&pullback);
    return stn_scope_end(context);
}

static void what_is_under_way_is_waited_for(void)
{
    test_ranks(2, arriving_body, NULL);
}

/* Lent memory that is elsewhere by the time of the backward */

enum { LENT = 3 * 4 };

static stn_tensor *lend(stn_context *context, const stn_mesh *mesh, double *memory)
{
    const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){3, 4});
    stn_tensor *local = stn_wrap(context, STN_DTYPE_F64, 2, (int64_t[]){3, 4}, NULL, memory, NULL, NULL);
    return stn_from_local(local, spec, STN_GRAD_REPLICATED);
}

/* The gradients by what was lent at a[0] and b[0], which is then at a[1] and b[1], and what was there is gone. */
static void pull_back_moved(stn_context *context, const stn_mesh *mesh, const char *name, double *const *a,
                            double *const *b, stn_tensor **grads)
{
    double kept_a[LENT], kept_b[LENT];
    stn_scope_begin(context);
    stn_tensor *in[] = {lend(context, mesh, a[0]), lend(context, mesh, b[0])}, *out = NULL;
    stn_tensor *given[2] = {NULL}, *cotangent;
    stn_pullback *pullback = NULL;
    CHECK_STATUS(stn_op_invoke_pullback(stn_op_find(context, name), 2, in, 0, NULL, 3, 1, &out, &pullback), STN_OK);
    cotangent = stn_full(context, stn_tensor_spec(out), 2);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    memcpy(kept_a, a[0], sizeof kept_a);
    memcpy(kept_b, b[0], sizeof kept_b);
    for (int i = 0; i < LENT; i++)
        a[0][i] = b[0][i] = NAN;
    memcpy(b[1], kept_b, sizeof kept_b);
    memcpy(a[1], kept_a, sizeof kept_a);
    const stn_moved_memory moved[] = {{a[0], sizeof kept_a, a[1]}, {b[0], sizeof kept_b, b[1]}};
    CHECK_STATUS(stn_pullback_moved(pullback, 2, moved), STN_OK);
    CHECK_STATUS(stn_pullback_apply(pullback, 1, &cotangent, 3, given, NULL), STN_OK);
    for (int i = 0; i < 2; i++)
        grads[i] = stn_tensor_retain(given[i]);
    stn_pullback_release(&pullback);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static void fill_lent(double *memory, double (*value)(int64_t))
{
    for (int i = 0; i < LENT; i++)
        memory[i] = value(i);
}

/* Gradients are those where nothing moves. */
static void check_moved(stn_context *context, const stn_mesh *mesh, const char *name, double *const *a,
                        double *const *b)
{
    double *const stay_a[] = {a[0], a[0]}, *const stay_b[] = {b[0], b[0]};
    stn_tensor *want[2], *got[2];
    for (int moves = 0; moves < 2; moves++) {
        fill_lent(b[0], other_value);
        fill_lent(a[0], test_value);
        pull_back_moved(context, mesh, name, moves ? a : stay_a, moves ? b : stay_b, moves ? got : want);
    }
    for (int i = 0; i < 2; i++) {
        expect_equal(got[i], want[i]);
        stn_tensor_release(&got[i]);
        stn_tensor_release(&want[i]);
    }
}

/* Elsewhere, in each other's places, and one element further; in nodes that keep a handle once, and twice. */
static stn_status moved_body(stn_context *context, void *arg)
{
    enum { OTHER = LENT + 1, THIRD = 2 * OTHER, LAST = 3 * OTHER };
    double memory[4 * OTHER];
    double *const apart[2][2] = {{memory, memory + THIRD}, {memory + OTHER, memory + LAST}},
                  *const swapped[2][2] = {{memory, memory + OTHER}, {memory + OTHER, memory}},
                  *const further[2][2] = {{memory, memory + 1}, {memory + OTHER, memory + OTHER + 1}};
    double *const(*const cases[])[2] = {apart, swapped, further};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (int c = 0; c < 3; c++) {
        check_moved(context, mesh, "mul", cases[c][0], cases[c][1]);
        check_moved(context, mesh, "cosine_similarity", cases[c][0], cases[c][1]);
    }
    CHECK(stn_pullback_moved(NULL, 0, NULL) == STN_ERR_ARGUMENT);
    return stn_context_status(context);
}

static void lent_memory_may_move_before_the_backward(void)
{
    test_worlds(moved_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_are_those_of_the_tape", gradients_are_those_of_the_tape},
        {"a_gradient_that_is_pending_stays_so", a_gradient_that_is_pending_stays_so},
        {"what_a_pullback_gives_can_be_pulled_back_again", what_a_pullback_gives_can_be_pulled_back_again},
        {"an_op_in_place_gives_its_input_and_gradients_of_what_it_was",
         an_op_in_place_gives_its_input_and_gradients_of_what_it_was},
        {"what_cannot_be_applied_is_refused_with_its_reason", what_cannot_be_applied_is_refused_with_its_reason},
        {"a_collective_of_per_rank_programs_stays_off_the_tape", a_collective_of_per_rank_programs_stays_off_the_tape},
        {"what_is_under_way_is_waited_for", what_is_under_way_is_waited_for},
        {"lent_memory_may_move_before_the_backward", lent_memory_may_move_before_the_backward},
        {"a_pullback_may_outlive_its_context", a_pullback_may_outlive_its_context},
    };
    return TEST_MAIN(argc, argv, cases);
}
