/* histc: how many elements fall into each of some bins of equal width. Each rank counts its own. Counts that their
 * dtype holds exactly are a pending sum; of narrow dtypes they are added up as i64 before. */
#include "ops/sort/sort_family.h"

#include "ops/reduce/reduction.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

enum { RANGE, COUNT, STORE };

struct histc_attrs {
    int64_t bins;
    double min, max;
};

/* Counts are of the input's dtype, and bytes hold few. */
enum {
    TOO_SMALL = 1 << STN_DTYPE_BOOL | 1 << STN_DTYPE_U8 | 1 << STN_DTYPE_I8 | 1 << STN_DTYPE_I16,
    DTYPES = STNI_SORT_DTYPES & ~TOO_SMALL
};

stn_tensor *stn_histc(stn_tensor *input, int64_t bins, double min, double max)
{
    const struct histc_attrs attrs = {bins, min, max};
    return stni_call(STNI_OP_histc, 1, &input, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct histc_attrs *attrs = call->attrs;
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    if (!((unsigned)DTYPES >> dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE,
                           "'input' got %s, which holds few counts, wanted a floating dtype, i64 or i32: "
                           "cast it",
                           stn_dtype_name(dtype));
    if (attrs->bins < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'bins' got %" PRId64 ", wanted at least 1", attrs->bins);
    if (!isfinite(attrs->min) || !isfinite(attrs->max) || attrs->min > attrs->max)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'min' got %g and 'max' %g, wanted finite ones in order", attrs->min,
                           attrs->max);
    call->out_meta[0] = (stn_meta){dtype, 1, {attrs->bins}};
    call->reports = 1; /* a range that is not finite */
    return STN_OK;
}

static int is_wide(stn_dtype dtype)
{
    return stn_dtype_size(dtype) >= 4;
}

/* The note: the axes that cut the input. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout in = call->in_spec[0]->layout, out;
    const stn_meta *meta = &call->out_meta[0];
    stni_layout_reduce(&in, 0);
    stni_layout_init(&out, in.mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; in.mesh && a < in.mesh->ndim; a++)
        if (in.placement[a].kind == STN_PLACE_SHARD && in.mesh->sizes[a] > 1) {
            call->note |= UINT64_C(1) << a;
            out.placement[a] = is_wide(in.dtype) ? stn_partial(STN_SUM) : stn_replicate();
        }
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status find_range(const stn_op_call *call, stn_comm *comm, struct stni_sort_histogram_args *args)
{
    void *range;
    STNI_TRY(stn_op_scratch(call, 2 * sizeof(double), &range));
    args->range = range;
    STNI_TRY(stn_op_launch(call, RANGE, args->dtype, args, sizeof *args));
    return comm ? stni_comm_all_reduce(comm, call->context->queue, range, range, 2, STN_DTYPE_F64, STN_MAX) : STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const struct histc_attrs *attrs = call->attrs;
    const stn_tensor *in = call->in[0];
    struct stni_sort_histogram_args args = {.dtype = in->spec->layout.dtype,
                                            .in = in->data,
                                            .low = attrs->min,
                                            .high = attrs->max,
                                            .bins = attrs->bins,
                                            .out = call->out[0]->data,
                                            .op = stn_op_number(call->op)};
    stn_comm *comm = NULL;
    void *counts;
    if (in->spec->layout.mesh && !in->spec->layout.mesh->member)
        return STN_OK;
    if (call->note)
        STNI_TRY(stni_mesh_comm(in->spec->layout.mesh, (uint32_t)call->note, &comm));
    stni_sort_lines_make(&args.lines, (1u << in->spec->layout.ndim) - 1, 0, in, NULL, NULL);
    if (attrs->min == attrs->max && in->spec->numel > 0)
        STNI_TRY(find_range(call, comm, &args));
    STNI_TRY(stn_op_scratch(call, (size_t)args.bins * sizeof *args.counts, &counts));
    args.counts = counts;
    STNI_TRY(stn_op_launch(call, COUNT, args.dtype, &args, sizeof args));
    if (comm && !is_wide(args.dtype))
        STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, counts, counts, args.bins, STN_DTYPE_I64, STN_SUM));
    return stn_op_launch(call, STORE, args.dtype, &args, sizeof args);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {
    {"bins", STN_ATTR_INT, offsetof(struct histc_attrs, bins), NULL},
    {"min", STN_ATTR_FLOAT, offsetof(struct histc_attrs, min), NULL},
    {"max", STN_ATTR_FLOAT, offsetof(struct histc_attrs, max), NULL},
};
static const struct histc_attrs attrs_init = {.bins = 100};

static const stn_kernel_slot slots[] = {
    [RANGE] = {"range", sizeof(struct stni_sort_histogram_args)},
    [COUNT] = {"count", sizeof(struct stni_sort_histogram_args)},
    [STORE] = {"store", sizeof(struct stni_sort_histogram_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("range", DTYPES, struct stni_sort_histogram_args, stni_sort_range_cpu, NULL),
    STNI_CPU_ROW("count", DTYPES, struct stni_sort_histogram_args, stni_sort_histogram_cpu, NULL),
    STNI_CPU_ROW("store", DTYPES, struct stni_sort_histogram_args, stni_sort_histogram_store_cpu, NULL),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_histc = {
    .size = sizeof(stn_op_desc),
    .name = "histc",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct histc_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &impl,
};
