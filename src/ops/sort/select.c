/* order_select: the element of a given place in each line, and where it is.
 *
 * A sharded dim is made whole where another dim can be sharded instead. Elsewhere its ranks select by counting
 * (sort_kernel.h): a few sums of 256 numbers per line, whatever the lines' length. So do all ranks where a line is
 * all of the tensor. */
#include "ops/sort/sort_family.h"
#include "ops/sort/sort_line.h"
#include "ops/reduce/reduction.h"
#include "ops/placement/unshard.h"

#include <inttypes.h>
#include <stddef.h>

enum { SELECT, COUNT, NARROW, NANS, FIND, STORE };
enum { VALUES, INDICES };

static stn_status check(stn_op_call *call)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &attrs->dim, 0, &dims));
    int64_t n = stni_reduction_count(call->in_spec[0], dims);
    if (attrs->k < 1 || attrs->k > n)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'k' got %" PRId64 ", wanted 1 <= k <= %" PRId64, attrs->k, n);
    stni_sort_line_metas(call, dims, attrs->keepdim != 0, 1);
    return STN_OK;
}

/* The note: the axes whose ranks share lines. */
static stn_status place(stn_op_call *call)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    struct stni_layout in = call->in_spec[0]->layout;
    const uint32_t dims = stni_sort_dims(call, &attrs->dim);
    int other;
    stni_layout_reduce(&in, 0);
    for (int d = 0; attrs->dim.n > 0 && d < in.ndim; d++)
        if (dims >> d & 1 && stni_sort_way(&in, d, &other) == STNI_SORT_RECUT)
            STNI_TRY(stni_layout_recut(call->context, &in, d, other));
    return stni_sort_line_specs(call, &in, dims, attrs->keepdim != 0);
}

/* What targets begin with: their places. */
static stn_status begin(const stn_op_call *call, stn_comm *comm, const struct stni_sort_count_args *count,
                        struct stni_sort_target *targets)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    struct stni_sort_narrow_args narrow = {
        .round = -1, .n_targets = count->n_targets, .place = attrs->k - 1, .targets = targets};
    if (attrs->nans) {
        void *nans;
        STNI_TRY(stn_op_scratch(call, (size_t)count->n_targets * sizeof(int64_t), &nans));
        struct stni_sort_nans_args args = {count->order, count->lines, count->in, nans};
        STNI_TRY(stn_op_launch(call, NANS, count->order.dtype, &args, sizeof args));
        STNI_TRY(
            stni_comm_all_reduce(comm, call->context->queue, nans, nans, count->n_targets, STN_DTYPE_I64, STN_SUM));
        narrow.nans = nans;
    }
    return stn_op_launch(call, NARROW, count->order.dtype, &narrow, sizeof narrow);
}

