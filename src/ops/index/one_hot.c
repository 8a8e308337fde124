/* one_hot: zeros, and a one in the place along a new last dim that an index names. */
#include "ops/index/access.h"
#include "ops/index/arguments.h"

#include "core/shard/spec.h"
#include "ops/common/call.h"
#include "ops/exchange/remap_kernel.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct one_hot_attrs {
    int64_t num_classes;
};

enum { FILL, WRITE };

stn_tensor *stn_one_hot(stn_tensor *input, int64_t num_classes)
{
    const struct one_hot_attrs attrs = {num_classes};
    return stni_call(STNI_OP_one_hot, 1, &input, &attrs);
}

static stn_status check_input(const stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    if (!(STNI_INDEX_DTYPES >> in->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted i64 or i32", stn_dtype_name(in->dtype));
    if (in->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", in->ndim, STN_MAX_NDIM - 1);
    return STN_OK;
}

/* One more than the largest index. */
static stn_status count_classes(const stn_op_call *call, int64_t *out)
{
    if (call->in_spec[0]->numel == 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'num_classes' got -1 for an 'input' without elements, wanted their number");
    *out = 0;
    STNI_TRY(stni_index_read_number(stn_max(call->in[0]), out));
    if (*out < INT64_MAX)               /* of which no tensor has a size, as specs say */
        *out = *out < 0 ? 1 : *out + 1; /* what is below 0 is reported as it is written */
    return STN_OK;
}

static stn_status one_hot(stn_op_call *call)
{
    struct one_hot_attrs attrs = *(const struct one_hot_attrs *)call->attrs;
    STNI_TRY(check_input(call));
    if (attrs.num_classes == -1)
        STNI_TRY(count_classes(call, &attrs.num_classes));
    if (attrs.num_classes < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'num_classes' got %" PRId64 ", wanted at least 1, or -1",
                           attrs.num_classes);
    call->out[0] = stni_call(STNI_OP_one_hot_of, 1, call->in, &attrs);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema schema[] = {
    {"num_classes", STN_ATTR_INT, offsetof(struct one_hot_attrs, num_classes), NULL}};
static const struct one_hot_attrs attrs_init = {-1};

const stn_op_desc stni_op_one_hot = {
    .size = sizeof(stn_op_desc),
    .name = "one_hot",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct one_hot_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = one_hot},
};

/* one_hot_of: of so many classes. */

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    STNI_TRY(check_input(call));
    call->reports = 1;
    meta->dtype = STN_DTYPE_I64;
    meta->ndim = in->ndim + 1;
    memcpy(meta->shape, in->shape, sizeof meta->shape);
    meta->shape[in->ndim] = ((const struct one_hot_attrs *)call->attrs)->num_classes;
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout in = call->in_spec[0]->layout, out;
    const stn_meta *meta = &call->out_meta[0];
    stni_layout_reduce(&in, 0);
    stni_layout_init(&out, in.mesh, meta->dtype, meta->ndim, meta->shape);
    memcpy(out.placement, in.placement, sizeof out.placement);
    memcpy(out.axis_order, in.axis_order, sizeof out.axis_order);
    memcpy(out.split, in.split, (size_t)in.ndim * sizeof *out.split);
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* The write of the number 1, at the index's own positions. */
static void make_write(const stn_op_call *call, struct stni_access_write_args *args)
{
    const stn_tensor *in = call->in[0], *out = call->out[0];
    struct stni_access *a = &args->at;
    memset(args, 0, sizeof *args);
    a->ndim = in->spec->layout.ndim;
    for (int d = 0; d < a->ndim; d++) {
        a->shape[d] = in->spec->local_shape[d];
        a->index_strides[d] = in->strides[d];
        a->table_strides[d] = out->strides[d];
        a->report.offset[d] = in->spec->local_offset[d];
    }
    a->index = in->data;
    a->index_dtype = in->spec->layout.dtype;
    a->table = out->data;
    a->n_keys = 1;
    a->key_shape[0] = a->n = out->spec->layout.shape[a->ndim];
    a->key_strides[0] = out->strides[a->ndim];
    a->report.on = 1;
    a->report.op = STNI_OP_one_hot;
    args->mode = STNI_ACCESS_SET;
    args->dtype = STN_DTYPE_I64;
    args->value = (stn_number){STN_NUMBER_INT, 1, 1};
}

static stn_status run(stn_op_call *call)
{
    struct stni_remap_fill_args fill;
    struct stni_access_write_args write;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    memset(&fill, 0, sizeof fill);
    stni_tensor_box(call->out[0], &fill.box);
    fill.element_size = sizeof(int64_t);
    STNI_TRY(stn_op_launch(call, FILL, STN_DTYPE_I64, &fill, sizeof fill));
    make_write(call, &write);
    return stn_op_launch(call, WRITE, STN_DTYPE_I64, &write, sizeof write);
}

static const stn_kernel_slot slots[] = {
    [FILL] = {"fill", sizeof(struct stni_remap_fill_args)},
    [WRITE] = {"write", sizeof(struct stni_access_write_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("fill", 1u << STN_DTYPE_I64, struct stni_remap_fill_args, stni_remap_fill_cpu, NULL),
    STNI_ISA_ROWS("write", 1u << STN_DTYPE_I64, struct stni_access_write_args, stni_access_write, NULL),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_one_hot_of = {
    .size = sizeof(stn_op_desc),
    .name = "one_hot_of",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct one_hot_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
