/* The table: each op as C and as Python, on the same operands. */
#include "breadth.h"

#define OP(name, expression) \
    static stn_tensor *name(stn_tensor *const *x) { return expression; }

static const int first[] = {0}, second[] = {1}, channels_last[] = {0, 2, 3, 1};
static const int64_t width[] = {1024}, sevens[] = {7, 7}, five[] = {5}, ones[] = {1, 1, 1, 1}, rows[] = {64, 65536},
                     images[] = {8, 524288};

static const stn_conv_attrs same = {.size = sizeof same, .padding = {1, 1, 1}}, point = {.size = sizeof point},
                            stem = {.size = sizeof stem, .padding = {3, 3}, .stride = {2, 2}},
                            depthwise = {.size = sizeof depthwise, .padding = {1, 1}, .groups = 64};
static const stn_conv_transpose_attrs twice = {.size = sizeof twice, .padding = {1, 1}, .stride = {2, 2}};
static const stn_pool_attrs thirds = {.size = sizeof thirds,
                                      .kernel_size = {3, 3},
                                      .stride = {2, 2},
                                      .padding = {1, 1}},
                            halves = {.size = sizeof halves, .kernel_size = {2, 2, 2}};
static const stn_interpolate_attrs linear_twice = {.size = sizeof linear_twice,
                                                   .mode = STN_INTERPOLATE_LINEAR,
                                                   .scale_factor = {2, 2}},
                                   nearest_twice = {.size = sizeof nearest_twice,
                                                    .mode = STN_INTERPOLATE_NEAREST,
                                                    .scale_factor = {2, 2}};
static const stn_attention_attrs plain = {.size = sizeof plain}, causal = {.size = sizeof causal, .is_causal = 1};
static const stn_neighborhood_attrs around = {.size = sizeof around, .kernel_size = {7, 7}};

/* Elements */
OP(add, stn_add(x[0], x[1]))
OP(mul, stn_mul(x[0], x[1]))
OP(divide, stn_div(x[0], x[1]))
OP(maximum, stn_maximum(x[0], x[1]))
OP(less, stn_lt(x[0], x[1]))
OP(add_transposed, stn_add(x[0], stn_transpose(x[1], 0, 1)))
OP(addcmul, stn_addcmul(x[0], x[1], x[2], 0.5))
OP(where, stn_where(x[0], x[1], x[2]))
OP(add_, stn_add_(x[0], x[1], 1e-6))
OP(relu, stn_relu(x[0]))
OP(gelu, stn_gelu(x[0], STN_GELU_ERF))
OP(gelu_tanh, stn_gelu(x[0], STN_GELU_TANH))
OP(sigmoid, stn_sigmoid(x[0]))
OP(hyperbolic, stn_tanh(x[0]))
OP(silu, stn_silu(x[0]))
OP(exponential, stn_exp(x[0]))
OP(logarithm, stn_log(x[0]))
OP(sine, stn_sin(x[0]))
OP(root, stn_sqrt(x[0]))
OP(error_function, stn_erf(x[0]))
OP(power, stn_pow_number(x[0], 2.5))
OP(square, stn_pow_number(x[0], 2))
OP(power_of, stn_pow(x[0], x[1]))
OP(arc, stn_atan2(x[0], x[1]))
OP(clamp, stn_clamp(x[0], -1, 1))
OP(to_bf16, stn_cast(x[0], STN_DTYPE_BF16))
OP(dropout, stn_dropout(x[0], 0.1, 1))

