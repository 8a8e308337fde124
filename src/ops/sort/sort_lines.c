/* order_sort: a stable sort of a dim, and where its elements were.
 *
 * A sharded dim is made whole where another dim can be sharded instead, and the result has that layout. Elsewhere
 * the ranks that share a line sort it together (sort_shared.c), one line per call: sort.c makes the calls. */
#include "ops/sort/sort_family.h"

#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

enum { VALUES, INDICES };

static int dim_of(const stn_op_call *call)
{
    const struct stni_sort_sort_attrs *attrs = call->attrs;
    int dim = 0;
    stni_dim_wrap(call, "dim", attrs->dim, call->in_spec[0]->layout.ndim, &dim);
    return dim;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int dim = (int)((const struct stni_sort_sort_attrs *)call->attrs)->dim;
    const stn_ints given = stni_sort_dim(&dim);
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &given, 0, &dims));
    for (int k = 0; k < call->n_out; k++) {
        call->out_meta[k].dtype = k == INDICES ? STN_DTYPE_I64 : in->dtype;
        call->out_meta[k].ndim = in->ndim;
        memcpy(call->out_meta[k].shape, in->shape, sizeof in->shape);
    }
    return STN_OK;
}

/* The note: the axes whose ranks share the one line. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout in = call->in_spec[0]->layout;
    const int dim = dim_of(call);
    uint32_t axes = 0;
    int other;
    stni_layout_reduce(&in, 0);
    enum stni_sort_way way = stni_sort_way(&in, dim, &other);
    const int one_line = stni_sort_lines_of(&in, dim) == 1;
    if (way == STNI_SORT_RECUT || (way == STNI_SORT_SHARED && !one_line && other >= 0))
        STNI_TRY(stni_layout_recut(call->context, &in, dim, other));
    else if (way == STNI_SORT_SHARED)
        stni_dim_ranks(&in, dim, &axes);
    call->note = axes;
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    call->out_spec[VALUES] = call->want[0];
    in.dtype = STN_DTYPE_I64;
    return stni_spec_intern(call->context, &in, &call->out_spec[INDICES]);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_sort_sort_attrs *attrs = call->attrs;
    const stn_tensor *in = call->in[0], *values = call->out[VALUES], *indices = call->out[INDICES];
    struct stni_sort_sort_args args = {.order = {in->spec->layout.dtype, attrs->descending != 0, 0},
                                       .in = in->data,
                                       .values = values->data,
                                       .indices = indices->data};
    const int dim = dim_of(call);
    if (!stni_sort_has_lines(in->spec, dim))
        return STN_OK;
    if (call->note)
        return stni_sort_sort_shared(call, dim, (uint32_t)call->note, args.order);
    if (in->spec->local_numel == 0)
        return STN_OK;
    stni_sort_lines_make(&args.lines, in->spec->layout.ndim > 0 ? 1u << dim : 0, 1, in, values, indices);
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, STNI_SORT_SORT, args.order.dtype, &args), &args.work));
    return stn_op_launch(call, STNI_SORT_SORT, args.order.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << (32 + INDICES) : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const stn_spec *spec = call->want[0];
    const int dim = stni_dim_from_front(((const struct stni_sort_sort_attrs *)call->attrs)->dim, spec->layout.ndim);
    uint32_t axes;
    if (!call->grad_out[VALUES])
        return STN_OK;
    if (spec->layout.ndim > 0 && stni_dim_ranks(&spec->layout, dim, &axes) > 1)
        call->grad_in[0] = stni_sort_send_back(call->grad_out[VALUES], call->out[INDICES], dim);
    else
        call->grad_in[0] = stni_sort_place(call->grad_out[VALUES], call->out[INDICES], spec, dim, 1);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct stni_sort_sort_attrs, dim), NULL},
    {"descending", STN_ATTR_BOOL, offsetof(struct stni_sort_sort_attrs, descending), NULL},
};
static const struct stni_sort_sort_attrs attrs_init = {.dim = -1};

static const stn_kernel_slot slots[] = {
    [STNI_SORT_SORT] = {"sort", sizeof(struct stni_sort_sort_args)},
    [STNI_SORT_COUNT] = {"count", sizeof(struct stni_sort_count_args)},
    [STNI_SORT_NARROW] = {"narrow", sizeof(struct stni_sort_narrow_args)},
    [STNI_SORT_DEAL] = {"deal", sizeof(struct stni_sort_deal_args)},
    [STNI_SORT_RUNS] = {"runs", sizeof(struct stni_sort_runs_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("sort", STNI_SORT_DTYPES, struct stni_sort_sort_args, stni_sort_sort_cpu, stni_sort_sort_workspace),
    STNI_CPU_ROW("count", STNI_SORT_DTYPES, struct stni_sort_count_args, stni_sort_count_cpu, NULL),
    STNI_CPU_ROW("narrow", STNI_SORT_DTYPES, struct stni_sort_narrow_args, stni_sort_narrow_cpu, NULL),
    STNI_CPU_ROW("deal", STNI_SORT_DTYPES, struct stni_sort_deal_args, stni_sort_deal_cpu, NULL),
    STNI_CPU_ROW("runs", STNI_SORT_DTYPES, struct stni_sort_runs_args, stni_sort_runs_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_order_sort = {
    .size = sizeof(stn_op_desc),
    .name = "order_sort",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_sort_sort_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 2,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
