/* interpolate: resampling of the dims behind batch and channels, and its adjoint, which is an op of its own: each the
 * other's derivative.
 *
 * Any dim may be sharded: a rank whose targets read other ranks' elements gets these as a halo. */
#include "core/base/clamp.h"
#include "core/context/context.h"
#include "ops/resample/resample_geometry.h"
#include "ops/resample/resample_solve.h"
#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

/* Which choice of mode is meant for 1, 2 or 3 dims. */
static const int choices[][STNI_RESAMPLE_DIMS] = {
    [STN_INTERPOLATE_NEAREST] = {0, 0, 0}, [STN_INTERPOLATE_NEAREST_EXACT] = {1, 1, 1},
    [STN_INTERPOLATE_LINEAR] = {2, 3, 4},  [STN_INTERPOLATE_CUBIC] = {5, 5, 5},
    [STN_INTERPOLATE_AREA] = {6, 6, 6},    [STN_INTERPOLATE_LANCZOS] = {7, 7, 7},
};

stn_tensor *stn_interpolate(stn_tensor *input, const stn_interpolate_attrs *given)
{
    struct stni_interpolate_attrs attrs = stni_interpolate_init;
    if (stn_tensor_is_error(input))
        return stni_call(STNI_OP_interpolate, 1, &input, &attrs);
    int dims = stn_tensor_ndim(input) - 2;
    if (!given || given->size != sizeof *given)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "interpolate: attrs.size got %zu, wanted %zu",
                              given ? given->size : 0, sizeof *given);
    if ((unsigned)given->mode > STN_INTERPOLATE_LANCZOS)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "interpolate: attrs.mode got %d, wanted an stn_interpolate_mode",
                              (int)given->mode);
    attrs.mode = choices[given->mode][stni_clamp(dims, 1, STNI_RESAMPLE_DIMS) - 1];
    attrs.align_corners = given->align_corners ? 1 : -1;
    attrs.antialias = given->antialias != 0;
    for (int d = 0; d < dims; d++) {
        if (given->output_size[0] != 0)
            attrs.size.n = dims, attrs.size.v[d] = given->output_size[d];
        if (given->scale_factor[0] != 0)
            attrs.scale_factor.n = dims, attrs.scale_factor.v[d] = given->scale_factor[d];
    }
    return stni_call(STNI_OP_interpolate, 1, &input, &attrs);
}

static int is_adjoint(const stn_op_call *call)
{
    return call->arg != NULL;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_resample geometry;
    STNI_TRY(stni_resample_read(call, is_adjoint(call), &geometry));
    call->out_meta[0] = stni_meta_of(in);
    for (int d = 0; d < geometry.dims; d++)
        call->out_meta[0].shape[2 + d] = is_adjoint(call) ? geometry.dim[d].n_in : geometry.dim[d].n_out;
    return STN_OK;
}

/* The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_resample geometry;
    int exchanges;
    STNI_TRY(stni_resample_read(call, is_adjoint(call), &geometry));
    STNI_TRY(stni_resample_place(call, &geometry, is_adjoint(call), &exchanges));
    call->note = (uint64_t)exchanges;
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    struct stni_resample geometry;
    STNI_TRY(stni_resample_read(call, is_adjoint(call), &geometry));
    return stni_resample_solve(call, &geometry, is_adjoint(call), call->in[0], call->out[0], (int)call->note);
}

static stn_status backward(stn_backward_call *call)
{
    struct stni_interpolate_attrs attrs = *(const struct stni_interpolate_attrs *)call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int adjoint = call->arg != NULL;
    attrs.input_size = adjoint ? stni_interpolate_init.input_size : (stn_ints){.n = in->ndim - 2};
    for (int d = 2; d < in->ndim && !adjoint; d++)
        attrs.input_size.v[d - 2] = in->shape[d];
    /* By a factor alone the size of the result would be found again; it is given where it was. */
    if (adjoint && attrs.scale_factor.n < 0) {
        attrs.size.n = in->ndim - 2;
        for (int d = 2; d < in->ndim; d++)
            attrs.size.v[d - 2] = in->shape[d];
    }
    call->grad_in[0] =
        stni_call(adjoint ? STNI_OP_interpolate : STNI_OP_interpolate_backward, 1, &call->grad_out[0], &attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_input_schema adjoint_inputs[] = {{.name = "grad"}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_resample_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_RESAMPLE_DTYPES, struct stni_resample_args, stni_resample,
                  stni_resample_workspace)};
static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .backward = backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_interpolate = {
    .size = sizeof(stn_op_desc),
    .name = "interpolate",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_interpolate_schema, struct stni_interpolate_attrs),
    .attrs_init = &stni_interpolate_init,
    .n_outputs = 1,
    .impl = &impl,
};

const stn_op_desc stni_op_interpolate_backward = {
    .size = sizeof(stn_op_desc),
    .name = "interpolate_backward",
    STN_INPUTS(adjoint_inputs),
    STN_ATTRS(stni_interpolate_backward_schema, struct stni_interpolate_attrs),
    .attrs_init = &stni_interpolate_init,
    .n_outputs = 1,
    .impl = &impl,
    .arg = (void *)&stni_interpolate_init,
    .flags = STN_OP_INTERNAL,
};
