/* put_keys: merges the indices of index and index_put into one. Pointwise. */
#include "ops/index/put_keys.h"

#include "ops/index/access.h"
#include "ops/common/call.h"
#include "ops/placement/pointwise.h"
#include "ops/table.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

struct keys_attrs {
    stn_ints sizes; /* of the dims that the indices stand for */
    int64_t what;   /* the op that users called, for value errors */
};

static stn_tensor *join(int n, stn_tensor *const *indices, const int64_t *sizes, int what)
{
    struct keys_attrs attrs = {.sizes = {.n = n}, .what = what};
    memcpy(attrs.sizes.v, sizes, (size_t)n * sizeof *sizes);
    return stni_call(STNI_OP_put_keys, n, indices, &attrs);
}

stn_status stni_put_keys(stn_tensor *table, int n, stn_tensor *const *indices, int what, struct stni_put_keys *out)
{
    const int64_t *sizes = stn_tensor_shape(table);
    *out = (struct stni_put_keys){table, indices[0], {1}, stn_tensor_ndim(table) - n + 1};
    for (int d = 0; d < n; d++)
        out->shape[0] *= sizes[d];
    memcpy(out->shape + 1, sizes + n, (size_t)(out->ndim - 1) * sizeof *sizes);
    if (n > 1) {
        out->keys = join(n, indices, sizes, what);
        out->table = stn_reshape(table, out->ndim, out->shape);
    }
    return stn_context_status(table->context);
}

static stn_status check(stn_op_call *call)
{
    const stn_ints *sizes = &((const struct keys_attrs *)call->attrs)->sizes;
    if (sizes->n != call->n_in || call->n_in > STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'sizes' got %d numbers, wanted one for each of %d indices",
                           (int)sizes->n, call->n_in);
    call->out_meta[0].dtype = STN_DTYPE_I64;
    call->reports = 1;
    return stni_pointwise_broadcast(call, call->n_in, &call->out_meta[0]);
}

static stn_status place(stn_op_call *call)
{
    static const uint8_t linear[STNI_POINTWISE_MASKS] = {0};
    return stni_pointwise_place(call, call->n_in, linear);
}

/* Strides over the output's dims: 0 where the operand is repeated. */
static void take_operand(const stn_tensor *in, const stn_spec *out, int64_t size, struct stni_put_keys_operand *o)
{
    int shift = out->layout.ndim - in->spec->layout.ndim;
    o->data = in->data;
    o->dtype = in->spec->layout.dtype;
    o->size = size;
    for (int d = shift; d < out->layout.ndim; d++)
        o->strides[d] = in->spec->layout.shape[d - shift] == out->layout.shape[d] ? in->strides[d - shift] : 0;
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *out = call->out[0];
    const stn_spec *spec = out->spec;
    struct stni_put_keys_args args;
    memset(&args, 0, sizeof args);
    if (spec->local_numel == 0)
        return STN_OK;
    args.n = call->n_in;
    args.ndim = spec->layout.ndim;
    memcpy(args.shape, spec->local_shape, sizeof args.shape);
    memcpy(args.offset, spec->local_offset, sizeof args.offset);
    memcpy(args.strides, out->strides, sizeof args.strides);
    args.keys = out->data;
    args.op = (int)((const struct keys_attrs *)call->attrs)->what;
    for (int i = 0; i < call->n_in; i++)
        take_operand(call->in[i], spec, ((const struct keys_attrs *)call->attrs)->sizes.v[i], &args.operand[i]);
    return stn_op_launch(call, 0, STN_DTYPE_I64, &args, sizeof args);
}

static const stn_input_schema inputs[] = {{.name = "indices", .variadic = 1}};
static const stn_attr_schema schema[] = {{"sizes", STN_ATTR_INTS, offsetof(struct keys_attrs, sizes), NULL}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_put_keys_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", 1u << STN_DTYPE_I64, struct stni_put_keys_args, stni_put_keys_cpu, NULL),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_put_keys = {
    .size = sizeof(stn_op_desc),
    .name = "put_keys",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct keys_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
