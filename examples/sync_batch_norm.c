/* Batch norm over the samples of all ranks, which hold unequal numbers of them: value, running statistics and gradients
 * are those of one process with the whole batch. A batch norm per rank would give other ones, and one averaged over
 * ranks too. */
#include "common/same_results.h"

enum { SAMPLES = 7, CHANNELS = 3, FEATURES = 4, LENGTH = 5 };

static stn_tensor *parameter(stn_context *ctx, const stn_mesh *mesh, int ndim, const int64_t *shape)
{
    stn_tensor *t = stn_randn(ctx, stn_spec_of(mesh, STN_DTYPE_F64, "R", ndim, shape));
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx);
    const int64_t shape[] = {SAMPLES, CHANNELS, LENGTH}, window[] = {FEATURES, CHANNELS, 3}, features[] = {FEATURES};
    const stn_mesh *mesh;
    stn_tensor *mean, *var, *grad;
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh);
    stn_scope_begin(ctx);
    const stn_spec *each = stn_spec_of(mesh, STN_DTYPE_F64, "R", 1, features);
    stn_tensor *x =
        stn_randn(ctx, stn_spec_of(mesh, STN_DTYPE_F64, "S0", 3, shape)); /* the same on any number of ranks */
    stn_tensor *weights[] = {parameter(ctx, mesh, 3, window), parameter(ctx, mesh, 1, features),
                             parameter(ctx, mesh, 1, features)};
    stn_tensor *y = stn_conv1d(x, weights[0], NULL, NULL);
    y = stn_batch_norm(y, stn_zeros(ctx, each), stn_ones(ctx, each), weights[1], weights[2], 1, 0.1, 1e-5, &mean, &var);
    stn_tensor *loss = stn_mean(stn_square(stn_relu(y)), 0, NULL, 0);
    stn_backward(loss);
    results_add(results, loss);
    results_add(results, mean);
    results_add(results, var);
    for (int i = 0; i < 3; i++)
        if (stn_grad_of(weights[i], &grad) == STN_OK)
            results_add(results, grad);
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("sync_batch_norm", 1, program);
}
