/* Convolution by sums of shifted planes. Each block of the target, and the span of the source that its windows read,
 * are planes of one channel each, whose rows are as long as the span's: a window reads at the same offsets wherever it
 * lies, across the ends of rows too, where the target has elements that nobody reads. So rows may be as short as they
 * like, and images with channels side by side are taken apart and put together by the copies, at their speed. */
#include "ops/conv/direct.h"

#include "core/box/box.h"
#include "ops/conv/direct_kernels.h"
#include "ops/conv/direct_layout.h"

#include <string.h>

/* x or y of one image. */
struct side {
    char *data;
    int64_t channels;
    const int64_t *extent;
};

/* A block's part of it. */
struct planes {
    char *data;
    int64_t channel; /* elements from one channel to the next */
    int64_t rows;    /* in each position of the first dim */
};

/* Positions at … at + n - 1 of some channels. */
struct region {
    int64_t channel, channels;
    const int64_t *at, *n;
};

/* A block of the target, of groups group … group + groups - 1. */
struct block {
    int64_t at[3], n[3], group, groups;
};

struct solver {
    const struct direct *d;
    const struct stni_conv_direct_kernels *kernels;
    int64_t *offset;
    char *weight; /* by group, channel of the target, and term */
    double *sum;  /* of the gradient by the weight, in its place */
    struct planes source, target;
    const char *bias;
};

static stn_box box_of_side(const struct direct *d, const struct side *side, const struct region *r)
{
    const int64_t pixel = side->channels, row = pixel * side->extent[2], plane = row * side->extent[1];
    const int64_t first = r->at[0] * plane + r->at[1] * row + r->at[2] * pixel + r->channel;
    return (stn_box){.data = side->data + first * d->element, .ndim = 4,
                     .shape = {r->channels, r->n[0], r->n[1], r->n[2]}, .strides = {1, plane, row, pixel}};
}

static stn_box box_of_planes(const struct direct *d, const struct planes *p, const struct region *r)
{
    const int64_t row = d->span[2], plane = row * p->rows;
    const int64_t first = r->at[0] * plane + r->at[1] * row + r->at[2];
    return (stn_box){.data = p->data + first * d->element, .ndim = 4,
                     .shape = {r->channels, r->n[0], r->n[1], r->n[2]}, .strides = {p->channel, plane, row, 1}};
}

/* Channel c of a block, at position i of the first dim. */
static char *plane_of(const struct direct *d, const struct planes *p, int64_t c, int64_t i)
{
    return p->data + (c * p->channel + i * p->rows * d->span[2]) * d->element;
}

/* Along a dim what the source has of a block's span; and where in the span that begins. Whether it is all. */
static int clip(const struct direct *d, const struct block *b, int dim, int64_t *from, int64_t *n, int64_t *to)
{
    const int64_t begin = b->at[dim] - d->pad[dim], end = begin + b->n[dim] + d->span[dim] - d->block[dim];
    *from = begin > 0 ? begin : 0;
    *to = *from - begin;
    *n = (end < d->source[dim] ? end : d->source[dim]) - *from;
    return *n == end - begin;
}

/* The span of a block: what the source has of it, and zeros. */
static void take_source(const struct solver *s, const struct side *source, const struct block *b)
{
    const struct direct *d = s->d;
    const int64_t channels = b->groups * d->source_channels;
    int64_t from[3], to[3], n[3];
    int whole = 1;
    for (int dim = 0; dim < 3; dim++)
        whole &= clip(d, b, dim, &from[dim], &n[dim], &to[dim]);
    if (!whole)
        memset(s->source.data, 0, (size_t)(channels * s->source.channel * d->element));
    if (n[0] <= 0 || n[1] <= 0 || n[2] <= 0)
        return;
    const stn_box src = box_of_side(d, source, &(struct region){b->group * d->source_channels, channels, from, n});
    const stn_box dst = box_of_planes(d, &s->source, &(struct region){0, channels, to, n});
    stni_box_copy_now(d->isa, &dst, &src, (size_t)d->element);
}

/* Between a block's planes and the target: read, or written. */
static void copy_target(const struct solver *s, const struct side *target, const struct block *b, int write)
{
    static const int64_t zero[3] = {0};
    const struct direct *d = s->d;
    const int64_t channels = b->groups * d->target_channels, channel = b->group * d->target_channels;
    const stn_box theirs = box_of_side(d, target, &(struct region){channel, channels, b->at, b->n});
    const stn_box ours = box_of_planes(d, &s->target, &(struct region){0, channels, zero, b->n});
    stni_box_copy_now(d->isa, write ? &theirs : &ours, write ? &ours : &theirs, (size_t)d->element);
}

