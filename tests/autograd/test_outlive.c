/* Contexts that end while graphs, leaves and what owns them are alive. */
#include "ranks.h"

#include <shardtensor/train.h>

#include <math.h>
#include <string.h>

enum { RANKS = 3, N = 8 };

/* What a rank hands out of its world. */
struct handed {
    stn_tensor *leaf, *loss, *grad;
    stn_optimizer *optimizer;
    stn_average *average;
    const stn_spec *spec;
};

static stn_status train_and_hand_out(stn_context *context, void *arg)
{
    struct handed *out = (struct handed *)arg + stn_context_rank(context);
    const int64_t shape[] = {N};
    const stn_placement shard = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *w = test_tensor(context, mesh, &shard, STN_DTYPE_F32, 1, shape, NULL, test_value);
    stn_set_requires_grad(w, 1);
    stn_named_tensor named = {"w", w};
    CHECK_STATUS(stn_sgd_create(context, NULL, &out->optimizer), STN_OK);
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    CHECK_STATUS(stn_optimizer_add_group(out->optimizer, &group), STN_OK);
    CHECK_STATUS(stn_average_create(context, 1, &named, &out->average), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(w, w), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(w, &out->grad), STN_OK);
    stn_tensor_retain(out->grad);
    out->leaf = stn_tensor_retain(w);
    out->loss = stn_tensor_retain(stn_sum(stn_exp(stn_mul(w, w)), 0, NULL, 0)); /* its graph is alive */
    out->spec = stn_spec_retain(stn_tensor_spec(w));
    return stn_scope_end(context);
}

static void check_refused(struct handed *h)
{
    stn_tensor *grad = NULL;
    double value = 7;
    CHECK_STATUS(stn_backward(h->loss), STN_ERR_STATE);
    CHECK_STATUS(stn_grad_of(h->leaf, &grad), STN_ERR_STATE);
    CHECK_STATUS(stn_item(h->loss, &value), STN_ERR_STATE);
    CHECK(isnan(value));
    CHECK_STATUS(stn_optimizer_step(h->optimizer), STN_ERR_STATE);
    CHECK_STATUS(stn_average_update(h->average, 0.5), STN_ERR_STATE);
    CHECK_I64(stn_tensor_is_error(stn_add(h->leaf, h->grad)), 1);
    CHECK_I64(stn_tensor_is_error(stn_detach(h->leaf)), 1);
    CHECK_I64(stn_tensor_is_error(stn_redistribute(h->leaf, h->spec)), 1);
    CHECK_I64(stn_tensor_is_error(stn_full_tensor(h->leaf)), 1);
    CHECK(strstr(stn_context_error_text(stn_tensor_context(h->leaf)), "destroyed") != NULL);
}

static void check_grad(const struct handed *h)
{
    const float *grad = stn_tensor_data(h->grad);
    for (int64_t i = 0; i < stn_tensor_local_shape(h->grad)[0]; i++)
        CHECK_NEAR((double)grad[i], 2 * test_value(stn_spec_local_offset(h->spec)[0] + i), 1e-6);
    CHECK_I64(stn_mesh_size(stn_spec_mesh(h->spec)), RANKS);
}

static stn_status launch(struct handed *handed)
{
    stn_launch_options options = {.size = sizeof options, .ranks = RANKS};
    return stn_launch(&options, train_and_hand_out, handed);
}

static void release(struct handed *h)
{
    stn_tensor_release(&h->loss);
    stn_optimizer_destroy(&h->optimizer);
    stn_tensor_release(&h->leaf);
    stn_spec_release(&h->spec);
    stn_tensor_release(&h->grad);
    stn_average_destroy(&h->average);
}

static void what_ranks_hand_out_can_be_read_and_released_after_them(void)
{
    struct handed handed[RANKS] = {0};
    CHECK_STATUS(launch(handed), STN_OK);
    for (int r = 0; r < RANKS; r++) {
        check_grad(&handed[r]);
        check_refused(&handed[r]);
    }
    for (int r = RANKS; r-- > 0;)
        release(&handed[r]);
}

/* The tensor is the world's last; nothing else may be needed for what an optimizer or a list without parameters
 * does. */
