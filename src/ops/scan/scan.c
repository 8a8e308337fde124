/* The functions of a descriptor that every scan shares.
 *
 * A line that lies on one rank is one kernel. Where ranks share lines, each finds what its own elements come to, those
 * totals are gathered (a few lines' at a time, so that memory stays bounded whatever the number of ranks), and each
 * joins the totals of the chunks before its own: with that its scan begins. An empty chunk brings the total of
 * nothing. */
#include "ops/scan/scan.h"

#include "core/base/dtype.h"
#include "core/base/host_alloc.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

enum { GATHERED_STATES = 1 << 16 }; /* at a time, of all ranks: at most 2 MiB */

const stn_input_schema stni_scan_inputs[1] = {{.name = "input"}};
const stn_attr_schema stni_scan_attrs_schema[1] = {{"dim", STN_ATTR_INT, offsetof(struct stni_scan_attrs, dim), NULL}};
const struct stni_scan_attrs stni_scan_defaults = {.dim = -1};

stn_tensor *stni_scan_call(enum stni_op_index op, stn_tensor *input, int64_t dim, int64_t reverse,
                           enum stni_scan_kind kind)
{
    struct stni_scan_attrs attrs = {dim, reverse, kind};
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stni_scan_neighbour(stn_tensor *input, int64_t dim, int by, double fill)
{
    const int64_t padding[] = {by > 0 ? -1 : 1, by > 0 ? 1 : -1};
    const int64_t one[] = {1};
    if (stn_tensor_is_error(input))
        return input;
    if (stn_spec_numel(stn_tensor_spec(input)) == 0)
        return input;
    if (stn_tensor_ndim(input) == 0)
        return stn_view(stni_scan_neighbour(stn_view(input, 1, one), 0, by, fill), 0, one);
    return stn_transpose(stn_pad(stn_transpose(input, (int)dim, -1), 2, padding, STN_PAD_CONSTANT, fill), (int)dim, -1);
}

static int dim_of(const stn_op_call *call)
{
    int dim = 0;
    stni_dim_wrap(call, "dim", ((const struct stni_scan_attrs *)call->attrs)->dim, call->in_spec[0]->layout.ndim, &dim);
    return dim;
}

static int is_affine(const struct stni_scan_rule *rule)
{
    return rule->op == STNI_SCAN_AFFINE;
}

/* The second input of an affine scan is as the first. */
static stn_status check_second(const stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[0]->layout;
    STNI_TRY(stni_check_dtype(call, 1, x->dtype, "factor's"));
    return stni_check_shape(call, 1, x->ndim, x->shape, "factor's");
}

stn_status stni_scan_check(stn_op_call *call)
{
    const struct stni_scan_attrs *attrs = call->attrs;
    const struct stni_scan_rule *rule = call->arg;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int dim;
    if (rule->dtypes && !(rule->dtypes >> in->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted %s", stn_op_descriptor(call->op)->inputs[0].name,
                           stn_dtype_name(in->dtype), rule->wanted);
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, in->ndim, &dim));
    if (is_affine(rule))
        STNI_TRY(check_second(call));
    for (int k = 0; k < call->n_out; k++) {
        call->out_meta[k] = stni_meta_of(in);
    }
    if (rule->promotes && !stn_dtype_is_differentiable(in->dtype))
        call->out_meta[0].dtype = STN_DTYPE_I64;
    if (call->n_out > 1)
        call->out_meta[1].dtype = STN_DTYPE_I64;
    return STN_OK;
}

/* The first input's layout; the second's where only that is sharded, since taking a chunk of a replica moves
 * nothing. */
stn_status stni_scan_place(stn_op_call *call)
{
    const struct stni_scan_rule *rule = call->arg;
    const stn_spec *first = call->in_spec[0], *second = is_affine(rule) ? call->in_spec[1] : first;
    int follow = !first->shard_axes && !first->partial_axes && !second->partial_axes;
    struct stni_layout layout = follow ? second->layout : first->layout;
    stni_layout_reduce(&layout, rule->linear && layout.dtype == call->out_meta[0].dtype ? 1u << STN_SUM : 0);
    for (int i = 0; i < call->n_in; i++)
        STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[i]));
    for (int k = 0; k < call->n_out; k++) {
        layout.dtype = call->out_meta[k].dtype;
        STNI_TRY(stni_spec_intern(call->context, &layout, &call->out_spec[k]));
    }
    return STN_OK;
}

static void make_args(const stn_op_call *call, struct stni_scan_args *args)
{
    const struct stni_scan_attrs *attrs = call->attrs;
    const struct stni_scan_rule *rule = call->arg;
    const stn_tensor *x = call->in[0], *y = call->n_in > 1 ? call->in[1] : NULL,
                     *indices = call->n_out > 1 ? call->out[1] : NULL;
    const stn_spec *spec = x->spec;
    const int dim = dim_of(call);
    const int64_t *strides[] = {x->strides, y ? y->strides : indices ? indices->strides : NULL, call->out[0]->strides};
    *args = (struct stni_scan_args){.op = attrs->kind == STNI_SCAN_LAGGED ? STNI_SCAN_AFFINE_LAGGED : rule->op,
                                    .dtype = spec->layout.dtype, .reverse = (int)attrs->reverse,
                                    .exclusive = attrs->kind == STNI_SCAN_EXCLUSIVE,
                                    .first = spec->layout.ndim > 0 ? spec->local_offset[dim] : 0,
                                    .x = x->data, .y = y ? y->data : NULL, .out = call->out[0]->data,
                                    .indices = indices ? indices->data : NULL};
    stni_lines_make(&args->lines, dim, spec->layout.ndim, spec->local_shape, spec->layout.memory_order, strides);
}

