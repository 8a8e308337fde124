/* order_top: the first k elements of each line, and where they are.
 *
 * Where ranks share lines, each finds k candidates among its own elements, all gather them, and each chooses among
 * them: so that ranks exchange k elements per line each, and not the data. */
#include "ops/sort/sort_family.h"

#include "core/base/clamp.h"
#include "ops/sort/sort_line.h"
#include "ops/reduce/reduction.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

enum { TOP, MERGE };
enum { VALUES, INDICES };

static stn_status check(stn_op_call *call)
{
    const struct stni_sort_top_attrs *attrs = call->attrs;
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &attrs->dim, 0, &dims));
    int64_t n = stni_reduction_count(call->in_spec[0], dims);
    int along_one = attrs->dim.n == 1 && call->in_spec[0]->layout.ndim > 0 && attrs->keepdim;
    if (attrs->k < 0 || attrs->k > n || (attrs->k != 1 && !along_one))
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'k' got %" PRId64 ", wanted 0 <= k <= %" PRId64 ", and 1 without a dim for it", attrs->k,
                           n);
    stni_sort_line_metas(call, dims, attrs->keepdim != 0, attrs->k);
    return STN_OK;
}

/* The note: the axes along which candidates are gathered. */
static stn_status place(stn_op_call *call)
{
    const struct stni_sort_top_attrs *attrs = call->attrs;
    struct stni_layout in = call->in_spec[0]->layout;
    return stni_sort_line_specs(call, &in, stni_sort_dims(call, &attrs->dim), attrs->keepdim != 0);
}

/* The most elements of a line that any rank has. */
static int64_t longest_part(const stn_spec *spec, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < spec->layout.ndim; d++) {
        const struct stni_split *split = spec->layout.split[d];
        int64_t longest = split ? 0 : spec->layout.shape[d];
        for (int i = 0; split && i < split->n_parts; i++) {
            int64_t part = stni_split_offset(split, i + 1) - stni_split_offset(split, i);
            longest = part > longest ? part : longest;
        }
        n *= dims >> d & 1 ? longest : 1;
    }
    return n;
}

/* A few lines at a time, so that candidates never fill more than BUFFER bytes unless those of one line do. */
static stn_status run_shared(stn_op_call *call, struct stni_sort_top_args *top)
{
    const struct stni_sort_top_attrs *attrs = call->attrs;
    enum { BUFFER = 128 << 10 };
    const stn_tensor *in = call->in[0];
    const int64_t longest = longest_part(in->spec, stni_sort_dims(call, &attrs->dim)), n_lines = top->n_lines;
    stn_comm *comm;
    void *own, *all;
    STNI_TRY(stni_mesh_comm(in->spec->layout.mesh, (uint32_t)call->note, &comm));
    struct stni_sort_merge_args merge = {.order = top->order,
                                         .lines = top->lines,
                                         .k_out = top->k,
                                         .n_parts = comm->size,
                                         .values = top->values,
                                         .indices = top->indices};
    merge.k = top->k = top->k < longest ? top->k : longest;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, MERGE, top->order.dtype, &merge), &merge.work));
    const int64_t line_bytes = top->k * (int64_t)sizeof *top->pairs, fit = BUFFER / (line_bytes * comm->size);
    const int64_t at_once = stni_clamp(fit, 1, n_lines);
    STNI_TRY(stn_op_scratch(call, (size_t)(at_once * line_bytes), &own));
    STNI_TRY(stn_op_scratch(call, (size_t)(at_once * line_bytes * comm->size), &all));
    top->pairs = own;
    merge.pairs = all;
    for (int64_t line = 0; line < n_lines; line += at_once) {
        top->first_line = merge.first_line = line;
        top->n_lines = merge.n_lines = n_lines - line < at_once ? n_lines - line : at_once;
        STNI_TRY(stn_op_launch(call, TOP, top->order.dtype, top, sizeof *top));
        STNI_TRY(stni_sort_gather(call, comm, own, all, 2 * top->k * top->n_lines));
        STNI_TRY(stn_op_launch(call, MERGE, top->order.dtype, &merge, sizeof merge));
    }
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const struct stni_sort_top_attrs *attrs = call->attrs;
    const stn_tensor *in = call->in[0], *values = call->out[VALUES], *indices = call->out[INDICES];
    struct stni_sort_top_args args = {.order = {in->spec->layout.dtype, attrs->largest != 0, attrs->nan_first != 0},
                                      .k = attrs->k,
                                      .in = in->data,
                                      .values = values->data,
                                      .indices = indices->data};
    if (values->spec->local_numel == 0)
        return STN_OK;
    stni_sort_lines_make(&args.lines, stni_sort_dims(call, &attrs->dim), attrs->keepdim != 0, in, values, indices);
    args.n_lines = order_line_count(&args.lines);
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, TOP, args.order.dtype, &args), &args.work));
    return call->note ? run_shared(call, &args) : stn_op_launch(call, TOP, args.order.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << (32 + INDICES) : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_sort_top_attrs *attrs = call->attrs;
    if (call->grad_out[VALUES])
        call->grad_in[0] = stni_sort_place(call->grad_out[VALUES], call->out[INDICES], call->want[0],
                                           (int)attrs->dim.v[0], attrs->keepdim != 0);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_sort_top_attrs, dim), NULL},
    {"k", STN_ATTR_INT, offsetof(struct stni_sort_top_attrs, k), NULL},
    {"largest", STN_ATTR_BOOL, offsetof(struct stni_sort_top_attrs, largest), NULL},
    {"nan_first", STN_ATTR_BOOL, offsetof(struct stni_sort_top_attrs, nan_first), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct stni_sort_top_attrs, keepdim), NULL},
};
static const struct stni_sort_top_attrs attrs_init = {.dim = {.n = -1}, .k = 1, .largest = 1};

static const stn_kernel_slot slots[] = {
    [TOP] = {"top", sizeof(struct stni_sort_top_args)},
    [MERGE] = {"merge", sizeof(struct stni_sort_merge_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("top", STNI_SORT_DTYPES, struct stni_sort_top_args, stni_sort_top_cpu, stni_sort_top_workspace),
    STNI_CPU_ROW("merge", STNI_SORT_DTYPES, struct stni_sort_merge_args, stni_sort_merge_cpu,
                 stni_sort_merge_workspace),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_order_top = {
    .size = sizeof(stn_op_desc),
    .name = "order_top",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_sort_top_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 2,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
