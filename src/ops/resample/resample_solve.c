#include "ops/resample/resample_solve.h"

#include "core/context/context.h"

#include <string.h>

/* In the kernel's arguments, dims that are resampled take the last places of three. */
enum { DIMS = STNI_RESAMPLE_DIMS };

struct solver {
    const stn_op_call *call;
    const struct stni_resample *geometry;
    int transposed;
    const stn_tensor *target;
};

static struct stni_range sources_of(const void *arg, int d, int64_t t)
{
    const struct solver *s = arg;
    return stni_resample_sources(&s->geometry->dim[d], s->transposed, t);
}

static struct stni_stencil stencil_of(const struct solver *s, const stn_spec *source, const stn_spec *target)
{
    return (struct stni_stencil){s->geometry->dims, s->geometry->first, s, sources_of, source, target};
}

stn_status stni_resample_layout(stn_context *context, const struct stni_layout *in,
                                const struct stni_resample *geometry, const int64_t *shape, struct stni_layout *out)
{
    *out = *in;
    for (int d = geometry->first; d < in->ndim; d++) {
        out->shape[d] = shape[d];
        if (in->split[d] && shape[d] != in->shape[d])
            STNI_TRY(stni_split_scaled(context, in->split[d], shape[d], &out->split[d]));
    }
    return STN_OK;
}

stn_status stni_resample_place(stn_op_call *call, const struct stni_resample *geometry, int transposed, int *exchanges)
{
    struct solver s = {.geometry = geometry, .transposed = transposed};
    struct stni_layout want = call->in_spec[0]->layout, out;
    stni_layout_reduce(&want, 1u << STN_SUM);
    STNI_TRY(stni_resample_layout(call->context, &want, geometry, call->out_meta[0].shape, &out));
    STNI_TRY(stni_spec_intern(call->context, &want, &call->want[0]));
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    struct stni_stencil stencil = stencil_of(&s, call->want[0], call->out_spec[0]);
    *exchanges = stni_stencil_exchanges(&stencil);
    return STN_OK;
}

/* Of the dims before those that are resampled the last one is the channels. */
static void set_images(int c, const stn_tensor *to, const stn_box *from, struct stni_resample_args *a)
{
    int64_t channels = to->spec->local_shape[c];
    int wide = channels > 1 && from->strides[c] == 1 && to->strides[c] == 1;
    a->width = wide ? channels : 1;
    a->n_outer[0] = c > 0 ? to->spec->local_shape[0] : 1;
    a->n_outer[1] = wide ? 1 : channels;
    a->outer_source[0] = from->strides[0];
    a->outer_target[0] = to->strides[0];
    a->outer_source[1] = from->strides[c];
    a->outer_target[1] = to->strides[c];
}

int64_t stni_resample_fill(const struct stni_resample *geometry, const stn_tensor *target,
                           const struct stni_stencil_part *part, const stn_box *from, struct stni_resample_args *a)
{
    static const struct stni_resample_dim unchanged = {
        .n_in = 1, .n_out = 1, .mode = STNI_RESAMPLE_NEAREST, .dilation = 1};
    const stn_spec *spec = target->spec;
    int64_t at = 0;
    memset(a, 0, sizeof *a);
    a->dtype = spec->layout.dtype;
    for (int p = 0, d = geometry->dims - DIMS; p < DIMS; p++, d++) {
        int dim = geometry->first + d;
        a->dim[p] = unchanged;
        a->target[p] = a->source[p] = (struct stni_range){0, 1};
        if (d < 0)
            continue;
        a->dim[p] = geometry->dim[d];
        a->target[p] = part->target[d];
        a->source[p] = part->source[d];
        a->target_stride[p] = target->strides[dim];
        a->source_stride[p] = from->strides[dim];
        at += (part->target[d].begin - spec->local_offset[dim]) * a->target_stride[p];
    }
    set_images(geometry->first - 1, target, from, a);
    a->from = from->data;
    a->to = (char *)target->data + at * (int64_t)stn_dtype_size(a->dtype);
    return at;
}

static stn_status launch(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    struct stni_resample_args a;
    stni_resample_fill(s->geometry, s->target, part, from, &a);
    a.transposed = s->transposed;
    STNI_TRY(stn_op_scratch(s->call, stn_op_workspace(s->call, STNI_RESAMPLE_SLOT, a.dtype, &a), &a.work));
    return stn_op_launch(s->call, STNI_RESAMPLE_SLOT, a.dtype, &a, sizeof a);
}

stn_status stni_resample_solve(const stn_op_call *call, const struct stni_resample *geometry, int transposed,
                               stn_tensor *source, stn_tensor *target, int exchanges)
{
    struct solver s = {call, geometry, transposed, target};
    struct stni_stencil stencil = stencil_of(&s, source->spec, target->spec);
    return stni_stencil_solve(call, &stencil, 1, &source, exchanges, launch, &s);
}