/* Which ranks share lines, in the form in which the kernel takes their totals. Its communicator numbers them row-major
 * over the axes in the mesh's order, the dim is sharded major to minor in an order of its own. Returns the axes as
 * bits. */
static uint32_t find_pieces(const stn_op_call *call, struct stni_scan_prefix_args *args)
{
    const stn_spec *spec = call->in[0]->spec;
    const stn_mesh *mesh = spec->layout.mesh;
    const int dim = dim_of(call);
    int axes[STN_MAX_MESH_NDIM], pieces = 1, step = 1;
    uint32_t mask = 0;
    if (!mesh || spec->layout.ndim == 0)
        return 0;
    args->n_axes = stni_layout_dim_axes(&spec->layout, dim, axes);
    for (int k = 0; k < args->n_axes; k++) {
        args->sizes[k] = mesh->sizes[axes[k]];
        pieces *= args->sizes[k];
        mask |= 1u << axes[k];
    }
    for (int a = mesh->ndim - 1; a >= 0; a--)
        for (int k = 0; k < args->n_axes; k++)
            if (axes[k] == a) {
                args->steps[k] = step;
                step *= mesh->sizes[a];
            }
    const int own = stni_spec_piece(spec, dim, mesh->coordinate);
    args->begin = args->reverse ? own + 1 : 0;
    args->end = args->reverse ? pieces : own;
    return mask;
}

static stn_dtype state_dtype(stn_dtype dtype)
{
    if (stni_dtype_is_complex(dtype))
        return STN_DTYPE_C128;
    return stni_dtype_is_floating(dtype) ? STN_DTYPE_F64 : STN_DTYPE_I64;
}

/* Totals of lines begin, …, begin + count - 1 become the states from which their scans begin. */
static stn_status join_totals(const stn_op_call *call, stn_comm *comm, const int64_t *counts, void *parts, char *states,
                              struct stni_scan_prefix_args *args)
{
    const stn_dtype dtype = state_dtype(args->dtype);
    STNI_TRY(stni_comm_all_gather(comm, call->context->queue, states, parts, counts, dtype));
    args->parts = parts;
    args->states = states;
    return stn_op_launch(call, STNI_SCAN_PREFIX_SLOT, args->dtype, args, sizeof *args);
}

static stn_status share_totals(const stn_op_call *call, stn_comm *comm, int64_t lines, void *states,
                               struct stni_scan_prefix_args *args)
{
    const size_t bytes = 2 * stn_dtype_size(state_dtype(args->dtype));
    const int64_t most = GATHERED_STATES / comm->size > 0 ? GATHERED_STATES / comm->size : 1,
                  block = lines < most ? lines : most;
    stn_status status = STN_OK;
    void *parts;
    STNI_TRY(stn_op_scratch(call, (size_t)(block * comm->size) * bytes, &parts));
    int64_t *counts = stni_malloc((size_t)comm->size * sizeof *counts);
    if (!counts)
        return stni_fail_memory(call->context, "counts of totals", (size_t)comm->size * sizeof *counts);
    for (int64_t begin = 0; begin < lines && status == STN_OK; begin += block) {
        args->count = lines - begin < block ? lines - begin : block;
        for (int r = 0; r < comm->size; r++)
            counts[r] = 2 * args->count;
        status = join_totals(call, comm, counts, parts, (char *)states + (size_t)begin * bytes, args);
    }
    stni_free(counts);
    return status;
}

stn_status stni_scan_run(stn_op_call *call)
{
    const stn_mesh *mesh = call->in[0]->spec->layout.mesh;
    struct stni_scan_args args;
    if (mesh && !mesh->member)
        return STN_OK;
    make_args(call, &args);
    struct stni_scan_prefix_args prefix = {.op = args.op, .dtype = args.dtype, .reverse = args.reverse};
    const uint32_t axes = find_pieces(call, &prefix);
    const int64_t lines = stni_lines_count(&args.lines);
    if (lines == 0)
        return STN_OK;
    if (axes) { /* an empty chunk takes part */
        stn_comm *comm;
        STNI_TRY(stni_mesh_comm(mesh, axes, &comm));
        STNI_TRY(stn_op_scratch(call, (size_t)lines * 2 * stn_dtype_size(state_dtype(args.dtype)), &args.states));
        STNI_TRY(stn_op_launch(call, STNI_SCAN_TOTAL_SLOT, args.dtype, &args, sizeof args));
        STNI_TRY(share_totals(call, comm, lines, args.states, &prefix));
    }
    return args.lines.n > 0 ? stn_op_launch(call, STNI_SCAN_SLOT, args.dtype, &args, sizeof args) : STN_OK;
}

const stn_kernel_slot stni_scan_slots[] = {
    [STNI_SCAN_SLOT] = {"scan", sizeof(struct stni_scan_args)},
    [STNI_SCAN_TOTAL_SLOT] = {"total", sizeof(struct stni_scan_args)},
    [STNI_SCAN_PREFIX_SLOT] = {"prefix", sizeof(struct stni_scan_prefix_args)},
};
const stn_kernel stni_scan_kernels[] = {
    STNI_CPU_ROW("scan", (1u << STN_DTYPE_COUNT) - 1, struct stni_scan_args, stni_scan_cpu, NULL),
    STNI_CPU_ROW("total", (1u << STN_DTYPE_COUNT) - 1, struct stni_scan_args, stni_scan_total_cpu, NULL),
    STNI_CPU_ROW("prefix", (1u << STN_DTYPE_COUNT) - 1, struct stni_scan_prefix_args, stni_scan_prefix_cpu, NULL),
};
