#include "ops/pool/pools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)world_random(state, (uint64_t)n);
}

static void draw_window(uint64_t *state, struct pool_case *c, int d, int64_t n)
{
    stn_pool_attrs *a = &c->attrs;
    do {
        a->kernel_size[d] = 1 + below(state, 5);
        a->stride[d] = below(state, 4);
        a->dilation[d] = c->max ? below(state, n < 2 ? 2 : 3) : 0; /* so that each window has an element */
        a->padding[d] = below(state, a->kernel_size[d] / 2 + 1);
    } while (n + 2 * a->padding[d] < (a->kernel_size[d] - 1) * (a->dilation[d] > 1 ? a->dilation[d] : 1) + 1);
}

void pool_draw(uint64_t *state, struct random_shape *shape, struct pool_case *c)
{
    *c = (struct pool_case){.dims = 1 + (int)below(state, 3), .adaptive = below(state, 3) == 0, .max = (int)below(state, 2)};
    c->attrs = (stn_pool_attrs){
        .size = sizeof c->attrs, .ceil_mode = (int)below(state, 2), .exclude_pads = (int)below(state, 2)};
    if (c->dims > 1 && below(state, 3) == 0)
        c->attrs.divisor_override = below(state, 7) - 3;
    int first = 1 + (int)below(state, 2);
    int one_part = below(state, 4) == 0;
    *shape = (struct random_shape){.ndim = first + c->dims, .shape = {below(state, 4) + (first == 1), 1 + below(state, 3)}};
    for (int d = 0; d < c->dims; d++) {
        int64_t n = shape->shape[first + d] = 1 + below(state, c->dims == 3 ? 6 : 11);
        c->size[d] = one_part ? 1 : 1 + below(state, 2 * n);
        draw_window(state, c, d, n);
    }
}

stn_tensor *pool_call(stn_tensor *const *in, const void *arg)
{
    static stn_tensor *(*const avg[])(stn_tensor *, const stn_pool_attrs *) = {stn_avg_pool1d, stn_avg_pool2d,
                                                                               stn_avg_pool3d};
    static stn_tensor *(*const max[])(stn_tensor *, const stn_pool_attrs *,
                                      stn_tensor **) = {stn_max_pool1d, stn_max_pool2d, stn_max_pool3d};
    static stn_tensor *(*const avg_to[])(stn_tensor *, const int64_t *) = {NULL, stn_adaptive_avg_pool2d,
                                                                           stn_adaptive_avg_pool3d};
    static stn_tensor *(*const max_to[])(stn_tensor *, const int64_t *, stn_tensor **) = {NULL, stn_adaptive_max_pool2d,
                                                                                          stn_adaptive_max_pool3d};
    const struct pool_case *c = arg;
    stn_tensor *places = NULL, **given = c->picks ? &places : NULL, *out;
    if (!c->adaptive)
        out = c->max ? max[c->dims - 1](in[0], &c->attrs, given) : avg[c->dims - 1](in[0], &c->attrs);
    else if (c->dims == 1)
        out = c->max ? stn_adaptive_max_pool1d(in[0], c->size[0], given) : stn_adaptive_avg_pool1d(in[0], c->size[0]);
    else
        out = c->max ? max_to[c->dims - 1](in[0], c->size, given) : avg_to[c->dims - 1](in[0], c->size);
    return c->picks ? stn_cast(places, STN_DTYPE_F64) : out;
}

/* One dim of a window: positions begin, begin + apart, …; `counted` of them would be there with the pads. */
struct window {
    int64_t begin, n, apart, counted;
};

static int64_t outputs_of(const struct pool_case *c, int d, int64_t n)
{
    const stn_pool_attrs *a = &c->attrs;
    if (c->adaptive)
        return c->size[d];
    int64_t stride = a->stride[d] ? a->stride[d] : a->kernel_size[d],
            extent = (a->kernel_size[d] - 1) * (a->dilation[d] ? a->dilation[d] : 1) + 1;
    int64_t count = 0;
    for (int64_t o = 0;; o++) {
        int64_t begin = o * stride - a->padding[d], end = begin + extent;
        int fits = end <= n + a->padding[d] || (a->ceil_mode && end - stride < n + a->padding[d] && begin < n);
        if (!fits)
            return count;
        count++;
    }
}

