/* The max pool that has one part along every pooled dim, where these are cut: as a pool over windows it would lie on
 * one rank, which all elements would have to come to. Each rank pools what it holds, ranks gather their maxima and
 * the places of these, and each chooses. */
#include "core/base/dtype.h"
#include "core/base/host_alloc.h"
#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/pool/global_max_kernel.h"
#include "ops/pool/max.h"
#include "ops/pool/max_kernel.h"
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { POOL, CHOOSE };
enum { VALUES, INDICES };

/* The note: the axes along which maxima are gathered, those that cut pooled dims. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout want = call->in_spec[0]->layout, out;
    struct stni_pooling pool;
    STNI_TRY(stni_pool_read(call, &pool));
    stni_layout_reduce(&want, 0);
    out = want;
    for (int d = pool.geometry.first; d < out.ndim; d++) {
        const uint32_t axes = stni_layout_axes_mask(&want, d);
        for (int a = 0; axes >> a; a++)
            if (axes >> a & 1)
                out.placement[a] = stn_replicate();
        call->note |= axes;
        out.shape[d] = 1;
        out.split[d] = NULL;
    }
    STNI_TRY(stni_spec_intern(call->context, &want, &call->want[0]));
    for (int k = 0; k < call->n_out; k++) {
        out.dtype = call->out_meta[k].dtype;
        STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[k]));
    }
    return STN_OK;
}

/* This rank's elements as one window of the whole input, so that places are those in it. */
static void describe_chunk(const stn_op_call *call, const struct stni_pooling *pool, struct stni_max_args *args)
{
    const stn_tensor *in = call->in[0];
    struct stni_resample geometry = pool->geometry;
    struct stni_stencil_part part;
    stn_box from;
    for (int d = 0; d < geometry.dims; d++) {
        const int64_t begin = in->spec->local_offset[geometry.first + d], n = in->spec->local_shape[geometry.first + d];
        geometry.dim[d] = (struct stni_resample_dim){.n_in = pool->geometry.dim[d].n_in,
                                                     .n_out = 1,
                                                     .mode = STNI_RESAMPLE_WINDOW,
                                                     .kernel = n,
                                                     .stride = 1,
                                                     .dilation = 1,
                                                     .pad = -begin};
        part.source[d] = stni_range_of(begin, begin + n);
        part.target[d] = stni_range_of(0, 1);
    }
    stni_tensor_box(in, &from);
    memset(args, 0, sizeof *args);
    stni_resample_fill(&geometry, call->out[VALUES], &part, &from, &args->at);
}

/* The maxima of this rank's elements, which lie as the op's outputs do. */
static stn_status pool_chunk(const stn_op_call *call, const struct stni_pooling *pool, void *values, int64_t *places)
{
    struct stni_max_args args;
    describe_chunk(call, pool, &args);
    args.at.to = values;
    args.index = places;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, POOL, args.at.dtype, &args), &args.at.work));
    return stn_op_launch(call, POOL, args.at.dtype, &args, sizeof args);
}

static stn_status gather(const stn_op_call *call, stn_comm *comm, const void *own, void *all, int64_t count,
                         stn_dtype dtype)
{
    const size_t bytes = (size_t)comm->size * sizeof(int64_t);
    int64_t *counts = stni_malloc(bytes);
    if (!counts)
        return stni_fail_memory(call->context, "counts of maxima", bytes);
    for (int r = 0; r < comm->size; r++)
        counts[r] = count;
    const stn_status status = stni_comm_all_gather(comm, call->context->queue, own, all, counts, dtype);
    stni_free(counts);
    return status;
}

/* Memory for maxima and their places. */
static stn_status take(const stn_op_call *call, int64_t count, stn_dtype dtype, void **values, int64_t **places)
{
    void *memory;
    STNI_TRY(stn_op_scratch(call, (size_t)count * stn_dtype_size(dtype), values));
    STNI_TRY(stn_op_scratch(call, (size_t)count * sizeof **places, &memory));
    *places = memory;
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const int64_t count = call->out[VALUES]->spec->local_numel;
    const stn_dtype dtype = call->out[VALUES]->spec->layout.dtype;
    struct stni_pooling pool;
    stn_comm *comm;
    void *own, *all;
    int64_t *own_places, *all_places;
    STNI_TRY(stni_pool_read(call, &pool));
    if (count == 0)
        return STN_OK;
    STNI_TRY(stni_mesh_comm(call->in[0]->spec->layout.mesh, (uint32_t)call->note, &comm));
    STNI_TRY(take(call, count, dtype, &own, &own_places));
    STNI_TRY(take(call, comm->size * count, dtype, &all, &all_places));
    STNI_TRY(pool_chunk(call, &pool, own, own_places));
    STNI_TRY(gather(call, comm, own, all, count, dtype));
    STNI_TRY(gather(call, comm, own_places, all_places, count, STN_DTYPE_I64));
    const struct stni_global_max_args args = {.dtype = dtype,
                                              .n_parts = comm->size,
                                              .count = count,
                                              .values = all,
                                              .places = all_places,
                                              .to = call->out[VALUES]->data,
                                              .index = call->n_out > INDICES ? call->out[INDICES]->data : NULL};
    return stn_op_launch(call, CHOOSE, dtype, &args, sizeof args);
}

/* Each rank has what its own elements get. */
static stn_status backward(stn_backward_call *call)
{
    const struct stni_pool_attrs *attrs = call->attrs;
    const stn_spec *like = call->want[0];
    if (!call->grad_out[VALUES])
        return STN_OK;
    STNI_TRY(stni_max_pool_check_places(call));
    stn_tensor *in[] = {stni_expand_as(call->grad_out[VALUES], like), stni_expand_as(call->out[INDICES], like)};
    call->grad_in[0] = stni_call(STNI_OP_max_pool_keep, 2, in, &(struct stni_max_keep_attrs){attrs->dims});
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_kernel_slot slots[] = {{"pool", sizeof(struct stni_max_args)},
                                        {"choose", sizeof(struct stni_global_max_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("pool", STNI_MAX_DTYPES, struct stni_max_args, stni_max, stni_max_workspace),
    STNI_CPU_ROW("choose", STNI_MAX_DTYPES, struct stni_global_max_args, stni_global_max_cpu, NULL)};
static const stn_op_impl impl = {
    .check = stni_max_pool_check,
    .place = place,
    .run = run,
    .saves = stni_max_pool_saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_global_max_pool = {
    .size = sizeof(stn_op_desc),
    .name = "global_max_pool",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_max_pool_schema, struct stni_pool_attrs),
    .attrs_init = &stni_pool_attrs_init,
    .n_outputs = 2,
    .impl = &impl,
    .arg = (void *)&stni_pool_any,
    .flags = STN_OP_INTERNAL,
};
