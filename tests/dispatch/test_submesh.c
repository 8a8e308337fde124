/* Tensors without dims on a mesh that leaves ranks out: those have a handle and a spec, and no element. */
#include "ranks.h"

#include <math.h>

/* A number on rank `rank` alone. */
static stn_tensor *number_on(stn_context *context, int rank, double value)
{
    const int one = 1;
    const stn_placement whole = stn_replicate();
    const stn_mesh *mesh;
    const stn_spec *spec;
    CHECK_STATUS(stn_mesh_create(context, 1, &one, NULL, &rank, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &whole, STN_DTYPE_F64, 0, NULL, NULL, &spec), STN_OK);
    stn_tensor *out = stn_full(context, spec, value);
    stn_spec_release(&spec);
    return out;
}

static void expect_item(stn_context *context, stn_tensor *t, int rank, double wanted)
{
    double got = 7;
    CHECK_STATUS(stn_item(t, &got), STN_OK);
    if (stn_context_rank(context) == rank)
        CHECK_NEAR(got, wanted, 1e-12);
    else
        CHECK(isnan(got));
}

static stn_status local_body(stn_context *context, void *arg)
{
    const int owner = *(int *)arg;
    double got = -1;
    stn_scope_begin(context);
    stn_tensor *x = number_on(context, owner, 3);
    stn_tensor *locals[] = {stn_full_tensor(x), stn_to_local(x, STN_GRAD_PER_RANK)};
    for (int k = 0; k < 2; k++) {
        CHECK_I64(stn_tensor_ndim(locals[k]), 0);
        CHECK_STATUS(stn_to_host(locals[k], &got, sizeof got), STN_OK);
        CHECK_NEAR(got, stn_context_rank(context) == owner ? 3 : 0, 0);
        expect_item(context, stn_from_local(locals[k], stn_tensor_spec(x), STN_GRAD_PER_RANK), owner, 3);
    }
    return stn_scope_end(context);
}

static void as_a_local_tensor_it_is_zero_outside(void)
{
    for (int owner = 0; owner < 3; owner++)
        test_ranks(3, local_body, &owner);
}

static stn_status in_place_body(stn_context *context, void *arg)
{
    const int owner = *(int *)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {number_on(context, owner, 3), number_on(context, owner, 2)}, *out, *grad;
    CHECK_STATUS(stn_set_requires_grad(in[1], 1), STN_OK);
    CHECK_STATUS(stn_call(context, "pow_", 2, in, 0, NULL, 1, &out), STN_OK);
    CHECK(out == in[0]);
    expect_item(context, out, owner, 9);
    CHECK_STATUS(stn_backward(out), STN_OK);
    CHECK_STATUS(stn_grad_of(in[1], &grad), STN_OK);
    expect_item(context, grad, owner, 9 * log(3));
    return stn_scope_end(context);
}

static void it_is_changed_in_place_while_recorded(void)
{
    for (int owner = 0; owner < 3; owner++)
        test_ranks(3, in_place_body, &owner);
}

static stn_status leaf_body(stn_context *context, void *arg)
{
    const int owner = *(int *)arg;
    stn_tensor *grad;
    stn_scope_begin(context);
    stn_tensor *w = number_on(context, owner, 3);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    for (int pass = 1; pass <= 2; pass++) {
        CHECK_STATUS(stn_backward(stn_mul(w, w)), STN_OK);
        CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
        expect_item(context, grad, owner, 6 * pass);
    }
    stn_optimizer *sgd;
    const stn_named_tensor named = {"w", w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.5, .momentum = 0.5};
    CHECK_STATUS(stn_sgd_create(context, &options, &sgd), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(sgd, &group), STN_OK);
    CHECK_STATUS(stn_optimizer_step(sgd), STN_OK);
    expect_item(context, w, owner, -3);
    stn_optimizer_destroy(&sgd);
    return stn_scope_end(context);
}

static void a_leaf_of_it_is_trained(void)
{
    for (int owner = 0; owner < 3; owner++)
        test_ranks(3, leaf_body, &owner);
}

static stn_status move_body(stn_context *context, void *arg)
{
    const int owner = *(int *)arg, other = (owner + 1) % 3;
    stn_tensor *grad;
    stn_scope_begin(context);
    stn_tensor *w = number_on(context, owner, 3), *there = number_on(context, other, 0);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    stn_tensor *moved = stn_redistribute(stn_mul(w, w), stn_tensor_spec(there));
    expect_item(context, moved, other, 9);
    CHECK_STATUS(stn_backward(stn_mul(moved, moved)), STN_OK);
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    expect_item(context, grad, owner, 4 * 27);
    return stn_scope_end(context);
}

static void it_moves_to_another_rank_and_back(void)
{
    for (int owner = 0; owner < 3; owner++)
        test_ranks(3, move_body, &owner);
}

/* Every op that takes one or two tensors, whether it takes these or refuses them. */
enum { RANKS = 3, MAX_OPS = 1000 };
struct outcomes {
    int n;
    stn_status status[RANKS][MAX_OPS];
};

static stn_status call_and_go_back(stn_context *context, const stn_op *op, int owner)
{
    stn_tensor *in[2], *out = NULL;
    stn_scope_begin(context);
    for (int i = 0; i < 2; i++) {
        in[i] = number_on(context, owner, 0.5 + i / 4.0);
        stn_set_requires_grad(in[i], 1);
    }
    stn_status status = stn_op_invoke(op, stn_op_descriptor(op)->n_inputs, in, 0, NULL, 1, &out);
    if (status == STN_OK && out && out != in[0] && stn_requires_grad(out) && stn_spec_mesh(stn_tensor_spec(out)))
        stn_backward(stn_sum(out, 0, NULL, 0));
    return stn_scope_end(context);
}

static stn_status every_body(stn_context *context, void *arg)
{
    struct outcomes *outcomes = arg;
    const stn_op *op;
    int n = 0;
    for (int i = 0; (op = stn_op_at(context, i)) && n < MAX_OPS; i++) {
        int n_inputs = stn_op_descriptor(op)->n_inputs;
        if (n_inputs == 1 || n_inputs == 2)
            outcomes->status[stn_context_rank(context)][n++] = call_and_go_back(context, op, 1);
    }
    outcomes->n = n;
    return STN_OK;
}

static void every_op_ends_alike_on_all_ranks(void)
{
    static struct outcomes outcomes;
    int taken = 0;
    test_ranks(RANKS, every_body, &outcomes);
    for (int i = 0; i < outcomes.n; i++) {
        taken += outcomes.status[0][i] == STN_OK;
        for (int rank = 1; rank < RANKS; rank++)
            CHECK_I64(outcomes.status[rank][i], outcomes.status[0][i]);
    }
    CHECK(taken > 100);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"as_a_local_tensor_it_is_zero_outside", as_a_local_tensor_it_is_zero_outside},
        {"it_is_changed_in_place_while_recorded", it_is_changed_in_place_while_recorded},
        {"a_leaf_of_it_is_trained", a_leaf_of_it_is_trained},
        {"it_moves_to_another_rank_and_back", it_moves_to_another_rank_and_back},
        {"every_op_ends_alike_on_all_ranks", every_op_ends_alike_on_all_ranks},
    };
    return TEST_MAIN(argc, argv, cases);
}
