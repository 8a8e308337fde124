/* Pools of windows beside oneDNN's primitive on the same chunk. 1.2 times its time is allowed. */
#include "chunks.h"

#include <math.h>

#define IMAGES(cut) {4, {16, 32, 112, 112}, cut}
#define VOLUMES {5, {4, 16, 32, 64, 64}, 0}
#define GATES .gate = 1 / 1.2, .goal = 1

static const stn_pool_attrs thirds = {.size = sizeof thirds,
                                      .kernel_size = {3, 3, 3},
                                      .stride = {2, 2, 2},
                                      .padding = {1, 1, 1},
                                      .exclude_pads = 1},
                            halves = {.size = sizeof halves, .kernel_size = {2, 2, 2}};

static const struct peer_primitive_shape max_thirds = {.kind = PEER_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1},
                                         max_halves = {.kind = PEER_MAX_POOL, .kernel = 2, .stride = 2},
                                         avg_thirds = {.kind = PEER_AVG_POOL, .kernel = 3, .stride = 2, .padding = 1},
                                         avg_halves = {.kind = PEER_AVG_POOL, .kernel = 2, .stride = 2};

static stn_tensor *max2d_thirds(stn_tensor *const *x) { return stn_max_pool2d(x[0], &thirds, NULL); }
static stn_tensor *max2d_halves(stn_tensor *const *x) { return stn_max_pool2d(x[0], &halves, NULL); }
static stn_tensor *avg2d_thirds(stn_tensor *const *x) { return stn_avg_pool2d(x[0], &thirds); }
static stn_tensor *avg2d_halves(stn_tensor *const *x) { return stn_avg_pool2d(x[0], &halves); }
static stn_tensor *max3d_halves(stn_tensor *const *x) { return stn_max_pool3d(x[0], &halves, NULL); }
static stn_tensor *avg3d_thirds(stn_tensor *const *x) { return stn_avg_pool3d(x[0], &thirds); }

static const struct chunks_case cases[] = {
    {.label = "max_pool2d 3x3, stride 2", .input = {IMAGES(0)}, .ours = max2d_thirds, .primitive = &max_thirds, GATES},
    {.label = "max_pool2d 2x2", .input = {IMAGES(0)}, .ours = max2d_halves, .primitive = &max_halves, GATES},
    {.label = "avg_pool2d 3x3, stride 2", .input = {IMAGES(0)}, .ours = avg2d_thirds, .primitive = &avg_thirds, GATES},
    {.label = "avg_pool2d 2x2", .input = {IMAGES(0)}, .ours = avg2d_halves, .primitive = &avg_halves, GATES},
    {.label = "max_pool3d 2x2x2", .input = {VOLUMES}, .ours = max3d_halves, .primitive = &max_halves, GATES},
    {.label = "avg_pool3d 3x3x3, stride 2", .input = {VOLUMES}, .ours = avg3d_thirds, .primitive = &avg_thirds, GATES},
    {.label = "max_pool2d 3x3, cut rows",
     .input = {IMAGES(2)},
     .ours = max2d_thirds,
     .primitive = &max_thirds,
     .gate = NAN,
     .goal = NAN},
};

void bench_pool(struct bench *bench)
{
    chunks_run(bench, "pool", cases, sizeof cases / sizeof cases[0]);
}
