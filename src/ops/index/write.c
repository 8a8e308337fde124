/* index_write: values go to the elements, or slices, that an index names along one dim of a table; they replace, or
 * are joined with, what is there. Values of one element are joined in the order of their positions where one rank
 * has them, those of several ranks in the order of ranks: two runs give the same bits, and of values that replace
 * the last one wins. */
#include "ops/index/access_route.h"

#include "core/box/box.h"
#include "ops/common/call.h"
#include "ops/common/like.h"
#include "ops/exchange/remap_kernel.h"
#include "ops/cpu/widen.h"

#include <stddef.h>
#include <string.h>

stn_tensor *stni_index_write(stn_tensor *table, stn_tensor *index, stn_tensor *values,
                             const struct stni_access_attrs *attrs)
{
    return stni_call(STNI_OP_index_write, 4, (stn_tensor *[]){table, index, values, NULL}, attrs);
}

stn_tensor *stni_index_write_zeros(const stn_spec *like, stn_tensor *index, stn_tensor *values,
                                   const struct stni_access_attrs *attrs)
{
    stn_tensor *in[] = {NULL, index, values, NULL};
    if (stn_tensor_is_error(values) || stni_like(values->context, like, &in[STNI_ACCESS_LIKE]) != STN_OK)
        return values->context->error_tensor;
    stn_tensor *out = stni_call(STNI_OP_index_write, 4, in, attrs);
    stni_tensor_drop(&in[STNI_ACCESS_LIKE]);
    return out;
}

/* Arguments were checked by the ops that users call. */
static stn_status check(stn_op_call *call)
{
    const struct stni_access_attrs *attrs = call->attrs;
    const stn_spec *table = call->in_spec[STNI_ACCESS_TABLE], *values = call->in_spec[STNI_ACCESS_VALUES];
    const stn_spec *from = table ? table : call->in_spec[STNI_ACCESS_LIKE];
    stn_meta *meta = &call->out_meta[0];
    if (!from || (!table && !values) || attrs->dim < 0 || attrs->dim >= from->layout.ndim)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'dim' got %d, wanted a dim of 'input', which is given, or of 'like', beside 'values'",
                           (int)attrs->dim);
    call->reports = !attrs->quiet;
    meta->dtype = table ? table->layout.dtype : values->layout.dtype;
    meta->ndim = from->layout.ndim;
    memcpy(meta->shape, from->layout.shape, sizeof meta->shape);
    return STN_OK;
}

struct writing {
    const struct stni_access_attrs *attrs;
    stn_tensor *out;
    stn_dtype dtype, wide; /* the output's, and that in which is computed */
    void *table;           /* a chunk of the wide dtype: the output's own, or memory beside it */
};

static void box_of(const stn_tensor *tensor, void *data, const int64_t *strides, stn_box *box)
{
    stni_tensor_box(tensor, box);
    box->data = data;
    memcpy(box->strides, strides, (size_t)box->ndim * sizeof *strides);
}

static stn_status fill(const stn_op_call *call, const struct writing *w)
{
    struct stni_remap_fill_args args;
    memset(&args, 0, sizeof args);
    box_of(w->out, w->table, w->out->strides, &args.box);
    args.element_size = stn_dtype_size(w->wide);
    return stn_op_launch(call, STNI_ACCESS_FILL, w->wide, &args, sizeof args);
}

static stn_status convert(const stn_op_call *call, const stn_box *dst, stn_dtype to, const stn_box *src, stn_dtype from)
{
    struct stni_access_convert_args args;
    memset(&args, 0, sizeof args);
    args.dst = *dst;
    args.src = *src;
    args.to = to;
    args.from = from;
    return stn_op_launch(call, STNI_ACCESS_CONVERT, STN_DTYPE_F32, &args, sizeof args);
}

/* What is there before. */
static stn_status prepare(const stn_op_call *call, struct writing *w)
{
    const stn_tensor *in = call->in[STNI_ACCESS_TABLE];
    stn_box dst, src;
    w->table = w->out->data;
    if (w->out->spec->local_numel == 0)
        return STN_OK;
    if (w->wide != w->dtype)
        STNI_TRY(stni_rows_memory(call, w->out->spec->local_numel, stn_dtype_size(w->wide), &w->table));
    if (!in)
        return fill(call, w);
    box_of(w->out, w->table, w->out->strides, &dst);
    box_of(in, in->data, in->strides, &src);
    if (w->wide != w->dtype)
        return convert(call, &dst, w->wide, &src, w->dtype);
    return stni_box_copy(call->context->queue, &dst, &src, stn_dtype_size(w->dtype));
}

