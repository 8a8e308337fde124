#include "model.h"

#include <math.h>
#include <stdlib.h>

enum { WIDE = 32, NARROW = 16, GROUPS = 4, KERNEL = 3, HALF = 2 };

static const double DROPOUT = 0.1, EPSILON = 1e-5, FIRST_FACTOR = 0.3;

/* Longitudes wrap around; at the poles the last row is repeated. */
static const stn_conv_attrs same = {
    .size = sizeof same, .padding = {1, 1}, .mode = {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}};
static const stn_conv_attrs halving = {.size = sizeof halving,
                                       .stride = {HALF, HALF},
                                       .padding = {1, 1},
                                       .mode = {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}};

/* Parameters in their order: each convolution's weight and bias, each norm's, the factors. */
enum {
    ENCODE_1,
    ENCODE_2,
    MIDDLE,
    DECODE,
    OUTPUT,
    NORMS = 2 * CONVOLUTIONS,
    FACTORS = NORMS + 2 * HIDDEN_CONVOLUTIONS
};

static const char *const names[PARAMETERS] = {
    "encode1.weight",      "encode1.bias",       "encode2.weight",      "encode2.bias",      "middle.weight",
    "middle.bias",         "decode.weight",      "decode.bias",         "output.weight",     "output.bias",
    "encode1.norm.weight", "encode1.norm.bias",  "encode2.norm.weight", "encode2.norm.bias", "middle.norm.weight",
    "middle.norm.bias",    "decode.norm.weight", "decode.norm.bias",    "factor1",           "factor2"};

/* Channels that a convolution reads and gives. */
static void channels(const struct data *d, int convolution, int64_t *in, int64_t *out)
{
    const int64_t ins[] = {LAGS * d->components + GEOGRAPHY + 2, NARROW, WIDE, WIDE + NARROW, WIDE};
    const int64_t outs[] = {NARROW, WIDE, WIDE, WIDE, (1 + LAGS) * d->components};
    *in = ins[convolution];
    *out = outs[convolution];
}

/* How a parameter begins: uniform within +-bound around `middle`. */
struct start {
    int ndim;
    int64_t shape[4];
    double middle, bound;
};

static int64_t half(size_t n)
{
    return ((int64_t)n + 1) / HALF;
}

static struct start start_of(const struct data *d, int k)
{
    int64_t in, out;
    if (k >= FACTORS)
        return (struct start){
            3, {d->components, half(d->grid.rows), half(d->grid.columns)}, k == FACTORS ? FIRST_FACTOR : 0, 0};
    channels(d, k < NORMS ? k / 2 : (k - NORMS) / 2, &in, &out);
    int is_bias = k % 2;
    if (k >= NORMS)
        return (struct start){1, {out}, !is_bias, 0};
    double bound = k / 2 == OUTPUT ? 0 : 1 / sqrt((double)(in * KERNEL * KERNEL));
    if (is_bias)
        return (struct start){1, {out}, 0, bound};
    return (struct start){4, {out, in, KERNEL, KERNEL}, 0, bound};
}

/* splitmix64 (Steele, Lea and Flood 2014) of a counter: number i of a stream does not depend on who draws it. */
static double uniform(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static stn_status make_parameter(struct model *m, int k, uint64_t seed)
{
    const struct data *d = m->data;
    const struct start start = start_of(d, k);
    const stn_placement replicate[AXES] = {stn_replicate(), stn_replicate(), stn_replicate()};
    const stn_spec *spec;
    stn_status status =
        stn_spec_create(d->context, d->mesh, replicate, STN_DTYPE_F32, start.ndim, start.shape, NULL, &spec);
    if (status != STN_OK)
        return status;
    int64_t n = stn_spec_numel(spec);
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; values && i < n; i++)
        values[i] = (float)(start.middle + start.bound * (2 * uniform(seed, (uint64_t)k * 1000003 + (uint64_t)i) - 1));
    m->parameter[k].name = names[k];
    m->parameter[k].tensor = values ? stn_from_host(d->context, spec, values) : NULL;
    free(values);
    stn_spec_release(&spec);
    return stn_set_requires_grad(m->parameter[k].tensor, 1);
}

