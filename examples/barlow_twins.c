/* A loss on the cross-correlation of two views over the samples of all ranks: Zbontar et al., "Barlow Twins", 2021.
 * Means, variances and products of features are sums over all samples, wherever these are; nothing here says so twice.
 * */
#include "common/same_results.h"

enum { SAMPLES = 7, PIXELS = 6, WIDTH = 4 };

/* Features with mean 0 and variance 1 over the batch. */
static stn_tensor *embed(stn_tensor *view, stn_tensor *weight)
{
    return stn_batch_norm(stn_linear(view, weight, NULL), NULL, NULL, NULL, NULL, 1, 0, 1e-5, NULL, NULL);
}

/* sum of (1 - c_ii)^2 and of c_ij^2 / 200: each feature is to be like itself in the other view, and unlike the others.
 * */
static stn_tensor *loss_of(stn_tensor *a, stn_tensor *b, stn_tensor *same)
{
    stn_tensor *correlation = stn_mul_number(stn_matmul(stn_transpose(a, 0, 1), b), 1.0 / SAMPLES); /* Partial(sum) */
    stn_tensor *factor = stn_add_number(stn_mul_number(same, 1 - 0.005), 0.005);
    return stn_sum(stn_mul(stn_square(stn_sub(correlation, same)), factor), 0, NULL, 0);
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx);
    const stn_mesh *mesh;
    stn_tensor *grad;
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh);
    stn_scope_begin(ctx);
    const stn_spec *batch = stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, (int64_t[]){SAMPLES, PIXELS});
    stn_tensor *view[] = {stn_randn(ctx, batch), stn_randn(ctx, batch)}; /* the same numbers on any number of ranks */
    stn_tensor *same = stn_eye(ctx, stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){WIDTH, WIDTH}));
    stn_tensor *w = stn_randn(ctx, stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){WIDTH, PIXELS}));
    stn_set_requires_grad(w, 1);
    stn_tensor *loss = loss_of(embed(view[0], w), embed(view[1], w), same);
    stn_backward(loss);
    results_add(results, loss);
    if (stn_grad_of(w, &grad) == STN_OK)
        results_add(results, grad);
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("barlow_twins", 1, program);
}