static stn_status finish(const stn_op_call *call, const struct writing *w)
{
    stn_box dst, src;
    if (w->wide == w->dtype || w->out->spec->local_numel == 0)
        return STN_OK;
    box_of(w->out, w->out->data, w->out->strides, &dst);
    box_of(w->out, w->table, w->out->strides, &src);
    return convert(call, &dst, w->dtype, &src, w->wide);
}

/* Values of `dtype` at `at`, joined by `mode`; without values the number, or what the op's mode begins with. */
static struct stni_access_write_args put_args(const struct writing *w, const struct stni_access *at,
                                              enum stni_access_mode mode, stn_dtype dtype)
{
    struct stni_access_write_args args;
    memset(&args, 0, sizeof args);
    args.at = *at;
    args.mode = mode;
    args.reset_for = (enum stni_access_mode)w->attrs->mode;
    args.dtype = dtype;
    args.value = w->attrs->value;
    return args;
}

static stn_status put(const stn_op_call *call, struct stni_access_write_args *args)
{
    const size_t bytes = stn_op_workspace(call, STNI_ACCESS_MOVE, args->dtype, args);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &args->work));
    return stn_op_launch(call, STNI_ACCESS_MOVE, args->dtype, args, sizeof *args);
}

/* The op's own values, which it may scale. */
static stn_status put_values(const stn_op_call *call, const struct writing *w, const struct stni_access *at)
{
    struct stni_access_write_args args = put_args(w, at, (enum stni_access_mode)w->attrs->mode, w->dtype);
    args.scale = w->attrs->scale;
    return put(call, &args);
}

/* What is joined begins as nothing. */
static stn_status reset(const stn_op_call *call, const struct writing *w, const struct stni_access *at)
{
    struct stni_access_write_args args = put_args(w, at, STNI_ACCESS_RESET, w->dtype);
    args.at.values = NULL;
    args.at.report.on = 0; /* the values' own pass reports */
    return put(call, &args);
}

static stn_status write_here(const struct stni_access_here *here, const struct writing *w)
{
    STNI_TRY(stni_access_check_unmoved(here));
    if (w->attrs->fresh)
        STNI_TRY(reset(here->call, w, &here->all));
    return put_values(here->call, w, &here->all);
}

/* `n` of the rows that came, from the one numbered `first` on. */
static stn_status put_received(const stn_op_call *call, const struct writing *w, const struct stni_access *owner,
                               int64_t first, int64_t n)
{
    struct stni_access_write_args args = put_args(w, owner, (enum stni_access_mode)w->attrs->mode, w->wide);
    const int64_t bytes = owner->value_strides[0] * (int64_t)stn_dtype_size(w->wide);
    args.at.shape[0] = n;
    args.at.index = (const int64_t *)owner->index + first;
    args.at.values = owner->values ? (char *)owner->values + first * bytes : NULL;
    return n > 0 ? put(call, &args) : STN_OK;
}

/* What ranks send is joined in their order; where this rank's own values are not among it, they take its turn. */
static stn_status write_in_turn(const struct stni_access_here *here, const struct writing *w,
                                const struct stni_rows_route *route, const struct stni_access *owner)
{
    const stn_op_call *call = here->call;
    const struct stni_access home = stni_access_at_home(here, route);
    const int64_t n = route->n_received, before = here->apart ? stni_rows_received_before(route) : n;
    if (w->attrs->fresh)
        STNI_TRY(reset(call, w, owner));
    if (w->attrs->fresh && here->apart)
        STNI_TRY(reset(call, w, &home));
    STNI_TRY(put_received(call, w, owner, 0, before));
    if (here->apart)
        STNI_TRY(put_values(call, w, &home));
    return put_received(call, w, owner, before, n - before);
}

