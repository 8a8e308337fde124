#include "ops/fft/stage_path.h"

#include "ops/common/dims.h"
#include "ops/fft/fft_kernel.h"
#include "ops/placement/unshard.h"

uint32_t stni_stage_changing(const stn_op_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const stn_ints last = {.n = 1, .v = {attrs->dims.v[attrs->dims.n > 0 ? attrs->dims.n - 1 : 0]}};
    return stni_stage_kind(call) == STNI_STAGE_COMPLEX ? 0 : stni_dims_mask_of(&last, call->in_spec[0]->layout.ndim);
}

int stni_stage_count(uint32_t dims)
{
    int n = 0;
    for (; dims; dims &= dims - 1)
        n++;
    return n;
}

/* The first n of these, and the last; all where there are not so many. */
static uint32_t first_dims(uint32_t dims, int n)
{
    uint32_t rest = dims;
    while (n-- > 0)
        rest &= rest - 1;
    return dims & ~rest;
}

static uint32_t last_dims(uint32_t dims, int n)
{
    while (stni_stage_count(dims) > n)
        dims &= dims - 1;
    return dims;
}

uint32_t stni_stage_next_dims(const stn_op_call *call, uint32_t left, uint32_t cut, int most)
{
    const uint32_t changing = left & stni_stage_changing(call), others = left & ~cut & ~changing;
    if (!changing)
        return last_dims(others, most);
    if (stni_stage_kind(call) == STNI_STAGE_HALVE)
        return changing & cut ? 0 : changing | last_dims(others, most - 1);
    if (!(left & cut) && stni_stage_count(left) <= most)
        return left;
    const int before = stni_stage_count(left) - 1 - STNI_FFT_MOST_MORE;
    return first_dims(others, before < 1 ? 1 : before < most ? before : most);
}

stn_status stni_stage_next_layout(const stn_op_call *call, uint32_t left, struct stni_layout *layout)
{
    const uint32_t changing = left & stni_stage_changing(call), others = left & ~changing;
    const uint32_t turn = stni_stage_kind(call) == STNI_STAGE_HALVE && changing ? changing : others ? others : changing;
    const struct stni_layout start = *layout;
    STNI_TRY(stni_layout_unshard(call->context, layout, left));
    if (turn & ~stni_cut_dims(layout))
        return STN_OK;
    *layout = start;
    return stni_layout_unshard(call->context, layout, turn);
}

/* The result's lengths; a dim that changes and is cut is so in proportion. */
static stn_status set_shape(const stn_op_call *call, struct stni_layout *layout)
{
    const stn_meta *meta = &call->out_meta[0];
    for (int d = 0; d < layout->ndim; d++) {
        if (layout->shape[d] == meta->shape[d])
            continue;
        layout->shape[d] = meta->shape[d];
        if (layout->split[d])
            STNI_TRY(stni_split_scaled(call->context, layout->split[d], meta->shape[d], &layout->split[d]));
    }
    return STN_OK;
}

stn_status stni_stage_check_placements(const stn_op_call *call, const stn_ints *placements)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int axes = in->mesh ? in->mesh->ndim : 0;
    if (placements->n > 0 && placements->n != axes)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'placements' got %lld entries, wanted one for each of %d mesh axes",
                           (long long)placements->n, axes);
    for (int a = 0; a < placements->n; a++)
        if (placements->v[a] < -1 || placements->v[a] >= in->ndim)
            return stn_op_fail(call, STN_ERR_ARGUMENT,
                               "'placements' got dim %lld for axis %d, wanted 0 to %d, or -1 for Replicate",
                               (long long)placements->v[a], a, in->ndim - 1);
    return STN_OK;
}

/* As stn_spec_like: dims that stay cut keep their cuts. */
static stn_status set_placements(const stn_op_call *call, const stn_ints *placements, struct stni_layout *layout)
{
    stn_placement wanted[STN_MAX_MESH_NDIM];
    const stn_spec *spec;
    for (int a = 0; a < placements->n; a++)
        wanted[a] = placements->v[a] < 0 ? stn_replicate() : stn_shard((int)placements->v[a]);
    STNI_TRY(stn_spec_like(call->in_spec[0], wanted, layout->dtype, layout->ndim, layout->shape, &spec));
    *layout = spec->layout;
    stn_spec_release(&spec);
    return STN_OK;
}

/* All dims are transformed in the order in which they will be, each as soon as it is whole. */
static stn_status follow(const stn_op_call *call, struct stni_layout *layout)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    uint32_t left = stni_dims_mask_of(&attrs->dims, layout->ndim), next;
    while (left) {
        while ((next = stni_stage_next_dims(call, left, stni_cut_dims(layout), 1)) != 0) {
            left &= ~next;
            if (next & stni_stage_changing(call))
                STNI_TRY(set_shape(call, layout));
        }
        if (left)
            STNI_TRY(stni_stage_next_layout(call, left, layout));
    }
    return STN_OK;
}

stn_status stni_stage_result_layout(const stn_op_call *call, struct stni_layout *layout)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    if (attrs->placements.n == 0 && call->in_spec[0]->numel > 0)
        return follow(call, layout);
    if (attrs->placements.n > 0)
        STNI_TRY(set_placements(call, &attrs->placements, layout));
    return set_shape(call, layout);
}

stn_ints stni_stage_placements(const struct stni_layout *layout)
{
    stn_ints placements = {.n = layout->mesh ? layout->mesh->ndim : 0};
    for (int a = 0; a < placements.n; a++)
        placements.v[a] = layout->placement[a].kind == STN_PLACE_SHARD ? layout->placement[a].dim : -1;
    return placements;
}
