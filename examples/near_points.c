/* A graph of near points on a cloud that ranks share unevenly, one of them with none of it: each point is joined to the
 * K nearest others. In one step of message passing it takes in what they are, by how near they are, and gives them what
 * it is. Both, and the gradients of an energy by positions and features, are the same on any number of ranks. */
#include "common/same_results.h"
#include "common/uneven_cut.h"

enum { POINTS = 31, FEATURES = 2, K = 3 };

/* What each point is after the step: itself, what its neighbours give, and what those give whose neighbour it is. */
static stn_tensor *pass_messages(stn_tensor *positions, stn_tensor *features)
{
    const int neighbours = 1;
    const int64_t edges = POINTS * K;
    stn_tensor *distances, *nearest = stn_knn(positions, positions, K + 1, &distances);
    nearest = stn_narrow(nearest, 1, 1, K); /* the nearest of all is the point itself */
    stn_tensor *ends = stn_reshape(nearest, 1, &edges), *there;
    stn_tensor_keep_routes(ends, 1); /* of edges, by which is read and added, and so are both gradients */
    there = stn_reshape(stn_index_select(features, 0, ends), 3, (const int64_t[]){POINTS, K, FEATURES});
    stn_tensor *weight = stn_unsqueeze(stn_exp(stn_neg(stn_narrow(distances, 1, 1, K))), 2);
    stn_tensor *taken = stn_sum(stn_mul(there, weight), 1, &neighbours, 0);
    stn_tensor *given = stn_reshape(stn_mul(stn_unsqueeze(features, 1), weight), 2, (const int64_t[]){edges, FEATURES});
    return stn_index_add(stn_add(features, taken), 0, ends, given, 0.5);
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx);
    const stn_mesh *mesh;
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh);
    stn_scope_begin(ctx);
    /* The same random numbers on any number of ranks. */
    stn_tensor *positions = stn_rand(ctx, uneven_spec(mesh, "S0", 2, (int64_t[]){POINTS, 3})), *grads[2];
    stn_tensor *features = stn_rand(ctx, uneven_spec(mesh, "S0", 2, (int64_t[]){POINTS, FEATURES}));
    stn_set_requires_grad(positions, 1);
    stn_set_requires_grad(features, 1);
    stn_tensor *after = pass_messages(positions, features), *inputs[] = {positions, features};
    stn_tensor *energy = stn_sum(stn_square(after), 0, NULL, 0);
    results_add(results, after);
    if (stn_grad(ctx, 1, &energy, NULL, 2, inputs, 0, 0, grads) == STN_OK) {
        results_add(results, grads[0]);
        results_add(results, grads[1]);
    }
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("near_points", 1, program);
}
