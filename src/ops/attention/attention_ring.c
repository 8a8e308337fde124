#include "ops/attention/attention_ring.h"

#include "core/context/context.h"
#include "ops/exchange/halo_overlap.h"
#include "ops/exchange/messages.h"

#include <string.h>

enum { KEY = STNI_ATTENTION_KEY };

/* --- who has which piece */

static void coordinate_of(const struct stni_attention_ring *ring, int piece, int coordinate[STN_MAX_MESH_NDIM])
{
    memcpy(coordinate, ring->mesh->coordinate, STN_MAX_MESH_NDIM * sizeof *coordinate);
    for (int level = 0; level < ring->n_axes; level++)
        coordinate[ring->axis[level]] = stni_split_part(ring->split, level, piece);
}

int stni_ring_piece(const struct stni_attention_ring *ring, int step)
{
    return (ring->own + ring->size - step) % ring->size;
}

int stni_ring_reader(const struct stni_attention_ring *ring, int step)
{
    return (ring->own + step) % ring->size;
}

int64_t stni_ring_first(const struct stni_attention_ring *ring, int piece)
{
    return stni_split_offset(ring->split, piece);
}

int64_t stni_ring_length(const struct stni_attention_ring *ring, int piece)
{
    return stni_split_offset(ring->split, piece + 1) - stni_split_offset(ring->split, piece);
}

int stni_ring_attends(const struct stni_attention_ring *ring, int reader, int piece)
{
    const int dim = ring->rows->layout.ndim - 2;
    int64_t shape[STN_MAX_NDIM], first[STN_MAX_NDIM];
    int coordinate[STN_MAX_MESH_NDIM];
    coordinate_of(ring, reader, coordinate);
    stni_spec_chunk_at(ring->rows, coordinate, shape, first);
    return shape[dim] > 0 && stni_ring_length(ring, piece) > 0 &&
           (!ring->is_causal || stni_ring_first(ring, piece) < first[dim] + shape[dim]);
}

/* --- pieces in memory */

static const stn_spec *spec_of(const struct stni_attention_ring *ring, int which)
{
    return ring->tensor[which]->spec;
}

stn_box stni_ring_box(const struct stni_attention_ring *ring, int which, int piece, void *data)
{
    const stn_spec *spec = spec_of(ring, which);
    stn_box box = {.data = data, .ndim = spec->layout.ndim};
    memcpy(box.shape, spec->local_shape, (size_t)box.ndim * sizeof *box.shape);
    box.shape[box.ndim - 2] = stni_ring_length(ring, piece);
    stni_box_make_dense(&box);
    return box;
}

int64_t stni_ring_numel(const struct stni_attention_ring *ring, int which, int piece)
{
    const stn_box box = stni_ring_box(ring, which, piece, NULL);
    return stni_box_numel(&box);
}

struct stni_attention_operand stni_ring_operand(const struct stni_attention_ring *ring, int which, int piece,
                                                void *data)
{
    const stn_box box = stni_ring_box(ring, which, piece, data);
    return stni_attention_operand_at(&spec_of(ring, which)->layout, data, box.strides, 1, 1, ring->rows->layout.ndim);
}

void *const *stni_ring_chunk(const struct stni_attention_ring *ring, int step)
{
    return ring->chunk[(step + 1) % 2];
}

stn_status stni_ring_space(const struct stni_attention_ring *ring, int which, stn_dtype dtype, void **out)
{
    int64_t most = 0;
    for (int piece = 0; piece < ring->size; piece++) {
        const int64_t n = stni_ring_numel(ring, which, piece);
        most = n > most ? n : most;
    }
    return stn_op_scratch(ring->call, (size_t)most * stn_dtype_size(dtype), out);
}

/* --- setting out */

/* Multiplications of a step, and bytes that come and go meanwhile: of a piece of the mean size. */
static int goes_beside(const struct stni_attention_ring *ring, const struct stni_attention_args *args)
{
    const stn_context *context = ring->call->context;
    const stn_spec *rows = ring->rows, *key = spec_of(ring, STNI_RING_KEY), *value = spec_of(ring, STNI_RING_VALUE);
    const int64_t keys = ring->split->n / ring->size, queries = args->v > 0 ? rows->local_numel / args->v : 0;
    const int64_t piece = (key->local_numel + value->local_numel) * (int64_t)stn_dtype_size(args->dtype);
    const struct stni_halo_terms terms = {.beside = stni_comm_goes_beside(ring->comm, context->queue),
                                          .dtype = args->dtype,
                                          .on_device = !context->queue->device->is_cpu,
                                          .bytes = 2 * piece,
                                          .work = queries * keys * (args->e + args->v)};
    if (context->queue->capture || context->halo_overlap == STN_HALO_OVERLAP_NEVER)
        return 0;
    return context->halo_overlap == STN_HALO_OVERLAP_ALWAYS || stni_halo_pays(&terms);
}

stn_status stni_ring_init(const stn_op_call *call, const stn_spec *rows, const struct stni_attention_args *args,
                          struct stni_attention_ring *ring)
{
    const struct stni_layout *key = &call->in[KEY]->spec->layout;
    *ring = (struct stni_attention_ring){.call = call,
                                         .rows = rows,
                                         .tensor = {call->in[KEY], call->in[KEY + 1]},
                                         .mesh = key->mesh,
                                         .axes = stni_attention_placed_ring(call),
                                         .split = key->split[key->ndim - 2],
                                         .is_causal = args->is_causal};
    ring->n_axes = stni_layout_dim_axes(key, key->ndim - 2, ring->axis);
    ring->size = ring->split->n_parts;
    ring->own = stni_spec_piece(call->in[KEY]->spec, key->ndim - 2, ring->mesh->coordinate);
    STNI_TRY(stni_mesh_comm(ring->mesh, ring->axes, &ring->comm));
    ring->beside = goes_beside(ring, args);
    for (int turn = 0; turn < 2 && turn < ring->size - 1; turn++)
        for (int which = 0; which < STNI_RING_TENSORS; which++)
            STNI_TRY(stni_ring_space(ring, which, key->dtype, &ring->chunk[turn][which]));
    return STN_OK;
}

