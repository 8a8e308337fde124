/* What goes by a max pool's places: max_pool_backward adds cotangents up at the places, and max_pool_pick, its adjoint,
 * takes the elements that stand there. Each is the other's derivative, so that max pools can be differentiated to any
 * order.
 *
 * Where pooled dims are sharded, a rank gets the cotangents whose windows touch its chunk, with their places, as a
 * halo. */
#include "core/context/context.h"
#include "ops/pool/max.h"
#include "ops/pool/pick_kernel.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/placement/pointwise.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { GIVEN, INDICES };

/* Whether two windows may share an element. */
static int overlaps(const struct stni_pool_attrs *attrs)
{
    const stn_ints *kernel = &attrs->kernel_size, *stride = &attrs->stride, *dilation = &attrs->dilation;
    int found = attrs->adaptive != 0;
    for (int64_t d = 0; d < attrs->dims && !found; d++) {
        int64_t k = kernel->v[kernel->n > 1 ? d : 0],
                apart = dilation->n > 0 ? dilation->v[dilation->n > 1 ? d : 0] : 1;
        found = stride->n > 0 && stride->v[stride->n > 1 ? d : 0] < (k - 1) * apart + 1;
        found = found || (stride->n <= 0 && apart > 1);
    }
    return found;
}

stn_tensor *stni_max_pool_backward(stn_tensor *grad, stn_tensor *indices, const struct stni_pool_attrs *attrs)
{
    stn_dtype dtype = stn_tensor_is_error(grad) ? STN_DTYPE_F32 : stn_tensor_dtype(grad);
    int widen = overlaps(attrs) && (dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16);
    stn_tensor *in[] = {widen ? stn_cast(grad, STN_DTYPE_F32) : grad, indices};
    grad = stni_call(STNI_OP_max_pool_backward, 2, in, attrs);
    return widen ? stn_cast(grad, dtype) : grad;
}