/* Reductions and norms */
OP(sum, stn_sum(x[0], 0, NULL, 0))
OP(sum_rows, stn_sum(x[0], 1, second, 0))
OP(sum_columns, stn_sum(x[0], 1, first, 0))
OP(amax, stn_amax(x[0], 0, NULL, 0))
OP(amax_rows, stn_amax(x[0], 1, second, 0))
OP(var_rows, stn_var(x[0], 1, second, 1, 0))
OP(logsumexp, stn_logsumexp(x[0], 1, second, 0))
OP(norm, stn_vector_norm(x[0], 2, 0, NULL, 0))
OP(softmax_rows, stn_softmax(x[0], 1))
OP(softmax_columns, stn_softmax(x[0], 0))
OP(log_softmax, stn_log_softmax(x[0], 1))
OP(layer_norm, stn_layer_norm(x[0], 1, width, x[1], x[2], 1e-5))
OP(rms_norm, stn_rms_norm(x[0], 1, width, x[1], 1e-5))
OP(group_norm, stn_group_norm(x[0], 8, x[1], x[2], 1e-5))
OP(batch_norm, stn_batch_norm(x[0], NULL, NULL, x[1], x[2], 1, 0.1, 1e-5, NULL, NULL))
OP(cross_entropy, stn_cross_entropy(x[0], x[1], NULL, -100, STN_REDUCE_MEAN, 0))
OP(mse_loss, stn_mse_loss(x[0], x[1], NULL, STN_REDUCE_MEAN))
OP(bce_with_logits, stn_binary_cross_entropy_with_logits(x[0], x[1], NULL, NULL, STN_REDUCE_MEAN))

/* Products and windows */
OP(matmul, stn_matmul(x[0], x[1]))
OP(mv, stn_mv(x[0], x[1]))
OP(bmm, stn_bmm(x[0], x[1]))
OP(linear, stn_linear(x[0], x[1], x[2]))
OP(einsum, stn_einsum("bhnk,bhkm->bhnm", 2, x))
OP(cdist, stn_cdist(x[0], x[1], 2))
static stn_tensor *knn(stn_tensor *const *x)
{
    stn_tensor *distances;
    stn_knn(x[0], x[1], 16, &distances);
    return distances;
}
OP(attention, stn_scaled_dot_product_attention(x[0], x[1], x[2], NULL, &plain))
OP(attention_causal, stn_scaled_dot_product_attention(x[0], x[1], x[2], NULL, &causal))
OP(neighborhood, stn_neighborhood_attention(x[0], x[1], x[2], &around))
OP(conv2d, stn_conv2d(x[0], x[1], x[2], &same))
OP(conv2d_point, stn_conv2d(x[0], x[1], x[2], &point))
OP(conv2d_stem, stn_conv2d(x[0], x[1], x[2], &stem))
OP(conv2d_depthwise, stn_conv2d(x[0], x[1], x[2], &depthwise))
OP(conv3d, stn_conv3d(x[0], x[1], x[2], &same))
OP(conv_transpose2d, stn_conv_transpose2d(x[0], x[1], x[2], &twice))
OP(max_pool_thirds, stn_max_pool2d(x[0], &thirds, NULL))
OP(max_pool_halves, stn_max_pool2d(x[0], &halves, NULL))
OP(avg_pool_thirds, stn_avg_pool2d(x[0], &thirds))
OP(max_pool3d, stn_max_pool3d(x[0], &halves, NULL))
OP(adaptive, stn_adaptive_avg_pool2d(x[0], sevens))
OP(bilinear, stn_interpolate(x[0], &linear_twice))
OP(nearest, stn_interpolate(x[0], &nearest_twice))
OP(grid_sample, stn_grid_sample(x[0], x[1], STN_SAMPLE_BILINEAR, 0, 0))
OP(fft2, stn_fft2(x[0], NULL, NULL, 0))
OP(rfft2, stn_rfft2(x[0], NULL, NULL, 0))
static const stn_sht_basis gauss = {.size = sizeof gauss, .grid = STN_SHT_LEGENDRE_GAUSS};
OP(sht, stn_sht(x[0], 128, 128, &gauss))

