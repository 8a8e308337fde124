/* What ops hold at a time, on tensors that are large enough for a gather to show: a chunk is an eighth of the whole,
 * so that one gathered input is eight chunks. */
#include "conform/peak.h"
#include "ops/cpu/gemm.h"
#include "ops/onednn/onednn.h"
#include "ranks.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 8, BUFFER = 256 << 10 /* bytes, half of a chunk */, INPUTS = 3, ATTRS = 3 };
enum { COLUMNS = 256 << 10 /* bytes of a convolution's block of columns */ };

#define R {STN_PLACE_REPLICATE, 0, 0, 0}
#define S(d) {STN_PLACE_SHARD, d, 0, 0}
#define SHAPE(...) sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}
#define WHOLE(...) .type = STN_ATTR_INTS, .value.ints = {SHAPE(__VA_ARGS__)}
#define ONE(n) .type = STN_ATTR_INT, .value.i = n
#define TEXT(t) .type = STN_ATTR_STRING, .value.s = t

struct input {
    stn_placement place;
    int integers; /* i64, rows of what is looked up */
    int ndim;
    int64_t shape[STN_MAX_NDIM];
};

/* `moves`: how many more chunks forward may hold than its outputs: inputs that change their cut, temporaries. */
static const struct row {
    const char *op;
    struct input inputs[INPUTS];
    stn_attr attrs[ATTRS];
    double moves;
} rows[] = {
    {"gelu", {{S(0), 0, SHAPE(1024, 1024)}}, {{0}}, 0},
    {"add", {{S(0), 0, SHAPE(1024, 1024)}, {S(0), 0, SHAPE(1024, 1024)}}, {{0}}, 0},
    {"mul", {{S(0), 0, SHAPE(1024, 1024)}, {S(1), 0, SHAPE(1024, 1024)}}, {{0}}, 1},
    {"mul", {{S(1), 0, SHAPE(1024, 1024)}, {R, 0, SHAPE(1024)}}, {{0}}, 0},
    {"sum", {{S(0), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(0)}}, 0},
    {"mean", {{S(1), 0, SHAPE(1024, 1024)}}, {{0}}, 0},
    {"amax", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 0},
    {"logsumexp", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 2},   /* made of ops: shifted, then exponentials */
    {"vector_norm", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 1}, /* powers, then their sum */
    {"var",
     {{S(1), 0, SHAPE(1024, 1024)}},
     {{"dim", ONE(1)}},
     0.5}, /* 24 bytes for each result and rank: a known limit */
    {"softmax", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 0},
    {"softmax", {{S(0), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 0},
    {"layer_norm", {{S(1), 0, SHAPE(1024, 1024)}}, {{"normalized_shape", WHOLE(1024)}}, 0.5},
    {"rms_norm", {{S(0), 0, SHAPE(1024, 1024)}}, {{"normalized_shape", WHOLE(1024)}}, 0},
    {"group_norm", {{S(2), 0, SHAPE(2, 8, 256, 256)}}, {{"num_groups", ONE(4)}}, 0},
    {"mse_loss", {{S(0), 0, SHAPE(1024, 1024)}, {S(0), 0, SHAPE(1024, 1024)}}, {{0}}, 1},
    {"linear", {{S(0), 0, SHAPE(4096, 256)}, {R, 0, SHAPE(256, 256)}}, {{0}}, 0.5},
    {"matmul", {{S(0), 0, SHAPE(4096, 256)}, {R, 0, SHAPE(256, 256)}}, {{0}}, 0.5},
    {"matmul", {{R, 0, SHAPE(256, 64)}, {S(1), 0, SHAPE(64, 4096)}}, {{0}}, 0.5},
    {"conv2d", {{S(2), 0, SHAPE(2, 8, 256, 256)}, {R, 0, SHAPE(8, 8, 3, 3)}}, {{"padding", ONE(1)}}, 1.4},
    {"interpolate", {{S(2), 0, SHAPE(2, 8, 256, 256)}}, {{"size", WHOLE(200, 300)}, {"mode", TEXT("bilinear")}}, 0.6},
    {"pad", {{S(2), 0, SHAPE(2, 8, 256, 256)}}, {{"pad", WHOLE(3, 2, 5, 1)}}, 0.6},
    {"pad_sphere", {{S(2), 0, SHAPE(2, 8, 256, 256)}}, {{"lat", ONE(3)}, {"lon", ONE(2)}}, 0.6},
    {"pad_sphere", {{S(3), 0, SHAPE(2, 8, 256, 256)}}, {{"lat", ONE(3)}, {"lon", ONE(2)}}, 0.6},
    {"roll", {{S(0), 0, SHAPE(1024, 1024)}}, {{"shifts", ONE(100)}, {"dims", ONE(0)}}, 1},
    {"flip", {{S(0), 0, SHAPE(1024, 1024)}}, {{"dims", WHOLE(0)}}, 1},
    {"slice", {{S(0), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(0)}, {"start", ONE(10)}, {"end", ONE(1000)}}, 1},
    {"transpose", {{S(0), 0, SHAPE(1024, 1024)}}, {{"dim0", ONE(0)}, {"dim1", ONE(1)}}, 0},
    {"view", {{S(0), 0, SHAPE(1024, 1024)}}, {{"shape", WHOLE(512, 2048)}}, 0},
    {"cat", {{S(0), 0, SHAPE(1024, 1024)}, {S(0), 0, SHAPE(100, 1024)}}, {{"dim", ONE(0)}}, 1.2},
    {"stack", {{S(0), 0, SHAPE(1024, 512)}, {S(0), 0, SHAPE(1024, 512)}}, {{"dim", ONE(0)}}, 1.2},
    {"max", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 0},
    {"topk", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}, {"k", ONE(8)}}, 0},
    {"sort", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 5}, /* indices are two chunks, in both cuts */
    {"sort", {{S(0), 0, SHAPE(1024 * 1024)}}, {{0}}, 6},            /* 16 bytes of work an element */
    {"kthvalue", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}, {"k", ONE(300)}}, 1},
    {"kthvalue", {{S(0), 0, SHAPE(1024 * 1024)}}, {{"k", ONE(300)}}, 0},
    {"median", {{S(1), 0, SHAPE(1024, 1024)}}, {{0}}, 0},
    {"cumsum", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 1},
    {"sort",
     {{S(0), 0, SHAPE(1024, 1024)}},
     {{"dim", ONE(0)}},
     5}, /* exchanged to the other dim, with indices of 8 bytes */
    {"topk", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}, {"k", ONE(4)}}, 1},
    {"rfft", {{S(0), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(0)}}, 4}, /* exchanged to the other dim each way */
    {"log_softmax", {{S(1), 0, SHAPE(1024, 1024)}}, {{"dim", ONE(1)}}, 0},
    {"avg_pool2d", {{S(2), 0, SHAPE(2, 8, 256, 256)}}, {{"kernel_size", ONE(3)}, {"stride", ONE(1)}}, 1.2},
    {"conv_transpose2d", {{S(2), 0, SHAPE(2, 8, 256, 256)}, {R, 0, SHAPE(8, 8, 3, 3)}}, {{0}}, 2},
    {"cdist", {{S(0), 0, SHAPE(4096, 64)}, {R, 0, SHAPE(256, 64)}}, {{0}}, 1},
    {"scaled_dot_product_attention",
     {{S(2), 0, SHAPE(1, 4, 1024, 64)}, {R, 0, SHAPE(1, 4, 1024, 64)}, {R, 0, SHAPE(1, 4, 1024, 64)}},
     {{0}},
     0.5},
    {"neighborhood_attention", /* six rows at both ends of 16, of keys and of values, and planes of a head */
     {{S(1), 0, SHAPE(1, 128, 128, 4, 16)}, {S(1), 0, SHAPE(1, 128, 128, 4, 16)}, {S(1), 0, SHAPE(1, 128, 128, 4, 16)}},
     {{"kernel_size", ONE(5)}},
     2.4},
    {"cross_entropy", {{S(1), 0, SHAPE(1024, 1024)}, {R, 1, SHAPE(1024)}}, {{0}}, 2},
    {"embedding", {{S(0), 1, SHAPE(1024)}, {S(0), 0, SHAPE(2048, 512)}}, {{0}}, 2.5},
};