/* Rows follow one another unless that would compute more between them than in them. */
static int rows_are_apart(const struct direct *d, const struct block *b)
{
    return b->n[1] == 1 || d->span[2] > 2 * b->n[2];
}

/* Plane i of a block in the first dim, of its g-th group. */
static void correlate_plane(const struct solver *s, const struct block *b, int64_t g, int64_t i)
{
    const struct direct *d = s->d;
    const int apart = rows_are_apart(d, b);
    const int64_t channel = (b->group + g) * d->target_channels, row = d->span[2] * d->element;
    const char *source = plane_of(d, &s->source, g * d->source_channels, i);
    char *target = plane_of(d, &s->target, g * d->target_channels, i);
    struct stni_conv_correlation c = {.offset = s->offset, .terms = d->terms, .outputs = d->target_channels,
                                      .weight = s->weight + channel * d->terms * d->element,
                                      .bias = s->bias != NULL ? s->bias + channel * d->element : NULL,
                                      .n = apart ? b->n[2] : (b->n[1] - 1) * d->span[2] + b->n[2],
                                      .target_plane = s->target.channel};
    for (int64_t j = 0; j < (apart ? b->n[1] : 1); j++) {
        c.source = source + j * row, c.target = target + j * row;
        s->kernels->correlate[d->p->dtype](&c);
    }
}

static int64_t length(int64_t at, int64_t most, int64_t n)
{
    return n - at < most ? n - at : most;
}

/* A part of planes: for each channel of the target, from `channel` on, the sums with all terms. */
static void sum_part(const struct solver *s, struct stni_conv_dots part, int64_t channel)
{
    const struct direct *d = s->d;
    for (int64_t o = 0; o < d->target_channels; o++) {
        part.sum = s->sum + (channel + o) * d->terms;
        s->kernels->dots[d->p->dtype](&part);
        part.target = (const char *)part.target + s->target.channel * d->element;
    }
}

/* Plane i of the g-th group, in parts whose sums in the dtype are short. */
static void sum_plane(const struct solver *s, const struct block *b, int64_t g, int64_t i)
{
    enum { MOST = 1024 }; /* elements: chains of 64 and less in lanes of AVX2, of 128 without */
    const struct direct *d = s->d;
    const int64_t height = b->n[2] < MOST ? MOST / b->n[2] : 1;
    const char *source = plane_of(d, &s->source, g * d->source_channels, i);
    const char *target = plane_of(d, &s->target, g * d->target_channels, i);
    struct stni_conv_dots part = {.offset = s->offset, .terms = d->terms, .row = d->span[2]};
    for (int64_t row = 0; row < b->n[1]; row += height)
        for (int64_t column = 0; column < b->n[2]; column += MOST) {
            const int64_t from = (row * d->span[2] + column) * d->element;
            part.source = source + from, part.target = target + from;
            part.rows = length(row, height, b->n[1]), part.n = length(column, MOST, b->n[2]);
            sum_part(s, part, (b->group + g) * d->target_channels);
        }
}

static void solve_block(const struct solver *s, const struct side *source, const struct side *target,
                        const struct block *b)
{
    const int sums = s->d->p->kind == STNI_CONV_GRAD_WEIGHT;
    take_source(s, source, b);
    if (sums)
        copy_target(s, target, b, 0);
    for (int64_t g = 0; g < b->groups; g++)
        for (int64_t i = 0; i < b->n[0]; i++)
            (sums ? sum_plane : correlate_plane)(s, b, g, i);
    if (!sums)
        copy_target(s, target, b, 1);
}

/* All groups of a block come before the next one, which finds other pixels. */
static void solve_image(const struct solver *s, const struct side *source, const struct side *target)
{
    const struct direct *d = s->d;
    struct block b;
    for (b.at[0] = 0; b.at[0] < d->target[0]; b.at[0] += d->block[0])
        for (b.at[1] = 0; b.at[1] < d->target[1]; b.at[1] += d->block[1])
            for (b.at[2] = 0; b.at[2] < d->target[2]; b.at[2] += d->block[2]) {
                for (int dim = 0; dim < 3; dim++)
                    b.n[dim] = length(b.at[dim], d->block[dim], d->target[dim]);
                for (b.group = 0; b.group < d->p->groups; b.group += d->groups) {
                    b.groups = length(b.group, d->groups, d->p->groups);
                    solve_block(s, source, target, &b);
                }
            }
}

