/* Thread ranks that share the device: what they exchange goes through its memory, so that a copy of as many bytes as
 * each rank writes, by all of them at once, is the limit. */
#include "bench.h"

#include <stdio.h>

struct exchange {
    stn_tensor *from;
    stn_placement to;
};

static stn_status call(struct bench_rank *rank)
{
    const struct exchange *x = rank->arg;
    return stn_tensor_is_error(stn_redistribute_to(x->from, &x->to)) ? STN_ERR_INTERNAL : STN_OK;
}

static void measure(struct bench_rank *rank, const stn_mesh *mesh, int64_t side, stn_placement from, stn_placement to,
                    const char *what)
{
    const int64_t shape[] = {side, side};
    const double bytes = (double)(side * side) * sizeof(float);
    struct exchange x = {bench_tensor(rank, mesh, from, STN_DTYPE_F32, 2, shape), to};
    const int written =
        to.kind == STN_PLACE_REPLICATE ? rank->size : 1; /* times the whole tensor, by all ranks together */
    struct bench_row row = {
        .name = "ranks", .ours = call, .peer = bench_copy, .unit = "GB/s", .work = 2e-9 * bytes * written, .arg = &x};
    snprintf(row.label, sizeof row.label, "%s of %.4g MiB, %d ranks", what, bytes / (1 << 20), rank->size);
    rank->bytes = (size_t)(side * side) * sizeof(float) / (size_t)(rank->size / written);
    bench_measure(rank, &row);
    stn_tensor_release(&x.from);
}

static void body(struct bench_rank *rank)
{
    const stn_mesh *mesh = NULL;
    const int64_t side = rank->bench->side;
    stn_status status = stn_mesh_create(rank->context, 1, &rank->size, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = bench_copy_make(rank, 4 * (size_t)(side * side) * sizeof(float));
    if (!bench_ready(rank, "ranks", status))
        return;
    for (int factor = 1; factor <= 2; factor++) {
        measure(rank, mesh, factor * side, stn_partial(STN_SUM), stn_replicate(), "P->R");
        measure(rank, mesh, factor * side, stn_shard(0), stn_shard(1), "S(0)->S(1)");
    }
}

void bench_ranks(struct bench *bench)
{
    bench_launch(bench, 2, body);
    bench_launch(bench, 4, body);
}
