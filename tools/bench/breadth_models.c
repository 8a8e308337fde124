/* Parts of models, forward and with gradients of all their weights: what the ops of the table cost together. */
#include "breadth.h"

enum { SAMPLES = 8, LENGTH = 256, WIDTH = 256, HEADS = 4 };

static stn_tensor *norm(stn_tensor *h, stn_tensor *const *x)
{
    static const int64_t width[] = {WIDTH};
    return stn_layer_norm(h, 1, width, x[1], x[2], 1e-5);
}

static stn_tensor *attend(stn_tensor *h, stn_tensor *const *x)
{
    static const int64_t parts[] = {SAMPLES, LENGTH, 3, HEADS, WIDTH / HEADS}, joined[] = {SAMPLES, LENGTH, WIDTH};
    static const int heads_first[] = {2, 0, 3, 1, 4};
    static const stn_attention_attrs plain = {.size = sizeof plain};
    stn_tensor *all = stn_permute(stn_view(stn_linear(h, x[3], NULL), 5, parts), 5, heads_first);
    stn_tensor *y = stn_scaled_dot_product_attention(stn_select(all, 0, 0), stn_select(all, 0, 1),
                                                     stn_select(all, 0, 2), NULL, &plain);
    return stn_linear(stn_reshape(stn_transpose(y, 1, 2), 3, joined), x[4], NULL);
}

stn_tensor *breadth_transformer(stn_tensor *const *x)
{
    stn_tensor *h = stn_add(x[0], attend(norm(x[0], x), x));
    return stn_add(h, stn_linear(stn_gelu(stn_linear(norm(h, x), x[5], NULL), STN_GELU_ERF), x[6], NULL));
}

const char breadth_transformer_torch[] =
    "(n := F.layer_norm(x[0], (256,), x[1], x[2]), q := F.linear(n, x[3]).view(8, 256, 3, 4, 64).permute(2, 0, 3, 1, "
    "4),"
    " a := F.scaled_dot_product_attention(q[0], q[1], q[2]).transpose(1, 2).reshape(8, 256, 256), h := x[0] + "
    "F.linear(a, x[4]),"
    " h + F.linear(F.gelu(F.linear(F.layer_norm(h, (256,), x[1], x[2]), x[5])), x[6]))[-1]";

/* Down and up again, with a skip over it. */
stn_tensor *breadth_unet(stn_tensor *const *x)
{
    static const stn_conv_attrs same = {.size = sizeof same, .padding = {1, 1}};
    static const stn_pool_attrs halves = {.size = sizeof halves, .kernel_size = {2, 2}};
    static const stn_interpolate_attrs twice = {
        .size = sizeof twice, .mode = STN_INTERPOLATE_NEAREST, .scale_factor = {2, 2}};
    stn_tensor *fine = stn_gelu(stn_conv2d(x[0], x[1], NULL, &same), STN_GELU_ERF);
    stn_tensor *coarse = stn_gelu(stn_conv2d(stn_max_pool2d(fine, &halves, NULL), x[2], NULL, &same), STN_GELU_ERF);
    stn_tensor *both[] = {fine, stn_interpolate(coarse, &twice)};
    return stn_conv2d(stn_cat(2, both, 1), x[3], NULL, &same);
}

const char breadth_unet_torch[] =
    "(d := F.gelu(F.conv2d(x[0], x[1], padding=1)), e := F.gelu(F.conv2d(F.max_pool2d(d, 2), x[2], padding=1)),"
    " F.conv2d(torch.cat([d, F.interpolate(e, scale_factor=2)], 1), x[3], padding=1))[-1]";
