/* When keys and values go round. Metadata only. */
#include "core/tensor/tensor.h"
#include "dispatch/place_cache.h"
#include "ops/attention/attention.h"

#include <shardtensor/ops.h>

enum { KEY = STNI_ATTENTION_KEY, VALUE = STNI_ATTENTION_VALUE };

/* Bytes of keys and values, whole along their rows, from which on they are not gathered. Rows that are lent make causal
 * attention faster long before memory matters. On devices whole rows go to faster kernels (attention_library.c), and
 * links bring them sooner. */
enum { LEAST_ON_CPU = 16 << 20, LEAST_CAUSAL_ON_CPU = 2 << 20, LEAST_ON_DEVICE = 256 << 20 };

static int64_t least_bytes(const stn_op_call *call)
{
    const struct stni_attention_attrs *attrs = call->attrs;
    if (!call->context->queue->device->is_cpu)
        return LEAST_ON_DEVICE;
    return attrs->is_causal ? LEAST_CAUSAL_ON_CPU : LEAST_ON_CPU;
}

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
    int64_t bytes = 0;
    *out = 0;
    if (axes == 0 || when == STN_RING_ATTENTION_NEVER)
        return STN_OK;
    STNI_TRY(whole_bytes(call, leader, KEY, &bytes));
    STNI_TRY(whole_bytes(call, leader, VALUE, &bytes));
    if (when == STN_RING_ATTENTION_ALWAYS || bytes >= least_bytes(call))
        *out = axes;
    return STN_OK;
}

/* Keys of a piece from which on rows are lent: a row's work on them takes a core as long as a network of 10 Gbit/s
 * takes for the row and its result, and a GPU as long as a link of GPUs; for 16-bit floats it has faster units. */
enum { LEAST_KEYS_ON_CPU = 128, LEAST_KEYS_ON_DEVICE = 1024, LEAST_KEYS_OF_NARROW = 4096 };

int stni_attention_ring_lends(const stn_op_call *call, const struct stni_attention_args *args)
{
    const struct stni_layout *key = &call->in[KEY]->spec->layout;
    const int64_t keys = args->s / key->split[key->ndim - 2]->n_parts;
    const int is_narrow = args->dtype == STN_DTYPE_BF16 || args->dtype == STN_DTYPE_F16;
    int64_t batch = 1;
    for (int d = 0; d < args->n_batch; d++)
        batch *= args->batch[d];
    if (args->mask_kind != STNI_ATTENTION_NO_MASK || batch == 0)
        return 0;
    if (call->context->ring_attention == STN_RING_ATTENTION_ALWAYS)
        return 1;
    if (call->context->queue->device->is_cpu)
        return keys >= LEAST_KEYS_ON_CPU;
    return keys >= (is_narrow ? LEAST_KEYS_OF_NARROW : LEAST_KEYS_ON_DEVICE);
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