/* Where a term reads, from where its target lies in a plane of the source. */
static void fill_offsets(const struct direct *d, int64_t *offset)
{
    for (int64_t c = 0; c < d->source_channels; c++)
        for (int64_t t0 = 0; t0 < d->kernel[0]; t0++)
            for (int64_t t1 = 0; t1 < d->kernel[1]; t1++)
                for (int64_t t2 = 0; t2 < d->kernel[2]; t2++) {
                    const int64_t row = t0 * d->dilation[0] * d->span[1] + t1 * d->dilation[1];
                    *offset++ = c * d->source_plane + row * d->span[2] + t2 * d->dilation[2];
                }
}

/* The weight as it is read: for the gradient by the input turned round, channels exchanged. */
static void take_weight(const struct solver *s, const void *weight)
{
    const struct direct *d = s->d;
    const struct stni_conv_problem *p = d->p;
    const int turned = p->kind == STNI_CONV_GRAD_INPUT;
    const int64_t channel = d->taps, output = channel * (p->c / p->groups), group = output * (p->o / p->groups);
    const int64_t sign = turned ? -1 : 1, row = sign * d->kernel[2], plane = row * d->kernel[1];
    stn_box dst = {.data = s->weight, .ndim = 6, .shape = {p->groups, d->target_channels, d->source_channels}};
    memcpy(dst.shape + 3, d->kernel, sizeof d->kernel);
    stni_box_make_dense(&dst);
    stn_box src = dst;
    const int64_t strides[] = {group, turned ? channel : output, turned ? output : channel, plane, row, sign};
    memcpy(src.strides, strides, sizeof strides);
    src.data = (char *)(uintptr_t)weight + (turned ? (d->taps - 1) * d->element : 0);
    stni_box_copy_now(d->isa, &dst, &src, (size_t)d->element);
}

static void give_weight(const struct solver *s, const struct stni_conv_data *data)
{
    const struct direct *d = s->d;
    for (int64_t i = 0; i < d->p->o * d->terms; i++) {
        double *wide = (double *)data->weight + i;
        float *narrow = (float *)data->weight + i;
        if (d->p->dtype == STN_DTYPE_F64)
            *wide = data->accumulate ? *wide + s->sum[i] : s->sum[i];
        else
            *narrow = (float)(data->accumulate ? (double)*narrow + s->sum[i] : s->sum[i]);
    }
}

static void solve_images(const struct solver *s, const struct stni_conv_data *data)
{
    const struct direct *d = s->d;
    const int turned = d->p->kind == STNI_CONV_GRAD_INPUT;
    const int64_t *in = turned ? d->target : d->source, *out = turned ? d->source : d->target;
    const int64_t x_image = d->p->c * in[0] * in[1] * in[2], y_image = d->p->o * out[0] * out[1] * out[2];
    for (int64_t i = 0; i < data->images; i++)
        for (int64_t n = 0; n < d->p->n; n++) {
            const struct side x = {(char *)data->x + (i * data->x_step + n * x_image) * d->element, d->p->c, in};
            const struct side y = {(char *)data->y + (i * data->y_step + n * y_image) * d->element, d->p->o, out};
            solve_image(s, turned ? &y : &x, turned ? &x : &y);
        }
}

static struct solver solver(const struct direct *d, const struct stni_conv_data *data, char *workspace)
{
    char *weight = workspace + d->offset_bytes, *source = weight + d->weight_bytes, *target = source + d->source_bytes;
    return (struct solver){.d = d, .kernels = STNI_ISA_PICK(stni_conv_direct_kernels, d->isa),
                           .offset = (int64_t *)(void *)workspace, .weight = weight, .sum = (double *)(void *)weight,
                           .source = {source, d->source_plane, d->span[1]},
                           .target = {target, d->target_plane, d->block[1]},
                           .bias = d->p->kind == STNI_CONV_FORWARD ? data->bias : NULL};
}

void stni_conv_direct(enum stni_isa isa, const struct stni_conv_problem *problem, const struct stni_conv_data *data,
                      void *workspace)
{
    struct direct d = stni_conv_direct_layout(problem);
    d.isa = isa;
    const struct solver s = solver(&d, data, workspace);
    const int sums = problem->kind == STNI_CONV_GRAD_WEIGHT;
    fill_offsets(&d, s.offset);
    /* What lies between rows is read, though what comes of it is not. */
    memset(s.source.data, 0, d.source_bytes);
    if (sums)
        memset(s.sum, 0, d.weight_bytes);
    else
        take_weight(&s, data->weight);
    solve_images(&s, data);
    if (sums)
        give_weight(&s, data);
}
