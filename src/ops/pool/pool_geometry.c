#include "core/base/dtype.h"
#include "core/shard/spec.h"
#include "ops/pool/pool.h"
#include "ops/common/call.h"

#include <inttypes.h>
#include <string.h>

const struct stni_pool_attrs stni_pool_attrs_init = {.kernel_size = {.n = -1},
                                                     .stride = {.n = -1},
                                                     .padding = {.n = -1},
                                                     .dilation = {.n = -1},
                                                     .output_size = {.n = -1},
                                                     .input_size = {.n = -1},
                                                     .count_include_pad = 1,
                                                     .divisor_override = INT64_MIN};

const struct stni_pool_kind stni_pool_windows[] = {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}},
                             stni_pool_adaptive[] = {{1, 1, 0}, {2, 1, 0}, {3, 1, 0}};
const struct stni_pool_kind stni_pool_any = {0}, stni_pool_adjoint = {.adjoint = 1};

const stn_attr_schema stni_pool_adjoint_schema[] = {
    STNI_POOL_ATTR(kernel_size, INTS), STNI_POOL_ATTR(stride, INTS), STNI_POOL_ATTR(padding, INTS),
    STNI_POOL_ATTR(dilation, INTS), STNI_POOL_ATTR(output_size, INTS), STNI_POOL_ATTR(input_size, INTS),
    STNI_POOL_ATTR(dims, INT), STNI_POOL_ATTR(adaptive, BOOL), STNI_POOL_ATTR(ceil_mode, BOOL),
    STNI_POOL_ATTR(count_include_pad, BOOL), STNI_POOL_ATTR(divisor_override, INT),
};

/* Numbers beyond this are no window's: what is computed from two of them fits 64 bits. */
enum { MOST = INT32_MAX };

/* One number for each dim: `fallback` where the list is absent or empty. */
static stn_status read_list(const stn_op_call *call, const char *name, const stn_ints *list, int dims, int64_t least,
                            const int64_t *fallback, int64_t *out)
{
    if (list->n <= 0 && fallback == NULL)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got none, wanted 1 or %d numbers", name, dims);
    if (list->n > 1 && list->n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 " numbers, wanted 1 or %d", name, list->n, dims);
    for (int d = 0; d < dims; d++) {
        out[d] = list->n <= 0 ? fallback[d] : list->v[list->n == 1 ? 0 : d];
        if (out[d] < least || out[d] > MOST)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 ", wanted %" PRId64 " to %d", name, out[d],
                               least, MOST);
    }
    return STN_OK;
}

/* How many windows there are. With ceil_mode one more may reach beyond the end, but each begins inside or in the pad
 * before. */
static int64_t count_windows(const struct stni_resample_dim *dim, int ceil_mode)
{
    int64_t space = dim->n_in + 2 * dim->pad - (dim->kernel - 1) * dim->dilation - 1;
    int64_t n = stni_floor_div(space + (ceil_mode ? dim->stride - 1 : 0), dim->stride) + 1;
    return ceil_mode && (n - 1) * dim->stride >= dim->n_in + dim->pad ? n - 1 : n;
}

static stn_status read_windows(const stn_op_call *call, const struct stni_pool_attrs *attrs, int dims,
                               struct stni_resample_dim *out)
{
    static const int64_t ones[] = {1, 1, 1}, zeros[STNI_POOL_DIMS];
    int64_t kernel[STNI_POOL_DIMS], stride[STNI_POOL_DIMS], pad[STNI_POOL_DIMS], dilation[STNI_POOL_DIMS];
    STNI_TRY(read_list(call, "kernel_size", &attrs->kernel_size, dims, 1, NULL, kernel));
    STNI_TRY(read_list(call, "stride", &attrs->stride, dims, 1, kernel, stride));
    STNI_TRY(read_list(call, "padding", &attrs->padding, dims, 0, zeros, pad));
    STNI_TRY(read_list(call, "dilation", &attrs->dilation, dims, 1, ones, dilation));
    if (attrs->divisor_override == 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'divisor_override' got 0, wanted another number");
    for (int d = 0; d < dims; d++) {
        struct stni_resample_dim *dim = &out[d];
        int64_t extent = (kernel[d] - 1) * dilation[d] + 1;
        *dim = (struct stni_resample_dim){.n_in = dim->n_in,
                                          .mode = STNI_RESAMPLE_WINDOW,
                                          .kernel = kernel[d],
                                          .stride = stride[d],
                                          .dilation = dilation[d],
                                          .pad = pad[d],
                                          .counts_pads = attrs->count_include_pad};
        if (pad[d] > extent / 2)
            return stn_op_fail(call, STN_ERR_ARGUMENT,
                               "'padding' got %" PRId64 ", wanted at most half of the window's extent, %" PRId64,
                               pad[d], extent / 2);
        dim->n_out = count_windows(dim, attrs->ceil_mode != 0);
        if (attrs->divisor_override != INT64_MIN)
            dim->weight = d == 0 ? 1 / (double)attrs->divisor_override : 1;
        if (dim->n_out < 1)
            return stn_op_fail(call, STN_ERR_SHAPE,
                               "a window of %" PRId64 " does not fit into %" PRId64 " elements with pads of %" PRId64,
                               extent, dim->n_in, pad[d]);
    }
    return STN_OK;
}

/* Output o covers inputs floor(o n / m) to ceil((o + 1) n / m): the cells of an area resampling. */
static stn_status read_sizes(const stn_op_call *call, const struct stni_pool_attrs *attrs, int dims,
                             struct stni_resample_dim *out)
{
    int64_t size[STNI_POOL_DIMS];
    STNI_TRY(read_list(call, "output_size", &attrs->output_size, dims, -1, NULL, size));
    for (int d = 0; d < dims; d++)
        out[d] = (struct stni_resample_dim){.n_in = out[d].n_in,
                                            .n_out = size[d] < 0 ? out[d].n_in : size[d],
                                            .mode = STNI_RESAMPLE_AREA,
                                            .dilation = 1};
    return STN_OK;
}

static stn_status read_input(const stn_op_call *call, int dims, int adjoint, struct stni_pooling *out)
{
    const struct stni_pool_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const char *name = stn_op_descriptor(call->op)->inputs[0].name;
    if (dims < 1 || dims > STNI_POOL_DIMS)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dims' got %d, wanted 1 to %d", dims, STNI_POOL_DIMS);
    if (in->ndim != dims + 1 && in->ndim != dims + 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %d dims, wanted %d or %d", name, in->ndim, dims + 1,
                           dims + 2);
    if (adjoint && attrs->input_size.n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'input_size' got %" PRId64 " numbers, wanted %d",
                           attrs->input_size.n, dims);
    out->ndim = in->ndim;
    out->geometry.dims = dims;
    out->geometry.first = in->ndim - dims;
    memcpy(out->in, in->shape, sizeof out->in);
    for (int d = 0; d < dims; d++) {
        int64_t n = adjoint ? attrs->input_size.v[d] : in->shape[out->geometry.first + d];
        if (n < 1)
            return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %" PRId64 " elements along dim %d, wanted at least 1",
                               adjoint ? "input_size" : name, n, out->geometry.first + d);
        out->in[out->geometry.first + d] = out->geometry.dim[d].n_in = n;
    }
    memcpy(out->out, out->in, sizeof out->out);
    return STN_OK;
}

