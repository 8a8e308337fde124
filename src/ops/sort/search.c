/* order_search: how many elements of a sequence in order come before each value. A rank that has a part of the
 * sequence counts those of its part: so where the sequence is sharded, counts are a pending sum, and values that are
 * sharded stay where they are. */
#include "ops/sort/sort_family.h"

#include "core/base/dtype.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"
#include "ops/placement/unshard.h"

#include <stddef.h>
#include <string.h>

enum { SEQUENCE, VALUES };
static const struct stni_layout *layout_of(const stn_op_call *call, int i)
{
    return &call->in_spec[i]->layout;
}

/* Dims that the sequence and the values share: all of the sequence's but the last. */
static int shared_dims(const stn_op_call *call)
{
    return layout_of(call, SEQUENCE)->ndim - 1;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_sort_search_attrs *attrs = call->attrs;
    const struct stni_layout *sequence = layout_of(call, SEQUENCE),
                             *values = call->in_spec[VALUES] ? layout_of(call, VALUES) : NULL;
    stn_meta *meta = &call->out_meta[0];
    if (sequence->ndim == 0 || (values && values->dtype != sequence->dtype) ||
        !((unsigned)STNI_SORT_DTYPES >> sequence->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE,
                           "'sequence' got %s of %d dims, wanted an ordered dtype, the values', and a dim",
                           stn_dtype_name(sequence->dtype), sequence->ndim);
    for (int d = 0; d < sequence->ndim - 1; d++)
        if (!values || values->ndim != sequence->ndim || values->shape[d] != sequence->shape[d])
            return stn_op_fail(call, STN_ERR_SHAPE, "'values' differ from 'sequence' in dim %d", d);
    meta->dtype = attrs->out_int32 ? STN_DTYPE_I32 : STN_DTYPE_I64;
    meta->ndim = values ? values->ndim : 0;
    if (values)
        memcpy(meta->shape, values->shape, sizeof meta->shape);
    return STN_OK;
}

static int cuts(stn_placement p)
{
    return p.kind == STN_PLACE_SHARD;
}

/* One axis: what it does to the result. Where it cuts both, the smaller operand is gathered. */
static stn_placement place_axis(const stn_op_call *call, int axis)
{
    const int last = shared_dims(call);
    stn_placement s = layout_of(call, SEQUENCE)->placement[axis], v = stn_replicate();
    if (call->in_spec[VALUES])
        v = layout_of(call, VALUES)->placement[axis];
    if (!cuts(s))
        return cuts(v) ? v : stn_replicate();
    if (s.dim < last)
        return s;
    return cuts(v) && call->in_spec[VALUES]->numel >= call->in_spec[SEQUENCE]->numel ? v : stn_partial(STN_SUM);
}

static stn_status want(const stn_op_call *call, int i, const struct stni_layout *out)
{
    struct stni_layout in = *layout_of(call, i);
    const int last = shared_dims(call), dims = i == VALUES ? in.ndim : last;
    memset(in.split, 0, sizeof in.split);
    for (int a = 0; in.mesh && a < in.mesh->ndim; a++) {
        stn_placement p = out->placement[a];
        if (i == SEQUENCE && p.kind == STN_PLACE_PARTIAL)
            in.placement[a] = stn_shard(last);
        else
            in.placement[a] = cuts(p) && p.dim < dims ? p : stn_replicate();
    }
    if (in.mesh)
        stni_splits_take(&in, 0, out, 0, dims);
    if (in.mesh && i == SEQUENCE)
        stni_splits_take(&in, last, layout_of(call, i), last, 1);
    return stni_spec_intern(call->context, &in, &call->want[i]);
}

static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    const struct stni_layout *sequence = layout_of(call, SEQUENCE);
    struct stni_layout out;
    stni_layout_init(&out, sequence->mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; out.mesh && a < out.mesh->ndim; a++)
        out.placement[a] = place_axis(call, a);
    if (out.mesh && call->in_spec[VALUES])
        stni_splits_take(&out, 0, layout_of(call, VALUES), 0, out.ndim);
    if (out.mesh)
        stni_splits_take(&out, 0, sequence, 0, shared_dims(call));
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    if (call->in_spec[VALUES])
        STNI_TRY(want(call, VALUES, &call->out_spec[0]->layout));
    return want(call, SEQUENCE, &call->out_spec[0]->layout);
}