/* Order, places and shapes */
OP(cumsum_rows, stn_cumsum(x[0], 1))
OP(cumsum_columns, stn_cumsum(x[0], 0))
OP(sort, stn_sort(x[0], -1, 0, NULL))
OP(topk, stn_topk(x[0], 10, 1, 1, NULL))
OP(argmax, stn_argmax(x[0], second, 0))
OP(gather, stn_gather(x[0], 1, x[1]))
OP(select_rows, stn_index_select(x[0], 0, x[1]))
OP(select_columns, stn_index_select(x[0], 1, x[1]))
OP(scatter_add, stn_scatter_add(x[0], 1, x[1], x[2]))
OP(index_add, stn_index_add(x[0], 1, x[1], x[2], 1))
OP(embedding, stn_embedding(x[0], x[1], NULL))
OP(cat, stn_cat(2, x, 1))
OP(transposed_copy, stn_reshape(stn_transpose(x[0], 1, 2), 2, rows))
OP(to_nhwc, stn_reshape(stn_permute(x[0], 4, channels_last), 2, images))
OP(tril, stn_tril(x[0], 0))
OP(roll, stn_roll(x[0], 1, five, second))
OP(flip, stn_flip(x[0], 1, second))
OP(pad, stn_pad(x[0], 4, ones, STN_PAD_CIRCULAR, 0))

/* A dtype, the cut dim, and a shape */
#define IN(dtype, cut, ...) {STN_DTYPE_##dtype, cut, sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}, 0, 0}
#define FIXED(dtype, cut, ...) {STN_DTYPE_##dtype, cut, sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}, 0, 1}
#define INDEX(high, cut, ...) {STN_DTYPE_I64, cut, sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}, high, 0}
#define PLANE IN(F32, 0, 2048, 2048)
#define TOKENS IN(F32, 0, 4096, 1024)
#define IMAGES IN(F32, 0, 8, 64, 64, 128)
#define CHANNELS IN(F32, -1, 64)
#define HEADS(b, s) IN(F32, 0, b, 8, s, 64)
#define PLACES IN(F32, 1, 1, 64, 64, 4, 32)

/* PyTorch has no neighborhood attention: each query's keys and values are indexed. */
static const char around_by_index[] =
    "(s := torch.arange(64).sub(3).clamp(0, 57)[:, None] + torch.arange(7),"
    " i := (s[:, None, :, None] * 64 + s[:, None]).view(4096, 49),"
    " p := torch.einsum('bnhe,bnkhe->bnhk', x[0].flatten(1, 2), x[1].flatten(1, 2)[:, i]).mul(32 ** -.5).softmax(-1),"
    " torch.einsum('bnhk,bnkhe->bnhe', p, x[2].flatten(1, 2)[:, i]).view_as(x[0]))[-1]";