static stn_status run_shared(const stn_op_call *call, struct stni_order order, const struct stni_sort_lines *lines)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    const int64_t n_lines = order_line_count(lines);
    struct stni_sort_choice choice = {
        .call = call,
        .count_slot = COUNT,
        .narrow_slot = NARROW,
        .n = stni_reduction_count(call->in[0]->spec, stni_sort_dims(call, &attrs->dim)),
        .count = {.order = order, .lines = *lines, .in = call->in[0]->data, .n_targets = n_lines}};
    void *targets, *bits;
    STNI_TRY(stni_mesh_comm(call->in[0]->spec->layout.mesh, (uint32_t)call->note, &choice.comm));
    STNI_TRY(stn_op_scratch(call, (size_t)n_lines * sizeof(struct stni_sort_target), &targets));
    STNI_TRY(stn_op_scratch(call, (size_t)n_lines * sizeof(uint64_t), &bits));
    STNI_TRY(begin(call, choice.comm, &choice.count, targets));
    STNI_TRY(stni_sort_choose(&choice, targets));
    struct stni_sort_find_args find = {
        order, *lines, targets, bits, call->in[0]->data, call->out[VALUES]->data, call->out[INDICES]->data};
    STNI_TRY(stn_op_launch(call, FIND, order.dtype, &find, sizeof find));
    STNI_TRY(stni_comm_all_reduce(choice.comm, call->context->queue, bits, bits, n_lines, STN_DTYPE_I64, STN_SUM));
    return stn_op_launch(call, STORE, order.dtype, &find, sizeof find);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    const stn_tensor *in = call->in[0], *values = call->out[VALUES], *indices = call->out[INDICES];
    struct stni_sort_select_args args = {.order = {in->spec->layout.dtype, 0, attrs->nans != 0},
                                         .place = attrs->k - 1,
                                         .nans = attrs->nans != 0,
                                         .in = in->data,
                                         .values = values->data,
                                         .indices = indices->data};
    if (values->spec->local_numel == 0)
        return STN_OK;
    stni_sort_lines_make(&args.lines, stni_sort_dims(call, &attrs->dim), attrs->keepdim != 0, in, values, indices);
    if (call->note)
        return run_shared(call, args.order, &args.lines);
    const size_t bytes = stn_op_workspace(call, SELECT, args.order.dtype, &args);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &args.work));
    return stn_op_launch(call, SELECT, args.order.dtype, &args, sizeof args);
}

/* Of all elements, those that equal the value share its cotangent; else the element itself has it. */
static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    return !needs ? 0 : attrs->dim.n > 0 ? UINT64_C(1) << (32 + INDICES) : UINT64_C(1) << (32 + VALUES) | 1;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_sort_select_attrs *attrs = call->attrs;
    stn_tensor *grad = call->grad_out[VALUES];
    if (grad && attrs->dim.n > 0)
        call->grad_in[0] =
            stni_sort_place(grad, call->out[INDICES], call->want[0], (int)attrs->dim.v[0], attrs->keepdim != 0);
    else if (grad)
        call->grad_in[0] = stni_sort_share(grad, call->in[0], call->out[VALUES]);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_sort_select_attrs, dim), NULL},
    {"k", STN_ATTR_INT, offsetof(struct stni_sort_select_attrs, k), NULL},
    {"nans", STN_ATTR_BOOL, offsetof(struct stni_sort_select_attrs, nans), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct stni_sort_select_attrs, keepdim), NULL},
};
static const struct stni_sort_select_attrs attrs_init = {.dim = {.n = -1}, .k = 1};

static const stn_kernel_slot slots[] = {
    [SELECT] = {"select", sizeof(struct stni_sort_select_args)},
    [COUNT] = {"count", sizeof(struct stni_sort_count_args)},
    [NARROW] = {"narrow", sizeof(struct stni_sort_narrow_args)},
    [NANS] = {"nans", sizeof(struct stni_sort_nans_args)},
    [FIND] = {"find", sizeof(struct stni_sort_find_args)},
    [STORE] = {"store", sizeof(struct stni_sort_find_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("select", STNI_SORT_DTYPES, struct stni_sort_select_args, stni_sort_select_cpu,
                 stni_sort_select_workspace),
    STNI_CPU_ROW("count", STNI_SORT_DTYPES, struct stni_sort_count_args, stni_sort_count_cpu, NULL),
    STNI_CPU_ROW("narrow", STNI_SORT_DTYPES, struct stni_sort_narrow_args, stni_sort_narrow_cpu, NULL),
    STNI_CPU_ROW("nans", STNI_SORT_DTYPES, struct stni_sort_nans_args, stni_sort_nans_cpu, NULL),
    STNI_CPU_ROW("find", STNI_SORT_DTYPES, struct stni_sort_find_args, stni_sort_find_cpu, NULL),
    STNI_CPU_ROW("store", STNI_SORT_DTYPES, struct stni_sort_find_args, stni_sort_store_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_order_select = {
    .size = sizeof(stn_op_desc),
    .name = "order_select",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_sort_select_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 2,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