/* --- exchanges */

static struct stni_messages no_messages(const struct stni_attention_ring *ring)
{
    return (struct stni_messages){.context = ring->call->context, .mesh = ring->mesh, .axes = ring->axes};
}

/* A box to or from the rank with a piece; nothing where it has no elements. */
static stn_status add(const struct stni_attention_ring *ring, const struct stni_messages *messages,
                      struct stni_message_list *list, int peer, const stn_box *box)
{
    int coordinate[STN_MAX_MESH_NDIM];
    if (stni_box_numel(box) == 0)
        return STN_OK;
    coordinate_of(ring, peer, coordinate);
    return stni_messages_add(messages, list, coordinate, box);
}

static stn_status begin(const struct stni_attention_ring *ring, struct stni_messages *messages, stn_dtype dtype,
                        struct stni_ring_way *way)
{
    way->request = NULL;
    return ring->beside ? stni_messages_begin(messages, dtype, &way->request) : stni_messages_exchange(messages, dtype);
}

/* What failed beside the queue is the queue's failure, as it would be on it. */
stn_status stni_ring_finish(const struct stni_attention_ring *ring, struct stni_ring_way *way)
{
    const stn_status status = way->request == NULL ? STN_OK : stn_request_wait(&way->request);
    return status == STN_OK ? STN_OK
                            : stn_queue_fail(ring->call->context->queue, status, "%s", stn_comm_error_text(ring->comm));
}

static stn_status list_fetch(const struct stni_attention_ring *ring, int step, struct stni_messages *messages)
{
    const int piece = stni_ring_piece(ring, step), reader = stni_ring_reader(ring, step);
    for (int which = 0; which < STNI_RING_TENSORS; which++) {
        const stn_box to = stni_ring_box(ring, which, piece, stni_ring_chunk(ring, step)[which]);
        stn_box from;
        stni_tensor_box(ring->tensor[which], &from);
        if (stni_ring_attends(ring, ring->own, piece))
            STNI_TRY(add(ring, messages, &messages->recv, piece, &to));
        if (stni_ring_attends(ring, reader, ring->own))
            STNI_TRY(add(ring, messages, &messages->send, reader, &from));
    }
    return STN_OK;
}

stn_status stni_ring_fetch_begin(struct stni_attention_ring *ring, int step)
{
    struct stni_messages messages = no_messages(ring);
    stn_status status = list_fetch(ring, step, &messages);
    if (status == STN_OK)
        status = begin(ring, &messages, ring->tensor[0]->spec->layout.dtype, &ring->fetch);
    stni_messages_fini(&messages);
    return status;
}

static stn_status list_return(const struct stni_attention_ring *ring, int step, void *const from[STNI_RING_TENSORS],
                              void *const to[STNI_RING_TENSORS], struct stni_messages *messages)
{
    const int piece = stni_ring_piece(ring, step), reader = stni_ring_reader(ring, step);
    for (int which = 0; which < STNI_RING_TENSORS; which++) {
        const stn_box theirs = stni_ring_box(ring, which, piece, from[which]),
                      own = stni_ring_box(ring, which, ring->own, to[which]);
        if (stni_ring_attends(ring, reader, ring->own))
            STNI_TRY(add(ring, messages, &messages->recv, reader, &own));
        if (stni_ring_attends(ring, ring->own, piece))
            STNI_TRY(add(ring, messages, &messages->send, piece, &theirs));
    }
    return STN_OK;
}

stn_status stni_ring_return_begin(const struct stni_attention_ring *ring, int step, stn_dtype dtype,
                                  void *const from[STNI_RING_TENSORS], void *const to[STNI_RING_TENSORS],
                                  struct stni_ring_way *way)
{
    struct stni_messages messages = no_messages(ring);
    stn_status status = list_return(ring, step, from, to, &messages);
    if (status == STN_OK)
        status = begin(ring, &messages, dtype, way);
    stni_messages_fini(&messages);
    return status;
}

/* --- steps */

static void describe_mask(int64_t first, struct stni_attention_args *args)
{
    const size_t size = args->mask_kind == STNI_ATTENTION_ALLOWS ? 1 : stn_dtype_size(args->dtype);
    if (args->mask_kind != STNI_ATTENTION_NO_MASK && args->mask.data != NULL)
        args->mask.data = (char *)args->mask.data + first * args->mask.col * (int64_t)size;
}

void stni_ring_describe(const struct stni_attention_ring *ring, int step, const struct stni_attention_args *whole,
                        struct stni_attention_args *args)
{
    const int piece = stni_ring_piece(ring, step);
    const int64_t first = stni_ring_first(ring, piece);
    *args = *whole;
    args->s = stni_ring_length(ring, piece);
    args->row_offset -= first;
    args->base += (uint64_t)first;
    args->is_wide = 1;
    describe_mask(first, args);
    if (step == 0)
        return;
    args->key = stni_ring_operand(ring, STNI_RING_KEY, piece, stni_ring_chunk(ring, step)[STNI_RING_KEY]);
    args->value = stni_ring_operand(ring, STNI_RING_VALUE, piece, stni_ring_chunk(ring, step)[STNI_RING_VALUE]);
}
