/* NVIDIA/physicsnemo pull request, ShardTensor's own dispatch: what a scattered tensor is to autograd (requires_grad and is_leaf were set through a
 * dispatch that ignored them), gradients that are cut as unevenly as their tensors, and group_norm asking `weight.requires_grad` of the
 * moment in its backward.
 *
 * Put back by leaving out the call of stn_set_requires_grad in stn_scatter (src/ops/redistribute/scatter.c), and by asking
 * edge->leaf->handle->flags in `deliver` (src/autograd/backward.c) whether its tensor requires grad now. */
#include "ranks.h"

#include <math.h>

enum { ROWS = 7, CHANNELS = 4, N = ROWS * CHANNELS };

static const int64_t cuts[][3] = {{7}, {2, 5}, {4, 0, 3}};

static const stn_spec *spec_of(stn_context *context)
{
    const int p = stn_context_size(context);
    const int64_t shape[] = {ROWS, CHANNELS}, *const sizes[] = {cuts[p - 1], NULL};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_placement shard = stn_shard(0);
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, p, 0), &shard, STN_DTYPE_F64, 2, shape, &options, &spec), STN_OK);
    return spec;
}

static stn_tensor *scattered(stn_context *context, const stn_spec *spec, int requires_grad)
{
    const int64_t shape[] = {ROWS, CHANNELS};
    double values[N];
    for (int i = 0; i < N; i++)
        values[i] = test_value(i);
    const stn_spec *local;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &local), STN_OK);
    stn_tensor *whole = stn_context_rank(context) == 0 ? stn_from_host(context, local, values) : NULL;
    stn_spec_release(&local);
    return stn_scatter(context, whole, 0, spec, requires_grad);
}

static stn_status scatter_body(stn_context *context, void *arg)
{
    const stn_spec *spec = spec_of(context);
    (void)arg;
    stn_scope_begin(context);
    for (int requires_grad = 0; requires_grad < 2; requires_grad++) {
        stn_tensor *x = scattered(context, spec, requires_grad), *grad = NULL;
        CHECK_I64(stn_requires_grad(x), requires_grad);
        CHECK(stn_is_leaf(x));
        stn_tensor *loss = stn_sum(stn_mul(x, x), 0, NULL, 0);
        CHECK_STATUS(stn_backward(loss), requires_grad ? STN_OK : STN_ERR_STATE);
        stn_context_take_error(context, NULL, 0);
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        CHECK((grad != NULL) == requires_grad);
        if (grad)
            CHECK(stn_tensor_spec(grad) == spec); /* the uneven cuts too */
    }
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void a_scattered_tensor_is_a_leaf_that_obeys(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, scatter_body, NULL);
}

static stn_tensor *channels(stn_context *context, double value, int requires_grad)
{
    const int64_t n = CHANNELS;
    const stn_placement replicate = stn_replicate();
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, stn_context_size(context), 0), &replicate, STN_DTYPE_F64, 1, &n, NULL, &spec),
                 STN_OK);
    stn_tensor *t = stn_full(context, spec, value);
    stn_spec_release(&spec);
    stn_set_requires_grad(t, requires_grad);
    return t;
}

/* The flags change between forward and backward: what counts is what they were. */
static stn_status mask_body(stn_context *context, void *arg)
{
    const stn_spec *spec = spec_of(context);
    stn_tensor *weight_grad = NULL, *bias_grad = NULL;
    double got[CHANNELS];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = scattered(context, spec, 0), *weight = channels(context, 2, 1), *bias = channels(context, 0, 0);
    stn_tensor *loss = stn_sum(stn_group_norm(x, 2, weight, bias, 1e-5), 0, NULL, 0);
    stn_set_requires_grad(weight, 0);
    stn_set_requires_grad(bias, 1);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK_STATUS(stn_grad_of(weight, &weight_grad), STN_OK);
    CHECK_STATUS(stn_grad_of(bias, &bias_grad), STN_OK);
    CHECK(bias_grad == NULL);
    if (CHECK_PTR(weight_grad)) {
        test_read(weight_grad, got, CHANNELS);
        CHECK(fabs(got[0]) > 1e-3 && fabs(got[0] + got[1]) < 1e-12); /* what is normalised has mean 0 in each group */
    }
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void the_mask_of_the_forward_decides(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, mask_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_scattered_tensor_is_a_leaf_that_obeys", a_scattered_tensor_is_a_leaf_that_obeys},
        {"the_mask_of_the_forward_decides", the_mask_of_the_forward_decides},
    };
    return TEST_MAIN(argc, argv, cases);
}
