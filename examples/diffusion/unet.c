#include "diffusion/unet.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 8, GROUPS = 4, FEATURES = 16, KERNEL = 3 };

static const stn_conv_attrs same = {
    .size = sizeof same, .same = 1, .mode = {STN_PADDING_REPLICATE, STN_PADDING_REPLICATE}};
static const stn_conv_attrs halving = {.size = sizeof halving,
                                       .stride = {2, 2},
                                       .padding = {1, 1},
                                       .mode = {STN_PADDING_REPLICATE, STN_PADDING_REPLICATE}};

static stn_tensor *scaled_by_inputs(stn_context *ctx, const stn_spec *spec)
{
    return stn_kaiming_uniform(ctx, spec, 1, STN_FAN_IN);
}

/* Every rank has the whole of a weight. */
static stn_tensor *weight(const struct unet *net, const char *block, const char *what, int ndim, const int64_t *shape,
                          stn_initialiser initialiser)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%s", block, what);
    return stn_params_get(net->params, name, stn_spec_of(net->mesh, STN_DTYPE_F64, "R,R,R", ndim, shape), initialiser);
}

static stn_tensor *convolve(const struct unet *net, const char *name, stn_tensor *x, int64_t out,
                            const stn_conv_attrs *attrs, stn_initialiser initialiser)
{
    const int64_t *shape = stn_tensor_shape(x);
    if (!shape) /* of what has failed */
        return x;
    stn_tensor *w = weight(net, name, "weight", 4, (int64_t[]){out, shape[1], KERNEL, KERNEL}, initialiser);
    return stn_conv2d(x, w, weight(net, name, "bias", 1, &out, stn_zeros), attrs);
}

static stn_tensor *linear(const struct unet *net, const char *name, stn_tensor *x, int64_t in, int64_t out)
{
    stn_tensor *w = weight(net, name, "weight", 2, (int64_t[]){out, in}, scaled_by_inputs);
    return stn_linear(x, w, weight(net, name, "bias", 1, &out, stn_zeros));
}

/* Convolution, norm, and a shift of each channel by how noisy the input is. */
static stn_tensor *block(const struct unet *net, const char *name, stn_tensor *x, stn_tensor *features,
                         const stn_conv_attrs *attrs)
{
    char noise[24];
    const int64_t width = WIDTH;
    snprintf(noise, sizeof noise, "%s.noise", name);
    stn_tensor *scale = weight(net, name, "norm.weight", 1, &width, stn_ones);
    stn_tensor *y = convolve(net, name, x, WIDTH, attrs, scaled_by_inputs);
    y = stn_group_norm(y, GROUPS, scale, weight(net, name, "norm.bias", 1, &width, stn_zeros), 1e-5);
    stn_tensor *shift = linear(net, noise, features, FEATURES, WIDTH);
    return stn_silu(stn_add(y, stn_unsqueeze(stn_unsqueeze(shift, 2), 3)));
}

/* To the size of another field, which need not be twice as large. */
static stn_tensor *resize_as(stn_tensor *x, stn_tensor *other)
{
    const int64_t *shape = stn_tensor_shape(other);
    if (!shape)
        return other;
    const stn_interpolate_attrs attrs = {
        .size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .output_size = {shape[2], shape[3]}};
    return stn_interpolate(x, &attrs);
}

stn_tensor *unet(const struct unet *net, stn_tensor *input, stn_tensor *noise, int64_t out)
{
    stn_tensor *features = stn_silu(linear(net, "noise", noise, 1, FEATURES));
    stn_tensor *fine = block(net, "fine", input, features, &same);
    stn_tensor *coarse = block(net, "coarse", block(net, "halved", fine, features, &halving), features, &same);
    stn_tensor *both = stn_cat(2, (stn_tensor *[]){resize_as(coarse, fine), fine}, 1);
    return convolve(net, "out", block(net, "joined", both, features, &same), out, &same, stn_zeros);
}
