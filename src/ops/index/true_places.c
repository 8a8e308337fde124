/* true_places: where a local mask is true. How many there are was counted before, so that the result has its shape. */
#include "ops/index/true_places.h"

#include "core/shard/spec.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct places_attrs {
    int64_t count;
};

stn_tensor *stni_true_places(stn_tensor *mask, int64_t count)
{
    const struct places_attrs attrs = {count};
    return stni_call(STNI_OP_true_places, 1, &mask, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *mask = &call->in_spec[0]->layout;
    const int64_t count = ((const struct places_attrs *)call->attrs)->count;
    if (mask->dtype != STN_DTYPE_BOOL || mask->ndim != 1 || mask->mesh || count < 0 || count > mask->shape[0])
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'count' got %" PRId64 ", wanted that of a local 'mask' of one dim",
                           count);
    call->out_meta[0] = (stn_meta){STN_DTYPE_I64, 1, {count}};
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    return stni_spec_local(call->context, meta->dtype, meta->ndim, meta->shape, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *mask = call->in[0], *out = call->out[0];
    struct stni_true_places_args args;
    memset(&args, 0, sizeof args);
    args.mask = mask->data;
    args.n = mask->spec->local_shape[0];
    args.stride = mask->strides[0];
    args.places = out->data;
    args.count = out->spec->local_shape[0];
    if (args.count == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, 0, STN_DTYPE_BOOL, &args), &args.work));
    return stn_op_launch(call, 0, STN_DTYPE_BOOL, &args, sizeof args);
}

static const stn_input_schema inputs[] = {{.name = "mask"}};
static const stn_attr_schema schema[] = {{"count", STN_ATTR_INT, offsetof(struct places_attrs, count), NULL}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_true_places_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", 1u << STN_DTYPE_BOOL, struct stni_true_places_args, stni_true_places_cpu, NULL),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_true_places = {
    .size = sizeof(stn_op_desc),
    .name = "true_places",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct places_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
