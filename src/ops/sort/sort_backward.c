/* sort_backward: the gradient of a line that its ranks sorted together. Each element of the cotangent goes to the
 * rank that held that element before the sort. Every index occurs once, so that each rank receives as many as it
 * holds. Linear; its adjoint reads the elements where they were sent. */
#include "dispatch/services.h"
#include "ops/sort/sort_family.h"
#include "ops/sort/line_exchange.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/exchange/row_router.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

enum { GRAD, INDICES };
enum { PACK, PLACE };

struct send_back_attrs {
    int64_t dim; /* 0 <= dim < ndim */
};

stn_tensor *stni_sort_send_back(stn_tensor *grad, stn_tensor *indices, int dim)
{
    const struct send_back_attrs attrs = {dim};
    return stni_call(STNI_OP_sort_backward, 2, (stn_tensor *[]){grad, indices}, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct send_back_attrs *attrs = call->attrs;
    const struct stni_layout *grad = &call->in_spec[GRAD]->layout, *indices = &call->in_spec[INDICES]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (attrs->dim < 0 || attrs->dim >= indices->ndim || stni_sort_lines_of(indices, (int)attrs->dim) != 1)
        return stn_op_fail(call, STN_ERR_SHAPE, "'indices' got %d dims, wanted all of size 1 but 'dim', which got %d",
                           indices->ndim, (int)attrs->dim);
    if (indices->dtype != STN_DTYPE_I64)
        return stn_op_fail(call, STN_ERR_DTYPE, "'indices' got %s, wanted i64", stn_dtype_name(indices->dtype));
    if (grad->ndim != indices->ndim || memcmp(grad->shape, indices->shape, sizeof grad->shape) != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got shape %s, wanted that of 'indices', %s",
                           stni_shape_text(grad->ndim, grad->shape, got),
                           stni_shape_text(indices->ndim, indices->shape, wanted));
    call->out_meta[0] = stni_meta_of(grad);
    return STN_OK;
}

/* All as the indices are. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout layout = call->in_spec[INDICES]->layout;
    stni_layout_reduce(&layout, 0);
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[INDICES]));
    layout.dtype = call->out_meta[0].dtype;
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[GRAD]));
    call->out_spec[0] = call->want[GRAD];
    return STN_OK;
}

static stn_status place_own(const stn_op_call *call, int dim, const void *grad, const int64_t *indices)
{
    const stn_tensor *out = call->out[0];
    struct stni_sort_along_args args = {.size = stn_dtype_size(out->spec->layout.dtype),
                                        .whole_bytes = out->spec->local_bytes,
                                        .k = out->spec->local_shape[dim],
                                        .whole = out->data,
                                        .part = (void *)grad,
                                        .indices = indices};
    args.lines = (struct stni_sort_lines){.step = {1, 1, 1},
                                          .n_along = 1,
                                          .along = {args.k},
                                          .along_in = {out->strides[dim]},
                                          .along_index = {1},
                                          .first = out->spec->local_offset[dim],
                                          .n = args.k};
    return args.k > 0 ? stn_op_launch(call, PLACE, out->spec->layout.dtype, &args, sizeof args) : STN_OK;
}

static stn_status pack_args(const stn_op_call *call, const struct stni_sort_swap *swap,
                            struct stni_sort_pack_args *args)
{
    const stn_tensor *grad = call->in[GRAD], *indices = call->in[INDICES];
    *args = (struct stni_sort_pack_args){.size = stn_dtype_size(grad->spec->layout.dtype),
                                         .n = grad->spec->local_shape[swap->dim],
                                         .grad = grad->data,
                                         .grad_step = grad->strides[swap->dim],
                                         .indices = indices->data,
                                         .indices_step = indices->strides[swap->dim],
                                         .n_pieces = swap->p,
                                         .begins = swap->begins,
                                         .pieces = swap->pieces};
    STNI_TRY(stni_rows_memory(call, swap->p, sizeof(int64_t), &args->counts));
    const size_t bytes = stn_op_workspace(call, PACK, grad->spec->layout.dtype, args);
    return stni_rows_memory(call, (int64_t)bytes, 1, &args->work);
}

/* Gives back what it took. */
static stn_status send_indices(const stn_op_call *call, struct stni_sort_swap *swap, struct stni_sort_pack_args args,
                               int64_t *came)
{
    const int mark = stni_scratch_mark(call->context);
    STNI_TRY(stni_rows_memory(call, args.n, sizeof(int64_t), &args.packed_indices));
    STNI_TRY(stn_op_launch(call, PACK, call->in[GRAD]->spec->layout.dtype, &args, sizeof args));
    STNI_TRY(stni_sort_swap_counts(swap, args.counts));
    stn_status status = stni_sort_swap_send(swap, STN_DTYPE_I64, args.packed_indices, came);
    stni_scratch_release(call->context, mark);
    return status;
}

static stn_status send_grad(const stn_op_call *call, const struct stni_sort_swap *swap, struct stni_sort_pack_args args,
                            void *came)
{
    const stn_dtype dtype = call->in[GRAD]->spec->layout.dtype;
    STNI_TRY(stni_rows_memory(call, args.n, args.size, &args.packed));
    STNI_TRY(stn_op_launch(call, PACK, dtype, &args, sizeof args));
    return stni_sort_swap_send(swap, dtype, args.packed, came);
}

static stn_status run_shared(const stn_op_call *call, struct stni_sort_swap *swap, int dim, uint32_t axes)
{
    struct stni_sort_pack_args args;
    void *came;
    int64_t *came_indices;
    STNI_TRY(stni_sort_swap_begin(swap, call, call->in[GRAD]->spec, dim, axes));
    STNI_TRY(pack_args(call, swap, &args));
    STNI_TRY(stni_rows_memory(call, args.n, sizeof(int64_t), &came_indices));
    STNI_TRY(send_indices(call, swap, args, came_indices));
    STNI_TRY(stni_rows_memory(call, args.n, args.size, &came));
    STNI_TRY(send_grad(call, swap, args, came));
    return place_own(call, dim, came, came_indices);
}

static stn_status run(stn_op_call *call)
{
    const int dim = (int)((const struct send_back_attrs *)call->attrs)->dim;
    const stn_spec *spec = call->in[GRAD]->spec;
    struct stni_sort_swap swap = {.call = call};
    uint32_t axes;
    if (!stni_sort_has_lines(spec, dim))
        return STN_OK;
    if (stni_dim_ranks(&spec->layout, dim, &axes) == 1)
        return place_own(call, dim, call->in[GRAD]->data, call->in[INDICES]->data);
    return stni_sort_swap_end(&swap, run_shared(call, &swap, dim, axes));
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << INDICES : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_layout *layout = &call->in_spec[GRAD]->layout;
    const int64_t n = layout->shape[((const struct send_back_attrs *)call->attrs)->dim], rows[] = {n, 1};
    if (call->grad_out[0] && call->needs >> GRAD & 1)
        call->grad_in[GRAD] =
            stn_view(stn_embedding(stn_view(call->in[INDICES], 1, rows), stn_view(call->grad_out[0], 2, rows), NULL),
                     layout->ndim, layout->shape);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[GRAD] = {.name = "grad"}, [INDICES] = {.name = "indices"}};
static const stn_attr_schema attrs_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct send_back_attrs, dim), NULL}};

static const stn_kernel_slot slots[] = {
    [PACK] = {"pack", sizeof(struct stni_sort_pack_args)},
    [PLACE] = {"place", sizeof(struct stni_sort_along_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("pack", STNI_SORT_ALL, struct stni_sort_pack_args, stni_sort_pack_cpu, stni_sort_pack_workspace),
    STNI_CPU_ROW("place", STNI_SORT_ALL, struct stni_sort_along_args, stni_sort_place_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_sort_backward = {
    .size = sizeof(stn_op_desc),
    .name = "sort_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct send_back_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
