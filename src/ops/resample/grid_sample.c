/* grid_sample: an input read at the points of a grid, between its elements. And its backward, which gives both
 * gradients at once and is not differentiated again. sample.h tells how their tensors lie. */
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/resample/sample.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <string.h>

stn_tensor *stn_grid_sample(stn_tensor *input, stn_tensor *grid, stn_sample_mode mode, stn_sample_padding padding,
                            int align_corners)
{
    struct stni_sample_attrs attrs = {(int64_t)mode, (int64_t)padding, align_corners != 0, 0};
    if ((unsigned)mode > STN_SAMPLE_BICUBIC)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "grid_sample: 'mode' got %d, wanted an stn_sample_mode",
                              (int)mode);
    if ((unsigned)padding > STN_SAMPLE_REFLECTION)
        return stni_call_fail(input, STN_ERR_ARGUMENT,
                              "grid_sample: 'padding_mode' got %d, wanted an stn_sample_padding", (int)padding);
    return stni_call(STNI_OP_grid_sample, 2, (stn_tensor *[]){input, grid}, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[STNI_SAMPLE_INPUT]->layout;
    call->out_meta[0] = (stn_meta){.dtype = input->dtype, .ndim = input->ndim};
    return stni_sample_check(call, STNI_SAMPLE_DTYPES, call->out_meta[0].shape);
}

static stn_status place(stn_op_call *call)
{
    struct stni_sample_layouts layouts;
    STNI_TRY(stni_sample_place(call, call->out_meta[0].shape, &layouts));
    STNI_TRY(stni_spec_intern(call->context, &layouts.input, &call->want[STNI_SAMPLE_INPUT]));
    STNI_TRY(stni_spec_intern(call->context, &layouts.grid, &call->want[STNI_SAMPLE_GRID]));
    return stni_spec_intern(call->context, &layouts.output, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    struct stni_sample_args a;
    stni_sample_fill(call, call->out[0], &a);
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, 0, a.dtype, &a), &a.work));
    return stn_op_launch(call, 0, a.dtype, &a, sizeof a);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << STNI_SAMPLE_INPUT | 1u << STNI_SAMPLE_GRID : 0;
}

/* Sums of 16-bit elements are taken in f32. */
static stn_status backward(stn_backward_call *call)
{
    struct stni_sample_attrs attrs = *(const struct stni_sample_attrs *)call->attrs;
    stn_tensor *in[] = {call->in[STNI_SAMPLE_INPUT], call->in[STNI_SAMPLE_GRID], call->grad_out[0]},
               *out[2] = {NULL, NULL};
    stn_dtype dtype = call->in_spec[0]->layout.dtype;
    int half = dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16;
    attrs.wanted = call->needs;
    for (int i = 0; i < STNI_SAMPLE_OPERANDS && half; i++)
        in[i] = stn_cast(in[i], STN_DTYPE_F32);
    STNI_TRY(stni_dispatch(call->context->registry->ops[STNI_OP_grid_sample_backward], STNI_SAMPLE_OPERANDS, in, &attrs,
                           2, out));
    for (int i = 0; i < 2; i++)
        if (call->needs >> i & 1)
            call->grad_in[i] = half ? stn_cast(out[i], dtype) : out[i];
    return stn_context_status(call->context);
}

/* grid_sample_backward */

static stn_status backward_check(stn_op_call *call)
{
    const struct stni_layout *grad = &call->in_spec[STNI_SAMPLE_GRAD]->layout;
    const int ndim = call->in_spec[0]->layout.ndim;
    int64_t shape[STN_MAX_NDIM] = {0};
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    STNI_TRY(stni_sample_check(call, STNI_SAMPLE_GRAD_DTYPES, shape));
    if (grad->ndim != ndim || memcmp(grad->shape, shape, (size_t)grad->ndim * sizeof *shape) != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got shape %s, wanted the output's %s",
                           stni_shape_text(grad->ndim, grad->shape, got), stni_shape_text(ndim, shape, wanted));
    for (int i = 0; i < 2; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        call->out_meta[i] = stni_meta_of(in);
    }
    return STN_OK;
}

static stn_status backward_place(stn_op_call *call)
{
    struct stni_sample_layouts layouts;
    STNI_TRY(stni_sample_place(call, call->in_spec[STNI_SAMPLE_GRAD]->layout.shape, &layouts));
    STNI_TRY(stni_spec_intern(call->context, &layouts.input, &call->want[STNI_SAMPLE_INPUT]));
    STNI_TRY(stni_spec_intern(call->context, &layouts.grid, &call->want[STNI_SAMPLE_GRID]));
    STNI_TRY(stni_spec_intern(call->context, &layouts.output, &call->want[STNI_SAMPLE_GRAD]));
    STNI_TRY(stni_spec_intern(call->context, &layouts.grad_input, &call->out_spec[STNI_SAMPLE_INPUT]));
    return stni_spec_intern(call->context, &layouts.grad_grid, &call->out_spec[STNI_SAMPLE_GRID]);
}

static stn_status backward_run(stn_op_call *call)
{
    const struct stni_sample_attrs *attrs = call->attrs;
    const stn_tensor *input = call->out[STNI_SAMPLE_INPUT], *grid = call->out[STNI_SAMPLE_GRID];
    struct stni_sample_args a;
    stni_sample_fill(call, call->in[STNI_SAMPLE_GRAD], &a);
    if (attrs->wanted & 1) {
        a.grad_input = stni_sample_field(input, 1);
        a.grad_input_bytes = (size_t)input->spec->local_numel * stn_dtype_size(a.dtype);
    }
    if (attrs->wanted & 2)
        a.grad_grid = stni_sample_field(grid, grid->spec->layout.ndim - 1);
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, 0, a.dtype, &a), &a.work));
    return stn_op_launch(call, 0, a.dtype, &a, sizeof a);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "grid"}};
static const stn_input_schema backward_inputs[] = {{.name = "input"}, {.name = "grid"}, {.name = "grad"}};
static const struct stni_sample_attrs init = {.wanted = 3};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_sample_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_SAMPLE_DTYPES, struct stni_sample_args, stni_sample, NULL)};
static const stn_kernel_slot backward_slots[] = {{"forward", sizeof(struct stni_sample_args)}};
static const stn_kernel backward_kernels[] = {
    STNI_ISA_ROWS("forward", STNI_SAMPLE_GRAD_DTYPES, struct stni_sample_args, stni_sample_grad, NULL),
};

static const stn_op_impl grid_sample_impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_grid_sample = {
    .size = sizeof(stn_op_desc),
    .name = "grid_sample",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_sample_schema, struct stni_sample_attrs),
    .attrs_init = &init,
    .n_outputs = 1,
    .flags = STN_OP_FIRST_ORDER,
    .impl = &grid_sample_impl,
};

static const stn_op_impl grid_sample_backward_impl = {
    .check = backward_check, .place = backward_place, .run = backward_run, STN_SLOTS(backward_slots),
    STN_KERNELS(backward_kernels),
};

const stn_op_desc stni_op_grid_sample_backward = {
    .size = sizeof(stn_op_desc),
    .name = "grid_sample_backward",
    STN_INPUTS(backward_inputs),
    STN_ATTRS(stni_sample_backward_schema, struct stni_sample_attrs),
    .attrs_init = &init,
    .n_outputs = 2,
    .flags = STN_OP_INTERNAL,
    .impl = &grid_sample_backward_impl,
};
