/* The sizes of a direct convolution's blocks, and which problems it serves. Pure functions. */
#include "ops/conv/direct_layout.h"

#include "core/base/dtype.h"
#include "ops/conv/direct.h"

enum {
    SPAN_BYTES = 128 * 1024,           /* of the source in a block: with the target's a part of the L2 cache */
    MOST_SPAN_BYTES = 2 * 1024 * 1024, /* where windows are as wide as that */
    CHANNELS_AT_ONCE = 16,             /* of groups, so that lines of a channels-last image are read whole */
    SLACK = 64                         /* bytes behind a plane, which its last vector may reach into */
};

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t extent(const struct direct *d, int dim)
{
    return (d->kernel[dim] - 1) * d->dilation[dim] + 1;
}

static void take_dims(struct direct *d)
{
    const struct stni_conv_problem *p = d->p;
    const int turned = p->kind == STNI_CONV_GRAD_INPUT;
    d->taps = 1;
    for (int dim = 0; dim < 3; dim++) {
        const int own = dim - (3 - p->dims), there = own >= 0;
        d->kernel[dim] = there ? p->kernel[own] : 1;
        d->dilation[dim] = there ? p->dilation[own] : 1;
        d->source[dim] = !there ? 1 : turned ? p->out[own] : p->in[own];
        d->target[dim] = !there ? 1 : turned ? p->in[own] : p->out[own];
        d->pad[dim] = !there ? 0 : turned ? extent(d, dim) - 1 - p->pad_low[own] : p->pad_low[own];
        d->taps *= d->kernel[dim];
    }
}

/* In double, since windows may be wider than images by far. */
static double span_bytes(const struct direct *d)
{
    double bytes = (double)(d->groups * d->source_channels * d->element);
    for (int dim = 0; dim < 3; dim++)
        bytes *= (double)(d->block[dim] + extent(d, dim) - 1);
    return bytes;
}

/* Of halves that are much shorter than their windows are wide most of the spans would be the same. */
static int may_cut(const struct direct *d, int dim)
{
    return d->block[dim] > 1 && d->block[dim] >= extent(d, dim);
}

/* Whether halves of dim a share less of their spans than halves of dim b. Rows are kept long, as they are what vectors
 * run along. */
static int is_better(const struct direct *d, int a, int b)
{
    static const int64_t weight[3] = {16, 16, 1};
    return d->block[a] * weight[a] * extent(d, b) > d->block[b] * weight[b] * extent(d, a);
}

/* -1: none. */
static int dim_to_cut(const struct direct *d)
{
    int cut = -1;
    for (int dim = 0; dim < 3; dim++)
        if (may_cut(d, dim) && (cut < 0 || is_better(d, dim, cut)))
            cut = dim;
    return cut;
}

static void cut_blocks(struct direct *d)
{
    for (int dim = 0; dim < 3; dim++)
        d->block[dim] = d->target[dim];
    for (int dim = dim_to_cut(d); dim >= 0 && span_bytes(d) > SPAN_BYTES; dim = dim_to_cut(d))
        d->block[dim] = (d->block[dim] + 1) / 2;
    for (int dim = 0; dim < 3; dim++)
        d->span[dim] = d->block[dim] + extent(d, dim) - 1;
}

static struct direct lay_out(const struct stni_conv_problem *p)
{
    struct direct d = {.p = p, .element = (int64_t)stn_dtype_size((stn_dtype)p->dtype)};
    const int turned = p->kind == STNI_CONV_GRAD_INPUT;
    take_dims(&d);
    d.source_channels = (turned ? p->o : p->c) / p->groups;
    d.target_channels = (turned ? p->c : p->o) / p->groups;
    d.terms = d.taps * d.source_channels;
    const int64_t wider = d.source_channels > d.target_channels ? d.source_channels : d.target_channels;
    d.groups = wider < CHANNELS_AT_ONCE ? CHANNELS_AT_ONCE / wider : 1;
    d.groups = d.groups < p->groups ? d.groups : p->groups;
    cut_blocks(&d);
    return d;
}

