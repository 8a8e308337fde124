/* A spherical Fourier neural operator (Bonev et al., 2023): latitudes are cut, and weights of a degree lie where its
 * coefficients do. */
#include "model.h"

#include <math.h>
#include <stdio.h>

enum { CHANNELS = 4, LAYERS = 4 };

static const stn_sht_basis gauss = {.size = sizeof gauss, .grid = STN_SHT_LEGENDRE_GAUSS};

static int64_t degrees_of(const struct model *model)
{
    return model->is_small ? 8 : 128;
}

static int64_t width_of(const struct model *model)
{
    return model->is_small ? 8 : 64;
}

/* Channels of each place are mixed. */
static stn_tensor *mix(const struct model *model, int layer, const char *what, stn_tensor *x, int64_t in, int64_t out)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    return stn_conv2d(x, model_weight(model, name, 4, (int64_t[]){out, in, 1, 1}, NULL), NULL, NULL);
}

/* Channels of each degree are mixed. */
static stn_tensor *mix_degrees(const struct model *model, int layer, stn_tensor *x)
{
    char name[32];
    const int64_t width = width_of(model), degrees = degrees_of(model), shape[] = {width, width, degrees, 2};
    snprintf(name, sizeof name, "%d.degrees", layer);
    stn_tensor *pairs = model_weight_of(model, name, "S2", 4, shape, stn_randn);
    stn_tensor *w = stn_view_as_complex(stn_mul_number(pairs, sqrt(0.5 / (double)width)));
    stn_tensor *both[] = {stn_sht(x, degrees, degrees, &gauss), w};
    return stn_isht(stn_einsum("bilm,oil->bolm", 2, both), degrees, 2 * degrees, &gauss);
}

static stn_tensor *loss_of(const struct model *model, stn_tensor *input, stn_tensor *target)
{
    const int64_t width = width_of(model);
    stn_tensor *x = mix(model, LAYERS, "in", input, CHANNELS, width);
    for (int l = 0; l < LAYERS; l++) {
        stn_tensor *y = stn_add(mix_degrees(model, l, x), mix(model, l, "places", x, width, width));
        x = stn_add(x, mix(model, l, "merge", stn_gelu(y, STN_GELU_ERF), width, width));
    }
    return stn_mse_loss(mix(model, LAYERS, "out", x, width, CHANNELS), target, NULL, STN_REDUCE_MEAN);
}

static void draw(const struct model *model, stn_tensor **input, stn_tensor **target)
{
    const int64_t rows = degrees_of(model), shape[] = {model->samples, CHANNELS, rows, 2 * rows};
    const stn_spec *spec = stn_spec_of(model->mesh, STN_DTYPE_F32, model->kind->samples, 4, shape);
    *input = stn_randn(model->context, spec);
    *target = stn_randn(model->context, spec);
}

const struct model_kind model_sfno = {"SFNO",      .samples = "S2", .weights = "R",
                                      .n_axes = 1, .draw = draw,    .loss = loss_of};