/* A number as an element's bits. */
static uint64_t number_bits(stn_dtype dtype, const stn_number *number)
{
    const float f = (float)number->f;
    uint64_t bits = 0;
    if (dtype == STN_DTYPE_F64)
        memcpy(&bits, &number->f, sizeof number->f);
    else if (dtype == STN_DTYPE_F32)
        memcpy(&bits, &f, sizeof f);
    else if (dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16)
        bits = dtype == STN_DTYPE_BF16 ? stni_f32_to_bf16(f) : stni_f32_to_f16(f);
    else
        bits = (uint64_t)number->i;
    return bits;
}

/* Small elements begin at the lowest byte of `bits` only where that comes first. */
static uint64_t as_stored(stn_dtype dtype, uint64_t bits)
{
    uint64_t stored = 0;
    if (dtype == STN_DTYPE_I32) {
        const int32_t v = (int32_t)bits;
        memcpy(&stored, &v, sizeof v);
    } else if (stn_dtype_size(dtype) == 2) {
        const uint16_t v = (uint16_t)bits;
        memcpy(&stored, &v, sizeof v);
    } else if (stn_dtype_size(dtype) == 1) {
        memcpy(&stored, &(unsigned char){(unsigned char)bits}, 1);
    } else {
        stored = bits;
    }
    return stored;
}

/* Lines are the dims shared; the others of the values lie along them. */
static void make_lines(const stn_op_call *call, struct stni_sort_lines *lines)
{
    const stn_tensor *sequence = call->in[SEQUENCE], *values = call->in[VALUES], *out = call->out[0];
    const int shared = shared_dims(call);
    lines->n = 1;
    for (int d = 0; d < out->spec->layout.ndim; d++) {
        int i = d < shared ? lines->ndim++ : lines->n_along++;
        if (d < shared) {
            lines->shape[i] = out->spec->local_shape[d];
            lines->strides[ORDER_IN][i] = sequence->strides[d];
            lines->strides[ORDER_VALUES][i] = values->strides[d];
            lines->strides[ORDER_INDICES][i] = out->strides[d];
        } else {
            lines->along[i] = out->spec->local_shape[d];
            lines->along_in[i] = values->strides[d];
            lines->along_index[i] = out->strides[d];
            lines->n *= lines->along[i];
        }
    }
    if (lines->n_along == 0)
        lines->along[lines->n_along++] = 1;
}

static stn_status run(stn_op_call *call)
{
    const struct stni_sort_search_attrs *attrs = call->attrs;
    const stn_tensor *sequence = call->in[SEQUENCE], *values = call->in[VALUES], *out = call->out[0];
    const stn_dtype dtype = sequence->spec->layout.dtype;
    const int last = shared_dims(call);
    struct stni_sort_search_args args = {.order = {.dtype = dtype},
                                         .n = sequence->spec->local_shape[last],
                                         .step = sequence->strides[last],
                                         .right = attrs->right != 0,
                                         .out_dtype = out->spec->layout.dtype,
                                         .sequence = sequence->data,
                                         .values = values ? values->data : NULL,
                                         .out = out->data};
    if (out->spec->local_numel == 0)
        return STN_OK;
    args.bits = values ? 0 : as_stored(dtype, number_bits(dtype, &attrs->value));
    make_lines(call, &args.lines);
    const size_t bytes = stn_op_workspace(call, 0, dtype, &args);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &args.work));
    return stn_op_launch(call, 0, dtype, &args, sizeof args);
}

static const stn_input_schema inputs[] = {
    [SEQUENCE] = {.name = "sequence"}, [VALUES] = {.name = "values", .optional = 1}};
static const stn_attr_schema attrs_schema[] = {
    {"value", STN_ATTR_NUMBER, offsetof(struct stni_sort_search_attrs, value), NULL},
    {"right", STN_ATTR_BOOL, offsetof(struct stni_sort_search_attrs, right), NULL},
    {"out_int32", STN_ATTR_BOOL, offsetof(struct stni_sort_search_attrs, out_int32), NULL},
};

static const stn_kernel_slot slots[] = {{"search", sizeof(struct stni_sort_search_args)}};
static const stn_kernel kernels[] = {STNI_CPU_ROW("search", STNI_SORT_DTYPES, struct stni_sort_search_args,
                                                  stni_sort_search_cpu, stni_sort_search_workspace)};
static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_order_search = {
    .size = sizeof(stn_op_desc),
    .name = "order_search",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_sort_search_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
