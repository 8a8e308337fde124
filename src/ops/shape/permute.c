/* permute, movedim: dims change places. No data moves: placements, cuts, memory order and strides follow their dims.
 *
 * Each op of the family is a way to read a permutation out of its attributes: output dim d is input dim from[d]. */
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

struct permutation {
    stn_status (*read)(const stn_op_call *call, int from[STN_MAX_NDIM]);
};

struct permute_attrs {
    stn_ints dims;
};

struct movedim_attrs {
    stn_ints source, destination;
};

stn_tensor *stn_permute(stn_tensor *input, int ndim, const int *dims)
{
    struct permute_attrs attrs = {0};
    if (!stni_list_read_dims(input, &(struct stni_list){"permute", "ndim", "dims", 0}, ndim, dims, &attrs.dims))
        return stni_call_error(input);
    return stni_call(STNI_OP_permute, 1, &input, &attrs);
}

stn_tensor *stn_movedim(stn_tensor *input, int n, const int *source, const int *destination)
{
    struct movedim_attrs attrs = {0};
    if (!stni_list_read_dims(input, &(struct stni_list){"movedim", "n", "source", 0}, n, source, &attrs.source) ||
        !stni_list_read_dims(input, &(struct stni_list){"movedim", "n", "destination", 0}, n, destination,
                             &attrs.destination))
        return stni_call_error(input);
    return stni_call(STNI_OP_movedim, 1, &input, &attrs);
}

/* A list of distinct dims, wrapped. */
static stn_status read_dims(const stn_op_call *call, const char *name, const stn_ints *list, int64_t wanted, int *out)
{
    uint32_t seen;
    int ndim = call->in_spec[0]->layout.ndim;
    if (list->n != wanted)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 " dims, wanted %" PRId64, name,
                           list->n < 0 ? 0 : list->n, wanted);
    STNI_TRY(stni_dims_mask(call, name, list, ndim, &seen));
    for (int64_t i = 0; i < list->n; i++)
        STNI_TRY(stni_dim_wrap(call, name, list->v[i], ndim, &out[i]));
    return STN_OK;
}

static stn_status read_permute(const stn_op_call *call, int from[STN_MAX_NDIM])
{
    const struct permute_attrs *attrs = call->attrs;
    return read_dims(call, "dims", &attrs->dims, call->in_spec[0]->layout.ndim, from);
}

/* The dims that are not named keep their order in the places that are left. */
static stn_status read_movedim(const stn_op_call *call, int from[STN_MAX_NDIM])
{
    const struct movedim_attrs *attrs = call->attrs;
    int ndim = call->in_spec[0]->layout.ndim, source[STN_MAX_NDIM], destination[STN_MAX_NDIM], next = 0;
    uint32_t moved = 0;
    STNI_TRY(read_dims(call, "source", &attrs->source, attrs->source.n < 0 ? 0 : attrs->source.n, source));
    STNI_TRY(
        read_dims(call, "destination", &attrs->destination, attrs->source.n < 0 ? 0 : attrs->source.n, destination));
    for (int d = 0; d < ndim; d++)
        from[d] = -1;
    for (int64_t i = 0; i < attrs->source.n; i++) {
        from[destination[i]] = source[i];
        moved |= 1u << source[i];
    }
    for (int d = 0; d < ndim; d++) {
        if (from[d] >= 0)
            continue;
        while (moved >> next & 1)
            next++;
        from[d] = next++;
    }
    return STN_OK;
}

static stn_status read(const stn_op_call *call, int from[STN_MAX_NDIM])
{
    return ((const struct permutation *)call->arg)->read(call, from);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    int from[STN_MAX_NDIM];
    STNI_TRY(read(call, from));
    meta->dtype = in->dtype;
    meta->ndim = in->ndim;
    for (int d = 0; d < in->ndim; d++)
        meta->shape[d] = in->shape[from[d]];
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_layout out = *in;
    int from[STN_MAX_NDIM], to[STN_MAX_NDIM] = {0};
    STNI_TRY(read(call, from));
    for (int d = 0; d < in->ndim; d++) {
        to[from[d]] = d;
        out.shape[d] = in->shape[from[d]];
        out.split[d] = in->split[from[d]];
    }
    for (int a = 0; in->mesh && a < in->mesh->ndim; a++)
        if (in->placement[a].kind == STN_PLACE_SHARD)
            out.placement[a] = stn_shard(to[in->placement[a].dim]);
    for (int k = 0; k < in->ndim; k++)
        out.memory_order[k] = (uint8_t)to[in->memory_order[k]];
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    int64_t strides[STN_MAX_NDIM] = {0};
    int from[STN_MAX_NDIM];
    STNI_TRY(read(call, from));
    for (int d = 0; d < call->in[0]->spec->layout.ndim; d++)
        strides[d] = call->in[0]->strides[from[d]];
    STNI_TRY(stn_op_alias(call, 0, call->in[0], 0, strides));
    stni_tensor_share(call->out[0], call->in[0]);
    return STN_OK;
}

/* The inverse. */
static stn_status backward(stn_backward_call *call)
{
    stn_op_call forward = {
        .context = call->context, .op = call->op, .attrs = call->attrs, .in_spec = call->in_spec, .arg = call->arg};
    int from[STN_MAX_NDIM], to[STN_MAX_NDIM], ndim = call->in_spec[0]->layout.ndim;
    STNI_TRY(read(&forward, from));
    for (int d = 0; d < ndim; d++)
        to[from[d]] = d;
    call->grad_in[0] = stn_permute(call->grad_out[0], ndim, to);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema permute_schema[] = {{"dims", STN_ATTR_INTS, offsetof(struct permute_attrs, dims), NULL}};
static const stn_attr_schema movedim_schema[] = {
    {"source", STN_ATTR_INTS, offsetof(struct movedim_attrs, source), NULL},
    {"destination", STN_ATTR_INTS, offsetof(struct movedim_attrs, destination), NULL},
};
static const struct permute_attrs permute_init = {{.n = -1}};
static const struct movedim_attrs movedim_init = {{.n = -1}, {.n = -1}};

static const stn_op_impl permute_impl = {.check = check, .place = place, .run = run, .backward = backward};

const stn_op_desc stni_op_permute = {
    .size = sizeof(stn_op_desc),
    .name = "permute",
    STN_INPUTS(inputs),
    STN_ATTRS(permute_schema, struct permute_attrs),
    .attrs_init = &permute_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &permute_impl,
    .arg = (void *)&(const struct permutation){read_permute},
    .signature = "input, dims",
};

const stn_op_desc stni_op_movedim = {
    .size = sizeof(stn_op_desc),
    .name = "movedim",
    STN_INPUTS(inputs),
    STN_ATTRS(movedim_schema, struct movedim_attrs),
    .attrs_init = &movedim_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &permute_impl,
    .arg = (void *)&(const struct permutation){read_movedim},
    .signature = "input, source, destination",
};
