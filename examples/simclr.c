/* A contrastive loss over the samples of all ranks: NT-Xent of Chen et al., "SimCLR", 2020. Each embedding has to find
 * that of its other view among all others, whichever rank holds them. First on sharded tensors, where that needs no
 * thought; then as a program per rank, whose gathers are differentiable. */
#include "common/same_results.h"

#include <math.h>

enum { SAMPLES = 7, PIXELS = 5, WIDTH = 4 };

/* Sum over the samples of -log softmax at the other view; each row leaves itself out. */
static stn_tensor *half(stn_tensor *own, stn_tensor *all, stn_tensor *others, stn_tensor *self, stn_tensor *place)
{
    stn_tensor *same = stn_masked_fill(stn_matmul(own, stn_transpose(all, 0, 1)), self, -INFINITY);
    stn_tensor *logits = stn_cat(2, (stn_tensor *[]){stn_matmul(own, stn_transpose(others, 0, 1)), same}, 1);
    return stn_cross_entropy(stn_mul_number(logits, 2), place, NULL, -100, STN_REDUCE_SUM, 0); /* temperature 1 / 2 */
}

static stn_tensor *embed(stn_tensor *view, stn_tensor *weight)
{
    return stn_normalize(stn_linear(view, weight, NULL), 2, 1, (int[]){1}, 1e-12);
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx), per_rank = ((struct results *)results)->variant;
    int64_t rows[64]; /* of each rank: uneven, and none on some of nine */
    const stn_mesh *mesh;
    stn_tensor *grad = NULL;
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh);
    stn_scope_begin(ctx);
    const stn_spec *batch = stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, (int64_t[]){SAMPLES, PIXELS});
    const stn_spec *pairs = stn_spec_of(mesh, STN_DTYPE_BOOL, "S0", 2, (int64_t[]){SAMPLES, SAMPLES});
    const stn_spec *places = stn_spec_of(mesh, STN_DTYPE_I64, "S0", 1, (int64_t[]){SAMPLES});
    stn_tensor *w = stn_randn(ctx, stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){WIDTH, PIXELS}));
    stn_tensor *in[] = {stn_randn(ctx, batch), stn_randn(ctx, batch), stn_eye(ctx, pairs),
                        stn_arange(ctx, places, 0, 1)};
    for (int i = 0; per_rank && i < 4; i++)
        in[i] = stn_to_local(in[i], STN_GRAD_PER_RANK);
    w = per_rank ? stn_clone(stn_to_local(w, STN_GRAD_PER_RANK)) : w;
    stn_set_requires_grad(w, 1);
    stn_tensor *a = embed(in[0], w), *b = embed(in[1], w), *all_a = a, *all_b = b;
    if (per_rank) { /* a loss per rank, of its own rows: what reaches a gathered row is summed over the ranks */
        stn_spec_sizes(batch, 0, rows);
        all_a = stn_dist_all_gather(a, mesh, 0, rows, STN_GRAD_PER_RANK);
        all_b = stn_dist_all_gather(b, mesh, 0, rows, STN_GRAD_PER_RANK);
    }
    stn_tensor *loss = stn_add(half(a, all_a, all_b, in[2], in[3]), half(b, all_b, all_a, in[2], in[3]));
    loss = stn_mul_number(loss, 0.5 / SAMPLES);
    stn_backward(loss);
    stn_grad_of(w, &grad);
    stn_tensor *found[] = {stn_detach(loss), grad};
    for (int i = 0; i < 2; i++)
        results_add(results, per_rank ? stn_dist_all_reduce(found[i], mesh, STN_SUM, STN_GRAD_PER_RANK) : found[i]);
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("simclr", 2, program);
}
