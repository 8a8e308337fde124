/* Softmax, norms and resampling beside oneDNN's primitive on the same chunk. 1.2 times its time is allowed. */
#include "chunks.h"

#include <math.h>

enum { TOKENS = 8192, WIDTH = 1024 };

#define GATES .gate = 1 / 1.2, .goal = 1

static const struct peer_primitive_shape softmax_peer = {.kind = PEER_SOFTMAX},
                                         layer_norm_peer = {.kind = PEER_LAYER_NORM},
                                         bilinear_peer = {.kind = PEER_BILINEAR, .factor = 2};

static stn_tensor *softmax(stn_tensor *const *x) { return stn_softmax(x[0], 1); }

static stn_tensor *layer_norm(stn_tensor *const *x)
{
    const int64_t shape[] = {stn_tensor_shape(x[0])[1]};
    return stn_layer_norm(x[0], 1, shape, NULL, NULL, 1e-5);
}

static stn_tensor *group_norm(stn_tensor *const *x) { return stn_group_norm(x[0], 8, NULL, NULL, 1e-5); }

static stn_tensor *bilinear(stn_tensor *const *x)
{
    const stn_interpolate_attrs attrs = {.size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .scale_factor = {2, 2}};
    return stn_interpolate(x[0], &attrs);
}

static const struct chunks_case cases[] = {
    {.label = "softmax of 1024",
     .input = {{2, {TOKENS, WIDTH}, 0}},
     .ours = softmax,
     .primitive = &softmax_peer,
     GATES},
    {.label = "softmax of 50",
     .input = {{2, {16 * TOKENS, 50}, 0}},
     .ours = softmax,
     .primitive = &softmax_peer,
     GATES},
    {.label = "layer_norm of 1024",
     .input = {{2, {TOKENS, WIDTH}, 0}},
     .ours = layer_norm,
     .primitive = &layer_norm_peer,
     GATES},
    {.label = "group_norm, cut rows, beside memory",
     .input = {{4, {4, 64, 128, 128}, 2}},
     .ours = group_norm,
     .read = 2,
     .written = 1,
     .gate = NAN,
     .goal = NAN},
    {.label = "interpolate bilinear x2",
     .input = {{4, {32, 16, 64, 64}, 0}},
     .ours = bilinear,
     .primitive = &bilinear_peer,
     GATES},
};

void bench_norm(struct bench *bench)
{
    chunks_run(bench, "norm", cases, sizeof cases / sizeof cases[0]);
}
