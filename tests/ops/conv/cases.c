#include "ops/conv/cases.h"

#include "ranks.h"

#include <stdint.h>
#include <stdlib.h>

enum { REFLECT = STN_PADDING_REFLECT, REPLICATE = STN_PADDING_REPLICATE, CIRCULAR = STN_PADDING_CIRCULAR };
enum { FAR = INT32_MAX };

/* dims, transposed, n, c, o, groups, input, kernel, stride, padding, dilation, output padding, boundary, bias */
const struct conv_case conv_cases[] = {
    {2, 0, 1, 2, 3, 1, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0}, 1},
    {2, 0, 2, 3, 4, 1, {9, 8}, {3, 2}, {1, 1}, {-1, -1}, {1, 1}, {0}, {0}, 1},
    {2, 0, 2, 4, 4, 2, {8, 9}, {2, 4}, {1, 1}, {-1, -1}, {2, 1}, {0}, {REPLICATE, CIRCULAR}, 1},
    {2, 0, 3, 2, 2, 1, {10, 11}, {2, 2}, {3, 3}, {0, 1}, {1, 1}, {0}, {0}, 0},
    {2, 0, 2, 3, 6, 3, {11, 7}, {3, 1}, {2, 1}, {1, 0}, {2, 3}, {0}, {REFLECT, 0}, 1},
    {2, 0, 2, 1, 2, 1, {13, 12}, {7, 5}, {1, 1}, {3, 2}, {1, 1}, {0}, {REFLECT, REPLICATE}, 0},
    {2, 0, 0, 2, 3, 1, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {CIRCULAR, CIRCULAR}, 1},
    {2, 0, 1, 1, 1, 1, {5, 6}, {5, 5}, {1, 1}, {4, 5}, {1, 1}, {0}, {REFLECT, REFLECT}, 1},
    {2, 0, 2, 2, 2, 1, {6, 5}, {3, 3}, {2, 2}, {6, 5}, {1, 1}, {0}, {CIRCULAR, REPLICATE}, 0},
    {2, 0, 1, 2, 2, 1, {4, 4}, {1, 1}, {1, 1}, {2, 1}, {1, 1}, {0}, {REPLICATE, 0}, 1},
    {2, 0, 2, 3, 2, 1, {8, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0}, {0}, 1},
    {2, 0, 1, 2, 2, 1, {9, 7}, {1, 1}, {3, 2}, {0, 0}, {1, 1}, {0}, {0}, 0},
    {2, 0, 2, 6, 6, 6, {12, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0, CIRCULAR}, 1},
    {2, 0, -1, 2, 3, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0}, 1},
    {2, 0, 2, 2, 2, 1, {12, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {REFLECT, REFLECT}, 1},
    {2, 0, 2, 2, 2, 1, {11, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {REPLICATE, CIRCULAR}, 0},
    {2, 0, 1, 1, 1, 1, {23, 3}, {4, 2}, {4, 1}, {1, 0}, {2, 2}, {0}, {0}, 0},
    {1, 0, 2, 3, 4, 1, {13}, {4}, {1}, {-1}, {2}, {0}, {0}, 1},
    {1, 0, 0, 2, 4, 2, {17}, {3}, {2}, {3}, {1}, {0}, {REFLECT}, 1},
    {1, 0, 2, 2, 1, 1, {9}, {5}, {1}, {9}, {1}, {0}, {CIRCULAR}, 0},
    {1, 0, 1, 1, 2, 1, {11}, {2}, {3}, {7}, {3}, {0}, {REPLICATE}, 1},
    {3, 0, 1, 2, 3, 1, {6, 5, 7}, {3, 2, 3}, {1, 1, 1}, {-1, -1, -1}, {1, 2, 1}, {0}, {0}, 1},
    {3, 0, 2, 2, 2, 2, {7, 6, 5}, {2, 3, 1}, {2, 1, 1}, {1, 2, 0}, {1, 1, 1}, {0}, {REFLECT, CIRCULAR, 0}, 0},
    {3, 0, 0, 1, 2, 1, {5, 4, 6}, {3, 3, 3}, {1, 2, 1}, {2, 3, 2}, {1, 1, 2}, {0}, {CIRCULAR, REPLICATE, REFLECT}, 1},
    {1, 1, 2, 3, 2, 1, {11}, {4}, {3}, {2}, {1}, {2}, {0}, 1},
    {1, 1, 0, 2, 4, 2, {9}, {2}, {1}, {0}, {5}, {4}, {0}, 1},
    {1, 1, 1, 1, 2, 1, {10}, {1}, {4}, {0}, {1}, {3}, {0}, 0},
    {2, 1, 2, 2, 3, 1, {7, 6}, {3, 2}, {1, 2}, {1, 0}, {1, 1}, {0, 1}, {0}, 1},
    {2, 1, 1, 4, 2, 2, {8, 5}, {3, 3}, {2, 1}, {0, 3}, {3, 2}, {2, 1}, {0}, 1},
    {2, 1, 0, 2, 2, 1, {6, 9}, {2, 5}, {3, 2}, {1, 2}, {1, 2}, {2, 0}, {0}, 0},
    {2, 1, -1, 2, 3, 1, {6, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {0}, 1},
    {2, 1, 2, 3, 3, 3, {5, 6}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {0}, 1},
    {3, 1, 1, 2, 2, 1, {4, 5, 3}, {2, 3, 2}, {2, 1, 3}, {0, 1, 1}, {1, 2, 1}, {1, 1, 2}, {0}, 1},
    /* Outputs between whose reads there are elements, or which read none. */
    {2, 0, 2, 4, 4, 2, {1, 7}, {1, 2}, {2, 2}, {1, 1}, {1, 1}, {0}, {0}, 0},
    {1, 0, 2, 1, 2, 1, {4}, {1}, {3}, {2}, {1}, {0}, {0}, 1},
    {2, 0, 2, 1, 2, 1, {2, 4}, {1, 1}, {4, 3}, {3, 2}, {1, 1}, {0}, {0}, 1},
    /* Steps that reach nothing: strides of one output, dilations of one tap. */
    {2, 0, 2, 2, 3, 1, {9, 5}, {2, 2}, {FAR, FAR}, {0, 0}, {1, 1}, {0}, {CIRCULAR, 0}, 1},
    {3, 0, 2, 2, 3, 1, {6, 4, 3}, {3, 2, 1}, {FAR, 2, 1}, {1, 1, 1}, {1, 1, FAR}, {0}, {0}, 1},
    {1, 0, 2, 2, 1, 1, {11}, {4}, {FAR}, {3}, {2}, {0}, {REFLECT}, 0},
    {2, 1, 2, 3, 2, 1, {6, 1}, {1, 3}, {3, FAR}, {0, 1}, {FAR, 2}, {1, 5}, {0}, 1},
    /* Windows that begin before a short image, then such as end behind it, and none between them. */
    {3, 0, 1, 3, 4, 1, {6, 4, 5}, {5, 2, 3}, {3, 1, 1}, {4, 0, 0}, {1, 1, 1}, {0}, {0}, 0},
    {3, 0, 2, 2, 2, 1, {2, 4, 3}, {4, 2, 2}, {2, 2, 1}, {3, 0, 0}, {1, 1, 1}, {0}, {0}, 1},
    /* Windows that are wider than the image by far. */
    {2, 0, 2, 2, 3, 1, {9, 5}, {3, 2}, {1, 1}, {-1, -1}, {FAR, 1000000}, {0}, {0}, 1},
    {3, 0, 2, 3, 1, 1, {2, 2, 5}, {5, 2, 1}, {1, 1, 1}, {-1, -1, -1}, {1, FAR, 2}, {0}, {0, 0, REFLECT}, 0},
    {1, 1, 2, 2, 3, 1, {7}, {3}, {2}, {FAR - 3}, {FAR}, {1}, {0}, 1},
    {2, 1, 1, 2, 2, 1, {7, 6}, {2, 3}, {1, 1}, {1000, 0}, {2003, 1}, {0}, {0}, 1},
};
const int conv_n_cases = sizeof conv_cases / sizeof *conv_cases;

static int64_t images(const struct conv_case *c)
{
    return c->n == 0 ? 1 : c->n < 0 ? 0 : c->n;
}

static int64_t extent(const struct conv_case *c, int d)
{
    return c->dilation[d] * (c->kernel[d] - 1) + 1;
}

static int64_t pad_low(const struct conv_case *c, int d)
{
    return c->pad[0] < 0 ? (extent(c, d) - 1) / 2 : c->pad[d];
}

static int64_t out_size(const struct conv_case *c, int d)
{
    int64_t total = c->pad[0] < 0 ? extent(c, d) - 1 : 2 * c->pad[d];
    if (c->transposed)
        return (c->in[d] - 1) * c->stride[d] - total + extent(c, d) + c->output_padding[d];
    return (c->in[d] + total - extent(c, d)) / c->stride[d] + 1;
}

static struct random_shape image_shape(const struct conv_case *c, int64_t channels, int output)
{
    struct random_shape shape = {.ndim = 0};
    if (c->n != 0)
        shape.shape[shape.ndim++] = images(c);
    shape.shape[shape.ndim++] = channels;
    for (int d = 0; d < c->dims; d++)
        shape.shape[shape.ndim++] = output ? out_size(c, d) : c->in[d];
    return shape;
}

struct random_shape conv_input_shape(const struct conv_case *c)
{
    return image_shape(c, c->c, 0);
}

struct random_shape conv_output_shape(const struct conv_case *c)
{
    return image_shape(c, c->o, 1);
}

struct random_shape conv_weight_shape(const struct conv_case *c)
{
    struct random_shape shape = {.ndim = 2 + c->dims, .shape = {c->o, c->c / c->groups}};
    if (c->transposed)
        shape.shape[0] = c->c, shape.shape[1] = c->o / c->groups;
    for (int d = 0; d < c->dims; d++)
        shape.shape[2 + d] = c->kernel[d];
    return shape;
}

struct random_shape conv_bias_shape(const struct conv_case *c)
{
    return (struct random_shape){1, {c->o}};
}

static stn_tensor *call_transposed(stn_tensor *const *in, const struct conv_case *c)
{
    static stn_tensor *(*const ops[])(stn_tensor *, stn_tensor *, stn_tensor *, const stn_conv_transpose_attrs *) = {
        stn_conv_transpose1d, stn_conv_transpose2d, stn_conv_transpose3d};
    stn_conv_transpose_attrs attrs = {.size = sizeof attrs, .groups = c->groups};
    for (int d = 0; d < c->dims; d++) {
        attrs.stride[d] = c->stride[d], attrs.padding[d] = c->pad[d], attrs.dilation[d] = c->dilation[d];
        attrs.output_padding[d] = c->output_padding[d];
    }
    return ops[c->dims - 1](in[0], in[1], c->has_bias ? in[2] : NULL, &attrs);
}

stn_tensor *conv_call(stn_tensor *const *in, const void *arg)
{
    static stn_tensor *(*const ops[])(stn_tensor *, stn_tensor *, stn_tensor *,
                                      const stn_conv_attrs *) = {stn_conv1d, stn_conv2d, stn_conv3d};
    const struct conv_case *c = arg;
    if (c->transposed)
        return call_transposed(in, c);
    stn_conv_attrs attrs = {.size = sizeof attrs, .groups = c->groups, .same = c->pad[0] < 0};
    for (int d = 0; d < c->dims; d++) {
        attrs.stride[d] = c->stride[d], attrs.padding[d] = attrs.same ? 0 : c->pad[d],
        attrs.dilation[d] = c->dilation[d];
        attrs.mode[d] = (stn_padding_mode)c->mode[d];
    }
    return ops[c->dims - 1](in[0], in[1], c->has_bias ? in[2] : NULL, &attrs);
}

/* The element at a position, -1 for zero: one step at a time towards the input. */
static int64_t element(int64_t at, int64_t n, int mode)
{
    while (at < 0 || at >= n) {
        if (mode == STN_PADDING_ZEROS)
            return -1;
        if (mode == STN_PADDING_REPLICATE)
            at = at < 0 ? 0 : n - 1;
        else if (mode == STN_PADDING_CIRCULAR)
            at += at < 0 ? n : -n;
        else
            at = at < 0 ? -at : 2 * (n - 1) - at;
    }
    return at;
}

/* The pixel of x that tap `tap` of pixel `at` of y reads; -1: none. Transposed, x is the output and y the input. */
static int64_t read_pixel(const struct conv_case *c, int64_t at, int64_t tap)
{
    int64_t pixel = 0, step = 1;
    for (int d = c->dims - 1; d >= 0; d--) {
        int64_t nx = c->transposed ? out_size(c, d) : c->in[d], ny = c->transposed ? c->in[d] : out_size(c, d);
        int64_t e =
            element(at % ny * c->stride[d] - pad_low(c, d) + tap % c->kernel[d] * c->dilation[d], nx, c->mode[d]);
        if (e < 0)
            return -1;
        pixel += e * step;
        step *= nx, at /= ny, tap /= c->kernel[d];
    }
    return pixel;
}

void conv_plain(const struct conv_case *c, double *input, double *weight, double *out, double *sum)
{
    double *x = c->transposed ? out : input, *y = c->transposed ? input : out;
    int64_t cx = c->transposed ? c->o : c->c, cy = c->transposed ? c->c : c->o, cg = cx / c->groups,
            og = cy / c->groups;
    int64_t nx = 1, ny = 1, taps = 1;
    for (int d = 0; d < c->dims; d++) {
        nx *= c->transposed ? out_size(c, d) : c->in[d];
        ny *= c->transposed ? c->in[d] : out_size(c, d);
        taps *= c->kernel[d];
    }
    for (int64_t i = 0; i < images(c) * cy * ny; i++)
        for (int64_t t = 0; t < cg * taps; t++) {
            int64_t o = i / ny % cy, n = i / ny / cy, pixel = read_pixel(c, i % ny, t % taps);
            if (pixel < 0)
                continue;
            double *a = x + (n * cx + o / og * cg + t / taps) * nx + pixel, *b = weight + o * cg * taps + t;
            if (sum == y)
                y[i] += *a * *b;
            else if (sum == x)
                *a += *b * y[i];
            else
                *b += *a * y[i];
        }
}

double *conv_zeros(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

stn_tensor *conv_filled(stn_context *context, const stn_mesh *mesh, stn_placement placement, int ndim,
                        const int64_t *shape, const int64_t *const *sizes)
{
    return test_tensor(context, mesh, &placement, STN_DTYPE_F32, ndim, shape, sizes, test_value);
}

const stn_spec *conv_spec(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                          const struct random_shape *shape, const int64_t *const *sizes)
{
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, dtype, shape->ndim, shape->shape, &options, &spec), STN_OK);
    return spec;
}