const struct breadth_case breadth_cases[] = {
    {"add", add, "torch.add(*x)", 0, {PLANE, PLANE}},
    {"mul", mul, "torch.mul(*x)", 1, {PLANE, PLANE}},
    {"div", divide, "torch.div(*x)", 0, {PLANE, PLANE}},
    {"maximum", maximum, "torch.maximum(*x)", 0, {PLANE, PLANE}},
    {"lt", less, "torch.lt(*x)", 0, {PLANE, PLANE}},
    {"add a row", add, "torch.add(*x)", 1, {PLANE, IN(F32, -1, 2048)}},
    {"add transposed", add_transposed, "x[0] + x[1].t()", 0, {PLANE, IN(F32, 1, 2048, 2048)}},
    {"addcmul", addcmul, "torch.addcmul(*x, value=.5)", 0, {PLANE, PLANE, PLANE}},
    {"where", where, "torch.where(*x)", 0, {IN(BOOL, 0, 2048, 2048), PLANE, PLANE}},
    {"add_", add_, "x[0].add_(x[1], alpha=1e-6)", 0, {PLANE, PLANE}},
    {"relu", relu, "torch.relu(*x)", 1, {PLANE}},
    {"gelu", gelu, "F.gelu(*x)", 1, {PLANE}},
    {"gelu tanh", gelu_tanh, "F.gelu(*x, approximate='tanh')", 1, {PLANE}},
    {"sigmoid", sigmoid, "torch.sigmoid(*x)", 1, {PLANE}},
    {"tanh", hyperbolic, "torch.tanh(*x)", 1, {PLANE}},
    {"silu", silu, "F.silu(*x)", 1, {PLANE}},
    {"exp", exponential, "torch.exp(*x)", 0, {PLANE}},
    {"log", logarithm, "torch.log(*x)", 0, {PLANE}},
    {"sin", sine, "torch.sin(*x)", 0, {PLANE}},
    {"sqrt", root, "torch.sqrt(*x)", 0, {PLANE}},
    {"erf", error_function, "torch.erf(*x)", 1, {PLANE}},
    {"pow 2.5", power, "x[0] ** 2.5", 1, {PLANE}},
    {"pow 2", square, "x[0] ** 2", 1, {PLANE}},
    {"pow of tensors", power_of, "torch.pow(*x)", 0, {PLANE, PLANE}},
    {"atan2", arc, "torch.atan2(*x)", 0, {PLANE, PLANE}},
    {"clamp", clamp, "x[0].clamp(-1, 1)", 0, {PLANE}},
    {"cast to bf16", to_bf16, "x[0].bfloat16()", 0, {PLANE}},
    {"add bf16", add, "torch.add(*x)", 0, {IN(BF16, 0, 2048, 2048), IN(BF16, 0, 2048, 2048)}},
    {"gelu bf16", gelu, "F.gelu(*x)", 1, {IN(BF16, 0, 2048, 2048)}},
    {"dropout", dropout, "F.dropout(x[0], .1)", 1, {PLANE}},
    {"sum", sum, "torch.sum(*x)", 1, {PLANE}},
    {"sum of rows", sum_rows, "x[0].sum(1)", 0, {PLANE}},
    {"sum of columns", sum_columns, "x[0].sum(0)", 0, {PLANE}},
    {"sum of rows bf16", sum_rows, "x[0].sum(1)", 0, {IN(BF16, 0, 2048, 2048)}},
    {"amax", amax, "torch.amax(*x)", 0, {PLANE}},
    {"amax of rows", amax_rows, "x[0].amax(1)", 0, {PLANE}},
    {"var of rows", var_rows, "x[0].var(1)", 1, {PLANE}},
    {"logsumexp of rows", logsumexp, "x[0].logsumexp(1)", 0, {PLANE}},
    {"vector_norm", norm, "torch.linalg.vector_norm(*x)", 0, {PLANE}},
    {"softmax of 1024", softmax_rows, "x[0].softmax(1)", 1, {TOKENS}},
    {"softmax of 50", softmax_rows, "x[0].softmax(1)", 1, {IN(F32, 0, 81920, 50)}},
    {"softmax of columns", softmax_columns, "x[0].softmax(0)", 0, {IN(F32, 1, 1024, 4096)}},
    {"softmax of 1024, cut", softmax_rows, "x[0].softmax(1)", 0, {IN(F32, 1, 4096, 1024)}},
    {"log_softmax of 1024", log_softmax, "x[0].log_softmax(1)", 1, {TOKENS}},
    {"layer_norm of 1024",
     layer_norm,
     "F.layer_norm(x[0], (1024,), *x[1:])",
     1,
     {TOKENS, IN(F32, -1, 1024), IN(F32, -1, 1024)}},
    {"rms_norm of 1024", rms_norm, "F.rms_norm(x[0], (1024,), x[1])", 1, {TOKENS, IN(F32, -1, 1024)}},
    {"group_norm", group_norm, "F.group_norm(x[0], 8, *x[1:])", 1, {IMAGES, CHANNELS, CHANNELS}},
    {"group_norm, cut rows",
     group_norm,
     "F.group_norm(x[0], 8, *x[1:])",
     0,
     {IN(F32, 2, 8, 64, 64, 128), CHANNELS, CHANNELS}},
    {"batch_norm", batch_norm, "F.batch_norm(x[0], None, None, *x[1:], True)", 1, {IMAGES, CHANNELS, CHANNELS}},
    {"cross_entropy", cross_entropy, "F.cross_entropy(*x)", 1, {TOKENS, INDEX(1024, 0, 4096)}},
    {"mse_loss", mse_loss, "F.mse_loss(*x)", 1, {PLANE, FIXED(F32, 0, 2048, 2048)}},
    {"bce_with_logits",
     bce_with_logits,
     "F.binary_cross_entropy_with_logits(*x)",
     1,
     {PLANE, FIXED(F32, 0, 2048, 2048)}},
    {"matmul 1024", matmul, "torch.matmul(*x)", 1, {IN(F32, 0, 1024, 1024), IN(F32, -1, 1024, 1024)}},
    {"matmul over 64", matmul, "torch.matmul(*x)", 0, {IN(F32, 0, 2048, 64), IN(F32, -1, 64, 2048)}},
    {"matmul to 32 columns", matmul, "torch.matmul(*x)", 0, {TOKENS, IN(F32, -1, 1024, 32)}},
    {"mv 4096", mv, "torch.mv(*x)", 0, {IN(F32, 0, 4096, 4096), IN(F32, -1, 4096)}},
    {"bmm 64 x 256", bmm, "torch.bmm(*x)", 1, {IN(F32, 0, 64, 256, 256), IN(F32, 0, 64, 256, 256)}},
    {"bmm bf16", bmm, "torch.bmm(*x)", 0, {IN(BF16, 0, 64, 256, 256), IN(BF16, 0, 64, 256, 256)}},
    {"linear", linear, "F.linear(*x)", 1, {IN(F32, 0, 8, 256, 512), IN(F32, -1, 2048, 512), IN(F32, -1, 2048)}},
    {"linear, contracted dim cut",
     linear,
     "F.linear(*x)",
     0,
     {IN(F32, 2, 8, 256, 512), IN(F32, 1, 2048, 512), IN(F32, -1, 2048)}},
    {"einsum", einsum, "torch.einsum('bhnk,bhkm->bhnm', *x)", 0, {IN(F32, 0, 8, 8, 256, 256), HEADS(8, 256)}},
    {"cdist", cdist, "torch.cdist(*x)", 0, {IN(F32, 0, 1024, 64), IN(F32, -1, 1024, 64)}},
    {"knn of 4096",
     knn,
     "torch.topk(torch.cdist(x[1], x[0]), 16, 1, False).values",
     1,
     {IN(F32, 0, 4096, 3), IN(F32, 0, 4096, 3)}},
    {"attention over 256",
     attention,
     "F.scaled_dot_product_attention(*x)",
     1,
     {HEADS(8, 256), HEADS(8, 256), HEADS(8, 256)}},
    {"attention over 1024",
     attention,
     "F.scaled_dot_product_attention(*x)",
     1,
     {HEADS(2, 1024), HEADS(2, 1024), HEADS(2, 1024)}},
    {"attention over 1024, causal",
     attention_causal,
     "F.scaled_dot_product_attention(*x, is_causal=True)",
     0,
     {HEADS(2, 1024), HEADS(2, 1024), HEADS(2, 1024)}},
    {"neighborhood attention 7x7, cut rows", neighborhood, around_by_index, 1, {PLACES, PLACES, PLACES}},
    {"conv2d 3x3",
     conv2d,
     "F.conv2d(*x, padding=1)",
     1,
     {IN(F32, 0, 8, 64, 64, 64), IN(F32, -1, 64, 64, 3, 3), CHANNELS}},
    {"conv2d 3x3, cut rows",
     conv2d,
     "F.conv2d(*x, padding=1)",
     1,
     {IN(F32, 2, 8, 64, 64, 64), IN(F32, -1, 64, 64, 3, 3), CHANNELS}},
    {"conv2d 1x1",
     conv2d_point,
     "F.conv2d(*x)",
     1,
     {IN(F32, 0, 8, 64, 64, 64), IN(F32, -1, 128, 64, 1, 1), IN(F32, -1, 128)}},
    {"conv2d 7x7, stride 2",
     conv2d_stem,
     "F.conv2d(*x, stride=2, padding=3)",
     1,
     {IN(F32, 0, 8, 3, 224, 224), IN(F32, -1, 64, 3, 7, 7), CHANNELS}},
    {"conv2d depthwise",
     conv2d_depthwise,
     "F.conv2d(*x, padding=1, groups=64)",
     1,
     {IN(F32, 0, 8, 64, 64, 64), IN(F32, -1, 64, 1, 3, 3), CHANNELS}},
    {"conv2d of 8 channels",
     conv2d,
     "F.conv2d(*x, padding=1)",
     1,
     {IN(F32, 0, 4, 8, 256, 256), IN(F32, -1, 8, 8, 3, 3), IN(F32, -1, 8)}},
    {"conv2d stencil",
     conv2d,
     "F.conv2d(*x, padding=1)",
     1,
     {IN(F32, 2, 1, 1, 1024, 1024), IN(F32, -1, 1, 1, 3, 3), IN(F32, -1, 1)}},
    {"conv2d stencil, f64",
     conv2d,
     "F.conv2d(*x, padding=1)",
     1,
     {IN(F64, 2, 1, 1, 1024, 1024), IN(F64, -1, 1, 1, 3, 3), IN(F64, -1, 1)}},
    {"conv3d stencil, f64",
     conv3d,
     "F.conv3d(*x, padding=1)",
     1,
     {IN(F64, 2, 1, 1, 96, 96, 96), IN(F64, -1, 1, 1, 3, 3, 3), IN(F64, -1, 1)}},
    {"conv3d",
     conv3d,
     "F.conv3d(*x, padding=1)",
     1,
     {IN(F32, 0, 2, 16, 32, 64, 64), IN(F32, -1, 16, 16, 3, 3, 3), IN(F32, -1, 16)}},
    {"conv_transpose2d",
     conv_transpose2d,
     "F.conv_transpose2d(*x, stride=2, padding=1)",
     1,
     {IN(F32, 0, 8, 64, 32, 32), IN(F32, -1, 64, 32, 4, 4), IN(F32, -1, 32)}},
    {"max_pool2d 3x3, stride 2", max_pool_thirds, "F.max_pool2d(x[0], 3, 2, 1)", 1, {IMAGES}},
    {"max_pool2d 2x2", max_pool_halves, "F.max_pool2d(x[0], 2)", 1, {IMAGES}},
    {"avg_pool2d 3x3, stride 2", avg_pool_thirds, "F.avg_pool2d(x[0], 3, 2, 1)", 1, {IMAGES}},
    {"max_pool3d 2x2x2", max_pool3d, "F.max_pool3d(x[0], 2)", 0, {IN(F32, 0, 2, 16, 32, 64, 64)}},
    {"adaptive_avg_pool2d", adaptive, "F.adaptive_avg_pool2d(x[0], 7)", 0, {IMAGES}},
    {"interpolate bilinear",
     bilinear,
     "F.interpolate(x[0], scale_factor=2, mode='bilinear')",
     1,
     {IN(F32, 0, 8, 32, 64, 64)}},
    {"interpolate nearest", nearest, "F.interpolate(x[0], scale_factor=2)", 0, {IN(F32, 0, 8, 32, 64, 64)}},
    {"grid_sample",
     grid_sample,
     "F.grid_sample(*x, align_corners=False)",
     1,
     {IN(F32, 0, 8, 16, 128, 128), IN(F32, 0, 8, 128, 128, 2)}},
    {"fft2", fft2, "torch.fft.fft2(*x)", 0, {IN(C64, 0, 16, 256, 256)}},
    {"rfft2", rfft2, "torch.fft.rfft2(*x)", 1, {IN(F32, 0, 32, 256, 256)}},
    /* The peer as torch-harmonics does it, by a table of Legendre functions, which it is given. */
    {"sht of 128 degrees",
     sht,
     "torch.einsum('bkmr,mlk->blmr', torch.view_as_real(torch.fft.rfft(x[0])[..., :128]), x[1])",
     1,
     {IN(F32, 0, 32, 128, 256), FIXED(F32, -1, 128, 128, 128)}},
    {"cumsum of rows", cumsum_rows, "x[0].cumsum(1)", 1, {PLANE}},
    {"cumsum along the cut", cumsum_columns, "x[0].cumsum(0)", 0, {PLANE}},
    {"sort of rows", sort, "torch.sort(x[0], stable=True)[0]", 1, {IN(F32, 0, 1024, 1024)}},
    {"sort along the cut", sort, "torch.sort(x[0], stable=True)[0]", 0, {IN(F32, 0, 1048576)}},
    {"topk 10", topk, "x[0].topk(10, 1)[0]", 0, {PLANE}},
    {"argmax of rows", argmax, "x[0].argmax(1)", 0, {PLANE}},
    {"gather", gather, "torch.gather(x[0], 1, x[1])", 1, {PLANE, INDEX(2048, 0, 2048, 2048)}},
    {"index_select of rows",
     select_rows,
     "x[0].index_select(0, x[1])",
     1,
     {IN(F32, -1, 65536, 64), INDEX(65536, 0, 65536)}},
    {"index_select of columns", select_columns, "x[0].index_select(1, x[1])", 0, {PLANE, INDEX(2048, -1, 2048)}},
    {"scatter_add", scatter_add, "x[0].scatter_add(1, x[1], x[2])", 1, {PLANE, INDEX(2048, 0, 2048, 2048), PLANE}},
    {"index_add", index_add, "x[0].index_add(1, x[1], x[2])", 0, {PLANE, INDEX(2048, -1, 2048), PLANE}},
    {"embedding", embedding, "F.embedding(*x)", 1, {INDEX(32000, 0, 8, 2048), IN(F32, -1, 32000, 256)}},
    {"cat", cat, "torch.cat(x, 1)", 1, {IN(F32, 0, 2048, 1024), IN(F32, 0, 2048, 1024)}},
    {"copy of a transpose", transposed_copy, "x[0].transpose(1, 2).reshape(64, -1)", 0, {IN(F32, 0, 64, 256, 256)}},
    {"channels to the end", to_nhwc, "x[0].permute(0, 2, 3, 1).reshape(8, -1)", 0, {IMAGES}},
    {"tril", tril, "torch.tril(*x)", 0, {PLANE}},
    {"roll", roll, "x[0].roll(5, 1)", 0, {PLANE}},
    {"flip", flip, "x[0].flip(1)", 0, {PLANE}},
    {"a transformer's block",
     breadth_transformer,
     breadth_transformer_torch,
     1,
     {IN(F32, 0, 8, 256, 256), IN(F32, -1, 256), IN(F32, -1, 256), IN(F32, -1, 768, 256), IN(F32, -1, 256, 256),
      IN(F32, -1, 1024, 256), IN(F32, -1, 256, 1024)}},
    {"a U-Net of two levels",
     breadth_unet,
     breadth_unet_torch,
     1,
     {IN(F32, 0, 8, 16, 128, 128), IN(F32, -1, 32, 16, 3, 3), IN(F32, -1, 64, 32, 3, 3), IN(F32, -1, 16, 96, 3, 3)}},
    {"a U-Net of two levels, cut rows",
     breadth_unet,
     breadth_unet_torch,
     1,
     {IN(F32, 2, 8, 16, 128, 128), IN(F32, -1, 32, 16, 3, 3), IN(F32, -1, 64, 32, 3, 3), IN(F32, -1, 16, 96, 3, 3)}},
    {"pad circular", pad, "F.pad(x[0], (1, 1, 1, 1), mode='circular')", 0, {IMAGES}},
};

const int breadth_n_cases = sizeof breadth_cases / sizeof *breadth_cases;
