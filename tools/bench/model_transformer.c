/* A transformer of letters: layers of attention and of two products, each behind a norm. In chunks it has 30 M
 * parameters, in rows of numbers that ranks do not divide; whole, fewer, and longer rows of tokens, which are cut. */
#include "model.h"

#include <stdio.h>

struct sizes {
    int layers;
    int64_t width, heads, inner, letters, length;
};

static const struct sizes chunked = {8, 512, 8, 2047, 4095, 256}, whole = {4, 512, 8, 2048, 1024, 1024},
                          small = {2, 32, 4, 65, 97, 16};

static const struct sizes *sizes_of(const struct model *model)
{
    return model->is_small ? &small : model->kind->gathers ? &chunked : &whole;
}

static stn_tensor *weight(const struct model *model, int layer, const char *what, int64_t rows, int64_t columns)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    return model_weight(model, name, 2, (int64_t[]){rows, columns}, NULL);
}

static stn_tensor *norm(const struct model *model, int layer, const char *what, stn_tensor *x)
{
    char scale[32], shift[32];
    const int64_t width = sizes_of(model)->width;
    snprintf(scale, sizeof scale, "%d.%s.weight", layer, what);
    snprintf(shift, sizeof shift, "%d.%s.bias", layer, what);
    stn_tensor *w = model_weight(model, scale, 1, &width, stn_ones);
    return stn_layer_norm(x, 1, &width, w, model_weight(model, shift, 1, &width, stn_zeros), 1e-5);
}

static stn_tensor *attend(const struct model *model, int layer, stn_tensor *x)
{
    static const stn_attention_attrs causal = {.size = sizeof causal, .is_causal = 1};
    static const int heads_first[] = {2, 0, 3, 1, 4};
    const struct sizes *s = sizes_of(model);
    const int64_t parts[] = {model->samples, s->length, 3, s->heads, s->width / s->heads};
    stn_tensor *all = stn_linear(x, weight(model, layer, "attention", 3 * s->width, s->width), NULL);
    all = stn_permute(stn_view(all, 5, parts), 5, heads_first);
    stn_tensor *y = stn_scaled_dot_product_attention(stn_select(all, 0, 0), stn_select(all, 0, 1),
                                                     stn_select(all, 0, 2), NULL, &causal);
    y = stn_reshape(stn_transpose(y, 1, 2), 3, (int64_t[]){model->samples, s->length, s->width});
    return stn_linear(y, weight(model, layer, "merge", s->width, s->width), NULL);
}

/* In a scope of its own, so that whole weights go with the layer. */
static stn_tensor *block(const struct model *model, int layer, stn_tensor *x)
{
    const struct sizes *s = sizes_of(model);
    stn_scope_begin(model->context);
    x = stn_add(x, attend(model, layer, norm(model, layer, "before", x)));
    stn_tensor *h = stn_linear(norm(model, layer, "behind", x), weight(model, layer, "up", s->inner, s->width), NULL);
    h = stn_linear(stn_gelu(h, STN_GELU_TANH), weight(model, layer, "down", s->width, s->inner), NULL);
    x = stn_add(x, h);
    stn_scope_end_keep(model->context, x, &x);
    return x;
}

static stn_tensor *loss_of(const struct model *model, stn_tensor *input, stn_tensor *target)
{
    const struct sizes *s = sizes_of(model);
    stn_tensor *x = stn_embedding(input, weight(model, s->layers, "letters", s->letters, s->width), NULL);
    x = stn_add(x, weight(model, s->layers, "places", s->length, s->width));
    for (int layer = 0; layer < s->layers; layer++)
        x = block(model, layer, x);
    x = norm(model, s->layers, "last", x);
    stn_tensor *logits = stn_linear(x, weight(model, s->layers, "head", s->letters, s->width), NULL);
    return stn_cross_entropy(stn_flatten(logits, 0, 1), stn_flatten(target, 0, 1), NULL, -100, STN_REDUCE_MEAN, 0);
}

static void draw(const struct model *model, stn_tensor **input, stn_tensor **target)
{
    const struct sizes *s = sizes_of(model);
    const int64_t shape[] = {model->samples, s->length};
    const stn_spec *spec = stn_spec_of(model->mesh, STN_DTYPE_I64, model->kind->samples, 2, shape);
    *input = stn_randint(model->context, spec, 0, s->letters);
    *target = stn_randint(model->context, spec, 0, s->letters);
}

#define TRANSFORMER .draw = draw, .loss = loss_of

const struct model_kind model_transformer = {"transformer", .samples = "S1", .weights = "R", .n_axes = 1, TRANSFORMER};
const struct model_kind model_fsdp = {"fsdp", .samples = "S0", .weights = "S0", .gathers = 1, .n_axes = 1, TRANSFORMER};
const struct model_kind model_hsdp = {"hsdp",       .samples = "S0,S0", .weights = "R,S0",
                                      .gathers = 1, .n_axes = 2,        TRANSFORMER};
