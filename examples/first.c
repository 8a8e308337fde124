/* A weighted least-squares step on rows that are spread over three ranks. */
#include <shardtensor/shardtensor.h>

#include <stdio.h>

static stn_status rank_main(stn_context *ctx, void *arg)
{
    (void)arg;
    int n = stn_context_size(ctx);
    const stn_mesh *mesh;
    const stn_spec *rows, *whole;
    stn_placement shard = stn_shard(0), replicate = stn_replicate();
    stn_mesh_create(ctx, 1, &n, NULL, NULL, &mesh);
    stn_spec_create(ctx, mesh, &shard, STN_DTYPE_F32, 2, (int64_t[]){7, 2}, NULL, &rows); /* 3, 2 and 2 rows */
    stn_spec_create(ctx, mesh, &replicate, STN_DTYPE_F32, 2, (int64_t[]){2, 1}, NULL, &whole);

    stn_scope_begin(ctx);
    float data[6], zeros[2] = {0, 0};
    for (int i = 0; i < 6; i++) /* this rank's rows only */
        data[i] = (float)(2 * stn_spec_local_offset(rows)[0] + i) / 10;
    stn_tensor *x = stn_from_host(ctx, rows, data), *w = stn_from_host(ctx, whole, zeros), *grad;
    stn_set_requires_grad(w, 1);
    stn_tensor *error = stn_add_number(stn_matmul(x, w), -1);
    stn_tensor *loss = stn_sum(stn_mul(error, error), 0, NULL, 0);
    stn_backward(loss);
    double value = 0, slope[2] = {0, 0};
    stn_item(loss, &value);
    if (stn_grad_of(w, &grad) == STN_OK)
        for (int i = 0; i < 2; i++)
            slope[i] = ((float *)stn_tensor_data(grad))[i];
    if (stn_context_rank(ctx) == 0)
        printf("loss %g, gradient %g %g\n", value, slope[0], slope[1]);
    stn_spec_release(&rows);
    stn_spec_release(&whole);
    return stn_scope_end(ctx);
}

int main(void)
{
    char why[256] = "";
    stn_launch_options options = {
        .size = sizeof options, .ranks = 3, .context = {.error_text = why, .error_text_size = sizeof why}};
    const stn_status status = stn_launch(&options, rank_main, NULL);
    if (status == STN_OK)
        return 0;
    fprintf(stderr, "first: %s: %s\n", stn_status_text(status), why);
    return 1;
}
