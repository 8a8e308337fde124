/* A U-Net of three resolutions, whose rows are cut. */
#include "model.h"

#include <stdio.h>

enum { LEVELS = 3, CHANNELS = 4, GROUPS = 4 };

static int64_t width_of(const struct model *model, int level)
{
    return (int64_t)(model->is_small ? 8 : 32) << level;
}

static stn_tensor *convolve(const struct model *model, const char *name, stn_tensor *x, int64_t out, int64_t kernel)
{
    char bias[40];
    snprintf(bias, sizeof bias, "%s.bias", name);
    const int64_t *in = stn_tensor_shape(x);
    if (!in) /* of what has failed */
        return x;
    const stn_conv_attrs same = {.size = sizeof same, .padding = {kernel / 2, kernel / 2}};
    stn_tensor *w = model_weight(model, name, 4, (int64_t[]){out, in[1], kernel, kernel}, NULL);
    return stn_conv2d(x, w, model_weight(model, bias, 1, &out, stn_zeros), &same);
}

static stn_tensor *convolve_norm(const struct model *model, const char *name, stn_tensor *x, int64_t out)
{
    char scale[40], shift[40];
    snprintf(scale, sizeof scale, "%s.norm.weight", name);
    snprintf(shift, sizeof shift, "%s.norm.bias", name);
    stn_tensor *w = model_weight(model, scale, 1, &out, stn_ones), *b = model_weight(model, shift, 1, &out, stn_zeros);
    return stn_silu(stn_group_norm(convolve(model, name, x, out, 3), GROUPS, w, b, 1e-5));
}

static stn_tensor *block(const struct model *model, const char *way, int level, stn_tensor *x)
{
    char name[2][24];
    for (int i = 0; i < 2; i++)
        snprintf(name[i], sizeof name[i], "%s%d.%d", way, level, i);
    x = convolve_norm(model, name[0], x, width_of(model, level));
    return convolve_norm(model, name[1], x, width_of(model, level));
}

static stn_tensor *predict(const struct model *model, stn_tensor *x)
{
    static const stn_pool_attrs halves = {.size = sizeof halves, .kernel_size = {2, 2}};
    static const stn_interpolate_attrs twice = {
        .size = sizeof twice, .mode = STN_INTERPOLATE_NEAREST, .scale_factor = {2, 2}};
    stn_tensor *kept[LEVELS];
    for (int level = 0; level < LEVELS; level++) {
        x = block(model, "down", level, x);
        kept[level] = x;
        x = level + 1 < LEVELS ? stn_max_pool2d(x, &halves, NULL) : x;
    }
    for (int level = LEVELS - 2; level >= 0; level--) {
        stn_tensor *both[] = {kept[level], stn_interpolate(x, &twice)};
        x = block(model, "up", level, stn_cat(2, both, 1));
    }
    return convolve(model, "out", x, CHANNELS, 1);
}

static stn_tensor *loss_of(const struct model *model, stn_tensor *input, stn_tensor *target)
{
    return stn_mse_loss(predict(model, input), target, NULL, STN_REDUCE_MEAN);
}

static void draw(const struct model *model, stn_tensor **input, stn_tensor **target)
{
    const int64_t side = model->is_small ? 16 : 256, shape[] = {model->samples, CHANNELS, side, side};
    const stn_spec *spec = stn_spec_of(model->mesh, STN_DTYPE_F32, model->kind->samples, 4, shape);
    *input = stn_randn(model->context, spec);
    *target = stn_randn(model->context, spec);
}

const struct model_kind model_unet = {"U-Net",     .samples = "S2", .weights = "R",
                                      .n_axes = 1, .draw = draw,    .loss = loss_of};