stn_status stni_pool_read(const stn_op_call *call, struct stni_pooling *out)
{
    const struct stni_pool_attrs *attrs = call->attrs;
    const struct stni_pool_kind *kind = call->arg;
    int given = attrs->dims < 0 || attrs->dims > STNI_POOL_DIMS ? 0 : (int)attrs->dims;
    int dims = kind->dims > 0 ? kind->dims : given, adaptive = kind->dims > 0 ? kind->adaptive : attrs->adaptive != 0;
    memset(out, 0, sizeof *out);
    STNI_TRY(read_input(call, dims, kind->adjoint, out));
    if (adaptive)
        STNI_TRY(read_sizes(call, attrs, dims, out->geometry.dim));
    else
        STNI_TRY(read_windows(call, attrs, dims, out->geometry.dim));
    for (int d = 0; d < dims; d++) {
        int64_t n = out->geometry.dim[d].n_out, got = call->in_spec[0]->layout.shape[out->geometry.first + d];
        if (kind->adjoint && n != got)
            return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got %" PRId64 " elements along dim %d, wanted %" PRId64,
                               got, out->geometry.first + d, n);
        out->out[out->geometry.first + d] = n;
    }
    return STN_OK;
}

struct stni_pool_attrs stni_pool_attrs_of(const void *attrs, const struct stni_pool_kind *kind,
                                          const struct stni_layout *in)
{
    struct stni_pool_attrs out = *(const struct stni_pool_attrs *)attrs;
    if (kind->dims > 0)
        out.dims = kind->dims, out.adaptive = kind->adaptive;
    out.input_size = (stn_ints){.n = out.dims};
    for (int64_t d = 0; d < out.dims && out.dims <= in->ndim; d++)
        out.input_size.v[d] = in->shape[in->ndim - out.dims + d];
    return out;
}

stn_tensor *stni_pool_given(const char *name, stn_tensor *input, int dims, const stn_pool_attrs *given,
                            struct stni_pool_attrs *out)
{
    *out = stni_pool_attrs_init;
    if (!given || given->size != sizeof *given)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: attrs.size got %zu, wanted %zu", name,
                              given ? given->size : 0, sizeof *given);
    out->kernel_size.n = out->stride.n = out->padding.n = out->dilation.n = dims;
    for (int d = 0; d < dims; d++) {
        out->kernel_size.v[d] = given->kernel_size[d];
        out->stride.v[d] = given->stride[d] == 0 ? given->kernel_size[d] : given->stride[d];
        out->padding.v[d] = given->padding[d];
        out->dilation.v[d] = given->dilation[d] == 0 ? 1 : given->dilation[d];
    }
    out->ceil_mode = given->ceil_mode != 0;
    out->count_include_pad = !given->exclude_pads;
    if (given->divisor_override != 0)
        out->divisor_override = given->divisor_override;
    return NULL;
}

struct stni_pool_attrs stni_pool_given_size(int dims, const int64_t *output_size)
{
    struct stni_pool_attrs out = stni_pool_attrs_init;
    out.output_size.n = output_size != NULL ? dims : -1;
    for (int d = 0; d < dims && output_size != NULL; d++)
        out.output_size.v[d] = output_size[d];
    return out;
}