static stn_tensor *make(stn_context *context, const stn_mesh *mesh, const struct input *input)
{
    const stn_spec *spec;
    if (stn_spec_create(context, mesh, &input->place, input->integers ? STN_DTYPE_I64 : STN_DTYPE_F32, input->ndim,
                        input->shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = stn_empty(context, spec);
    void *data = stn_tensor_data(tensor);
    for (int64_t i = 0; i < stn_spec_local_numel(spec); i++) {
        if (input->integers)
            ((int64_t *)data)[i] = (i * 37 + 11) % 1024;
        else
            ((float *)data)[i] = (float)test_value(i);
    }
    stn_spec_release(&spec);
    return tensor;
}

static int64_t chunks_of(int n, stn_tensor *const *tensors)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += tensors[i] ? peak_chunk(stn_tensor_spec(tensors[i])) : 0;
    return bytes;
}

static int64_t live_bytes(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    stn_context_stats(context, &stats);
    return stats.live_bytes;
}

/* Where oneDNN does not serve, our own kernels copy blocks of both factors, which grow no further than this. */
static double blocks(stn_context *context, const struct row *row)
{
    static const char *const products[] = {"linear", "matmul", "conv2d", "conv_transpose2d"};
    const int64_t large = 1 << 16;
    int multiplies = 0;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        multiplies |= strcmp(row->op, products[i]) == 0;
    if (!multiplies || stni_onednn_of(context))
        return 0;
    return (double)stni_gemm_workspace(STN_DTYPE_F32, large, large, large) + COLUMNS;
}

static void held_is_at_most(stn_context *context, const struct row *row, const char *step, int64_t before, double most)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    if (!CHECK((double)(stats.peak_bytes - before) <= most))
        fprintf(stderr, "  %s %s: holds %lld KiB at once, at most %lld\n", row->op, step,
                (long long)(stats.peak_bytes - before) >> 10, (long long)most >> 10);
    CHECK_I64(stats.fallbacks, 0);
}