/* Each rank joins what it has for one element, or slice, of another and sends that to the owner. */
static stn_status write_routed(const struct stni_access_here *here, const struct writing *w,
                               struct stni_rows_route *route)
{
    const stn_op_call *call = here->call;
    int64_t width = stni_access_width(here);
    void *joined, *rows;
    struct stni_access owner = stni_access_at_owner(here, route, NULL);
    if (!here->values)
        return write_in_turn(here, w, route, &owner);
    STNI_TRY(stni_rows_memory(call, route->n_asked * width, stn_dtype_size(w->wide), &joined));
    STNI_TRY(stni_rows_memory(call, route->n_received * width, stn_dtype_size(w->wide), &rows));
    struct stni_access sender = stni_access_at_asker(here, route, joined);
    if (w->attrs->mode != STNI_ACCESS_SET)
        STNI_TRY(reset(call, w, &sender));
    STNI_TRY(put_values(call, w, &sender));
    STNI_TRY(stni_rows_send(route, joined, rows, width, w->wide));
    owner.values = rows;
    return write_in_turn(here, w, route, &owner);
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *index = call->in[STNI_ACCESS_INDEX], *values = call->in[STNI_ACCESS_VALUES];
    stn_tensor *out = call->out[0];
    struct writing w = {.attrs = call->attrs, .out = out, .dtype = out->spec->layout.dtype};
    struct stni_access_here here;
    struct stni_rows_route route;
    w.wide = stni_wide_dtype(w.dtype);
    if (out->spec->layout.mesh && !out->spec->layout.mesh->member)
        return STN_OK;
    STNI_TRY(prepare(call, &w));
    stni_access_make(call, out, index, values, &here);
    here.all.table = w.table;
    if (!here.axes) {
        STNI_TRY(write_here(&here, &w));
        return finish(call, &w);
    }
    STNI_TRY(stni_access_open(&here, &route));
    stn_status status = write_routed(&here, &w, &route);
    stni_rows_close(&route);
    return status == STN_OK ? finish(call, &w) : status;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    const struct stni_access_attrs *attrs = call->attrs;
    uint64_t index = 1u << STNI_ACCESS_INDEX, both = 1u << STNI_ACCESS_TABLE | 1u << STNI_ACCESS_VALUES;
    switch ((enum stni_access_mode)attrs->mode) {
    case STNI_ACCESS_MUL:
        return index | both;
    case STNI_ACCESS_MAX:
    case STNI_ACCESS_MIN:
        return index | both | UINT64_C(1) << 32;
    case STNI_ACCESS_SET:
    case STNI_ACCESS_ADD:
    case STNI_ACCESS_RESET:
        break;
    }
    return attrs->mode == STNI_ACCESS_SET || attrs->fresh || needs >> STNI_ACCESS_VALUES & 1 ? index : 0;
}

static const stn_input_schema inputs[] = {
    [STNI_ACCESS_TABLE] = {.name = "input", .optional = 1},
    [STNI_ACCESS_INDEX] = {.name = "index"},
    [STNI_ACCESS_VALUES] = {.name = "values", .optional = 1},
    [STNI_ACCESS_LIKE] = {.name = "like", .optional = 1},
};

static const char *const modes[] = {"set", "add", "multiply", "amax", "amin", NULL};
static const stn_attr_schema attrs[] = {
    {"dim", STN_ATTR_INT, offsetof(struct stni_access_attrs, dim), NULL},
    {"slices", STN_ATTR_BOOL, offsetof(struct stni_access_attrs, slices), NULL},
    {"mode", STN_ATTR_CHOICE, offsetof(struct stni_access_attrs, mode), modes},
    {"fresh", STN_ATTR_BOOL, offsetof(struct stni_access_attrs, fresh), NULL},
};

static const stn_kernel_slot slots[] = {
    [STNI_ACCESS_KEYS] = {"keys", sizeof(struct stni_access_keys_args)},
    [STNI_ACCESS_PLAN] = {"plan", sizeof(struct stni_rows_plan_args)},
    [STNI_ACCESS_MOVE] = {"write", sizeof(struct stni_access_write_args)},
    [STNI_ACCESS_FILL] = {"fill", sizeof(struct stni_remap_fill_args)},
    [STNI_ACCESS_CONVERT] = {"convert", sizeof(struct stni_access_convert_args)},
};

static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("keys", STNI_INDEX_DTYPES, struct stni_access_keys_args, stni_access_keys, NULL),
    STNI_ISA_ROWS("plan", 1u << STN_DTYPE_I64, struct stni_rows_plan_args, stni_rows_plan, NULL),
    STNI_ISA_ROWS("write", STNI_ALL_DTYPES, struct stni_access_write_args, stni_access_write, NULL),
    STNI_CPU_ROW("fill", STNI_ALL_DTYPES, struct stni_remap_fill_args, stni_remap_fill_cpu, NULL),
    STNI_CPU_ROW("convert", 1u << STN_DTYPE_F32, struct stni_access_convert_args, stni_access_convert_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = stni_index_write_place, .run = run, .saves = saves, .backward = stni_index_write_backward,
    STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_index_write = {
    .size = sizeof(stn_op_desc),
    .name = "index_write",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_access_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