struct direct stni_conv_direct_layout(const struct stni_conv_problem *p)
{
    struct direct d = lay_out(p);
    const int64_t slack = SLACK / d.element;
    d.source_plane = round_up(d.span[0] * d.span[1] * d.span[2] + slack, slack);
    d.target_plane = round_up(d.block[0] * d.block[1] * d.span[2] + slack, slack);
    d.offset_bytes = (size_t)round_up(d.terms * (int64_t)sizeof(int64_t), SLACK);
    d.weight_bytes = (size_t)round_up(p->groups * d.target_channels * d.terms * (int64_t)sizeof(double), SLACK);
    d.source_bytes = (size_t)(d.groups * d.source_channels * d.source_plane * d.element);
    d.target_bytes = (size_t)(d.groups * d.target_channels * d.target_plane * d.element);
    return d;
}

static int has_strides(const struct stni_conv_problem *p)
{
    for (int d = 0; d < p->dims; d++)
        if (p->stride[d] != 1 && p->out[d] > 1)
            return 1;
    return 0;
}

/* Products of matrices are faster where a pixel has more channels. These numbers, and those of the gradient by the
 * weight, are from Zen 4 with each of its sets, in f32 and f64, of images from 7 pixels wide on: where they say yes
 * this was never slower, and mostly several times as fast. What lies between rows is computed too. */
static int few_channels(const struct direct *d)
{
    enum { CHANNELS = 16, PRODUCTS = 160 };
    const int64_t s = d->source_channels, t = d->target_channels, row = d->block[2];
    const int64_t computed = d->span[2] > 2 * row ? row : d->span[2];
    return s <= CHANNELS && t <= CHANNELS && s * t * computed <= PRODUCTS * row;
}

/* Columns' products have the more to do for each load the more outputs there are, and short rows fill few vectors. */
static int few_sums(const struct direct *d)
{
    enum { OUTPUTS = 8, PRODUCTS = 32, PRODUCTS_OF_SHORT = 4, SHORT = 96 /* bytes */ };
    const int64_t products = d->block[2] * d->element < SHORT ? PRODUCTS_OF_SHORT : PRODUCTS;
    return d->target_channels <= OUTPUTS && d->source_channels * d->target_channels <= products;
}

/* Long sums would be one chain here, where products of matrices take them in parts. Of a few pixels the blocks cost
 * more than they save. */
int stni_conv_direct_serves(const struct stni_conv_problem *p)
{
    enum { TERMS = 1024, PIXELS = 8 };
    if (stni_conv_is_empty(p) || has_strides(p))
        return 0;
    const struct direct d = lay_out(p);
    const int64_t pixels = p->n * d.target[0] * d.target[1] * d.target[2];
    if (d.terms > TERMS || span_bytes(&d) > MOST_SPAN_BYTES || pixels < PIXELS)
        return 0;
    return p->kind == STNI_CONV_GRAD_WEIGHT ? few_sums(&d) : few_channels(&d);
}

/* oneDNN's code has a vector of channels of the target, and computes all of it where there are few; but it has code of
 * its own for channels that are groups of one, and for windows of one pixel. From Zen 4 with AVX2 and AVX-512, f32. */
int stni_conv_direct_is_best(const struct stni_conv_problem *p)
{
    enum { CHANNELS = 4, PRODUCTS_OF_SUMS = 9 };
    if (!stni_conv_direct_serves(p))
        return 0;
    const struct direct d = lay_out(p);
    const int64_t products = d.source_channels * d.target_channels;
    if (d.taps == 1 || (products == 1 && p->groups > 1))
        return 0;
    const int sums = p->kind == STNI_CONV_GRAD_WEIGHT && d.target_channels > 1;
    return d.target_channels <= CHANNELS && (!sums || products <= PRODUCTS_OF_SUMS);
}

size_t stni_conv_direct_workspace(const struct stni_conv_problem *problem)
{
    const struct direct d = stni_conv_direct_layout(problem);
    return d.offset_bytes + d.weight_bytes + d.source_bytes + d.target_bytes;
}