static stn_status body(stn_context *context, void *arg)
{
    const struct row *row = arg;
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    stn_tensor *inputs[INPUTS], *outputs[STN_MAX_OUTPUTS] = {NULL}, *cotangent;
    int n = 0, n_attrs = 0;
    stn_scope_begin(context);
    for (; n < INPUTS && row->inputs[n].ndim > 0; n++) {
        inputs[n] = make(context, mesh, &row->inputs[n]);
        if (!row->inputs[n].integers)
            stn_set_requires_grad(inputs[n], 1);
    }
    while (n_attrs < ATTRS && row->attrs[n_attrs].name)
        n_attrs++;
    const stn_op *op = stn_op_find(context, row->op);
    if (!CHECK_PTR(op))
        return stn_scope_end(context);
    int64_t before = live_bytes(context);
    CHECK_STATUS(stn_op_invoke(op, n, inputs, n_attrs, row->attrs, stn_op_descriptor(op)->n_outputs, outputs), STN_OK);
    if (stn_context_status(context) == STN_OK) {
        const int64_t in = chunks_of(n, inputs), out = chunks_of(1, outputs);
        held_is_at_most(context, row, "forward", before,
                        (double)out + BUFFER + blocks(context, row) + row->moves * (double)in / n);
        stn_no_grad_begin(context);
        cotangent = stn_empty(context, stn_tensor_spec(outputs[0]));
        const int64_t bytes =
            (int64_t)stn_dtype_size(stn_tensor_dtype(cotangent)) * stn_spec_local_numel(stn_tensor_spec(cotangent));
        if (bytes > 0)
            memset(stn_tensor_data(cotangent), 0, (size_t)bytes);
        stn_no_grad_end(context);
        before = live_bytes(context);
        CHECK_STATUS(stn_backward_many(context, 1, outputs, &cotangent, 0), STN_OK);
        held_is_at_most(context, row, "backward", before, 3 * (double)(in + out) + BUFFER + blocks(context, row));
    }
    return stn_scope_end(context);
}

static void no_op_holds_more_than_its_chunks_and_a_buffer(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        test_ranks(RANKS, body, (void *)&rows[i]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"no_op_holds_more_than_its_chunks_and_a_buffer", no_op_holds_more_than_its_chunks_and_a_buffer},
    };
    return TEST_MAIN(argc, argv, cases);
}
