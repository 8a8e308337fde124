/* When keys and values go round. Metadata only. */
#include "core/tensor/tensor.h"
#include "dispatch/place_cache.h"
#include "ops/attention/attention.h"

#include <shardtensor/ops.h>

enum { KEY = STNI_ATTENTION_KEY, VALUE = STNI_ATTENTION_VALUE };

/* Bytes of keys and values, whole along their rows, from which on they are not gathered. On devices whole rows go to
 * faster kernels (attention_library.c), and links bring them sooner. */
enum { LEAST_ON_CPU = 16 << 20, LEAST_ON_DEVICE = 256 << 20 };

/* Axes that cut a dim, counted from the end. */
static uint32_t axes_of(const struct stni_layout *layout, int from_end)
{
    return layout->mesh == NULL ? 0 : stni_layout_axes_mask(layout, layout->ndim - from_end);
}

/* What a rank would have of an input that is gathered; of uneven chunks, the mean. */
static stn_status whole_bytes(const stn_op_call *call, const struct stni_layout *leader, int k, int64_t *bytes)
{
    const stn_spec *whole = NULL;
    STNI_TRY(stni_attention_follow_whole(call, leader, k, 0, &whole));
    int64_t ranks = 1;
    for (int a = 0; a < whole->layout.mesh->ndim; a++)
        if (whole->layout.placement[a].kind == STN_PLACE_SHARD)
            ranks *= whole->layout.mesh->sizes[a];
    *bytes += whole->numel / ranks * (int64_t)stn_dtype_size(whole->layout.dtype);
    return STN_OK;
}

stn_status stni_attention_ring_axes(const stn_op_call *call, const struct stni_layout *leader, uint32_t *out)
{
    const stn_ring_attention when = call->context->ring_attention;
    const uint32_t axes =
        axes_of(leader, 2) & axes_of(&call->in_spec[KEY]->layout, 2) & axes_of(&call->in_spec[VALUE]->layout, 2);
    const int64_t least = call->context->queue->device->is_cpu ? LEAST_ON_CPU : LEAST_ON_DEVICE;
    int64_t bytes = 0;
    *out = 0;
    if (axes == 0 || when == STN_RING_ATTENTION_NEVER)
        return STN_OK;
    STNI_TRY(whole_bytes(call, leader, KEY, &bytes));
    STNI_TRY(whole_bytes(call, leader, VALUE, &bytes));
    if (when == STN_RING_ATTENTION_ALWAYS || bytes >= least)
        *out = axes;
    return STN_OK;
}

uint32_t stni_attention_placed_ring(const stn_op_call *call)
{
    return axes_of(&call->in[KEY]->spec->layout, 2);
}

stn_status stn_set_ring_attention(stn_context *context, stn_ring_attention when)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    if (context->error.status != STN_OK)
        return context->error.status;
    if ((unsigned)when > STN_RING_ATTENTION_ALWAYS)
        return stni_fail(context, STN_ERR_ARGUMENT, "set_ring_attention: when got %d, wanted 0 to %d", (int)when,
                         STN_RING_ATTENTION_ALWAYS);
    if (context->busy > 0)
        return stni_fail(context, STN_ERR_STATE, "set_ring_attention: called inside an op, wanted between ops");
    if (when != context->ring_attention)
        stni_place_cache_clear(context->places);
    context->ring_attention = when;
    return STN_OK;
}
