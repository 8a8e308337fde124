/* embedding_backward: rows of a cotangent added up by index, the gradient of embedding's table.
 *
 * Where `like`, whose layout alone is read, cuts the rows of the table, each sum goes to the row's owner (ops/util/route.h) and the result is
 * cut like it. Otherwise ranks that have different indices, or addends of the cotangent, leave a pending sum. Rows are added in the order
 * of their positions, ranks in theirs: two runs give the same bits. Linear in the cotangent; its adjoint is embedding. */
#include "ops/index/embedding.h"

#include "core/dtype.h"
#include "ops/util/call.h"
#include "ops/util/dims.h"
#include "ops/util/like.h"
#include "ops/util/route.h"

#include <inttypes.h>
#include <string.h>

enum { GRAD, INPUT, LIKE };
enum { PLAN, SUM, STORE };

struct embedding_backward_attrs {
    int64_t num_rows;
    stn_number padding_idx;
};

stn_tensor *stni_embedding_backward(stn_tensor *grad, stn_tensor *input, const stn_spec *weight, const stn_number *padding_idx)
{
    struct embedding_backward_attrs attrs = {weight->layout.shape[0], *padding_idx};
    stn_tensor *in[] = {grad, input, NULL};
    if (stni_like(grad->context, weight, &in[LIKE]) != STN_OK)
        return grad->context->error_tensor;
    stn_tensor *out = stni_call(STNI_OP_embedding_backward, 3, in, &attrs);
    stni_tensor_drop(&in[LIKE]);
    return out;
}

static stn_status check_grad(const stn_op_call *call)
{
    const struct stni_layout *grad = &call->in_spec[GRAD]->layout, *index = &call->in_spec[INPUT]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (!stn_dtype_is_differentiable(grad->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'grad' got %s, wanted a floating or complex dtype", stn_dtype_name(grad->dtype));
    if (grad->ndim == index->ndim + 1 && memcmp(grad->shape, index->shape, (size_t)index->ndim * sizeof *index->shape) == 0)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got shape %s, wanted input's %s and one dim more",
                       stni_shape_text(grad->ndim, grad->shape, got), stni_shape_text(index->ndim, index->shape, wanted));
}

static stn_status check_like(const stn_op_call *call, const stn_meta *out)
{
    const struct stni_layout *like = &call->in_spec[LIKE]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (like->ndim == 2 && memcmp(like->shape, out->shape, 2 * sizeof *out->shape) == 0)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'like' got shape %s, wanted %s", stni_shape_text(like->ndim, like->shape, got),
                       stni_shape_text(2, out->shape, wanted));
}

