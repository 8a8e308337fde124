/* unfold_backward: the adjoint of unfold. Each element of a dim is the sum of its places in windows.
 *
 * Where the dim is sharded, a rank gets the windows that touch its chunk as a halo. Where the windows' elements are
 * sharded, each rank sums over those that it has, and the sums stay pending. */
#include "ops/pool/unfold.h"

#include "core/context/context.h"
#include "core/base/dtype.h"
#include "ops/common/call.h"
#include "ops/exchange/stencil.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

stn_tensor *stni_unfold_backward(stn_tensor *grad, const struct stni_unfold_attrs *attrs)
{
    return stni_call(STNI_OP_unfold_backward, 1, &grad, attrs);
}

static stn_status read(const stn_op_call *call, struct stni_unfold *out)
{
    const struct stni_unfold_attrs *attrs = call->attrs;
    return stni_unfold_read(call, call->in_spec[0]->layout.ndim - 1, attrs->input_size, out);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *grad = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct stni_unfold u;
    if (!stni_dtype_is_floating(grad->dtype) && !stni_dtype_is_complex(grad->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'grad' got %s, wanted a floating or complex dtype",
                           stn_dtype_name(grad->dtype));
    if (grad->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got %d dims, wanted at least 2", grad->ndim);
    STNI_TRY(read(call, &u));
    if (grad->shape[u.dim] != u.n_windows || grad->shape[grad->ndim - 1] != u.size)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'grad' got %" PRId64 " windows of %" PRId64 ", wanted %" PRId64 " of %" PRId64,
                           grad->shape[u.dim], grad->shape[grad->ndim - 1], u.n_windows, u.size);
    *meta = (stn_meta){.dtype = grad->dtype, .ndim = grad->ndim - 1};
    memcpy(meta->shape, grad->shape, (size_t)meta->ndim * sizeof *meta->shape);
    meta->shape[u.dim] = u.n_in;
    return STN_OK;
}

struct solver {
    const stn_op_call *call;
    struct stni_unfold unfold;
};

static struct stni_range sources_of(const void *arg, int d, int64_t t)
{
    const struct solver *s = arg;
    (void)d;
    return stni_unfold_readers(&s->unfold, (struct stni_range){t, t + 1});
}

static struct stni_stencil stencil_of(const struct solver *s, const stn_spec *source, const stn_spec *target)
{
    return (struct stni_stencil){1, s->unfold.dim, s, sources_of, source, target};
}

/* The cotangent's layout without its last dim: what cuts that leaves sums pending. */
static void drop_last(const struct stni_layout *grad, const stn_meta *meta, struct stni_layout *out)
{
    int last = meta->ndim, n = 0;
    *out = *grad;
    out->ndim = last;
    memcpy(out->shape, meta->shape, sizeof out->shape);
    out->split[last] = NULL;
    for (int a = 0; out->mesh && a < out->mesh->ndim; a++)
        if (out->placement[a].kind == STN_PLACE_SHARD && out->placement[a].dim == last)
            out->placement[a] = stn_partial(STN_SUM);
    for (int k = 0; k <= last; k++)
        if (grad->memory_order[k] != last)
            out->memory_order[n++] = grad->memory_order[k];
    out->memory_order[last] = 0;
}

/* The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout want = call->in_spec[0]->layout, out;
    struct solver s = {.call = call};
    STNI_TRY(read(call, &s.unfold));
    stni_layout_reduce(&want, 1u << STN_SUM);
    drop_last(&want, &call->out_meta[0], &out);
    if (want.split[s.unfold.dim])
        STNI_TRY(stni_split_scaled(call->context, want.split[s.unfold.dim], s.unfold.n_in, &out.split[s.unfold.dim]));
    STNI_TRY(stni_spec_intern(call->context, &want, &call->want[0]));
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    struct stni_stencil stencil = stencil_of(&s, call->want[0], call->out_spec[0]);
    call->note = (uint64_t)stni_stencil_exchanges(&stencil);
    return STN_OK;
}

/* The dims that are not unfolded; the lanes are those nearest to each other in the result. */
static void set_outer(const struct solver *s, const stn_box *from, struct stni_unfold_args *a)
{
    const stn_tensor *to = s->call->out[0];
    int lane = -1;
    for (int d = 0; d < to->spec->layout.ndim; d++)
        if (d != s->unfold.dim && to->spec->local_shape[d] > 1 && (lane < 0 || to->strides[d] < to->strides[lane]))
            lane = d;
    a->lanes = lane < 0 ? 1 : to->spec->local_shape[lane];
    a->to_lane = lane < 0 ? 1 : to->strides[lane];
    a->from_lane = lane < 0 ? 1 : from->strides[lane];
    for (int d = 0; d < to->spec->layout.ndim; d++) {
        if (d == s->unfold.dim || d == lane || to->spec->local_shape[d] == 1)
            continue;
        a->outer[a->n_outer] = to->spec->local_shape[d];
        a->to_outer[a->n_outer] = to->strides[d];
        a->from_outer[a->n_outer++] = from->strides[d];
    }
}

static stn_status launch(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    const stn_tensor *to = s->call->out[0], *grad = s->call->in[0];
    int dim = s->unfold.dim, last = to->spec->layout.ndim;
    struct stni_unfold_args a;
    memset(&a, 0, sizeof a);
    a.dtype = to->spec->layout.dtype;
    a.unfold = s->unfold;
    a.target = part->target[0];
    a.windows = part->source[0];
    a.first_tap = grad->spec->local_offset[last];
    a.n_taps = grad->spec->local_shape[last];
    a.to_stride = to->strides[dim];
    a.window_stride = from->strides[dim];
    a.tap_stride = from->strides[last];
    set_outer(s, from, &a);
    a.from = from->data;
    a.to = (char *)to->data +
           (part->target[0].begin - to->spec->local_offset[dim]) * to->strides[dim] * (int64_t)stn_dtype_size(a.dtype);
    return stn_op_launch(s->call, 0, a.dtype, &a, sizeof a);
}

static stn_status run(stn_op_call *call)
{
    struct solver s = {.call = call};
    STNI_TRY(read(call, &s.unfold));
    struct stni_stencil stencil = stencil_of(&s, call->in[0]->spec, call->out[0]->spec);
    return stni_stencil_solve(call, &stencil, 1, call->in, (int)call->note, launch, &s);
}

static stn_status backward(stn_backward_call *call)
{
    call->grad_in[0] = stni_unfold(call->grad_out[0], call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "grad"}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_unfold_args)}};
enum {
    DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 | 1 << STN_DTYPE_C64 |
             1 << STN_DTYPE_C128
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", DTYPES, struct stni_unfold_args, stni_unfold_backward_cpu, NULL)};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .backward = backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_unfold_backward = {
    .size = sizeof(stn_op_desc),
    .name = "unfold_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_unfold_adjoint_schema, struct stni_unfold_attrs),
    .attrs_init = &stni_unfold_init,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
