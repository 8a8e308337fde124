/* Pointwise ops: contiguous chunks beside memory, other forms beside the contiguous one. Functions that take longer
 * to work out than to read and write have oneDNN's primitive as their peer, and memory without a gate. */
#include "chunks.h"

#include <math.h>

enum { ROWS = 4096, COLUMNS = 4096 };

#define GATES .gate = 1 / 1.2, .goal = 1
#define MATRIX {2, {ROWS, COLUMNS}, 0}

static stn_tensor *add(stn_tensor *const *x) { return stn_add(x[0], x[1]); }
static stn_tensor *add_(stn_tensor *const *x) { return stn_add_(x[0], x[1], 1e-6); }
static stn_tensor *scale(stn_tensor *const *x) { return stn_mul_number(x[0], 1.5); }
static stn_tensor *relu(stn_tensor *const *x) { return stn_relu(x[0]); }
static stn_tensor *addcmul(stn_tensor *const *x) { return stn_addcmul(x[0], x[1], x[2], 0.5); }
static stn_tensor *to_bf16(stn_tensor *const *x) { return stn_cast(x[0], STN_DTYPE_BF16); }
static stn_tensor *less(stn_tensor *const *x) { return stn_lt(x[0], x[1]); }
static stn_tensor *exponential(stn_tensor *const *x) { return stn_exp(x[0]); }
static stn_tensor *sigmoid(stn_tensor *const *x) { return stn_sigmoid(x[0]); }
static stn_tensor *gelu(stn_tensor *const *x) { return stn_gelu(x[0], STN_GELU_TANH); }

static stn_tensor *transposed(stn_tensor *const *x) { return stn_transpose(x[1], 0, 1); }
static stn_tensor *every_second(stn_tensor *const *x) { return stn_slice(x[1], 1, 0, 2 * COLUMNS, 2); }

static const struct peer_primitive_shape exp_peer = {.kind = PEER_EXP}, sigmoid_peer = {.kind = PEER_SIGMOID},
                                         gelu_peer = {.kind = PEER_GELU_TANH};

static const struct chunks_case cases[] = {
    {.label = "add", .input = {MATRIX, MATRIX}, .ours = add, .read = 2, .written = 1, .gate = 0.8, .goal = 0.95},
    {.label = "add_", .input = {MATRIX, MATRIX}, .ours = add_, .read = 2, .written = 1, .gate = 0.8, .goal = 0.95},
    {.label = "mul number", .input = {MATRIX}, .ours = scale, .read = 1, .written = 1, .gate = 0.8, .goal = 0.95},
    {.label = "relu", .input = {MATRIX}, .ours = relu, .read = 1, .written = 1, .gate = 0.8, .goal = 0.95},
    {.label = "addcmul",
     .input = {MATRIX, MATRIX, MATRIX},
     .ours = addcmul,
     .read = 3,
     .written = 1,
     .gate = 0.8,
     .goal = 0.95},
    {.label = "cast f32 to bf16",
     .input = {MATRIX},
     .ours = to_bf16,
     .read = 1,
     .written = 0.5,
     .gate = 0.8,
     .goal = 0.95},
    {.label = "lt", .input = {MATRIX, MATRIX}, .ours = less, .read = 2, .written = 0.25, .gate = 0.8, .goal = 0.95},
    {.label = "exp", .input = {MATRIX}, .ours = exponential, .primitive = &exp_peer, GATES},
    {.label = "sigmoid", .input = {MATRIX}, .ours = sigmoid, .primitive = &sigmoid_peer, GATES},
    {.label = "gelu tanh", .input = {MATRIX}, .ours = gelu, .primitive = &gelu_peer, GATES},
    {.label = "exp, beside memory",
     .input = {MATRIX},
     .ours = exponential,
     .read = 1,
     .written = 1,
     .gate = NAN,
     .goal = NAN},
    {.label = "sigmoid, beside memory",
     .input = {MATRIX},
     .ours = sigmoid,
     .read = 1,
     .written = 1,
     .gate = NAN,
     .goal = NAN},
    {.label = "gelu tanh, beside memory",
     .input = {MATRIX},
     .ours = gelu,
     .read = 1,
     .written = 1,
     .gate = NAN,
     .goal = NAN},
    {.label = "add a row, beside mul number",
     .input = {MATRIX, {1, {COLUMNS}, -1}},
     .ours = add,
     .other = scale,
     .gate = 0.5,
     .goal = 0.9},
    {.label = "add a column, beside mul number",
     .input = {MATRIX, {2, {ROWS, 1}, 0}},
     .ours = add,
     .other = scale,
     .gate = 0.5,
     .goal = 0.9},
    {.label = "add a transposed one, beside memory",
     .input = {MATRIX, {2, {COLUMNS, ROWS}, 1}},
     .prepare = transposed,
     .ours = add,
     .read = 2,
     .written = 1,
     .gate = 0.4,
     .goal = 0.5},
    {.label = "add every second one, beside memory",
     .input = {MATRIX, {2, {ROWS, 2 * COLUMNS}, 0}},
     .prepare = every_second,
     .ours = add,
     .read = 2,
     .written = 1,
     .gate = 0.4,
     .goal = 0.5},
};

void bench_pointwise(struct bench *bench)
{
    chunks_run(bench, "pointwise", cases, sizeof cases / sizeof cases[0]);
}
