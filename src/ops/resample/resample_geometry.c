#include "ops/resample/resample_geometry.h"

#include "core/shard/spec.h"
#include "ops/common/check.h"

#include <stddef.h>

const struct stni_interpolate_attrs stni_interpolate_init = {
    .size = {.n = -1}, .scale_factor = {.n = -1}, .align_corners = -1, .input_size = {.n = -1}};

const char *const stni_interpolate_modes[] = {"nearest",   "nearest-exact", "linear", "bilinear",
                                              "trilinear", "bicubic",       "area",   "lanczos", NULL};

static const struct {
    enum stni_resample_mode mode;
    int least, most; /* dims that are resampled */
    enum stni_resample_mode filter; /* by which it is antialiased; 0: not at all */
} modes[] = {
    {STNI_RESAMPLE_NEAREST, 1, 3, 0},
    {STNI_RESAMPLE_NEAREST_EXACT, 1, 3, 0},
    {STNI_RESAMPLE_LINEAR, 1, 1, STNI_RESAMPLE_TRIANGLE},
    {STNI_RESAMPLE_LINEAR, 2, 2, STNI_RESAMPLE_TRIANGLE},
    {STNI_RESAMPLE_LINEAR, 3, 3, STNI_RESAMPLE_TRIANGLE},
    {STNI_RESAMPLE_CUBIC, 2, 2, STNI_RESAMPLE_KEYS},
    {STNI_RESAMPLE_AREA, 1, 3, 0},
    {STNI_RESAMPLE_LANCZOS, 1, 3, STNI_RESAMPLE_LANCZOS},
};

#define ROW(name, type, choices) {#name, STN_ATTR_##type, offsetof(struct stni_interpolate_attrs, name), choices}
const stn_attr_schema stni_interpolate_schema[] = {
    ROW(size, INTS, NULL), ROW(scale_factor, FLOATS, NULL), ROW(mode, CHOICE, stni_interpolate_modes),
    ROW(align_corners, BOOL, NULL), ROW(recompute_scale_factor, BOOL, NULL), ROW(antialias, BOOL, NULL),
};
const stn_attr_schema stni_interpolate_backward_schema[] = {
    ROW(size, INTS, NULL), ROW(scale_factor, FLOATS, NULL), ROW(mode, CHOICE, stni_interpolate_modes),
    ROW(align_corners, BOOL, NULL), ROW(recompute_scale_factor, BOOL, NULL), ROW(antialias, BOOL, NULL),
    ROW(input_size, INTS, NULL),
};

static stn_status check_mode(const stn_op_call *call, const char *name, int dims)
{
    const struct stni_interpolate_attrs *attrs = call->attrs;
    const enum stni_resample_mode filter = modes[attrs->mode].filter;
    const int always = filter && filter == modes[attrs->mode].mode;
    if (dims < 1 || dims > STNI_RESAMPLE_DIMS)
        return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %d dims, wanted a batch, channels and 1 to %d more", name, dims + 2,
                           STNI_RESAMPLE_DIMS);
    if (dims < modes[attrs->mode].least || dims > modes[attrs->mode].most)
        return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %d dims, wanted %d for mode '%s'", name, dims + 2, modes[attrs->mode].least + 2,
                           stni_interpolate_modes[attrs->mode]);
    if (attrs->align_corners >= 0 && !filter)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'align_corners' got a value, wanted none for mode '%s'",
                           stni_interpolate_modes[attrs->mode]);
    if (attrs->antialias ? !filter : always)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'antialias' got %d, wanted %d for mode '%s'",
                           attrs->antialias != 0, always, stni_interpolate_modes[attrs->mode]);
    return STN_OK;
}

/* The result's size along one dim, as the caller gave it. */
static stn_status read_size(const stn_op_call *call, int d, int dims, struct stni_resample_dim *dim)
{
    const struct stni_interpolate_attrs *attrs = call->attrs;
    const stn_ints *size = &attrs->size;
    const stn_floats *factor = &attrs->scale_factor;
    if ((size->n < 0) == (factor->n < 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "got %s, wanted one of 'size' and 'scale_factor'", size->n < 0 ? "neither" : "both");
    int64_t n = size->n < 0 ? factor->n : size->n;
    if (n != 1 && n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %lld numbers, wanted 1 or %d", size->n < 0 ? "scale_factor" : "size",
                           (long long)n, dims);
    if (size->n > 0) {
        dim->n_out = size->v[n == 1 ? 0 : d];
    } else {
        double f = factor->v[n == 1 ? 0 : d], wanted = floor((double)dim->n_in * f);
        if (!(f > 0) || !(wanted < 9e15))
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'scale_factor' got %g, wanted a positive number", f);
        dim->n_out = (int64_t)wanted;
        dim->factor = attrs->recompute_scale_factor || modes[attrs->mode].mode == STNI_RESAMPLE_AREA ? 0 : f;
    }
    return STN_OK;
}

/* Of the adjoint: the cotangent's size is given, and the input's by an attribute. */
static stn_status read_sizes_back(const stn_op_call *call, const int64_t *shape, int dims, struct stni_resample *out)
{
    const struct stni_interpolate_attrs *attrs = call->attrs;
    if (attrs->input_size.n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'input_size' got %lld numbers, wanted %d", (long long)attrs->input_size.n, dims);
    for (int d = 0; d < dims; d++) {
        const stn_floats *factor = &attrs->scale_factor;
        out->dim[d].n_in = attrs->input_size.v[d];
        out->dim[d].n_out = shape[2 + d];
        if (factor->n > 0 && !attrs->recompute_scale_factor && modes[attrs->mode].mode != STNI_RESAMPLE_AREA)
            out->dim[d].factor = factor->v[factor->n == 1 ? 0 : d];
    }
    return STN_OK;
}

stn_status stni_resample_read(const stn_op_call *call, int transposed, struct stni_resample *out)
{
    const struct stni_interpolate_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const char *name = stn_op_descriptor(call->op)->inputs[0].name;
    *out = (struct stni_resample){.dims = in->ndim - 2, .first = 2};
    STNI_TRY(stni_check_floating(call, 0));
    stn_status status = check_mode(call, name, out->dims);
    if (status == STN_OK && transposed)
        status = read_sizes_back(call, in->shape, out->dims, out);
    for (int d = 0; status == STN_OK && d < out->dims; d++) {
        struct stni_resample_dim *dim = &out->dim[d];
        dim->mode = (int32_t)(attrs->antialias ? modes[attrs->mode].filter : modes[attrs->mode].mode);
        dim->align_corners = attrs->align_corners > 0;
        if (!transposed) {
            dim->n_in = in->shape[2 + d];
            status = read_size(call, d, out->dims, dim);
        }
        if (status == STN_OK && (dim->n_in < 1 || dim->n_out < 1))
            status = stn_op_fail(call, STN_ERR_SHAPE, "dim %d got %lld elements in and %lld out, wanted at least 1", 2 + d,
                                 (long long)dim->n_in, (long long)dim->n_out);
    }
    return status;
}
