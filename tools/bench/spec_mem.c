/* 14. Bytes on the heap for 10,000 live tensors in 8 distinct uneven layouts: handles, storages and specs. This
 * rank's chunks are empty, so no element is counted. The peer is the limit. */
#include "heap.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TENSORS = 10000, SPLITS = 8, OFFSET_BYTES = 8 };

static const int world_sizes[] = {2, 64, 1000, 100000};

static const double LIMIT_BYTES = 512, GOAL_BYTES = 256;

/* Nothing on rank 0, and a different rank holds more in each split. */
static stn_status make_spec(stn_context *context, const stn_mesh *mesh, int size, int which, int64_t *pieces,
                            const stn_spec **out)
{
    const stn_placement placement = stn_shard(0);
    for (int r = 0; r < size; r++)
        pieces[r] = r == 0 ? 0 : 2;
    pieces[size - 1] += 1 + which;
    const int64_t shape[] = {2 * (int64_t)(size - 1) + 1 + which};
    const int64_t *sizes[] = {pieces};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    return stn_spec_create(context, mesh, &placement, STN_DTYPE_F32, 1, shape, &options, out);
}

/* Bytes of the tensors and of the specs they need; negative where they could not be made. */
static int64_t make_tensors(stn_context *context, int size, stn_tensor **tensors, int64_t *pieces)
{
    const stn_mesh *mesh;
    const stn_spec *specs[SPLITS] = {0};
    if (stn_mesh_create(context, 1, &size, NULL, NULL, &mesh) != STN_OK)
        return -1;
    const int64_t before = heap_bytes();
    int good = 1;
    for (int s = 0; s < SPLITS; s++)
        good = good && make_spec(context, mesh, size, s, pieces, &specs[s]) == STN_OK;
    for (int i = 0; i < TENSORS && good; i++) {
        tensors[i] = stn_empty(context, specs[i % SPLITS]);
        good = !stn_tensor_is_error(tensors[i]);
    }
    for (int s = 0; s < SPLITS; s++)
        stn_spec_release(&specs[s]);
    return good ? heap_bytes() - before : -1;
}

static void measure(struct bench *bench, int size)
{
    stn_tensor **tensors = calloc(TENSORS, sizeof *tensors);
    int64_t *pieces = malloc(sizeof *pieces * (size_t)size);
    stn_context *context = world_fake(bench, 0, size);
    int64_t bytes = -1;
    stn_stats stats = {0};
    if (tensors != NULL && pieces != NULL && context != NULL) {
        bytes = make_tensors(context, size, tensors, pieces);
        stats = world_stats(context);
    }
    /* Every split costs 8 bytes a rank, beyond what is allowed for each tensor. */
    const double own = (double)bytes - (double)SPLITS * OFFSET_BYTES * size;
    struct row row = {
        .name = "spec-mem", .unit = "B", .gate = 1, .goal = LIMIT_BYTES / GOAL_BYTES, .peer = LIMIT_BYTES};
    snprintf(row.label, sizeof row.label, "per tensor among %d", size);
    row.ours = bytes < 0 ? NAN : own / TENSORS;
    row.ratio = LIMIT_BYTES / row.ours;
    row_count(&row, "heap_bytes", (double)bytes);
    row_count(&row, "tensors", (double)stats.live_tensors);
    row_count(&row, "specs", (double)stats.specs);
    row_count(&row, "splits", (double)stats.splits);
    row_print(bench, &row);
    for (int i = 0; tensors != NULL && i < TENSORS; i++)
        stn_tensor_release(&tensors[i]);
    stn_context_destroy(&context);
    free(tensors);
    free(pieces);
}

void bench_spec_mem(struct bench *bench)
{
    if (heap_bytes() < 0) {
        fprintf(stderr, "spec-mem: the C library does not tell what is on its heap\n");
        return;
    }
    for (size_t i = 0; i < sizeof world_sizes / sizeof world_sizes[0]; i++)
        measure(bench, world_sizes[i]);
}
