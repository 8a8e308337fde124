/* embedding: rows of a table by index.
 *
 * A table whose rows are all here is one kernel. Where rows are cut over ranks, the indices are routed to their owners and the rows come back
 * (ops/util/route.h). Linear in the table, so that a pending sum of it is kept. */
#include "ops/index/embedding.h"

#include "ops/util/call.h"
#include "ops/util/route.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { INPUT, WEIGHT };
enum { PLAN, GATHER };

struct embedding_attrs {
    stn_number padding_idx;
    int64_t zero_padding; /* 1: the padding row reads zeros. The adjoint of embedding_backward */
};

stn_tensor *stn_embedding(stn_tensor *input, stn_tensor *weight, const int64_t *padding_index)
{
    struct embedding_attrs attrs = {0};
    stn_tensor *in[] = {input, weight};
    if (padding_index)
        attrs.padding_idx = (stn_number){STN_NUMBER_INT, *padding_index, (double)*padding_index};
    return stni_call(STNI_OP_embedding, 2, in, &attrs);
}

stn_tensor *stni_embedding_unpadded(stn_tensor *input, stn_tensor *weight, const stn_number *padding_idx)
{
    struct embedding_attrs attrs = {*padding_idx, 1};
    stn_tensor *in[] = {input, weight};
    return stni_call(STNI_OP_embedding, 2, in, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct embedding_attrs *attrs = call->attrs;
    const struct stni_layout *index = &call->in_spec[INPUT]->layout, *weight = &call->in_spec[WEIGHT]->layout;
    stn_meta *meta = &call->out_meta[0];
    if (weight->ndim != 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'weight' got %d dims, wanted 2", weight->ndim);
    if (index->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", index->ndim, STN_MAX_NDIM - 1);
    STNI_TRY(stni_embedding_check(call, &attrs->padding_idx, weight->shape[0], call->in_spec[INPUT]));
    meta->dtype = weight->dtype;
    meta->ndim = index->ndim + 1;
    memcpy(meta->shape, index->shape, sizeof meta->shape);
    meta->shape[index->ndim] = weight->shape[1];
    return STN_OK;
}

/* Both dims of the output that an axis could shard want it: whether it is cheaper to gather the indices than the table. */
static int indices_are_smaller(const stn_op_call *call)
{
    const stn_spec *index = call->in_spec[INPUT], *weight = call->in_spec[WEIGHT];
    return index->numel * (int64_t)stn_dtype_size(index->layout.dtype) <=
           weight->numel * (int64_t)stn_dtype_size(weight->layout.dtype);
}

/* One mesh axis: what it does to the indices, to the table (both may change) and to the output. */
static stn_placement place_axis(const stn_op_call *call, stn_placement *index, stn_placement *weight)
{
    int last = call->in_spec[INPUT]->layout.ndim;
    if (index->kind == STN_PLACE_PARTIAL)
        *index = stn_replicate();
    if (weight->kind == STN_PLACE_PARTIAL && (weight->op != STN_SUM || index->kind == STN_PLACE_SHARD))
        *weight = stn_replicate();
    if (weight->kind == STN_PLACE_PARTIAL)
        return *weight;
    if (weight->kind == STN_PLACE_REPLICATE || weight->dim == 0)
        return *index;
    if (index->kind == STN_PLACE_SHARD && !indices_are_smaller(call)) {
        *weight = stn_replicate();
        return *index;
    }
    *index = stn_replicate();
    return stn_shard(last);
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout index = call->in_spec[INPUT]->layout, weight = call->in_spec[WEIGHT]->layout, out;
    const stn_meta *meta = &call->out_meta[0];
    stni_layout_init(&out, index.mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; index.mesh && a < index.mesh->ndim; a++)
        out.placement[a] = place_axis(call, &index.placement[a], &weight.placement[a]);
    STNI_TRY(stni_spec_intern(call->context, &index, &call->want[INPUT]));
    STNI_TRY(stni_spec_intern(call->context, &weight, &call->want[WEIGHT]));
    stni_cuts_take(&out, 0, &call->want[INPUT]->layout, 0, index.ndim);
    stni_cuts_take(&out, index.ndim, &call->want[WEIGHT]->layout, 1, 1);
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static int64_t skipped_row(const stn_op_call *call, int64_t n_rows)
{
    const struct embedding_attrs *attrs = call->attrs;
    return attrs->zero_padding ? stni_padding_row(&attrs->padding_idx, n_rows) : -1;
}

/* Rows of the chunk of the table that is here. */
static struct stni_rows_gather_args gather_args(const stn_tensor *weight)
{
    const stn_spec *spec = weight->spec;
    return (struct stni_rows_gather_args){
        .index_dtype = STN_DTYPE_I64,
        .element_size = stn_dtype_size(spec->layout.dtype),
        .table = weight->data,
        .n_table = spec->local_shape[0],
        .first = spec->local_offset[0],
        .stride = weight->strides[0],
        .step = weight->strides[1],
        .n_rows = spec->layout.shape[0],
        .skip = -1,
    };
}

static stn_status gather(const stn_op_call *call, stn_dtype dtype, const struct stni_rows_gather_args *args)
{
    return args->index.n > 0 ? stn_op_launch(call, GATHER, dtype, args, sizeof *args) : STN_OK;
}

static stn_status run_here(stn_op_call *call)
{
    const stn_tensor *index = call->in[INPUT], *weight = call->in[WEIGHT];
    int n_dims = index->spec->layout.ndim;
    struct stni_rows_gather_args args = gather_args(weight);
    stni_rows_make(index, n_dims, &args.index);
    stni_rows_make(call->out[0], n_dims, &args.out);
    args.index_dtype = index->spec->layout.dtype;
    args.skip = skipped_row(call, args.n_rows);
    stni_embedding_report(index, "embedding", &args.report);
    return gather(call, weight->spec->layout.dtype, &args);
}

/* Owners read their rows and send them; who asked deals them out. */
static stn_status answer(stn_op_call *call, struct stni_rows_route *route)
{
    const stn_tensor *weight = call->in[WEIGHT];
    stn_dtype dtype = weight->spec->layout.dtype;
    int64_t width = weight->spec->local_shape[1];
    struct stni_rows_gather_args read = gather_args(weight), deal = read;
    void *rows, *answers;
    STNI_TRY(stni_rows_memory(call, route->n_received * width, stn_dtype_size(dtype), &rows));
    STNI_TRY(stni_rows_memory(call, route->n_asked * width, stn_dtype_size(dtype), &answers));
    read.index = stni_rows_dense(route->received, route->n_received, 1);
    read.out = stni_rows_dense(rows, route->n_received, width);
    STNI_TRY(gather(call, dtype, &read));
    STNI_TRY(stni_rows_reply(route, rows, answers, width, dtype));

    stni_rows_make(call->out[0], call->in[INPUT]->spec->layout.ndim, &deal.out);
    deal.index = stni_rows_dense(route->slot, deal.out.n, 1);
    deal.table = answers;
    deal.n_table = deal.n_rows = route->n_asked;
    deal.first = 0;
    deal.stride = width;
    deal.step = 1;
    return gather(call, dtype, &deal);
}

static stn_status run_routed(stn_op_call *call, uint32_t axes)
{
    const stn_tensor *index = call->in[INPUT];
    struct stni_rows_owners owners = {.spec = call->in[WEIGHT]->spec, .axes = axes};
    struct stni_rows_plan_args args = {.index_dtype = index->spec->layout.dtype};
    struct stni_rows_route route;
    stni_rows_make(index, index->spec->layout.ndim, &args.index);
    args.skip = skipped_row(call, owners.spec->layout.shape[0]);
    stni_embedding_report(index, "embedding", &args.report);
    STNI_TRY(stni_rows_open(call, PLAN, &owners, &args, &route));
    stn_status status = answer(call, &route);
    stni_rows_close(&route);
    return status;
}

static stn_status run(stn_op_call *call)
{
    const stn_spec *weight = call->in[WEIGHT]->spec;
    uint32_t axes = stni_layout_axes_mask(&weight->layout, 0);
    if (weight->layout.mesh && !weight->layout.mesh->member)
        return STN_OK;
    return axes ? run_routed(call, axes) : run_here(call);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs >> WEIGHT & 1 ? 1u << INPUT : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct embedding_attrs *attrs = call->attrs;
    const stn_spec *weight = call->in_spec[WEIGHT];
    call->grad_in[WEIGHT] = stni_embedding_backward(call->grad_out[0], call->in[INPUT], weight, &attrs->padding_idx);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[INPUT] = {.name = "input"}, [WEIGHT] = {.name = "weight"}};
static const stn_attr_schema attrs[] = {
    {"padding_idx", STN_ATTR_NUMBER, offsetof(struct embedding_attrs, padding_idx), NULL},
    {"zero_padding", STN_ATTR_BOOL, offsetof(struct embedding_attrs, zero_padding), NULL},
};

static const stn_kernel_slot slots[] = {
    [PLAN] = {"embedding.plan", sizeof(struct stni_rows_plan_args)},
    [GATHER] = {"embedding.gather", sizeof(struct stni_rows_gather_args)},
};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "embedding.plan", "cpu", STNI_INDEX_DTYPES, sizeof(struct stni_rows_plan_args), stni_rows_plan_cpu},
    {sizeof(stn_kernel), "embedding.gather", "cpu", STNI_ALL_DTYPES, sizeof(struct stni_rows_gather_args), stni_rows_gather_cpu},
};

const stn_op_desc stni_op_embedding = {
    .size = sizeof(stn_op_desc),
    .name = "embedding",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = attrs,
    .n_attrs = 2,
    .attrs_size = sizeof(struct embedding_attrs),
    .n_outputs = 1,
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    .slots = slots,
    .n_slots = 2,
    .kernels = kernels,
    .n_kernels = 2,
};
