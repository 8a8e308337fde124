#include "model.h"

#include <math.h>
#include <stdlib.h>

static const double DAMPING = 0.3, MOMENTUM = 0.9, RATE = 0.03;

/* Longitudes wrap around; at the poles the last row is repeated. */
static const stn_conv2d_attrs same = {
    .size = sizeof same, .padding = {1, 1}, .mode = {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}};

struct shape {
    int ndim;
    int64_t size[4];
    int64_t fan_in;
};

static const struct shape shapes[PARAMETERS] = {
    {4, {HIDDEN, LAGS * COMPONENTS, KERNEL, KERNEL}, LAGS * COMPONENTS * KERNEL * KERNEL},
    {1, {HIDDEN}, LAGS * COMPONENTS * KERNEL * KERNEL},
    {4, {COMPONENTS, HIDDEN, KERNEL, KERNEL}, HIDDEN * KERNEL * KERNEL},
    {1, {COMPONENTS}, HIDDEN * KERNEL * KERNEL},
};

/* splitmix64 (Steele, Lea and Flood 2014) of a counter: number i of a stream does not depend on who draws it. */
static double uniform(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static stn_tensor *draw(stn_context *context, const stn_spec *spec, uint64_t seed, uint64_t stream, double bound)
{
    int64_t n = stn_spec_numel(spec);
    float *values = malloc((size_t)n * sizeof *values);
    if (!values)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(bound * (2 * uniform(seed, stream * 1000003 + (uint64_t)i) - 1));
    stn_tensor *tensor = stn_from_host(context, spec, values);
    free(values);
    return tensor;
}

static stn_status make_parameter(struct model *m, const stn_mesh *mesh, int k, uint64_t seed)
{
    const struct shape *shape = &shapes[k];
    const stn_spec *spec;
    stn_placement replicate = stn_replicate();
    stn_status status = stn_spec_create(m->context, mesh, &replicate, STN_DTYPE_F32, shape->ndim, shape->size, NULL, &spec);
    if (status != STN_OK)
        return status;
    m->parameter[k] = draw(m->context, spec, seed, (uint64_t)k, 1 / sqrt((double)shape->fan_in));
    m->velocity[k] = draw(m->context, spec, seed, (uint64_t)k, 0);
    stn_spec_release(&spec);
    return stn_set_requires_grad(m->parameter[k], 1);
}

stn_status model_create(stn_context *context, const stn_mesh *mesh, uint64_t seed, struct model *model)
{
    *model = (struct model){.context = context};
    for (int k = 0; k < PARAMETERS; k++) {
        stn_status status = make_parameter(model, mesh, k, seed);
        if (status != STN_OK)
            return status;
    }
    return STN_OK;
}

void model_fini(struct model *model)
{
    for (int k = 0; k < PARAMETERS; k++) {
        stn_tensor_release(&model->parameter[k]);
        stn_tensor_release(&model->velocity[k]);
    }
}

stn_tensor *model_forward(const struct model *model, stn_tensor *inputs, stn_tensor *last)
{
    stn_tensor *const *p = model->parameter;
    stn_tensor *hidden = stn_gelu(stn_conv2d(inputs, p[0], p[1], &same), STN_GELU_ERF);
    return stn_add_scaled(stn_conv2d(hidden, p[2], p[3], &same), last, DAMPING);
}

stn_status model_step(struct model *model)
{
    stn_no_grad_begin(model->context);
    for (int k = 0; k < PARAMETERS; k++) {
        stn_tensor *grad = NULL;
        if (stn_grad_of(model->parameter[k], &grad) != STN_OK || !grad)
            break;
        stn_add_(stn_mul_number_(model->velocity[k], MOMENTUM), grad, 1);
        stn_add_(model->parameter[k], model->velocity[k], -RATE);
        stn_zero_grad(model->parameter[k]);
    }
    stn_no_grad_end(model->context);
    return stn_context_status(model->context);
}