static stn_status check(stn_op_call *call)
{
    const struct embedding_backward_attrs *attrs = call->attrs;
    const struct stni_layout *grad = &call->in_spec[GRAD]->layout;
    stn_meta *meta = &call->out_meta[0];
    if (attrs->num_rows < 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'num_rows' got %" PRId64 ", wanted at least 0", attrs->num_rows);
    STNI_TRY(stni_embedding_check(call, &attrs->padding_idx, attrs->num_rows, call->in_spec[INPUT]));
    STNI_TRY(check_grad(call));
    *meta = (stn_meta){grad->dtype, 2, {attrs->num_rows, grad->shape[grad->ndim - 1]}};
    return call->in_spec[LIKE] ? check_like(call, meta) : STN_OK;
}

/* What one mesh axis does to each tensor. */
struct axis {
    stn_placement grad, index, out;
};

static int is_shard(stn_placement p)
{
    return p.kind == STN_PLACE_SHARD;
}

/* `rows`: the axis cuts the table's rows, so the sums go to their owners. */
static void place_axis(struct axis *axis, int last, int rows)
{
    if (axis->index.kind == STN_PLACE_PARTIAL)
        axis->index = stn_replicate();
    if (axis->grad.kind == STN_PLACE_PARTIAL && (axis->grad.op != STN_SUM || is_shard(axis->index)))
        axis->grad = stn_replicate();
    if (is_shard(axis->grad) && axis->grad.dim == last && !rows) {
        axis->index = stn_replicate();
        axis->out = stn_shard(1);
        return;
    }
    if (is_shard(axis->grad) && axis->grad.dim == last)
        axis->grad = stn_replicate();
    if (is_shard(axis->index))
        axis->grad = axis->index;
    else if (is_shard(axis->grad))
        axis->index = axis->grad;
    if (rows)
        axis->out = stn_shard(0);
    else
        axis->out = is_shard(axis->index) || axis->grad.kind == STN_PLACE_PARTIAL ? stn_partial(STN_SUM) : stn_replicate();
}

static int cuts_rows(const stn_op_call *call, int axis)
{
    return call->in_spec[LIKE] && is_shard(call->in_spec[LIKE]->layout.placement[axis]) &&
           call->in_spec[LIKE]->layout.placement[axis].dim == 0;
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout grad = call->in_spec[GRAD]->layout, index = call->in_spec[INPUT]->layout, out;
    const stn_meta *meta = &call->out_meta[0];
    int last = index.ndim;
    stni_layout_init(&out, grad.mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; grad.mesh && a < grad.mesh->ndim; a++) {
        struct axis axis = {grad.placement[a], index.placement[a], stn_replicate()};
        place_axis(&axis, last, cuts_rows(call, a));
        grad.placement[a] = axis.grad;
        index.placement[a] = axis.index;
        out.placement[a] = axis.out;
    }
    memset(grad.split, 0, sizeof grad.split);
    memset(index.split, 0, sizeof index.split);
    stni_cuts_take(&index, 0, &call->in_spec[INPUT]->layout, 0, last);
    stni_cuts_take(&index, 0, &call->in_spec[GRAD]->layout, 0, last);
    STNI_TRY(stni_spec_intern(call->context, &index, &call->want[INPUT]));
    stni_cuts_take(&grad, 0, &call->want[INPUT]->layout, 0, last);
    stni_cuts_take(&grad, last, &call->in_spec[GRAD]->layout, last, 1);
    STNI_TRY(stni_spec_intern(call->context, &grad, &call->want[GRAD]));
    if (call->in_spec[LIKE])
        stni_cuts_take(&out, 0, &call->in_spec[LIKE]->layout, 0, 1);
    stni_cuts_take(&out, 1, &call->want[GRAD]->layout, last, 1);
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* Sums rows by slot into dense memory of their own. */
static stn_status sum(const stn_op_call *call, struct stni_rows_sum_args *args, int64_t n_slots)
{
    stn_dtype dtype = stni_rows_sum_dtype(args->dtype);
    STNI_TRY(stni_rows_memory(call, n_slots * args->rows.width, stn_dtype_size(dtype), &args->sums));
    return stn_op_launch(call, SUM, args->dtype, args, sizeof *args);
}

static stn_status store(const stn_op_call *call, const struct stni_rows_route *route, const struct stni_rows_sum_args *sums)
{
    const stn_tensor *out = call->out[0];
    struct stni_rows_store_args args = {
        .table = out->data,
        .dtype = out->spec->layout.dtype,
        .n_table = out->spec->local_shape[0],
        .first = out->spec->local_offset[0],
        .width = out->spec->local_shape[1],
        .stride = out->strides[0],
        .step = out->strides[1],
        .unique = route->asked,
        .count = sums->count,
        .sums = sums->sums,
    };
    return stn_op_launch(call, STORE, args.dtype, &args, sizeof args);
}

/* What came from several ranks is added up at the owner: the same again, with the received rows for the cotangent. */
static stn_status add_received(const stn_op_call *call, const struct stni_rows_route *route, const void *rows, int64_t width)
{
    struct stni_rows_owners here = {.spec = call->out[0]->spec};
    struct stni_rows_plan_args plan = {.index_dtype = STN_DTYPE_I64, .skip = -1};
    struct stni_rows_route merged;
    plan.index = stni_rows_dense(route->received, route->n_received, 1);
    STNI_TRY(stni_rows_open(call, PLAN, &here, &plan, &merged));
    struct stni_rows_sum_args sums = {
        .rows = stni_rows_dense(rows, route->n_received, width),
        .dtype = call->out[0]->spec->layout.dtype,
        .sums_in = 1,
        .slot = merged.slot,
        .count = merged.received_n,
    };
    STNI_TRY(sum(call, &sums, route->n_received));
    return store(call, &merged, &sums);
}

static stn_status send_sums(const stn_op_call *call, struct stni_rows_route *route, const struct stni_rows_sum_args *sums)
{
    stn_dtype dtype = stni_rows_sum_dtype(sums->dtype);
    int64_t width = sums->rows.width;
    void *rows;
    STNI_TRY(stni_rows_memory(call, route->n_received * width, stn_dtype_size(dtype), &rows));
    STNI_TRY(stni_rows_send(route, sums->sums, rows, width, dtype));
    return add_received(call, route, rows, width);
}

/* Axes along which ranks have different addends for the rows of one owner. */
static uint32_t routed_axes(const stn_op_call *call)
{
    uint32_t rows = stni_layout_axes_mask(&call->out[0]->spec->layout, 0);
    return rows & (call->in[INPUT]->spec->shard_axes | call->in[GRAD]->spec->partial_axes);
}

static stn_status run(stn_op_call *call)
{
    const struct embedding_backward_attrs *attrs = call->attrs;
    const stn_tensor *grad = call->in[GRAD], *index = call->in[INPUT];
    int n_dims = index->spec->layout.ndim;
    struct stni_rows_route route;
    if (grad->spec->layout.mesh && !grad->spec->layout.mesh->member)
        return STN_OK;
    struct stni_rows_owners owners = {.spec = call->out[0]->spec, .axes = routed_axes(call)};
    struct stni_rows_plan_args plan = {.index_dtype = index->spec->layout.dtype};
    plan.skip = stni_padding_row(&attrs->padding_idx, attrs->num_rows);
    stni_rows_make(index, n_dims, &plan.index);
    stni_embedding_report(index, "embedding_backward", &plan.report);
    STNI_TRY(stni_rows_open(call, PLAN, &owners, &plan, &route));

    struct stni_rows_sum_args sums = {.dtype = grad->spec->layout.dtype, .slot = route.slot, .count = route.counts + plan.n_ranks};
    stni_rows_make(grad, n_dims, &sums.rows);
    stn_status status = sum(call, &sums, route.comm ? route.n_asked : sums.rows.n);
    if (status == STN_OK)
        status = route.comm ? send_sums(call, &route, &sums) : store(call, &route, &sums);
    stni_rows_close(&route);
    return status;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs >> GRAD & 1 ? 1u << INPUT : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct embedding_backward_attrs *attrs = call->attrs;
    call->grad_in[GRAD] = stni_embedding_unpadded(call->in[INPUT], call->grad_out[0], &attrs->padding_idx);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {
    [GRAD] = {.name = "grad"},
    [INPUT] = {.name = "input"},
    [LIKE] = {.name = "like", .optional = 1},
};

static const stn_attr_schema attrs[] = {
    {"num_rows", STN_ATTR_INT, offsetof(struct embedding_backward_attrs, num_rows), NULL},
    {"padding_idx", STN_ATTR_NUMBER, offsetof(struct embedding_backward_attrs, padding_idx), NULL},
};

enum {
    SUMMED_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 | 1 << STN_DTYPE_C64 |
                    1 << STN_DTYPE_C128
};

static const stn_kernel_slot slots[] = {
    [PLAN] = {"embedding_backward.plan", sizeof(struct stni_rows_plan_args)},
    [SUM] = {"embedding_backward.sum", sizeof(struct stni_rows_sum_args)},
    [STORE] = {"embedding_backward.store", sizeof(struct stni_rows_store_args)},
};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "embedding_backward.plan", "cpu", STNI_INDEX_DTYPES, sizeof(struct stni_rows_plan_args),
     stni_rows_plan_cpu},
    {sizeof(stn_kernel), "embedding_backward.sum", "cpu", SUMMED_DTYPES, sizeof(struct stni_rows_sum_args), stni_rows_sum_cpu},
    {sizeof(stn_kernel), "embedding_backward.store", "cpu", SUMMED_DTYPES, sizeof(struct stni_rows_store_args),
     stni_rows_store_cpu},
};

const stn_op_desc stni_op_embedding_backward = {
    .size = sizeof(stn_op_desc),
    .name = "embedding_backward",
    .inputs = inputs,
    .n_inputs = 3,
    .attrs = attrs,
    .n_attrs = 2,
    .attrs_size = sizeof(struct embedding_backward_attrs),
    .n_outputs = 1,
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    .slots = slots,
    .n_slots = 3,
    .kernels = kernels,
    .n_kernels = 3,
};