stn_tensor *stni_max_pool_pick(stn_tensor *x, stn_tensor *indices, const struct stni_pool_attrs *attrs)
{
    return stni_call(STNI_OP_max_pool_pick, 2, (stn_tensor *[]){x, indices}, attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *given = &call->in_spec[GIVEN]->layout;
    struct stni_pooling pool;
    STNI_TRY(stni_check_floating(call, GIVEN));
    STNI_TRY(stni_check_dtype(call, INDICES, STN_DTYPE_I64, NULL));
    STNI_TRY(stni_pool_read(call, &pool));
    STNI_TRY(stni_check_shape(call, INDICES, pool.ndim, pool.out, "the pool's"));
    call->out_meta[0] = (stn_meta){.dtype = given->dtype, .ndim = pool.ndim};
    memcpy(call->out_meta[0].shape, stni_pool_is_adjoint(call) ? pool.in : pool.out, sizeof pool.in);
    return STN_OK;
}

struct solver {
    const stn_op_call *call;
    const struct stni_pooling *pool;
    int adjoint;
};

static struct stni_range sources_of(const void *arg, int d, int64_t t)
{
    const struct solver *s = arg;
    return stni_resample_sources(&s->pool->geometry.dim[d], s->adjoint, t);
}

static struct stni_stencil stencil_of(const struct solver *s, const stn_spec *source, const stn_spec *target)
{
    return (struct stni_stencil){s->pool->geometry.dims, s->pool->geometry.first, s, sources_of, source, target};
}

/* The cotangent and the indices are placed as pointwise operands are; a pending sum stays one beside indices that
 * every rank has. */
static stn_status place_adjoint(stn_op_call *call, const struct stni_pooling *pool)
{
    static const uint8_t linear[STNI_POINTWISE_MASKS] = {1u << GIVEN};
    stn_op_call like = *call;
    stn_meta meta = {.dtype = call->out_meta[0].dtype, .ndim = pool->ndim};
    const stn_spec *picked;
    struct stni_layout out;
    memcpy(meta.shape, pool->out, sizeof pool->out);
    like.out_meta = &meta;
    like.out_spec = &picked;
    STNI_TRY(stni_pointwise_place(&like, 2, linear));
    STNI_TRY(stni_resample_layout(call->context, &picked->layout, &pool->geometry, pool->in, &out));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* The field keeps its layout where it may; the indices are placed where the picked elements will be. */
static stn_status place_pick(stn_op_call *call, const struct stni_pooling *pool)
{
    struct stni_layout want = call->in_spec[GIVEN]->layout, out;
    stni_layout_reduce(&want, 1u << STN_SUM);
    STNI_TRY(stni_resample_layout(call->context, &want, &pool->geometry, pool->out, &out));
    STNI_TRY(stni_spec_intern(call->context, &want, &call->want[GIVEN]));
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    stni_layout_reduce(&out, 0);
    out.dtype = STN_DTYPE_I64;
    return stni_spec_intern(call->context, &out, &call->want[INDICES]);
}

/* The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_pooling pool;
    struct solver s = {call, &pool, stni_pool_is_adjoint(call)};
    STNI_TRY(stni_pool_read(call, &pool));
    STNI_TRY(s.adjoint ? place_adjoint(call, &pool) : place_pick(call, &pool));
    struct stni_stencil stencil = stencil_of(&s, call->want[GIVEN], call->out_spec[0]);
    call->note = (uint64_t)stni_stencil_exchanges(&stencil);
    return STN_OK;
}

/* Strides of a box along the pooled dims, in the last places of three, and along those before. */
static void set_strides(const struct solver *s, const int64_t *strides, int64_t *pooled, int64_t *outer)
{
    const struct stni_resample *g = &s->pool->geometry;
    for (int d = 0; d < g->dims; d++)
        pooled[STNI_RESAMPLE_DIMS - g->dims + d] = strides[g->first + d];
    outer[0] = strides[0];
    outer[1] = strides[g->first - 1];
}

/* Channels come innermost where they are neighbours in field, values and indices. */
static void set_outer(const struct solver *s, struct stni_pick_args *a)
{
    const stn_spec *spec = s->call->out[0]->spec;
    int c = s->pool->geometry.first - 1;
    int64_t channels = spec->local_shape[c];
    int wide = channels > 1 && a->outer_field[1] == 1 && a->outer_value[1] == 1 && a->outer_index[1] == 1;
    a->n_outer[0] = c > 0 ? spec->local_shape[0] : 1;
    a->n_outer[1] = wide ? 1 : channels;
    a->n_outer[2] = wide ? channels : 1;
}

static stn_box part_of(const stn_tensor *t, const struct solver *s, const struct stni_stencil_part *part)
{
    stn_box box;
    stni_tensor_box(t, &box);
    int64_t at = 0;
    for (int d = 0; d < s->pool->geometry.dims; d++) {
        int dim = s->pool->geometry.first + d;
        at += (part->target[d].begin - t->spec->local_offset[dim]) * t->strides[dim];
    }
    box.data = (char *)t->data + at * (int64_t)stn_dtype_size(t->spec->layout.dtype);
    return box;
}

static stn_status launch(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    const stn_op_call *call = s->call;
    const stn_box target = part_of(call->out[0], s, part);
    const stn_box index = s->adjoint ? from[INDICES] : part_of(call->in[INDICES], s, part);
    const stn_box *field = s->adjoint ? &target : from, *values = s->adjoint ? from : &target;
    struct stni_pick_args a;
    memset(&a, 0, sizeof a);
    a.dtype = call->out[0]->spec->layout.dtype;
    a.adds = s->adjoint;
    for (int p = 0, d = s->pool->geometry.dims - STNI_RESAMPLE_DIMS; p < STNI_RESAMPLE_DIMS; p++, d++) {
        a.n_in[p] = d < 0 ? 1 : s->pool->geometry.dim[d].n_in;
        a.n_values[p] = d < 0 ? 1 : stni_range_length(s->adjoint ? part->source[d] : part->target[d]);
        a.field_range[p] = d < 0 ? (struct stni_range){0, 1} : s->adjoint ? part->target[d] : part->source[d];
    }
    set_strides(s, field->strides, a.field_stride, a.outer_field);
    set_strides(s, values->strides, a.value_stride, a.outer_value);
    set_strides(s, index.strides, a.index_stride, a.outer_index);
    set_outer(s, &a);
    a.field = field->data, a.values = values->data, a.index = index.data;
    return stn_op_launch(call, 0, a.dtype, &a, sizeof a);
}

static stn_status run(stn_op_call *call)
{
    struct stni_pooling pool;
    struct solver s = {call, &pool, stni_pool_is_adjoint(call)};
    STNI_TRY(stni_pool_read(call, &pool));
    struct stni_stencil stencil = stencil_of(&s, call->in[GIVEN]->spec, call->out[0]->spec);
    return stni_stencil_solve(call, &stencil, s.adjoint ? 2 : 1, call->in, (int)call->note, launch, &s);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs & 1u << GIVEN ? 1u << INDICES : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_pool_attrs *attrs = call->attrs;
    int adjoint = ((const struct stni_pool_kind *)call->arg)->adjoint;
    if (call->needs & 1u << GIVEN)
        call->grad_in[GIVEN] =
            (adjoint ? stni_max_pool_pick : stni_max_pool_backward)(call->grad_out[0], call->in[INDICES], attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema adjoint_inputs[] = {{.name = "grad"}, {.name = "indices"}};
static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "indices"}};

static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_pick_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", STNI_RESAMPLE_DTYPES, struct stni_pick_args, stni_pick_cpu, NULL)};
static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_max_pool_backward = {
    .size = sizeof(stn_op_desc), .name = "max_pool_backward", STN_INPUTS(adjoint_inputs),
    STN_ATTRS(stni_pool_adjoint_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&stni_pool_adjoint, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_max_pool_pick = {
    .size = sizeof(stn_op_desc), .name = "max_pool_pick", STN_INPUTS(inputs),
    STN_ATTRS(stni_pool_adjoint_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&stni_pool_any, .flags = STN_OP_INTERNAL,
};