static struct window window_of(const struct pool_case *c, int d, int64_t n, int64_t o)
{
    const stn_pool_attrs *a = &c->attrs;
    if (c->adaptive) {
        int64_t begin = o * n / c->size[d], end = ((o + 1) * n + c->size[d] - 1) / c->size[d];
        return (struct window){begin, end - begin, 1, end - begin};
    }
    int64_t begin = o * (a->stride[d] ? a->stride[d] : a->kernel_size[d]) - a->padding[d], counted = a->kernel_size[d];
    if (begin + counted > n + a->padding[d])
        counted = n + a->padding[d] - begin;
    return (struct window){begin, a->kernel_size[d], a->dilation[d] ? a->dilation[d] : 1, counted};
}

double *pool_values(uint64_t *state, int64_t n)
{
    double *values = malloc(((size_t)n + 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = below(state, i + 1);
        values[i] = values[k];
        values[k] = 0.0625 * (double)(i - n / 2);
    }
    return values;
}

struct found {
    double sum, max;
    int64_t place, inside, counted;
};

/* All positions of a window in row-major order. */
static void look(const int64_t *n, const struct window *w, const double *in, struct found *f)
{
    *f = (struct found){.max = -INFINITY, .place = -1, .counted = w[0].counted * w[1].counted * w[2].counted};
    for (int64_t k = 0; k < w[0].n * w[1].n * w[2].n; k++) {
        int64_t z = w[0].begin + k / (w[1].n * w[2].n) * w[0].apart, y = w[1].begin + k / w[2].n % w[1].n * w[1].apart;
        int64_t x = w[2].begin + k % w[2].n * w[2].apart, at = (z * n[1] + y) * n[2] + x;
        if (z < 0 || z >= n[0] || y < 0 || y >= n[1] || x < 0 || x >= n[2])
            continue;
        f->sum += in[at];
        f->inside++;
        if (f->place < 0 || in[at] > f->max)
            f->max = in[at], f->place = at;
    }
}

void pool_plain(const struct pool_case *c, const struct random_shape *shape, const double *in, struct random_shape *out,
                double **values, double **places)
{
    int64_t n[] = {1, 1, 1}, m[] = {1, 1, 1}, images = 1;
    int first = shape->ndim - c->dims;
    *out = *shape;
    for (int d = 0; d < c->dims; d++) {
        n[3 - c->dims + d] = shape->shape[first + d];
        m[3 - c->dims + d] = out->shape[first + d] = outputs_of(c, d, shape->shape[first + d]);
    }
    for (int d = 0; d < first; d++)
        images *= shape->shape[d];
    int64_t each = m[0] * m[1] * m[2];
    *values = calloc((size_t)(images * each) + 1, sizeof **values);
    *places = calloc((size_t)(images * each) + 1, sizeof **places);
    for (int64_t i = 0; i < images * each; i++) {
        int64_t o[] = {i % each / (m[1] * m[2]), i / m[2] % m[1], i % m[2]};
        struct window w[3] = {{0, 1, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 1}};
        struct found f;
        for (int d = 0, p = 3 - c->dims; d < c->dims; d++, p++)
            w[p] = window_of(c, d, n[p], o[p]);
        look(n, w, in + i / each * n[0] * n[1] * n[2], &f);
        int64_t divisor = !c->adaptive && c->attrs.divisor_override ? c->attrs.divisor_override
                          : c->attrs.exclude_pads || c->adaptive    ? f.inside
                                                                    : f.counted;
        (*values)[i] = c->max ? f.max : f.sum / (double)divisor;
        (*places)[i] = (double)f.place;
    }
}