stn_status model_create(const struct data *data, uint64_t seed, struct model *model)
{
    stn_status status = STN_OK;
    *model = (struct model){.data = data};
    for (int k = 0; k < PARAMETERS && status == STN_OK; k++)
        status = make_parameter(model, k, seed);
    return status;
}

void model_fini(struct model *model)
{
    for (int k = 0; k < PARAMETERS; k++)
        stn_tensor_release(&model->parameter[k].tensor);
}

static stn_tensor *convolve(const struct model *m, int k, stn_tensor *x, const stn_conv_attrs *attrs)
{
    return stn_conv2d(x, m->parameter[2 * k].tensor, m->parameter[2 * k + 1].tensor, attrs);
}

static stn_tensor *hidden(const struct model *m, int k, stn_tensor *x, const stn_conv_attrs *attrs, int training)
{
    const stn_named_tensor *norm = &m->parameter[NORMS + 2 * k];
    stn_tensor *y = stn_group_norm(convolve(m, k, x, attrs), GROUPS, norm[0].tensor, norm[1].tensor, EPSILON);
    return stn_dropout_channels(stn_gelu(y, STN_GELU_ERF), DROPOUT, training);
}

static stn_tensor *resize(stn_tensor *x, int64_t rows, int64_t columns)
{
    const stn_interpolate_attrs attrs = {
        .size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .output_size = {rows, columns}};
    return stn_interpolate(x, &attrs);
}

/* A factor per cell from one per four cells: bilinear, around the globe in longitude. */
static stn_tensor *spread(const struct model *m, stn_tensor *factor)
{
    int64_t rows = (int64_t)m->data->grid.rows, columns = (int64_t)m->data->grid.columns;
    const int64_t around[] = {1, 1};
    const int64_t *shape = stn_tensor_shape(factor);
    if (!shape)
        return factor;
    stn_tensor *four = stn_view(factor, 4, (const int64_t[]){1, shape[0], shape[1], shape[2]});
    stn_tensor *wide = resize(stn_pad(four, 2, around, STN_PAD_CIRCULAR, 0), rows, columns + 2 * HALF);
    return stn_slice(wide, 3, HALF, HALF + columns, 1);
}

/* What the network sees. */
static stn_tensor *inputs(const struct batch *batch)
{
    stn_tensor *seen[LAGS + 1];
    for (int lag = 1; lag <= LAGS; lag++)
        seen[lag - 1] = batch->lag[lag];
    seen[LAGS] = batch->setting;
    return stn_cat(LAGS + 1, seen, 1);
}

stn_tensor *model_forward(const struct model *m, const struct batch *batch, int training)
{
    int64_t rows = (int64_t)m->data->grid.rows, columns = (int64_t)m->data->grid.columns, c = m->data->components;
    stn_tensor *fine = hidden(m, ENCODE_1, inputs(batch), &halving, training);
    stn_tensor *coarse = hidden(m, MIDDLE, hidden(m, ENCODE_2, fine, &halving, training), &same, training);
    stn_tensor *both = stn_cat(2, (stn_tensor *[]){resize(coarse, half((size_t)rows), half((size_t)columns)), fine}, 1);
    stn_tensor *y = resize(convolve(m, OUTPUT, hidden(m, DECODE, both, &same, training), &same), rows, columns);
    stn_tensor *forecast = stn_slice(y, 1, 0, c, 1);
    for (int lag = 1; lag <= LAGS; lag++) {
        stn_tensor *factor =
            stn_add(stn_slice(y, 1, lag * c, (lag + 1) * c, 1), spread(m, m->parameter[FACTORS + lag - 1].tensor));
        forecast = stn_add(forecast, stn_mul(factor, batch->lag[lag]));
    }
    return forecast;
}