static void empty_optimizers_and_lists_outlive_their_context(void)
{
    stn_context *context;
    stn_optimizer *optimizer = NULL;
    stn_params *params = NULL;
    CHECK_STATUS(stn_context_create(NULL, &context), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, NULL, &optimizer), STN_OK);
    CHECK_STATUS(stn_params_create(context, &params), STN_OK);
    stn_context_destroy(&context);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_ERR_STATE);
    stn_optimizer_destroy(&optimizer);
    CHECK(optimizer == NULL);
    CHECK_STATUS(stn_params_add(params, "w", NULL), STN_ERR_STATE);
    stn_params_destroy(&params);
    CHECK(params == NULL);
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

static stn_status hook(stn_tensor *leaf, void *arg)
{
    (void)leaf;
    (void)arg;
    return STN_OK;
}

/* Inside a scope, with results that keep their inputs alive and a caller that keeps the last. */
static void contexts_end_with_scopes_and_graphs_alive(void)
{
    for (int i = 0; i < 20; i++) {
        stn_context *context;
        const stn_spec *spec;
        int dropped = 0;
        CHECK_STATUS(stn_context_create(NULL, &context), STN_OK);
        CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 2, (int64_t[]){4, 4}, NULL, &spec), STN_OK);
        stn_tensor *w = stn_ones(context, spec);
        stn_set_requires_grad(w, 1);
        CHECK_STATUS(stn_add_grad_hook(w, hook, &dropped, count_call), STN_OK);
        stn_scope_begin(context);
        stn_tensor *y = stn_mul(w, w);
        for (int k = 0; k < 300; k++)
            y = stn_add(y, w);
        stn_tensor_retain(y);
        stn_context_destroy(&context);
        CHECK_I64(dropped, 1);
        CHECK_NEAR((double)*(float *)stn_tensor_data(y), 301, 0);
        stn_tensor_release(&w);
        stn_tensor_release(&y);
        stn_spec_release(&spec);
    }
}

enum { KEPT = 4 };

/* What a hook keeps: it lets go of tensors with histories of their own, while the context's end goes through all. */
static void let_go(void *arg)
{
    stn_tensor **kept = arg;
    for (int i = 0; i < KEPT; i++)
        stn_tensor_release(&kept[i]);
}

static stn_status let_pass(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead, (void)arg;
    return STN_OK;
}

static stn_tensor *new_leaf(stn_context *context, const stn_spec *spec)
{
    stn_tensor *leaf = stn_ones(context, spec);
    CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
    return leaf;
}

static void hooks_let_go_of_what_they_keep_when_a_context_ends(void)
{
    for (int order = 0; order < 2; order++) { /* what is kept was made before the leaf with the hook, or behind it */
        stn_context *context;
        const stn_spec *spec;
        stn_tensor *leaf = NULL, *kept[KEPT];
        CHECK_STATUS(stn_context_create(NULL, &context), STN_OK);
        CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, (int64_t[]){N}, NULL, &spec), STN_OK);
        if (order)
            leaf = new_leaf(context, spec);
        for (int i = 0; i < KEPT; i += 2) {
            kept[i] = new_leaf(context, spec);
            kept[i + 1] = stn_exp(kept[i]);
        }
        if (!order)
            leaf = new_leaf(context, spec);
        CHECK_STATUS(stn_add_tensor_hook(leaf, let_pass, kept, let_go), STN_OK);
        stn_context_destroy(&context);
        for (int i = 0; i < KEPT; i++)
            CHECK(kept[i] == NULL);
        CHECK_NEAR((double)*(float *)stn_tensor_data(leaf), 1, 0);
        stn_tensor_release(&leaf);
        stn_spec_release(&spec);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_ranks_hand_out_can_be_read_and_released_after_them",
         what_ranks_hand_out_can_be_read_and_released_after_them},
        {"empty_optimizers_and_lists_outlive_their_context", empty_optimizers_and_lists_outlive_their_context},
        {"contexts_end_with_scopes_and_graphs_alive", contexts_end_with_scopes_and_graphs_alive},
        {"hooks_let_go_of_what_they_keep_when_a_context_ends", hooks_let_go_of_what_they_keep_when_a_context_ends},
    };
    return TEST_MAIN(argc, argv, cases);
}
