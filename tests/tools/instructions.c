/* Dispatches `add` on 1-element shards as often as its first argument says, for instructions.py to count
 * instructions; with "recorded" as the second argument one operand requires grad. A fake world of two ranks, so that
 * one thread runs and nothing waits. */
#include <shardtensor/shardtensor.h>

#include <stdlib.h>
#include <string.h>

static stn_tensor *make_shard(stn_context *context)
{
    const int sizes[] = {2};
    const int64_t shape[] = {2};
    const float one = 1;
    const stn_placement placement = stn_shard(0);
    const stn_mesh *mesh;
    const stn_spec *spec;
    if (stn_mesh_create(context, 1, sizes, NULL, NULL, &mesh) != STN_OK ||
        stn_spec_create(context, mesh, &placement, STN_DTYPE_F32, 1, shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *x = stn_from_host(context, spec, &one);
    stn_spec_release(&spec);
    return x;
}

int main(int argc, char **argv)
{
    const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    const int recorded = argc > 2 && strcmp(argv[2], "recorded") == 0;
    stn_comm *comm;
    if (stn_comm_create_fake(0, 2, 0, 0, &comm) != STN_OK)
        return EXIT_FAILURE;
    const stn_context_options options = {.size = sizeof options, .comm = comm};
    stn_context *context;
    if (stn_context_create(&options, &context) != STN_OK)
        return EXIT_FAILURE;
    stn_tensor *x = make_shard(context), *y = make_shard(context);
    if (stn_set_requires_grad(x, recorded) != STN_OK)
        return EXIT_FAILURE;
    for (long i = 0; i < n; i++) {
        stn_tensor *sum = stn_add(x, y);
        if (stn_tensor_is_error(sum) || (stn_grad_fn(sum) != NULL) != recorded)
            return EXIT_FAILURE;
        stn_tensor_release(&sum);
    }
    stn_tensor_release(&x);
    stn_tensor_release(&y);
    stn_context_destroy(&context);
    return EXIT_SUCCESS;
}
