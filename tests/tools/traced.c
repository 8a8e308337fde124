/* Three ranks that reduce something, for traces. */
#include <shardtensor/shardtensor.h>

static stn_status rank_main(stn_context *context, void *arg)
{
    const int size = stn_context_size(context);
    const stn_mesh *mesh = NULL;
    double value;
    (void)arg;
    stn_scope_begin(context);
    stn_mesh_create(context, 1, &size, NULL, NULL, &mesh);
    stn_item(stn_sum(stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 1, (int64_t[]){700})), 0, NULL, 0),
             &value);
    return stn_scope_end(context);
}

int main(void)
{
    const stn_launch_options options = {.size = sizeof options, .ranks = 3};
    return stn_launch(&options, rank_main, NULL) == STN_OK ? 0 : 1;
}
