#include "ops/attention/attention_ring.h"

#include "core/base/host_alloc.h"
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

int stni_ring_owner(const struct stni_attention_ring *ring, int step)
{
    return (ring->own + ring->size - step) % ring->size;
}

int stni_ring_reader(const struct stni_attention_ring *ring, int step)
{
    return (ring->own + step) % ring->size;
}

static int is_keys(int which)
{
    return STNI_RING_KEYS >> which & 1;
}

/* Keys come from the owner and rows from the reader; this rank's own ones go to the other of the two. */
static int peer_of(const struct stni_attention_ring *ring, int which, enum stni_ring_side side, int step)
{
    return (side == STNI_RING_THEIRS) == is_keys(which) ? stni_ring_owner(ring, step) : stni_ring_reader(ring, step);
}

int64_t stni_ring_moved(const struct stni_attention_ring *ring, int which, enum stni_ring_side side, int step)
{
    const struct stni_ring_step *s = &ring->step[step];
    if (!is_keys(which))
        return side == STNI_RING_THEIRS ? s->borrowed : s->lent;
    if (side == STNI_RING_THEIRS)
        return s->reads ? ring->piece[stni_ring_owner(ring, step)].n_keys : 0;
    return s->is_read ? ring->piece[ring->own].n_keys : 0;
}

/* --- rows in memory */

/* Which dim of a tensor its rows are. */
static int row_dim(int which, int ndim)
{
    return ndim - (which == STNI_RING_LSE ? 1 : 2);
}

stn_box stni_ring_box(const struct stni_attention_ring *ring, int which, int64_t n_rows, void *data)
{
    const stn_spec *spec = ring->tensor[which]->spec;
    stn_box box = {.data = data, .ndim = spec->layout.ndim};
    memcpy(box.shape, spec->local_shape, (size_t)box.ndim * sizeof *box.shape);
    box.shape[row_dim(which, box.ndim)] = n_rows;
    stni_box_make_dense(&box);
    return box;
}

int64_t stni_ring_numel(const struct stni_attention_ring *ring, int which, int64_t n_rows)
{
    const stn_box box = stni_ring_box(ring, which, n_rows, NULL);
    return stni_box_numel(&box);
}

struct stni_attention_operand stni_ring_operand(const struct stni_attention_ring *ring, int which, int64_t n_rows,
                                                void *data)
{
    const stn_box box = stni_ring_box(ring, which, n_rows, data);
    return stni_attention_operand_at(&ring->tensor[which]->spec->layout, data, box.strides, 1, which != STNI_RING_LSE,
                                     ring->rows->layout.ndim);
}

struct stni_attention_operand stni_ring_behind(const struct stni_attention_operand *operand, int64_t rows,
                                               stn_dtype dtype)
{
    struct stni_attention_operand behind = *operand;
    if (behind.data != NULL)
        behind.data = (char *)behind.data + rows * behind.row * (int64_t)stn_dtype_size(dtype);
    return behind;
}

size_t stni_ring_lay_out(const struct stni_attention_ring *ring, unsigned tensors, enum stni_ring_side side, int step,
                         stn_dtype dtype, void *data, void *of[STNI_RING_TENSORS])
{
    size_t at = 0;
    for (int which = 0; which < STNI_RING_TENSORS; which++) {
        of[which] = NULL;
        if (!(tensors >> which & 1))
            continue;
        const stn_dtype own = dtype == STN_DTYPE_COUNT ? ring->tensor[which]->spec->layout.dtype : dtype;
        const int64_t n = stni_ring_numel(ring, which, stni_ring_moved(ring, which, side, step));
        if (data != NULL)
            of[which] = (char *)data + at;
        at += stni_attention_space(n, stn_dtype_size(own));
    }
    return at;
}

size_t stni_ring_most(const struct stni_attention_ring *ring, unsigned tensors, enum stni_ring_side side,
                      stn_dtype dtype)
{
    void *of[STNI_RING_TENSORS];
    size_t most = 0;
    for (int step = 1; step < ring->size; step++) {
        const size_t bytes = stni_ring_lay_out(ring, tensors, side, step, dtype, NULL, of);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* --- setting out */

/* Multiplications of a step, and bytes that come and go meanwhile: of a piece of the mean size. */
static int goes_beside(const struct stni_attention_ring *ring, const struct stni_attention_args *args)
{
    const stn_context *context = ring->call->context;
    const stn_spec *rows = ring->rows, *key = ring->tensor[STNI_RING_KEY]->spec,
                   *value = ring->tensor[STNI_RING_VALUE]->spec;
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

static struct stni_ring_piece piece_of(const struct stni_attention_ring *ring, int piece)
{
    const int dim = ring->rows->layout.ndim - 2;
    int64_t shape[STN_MAX_NDIM], first[STN_MAX_NDIM];
    int coordinate[STN_MAX_MESH_NDIM];
    coordinate_of(ring, piece, coordinate);
    stni_spec_chunk_at(ring->rows, coordinate, shape, first);
    const int64_t key = stni_split_offset(ring->split, piece);
    return (struct stni_ring_piece){first[dim], shape[dim], key, stni_split_offset(ring->split, piece + 1) - key};
}

/* Steps, pieces and loads are one block. */
static stn_status set_steps(struct stni_attention_ring *ring, const struct stni_attention_args *args)
{
    const size_t size = (size_t)ring->size, bytes = size * (sizeof *ring->piece + sizeof(int64_t) + sizeof *ring->step);
    ring->piece = stni_malloc(bytes);
    if (ring->piece == NULL)
        return stni_fail_memory(ring->call->context, "steps of attention", bytes);
    int64_t *load = (int64_t *)(void *)(ring->piece + size);
    ring->step = (struct stni_ring_step *)(void *)(load + size);
    for (int piece = 0; piece < ring->size; piece++)
        ring->piece[piece] = piece_of(ring, piece);
    const struct stni_ring_rows rows = {ring->size, ring->piece, args->is_causal};
    stni_ring_balance(&rows, ring->own, stni_attention_ring_lends(ring->call, args), load, ring->step);
    return STN_OK;
}

static stn_status set_space(struct stni_attention_ring *ring)
{
    const size_t bytes = stni_ring_most(ring, ring->fetched, STNI_RING_THEIRS, STN_DTYPE_COUNT);
    STNI_TRY(stn_op_scratch(ring->call, bytes, &ring->space[0]));
    ring->space[1] = ring->space[0];
    return ring->beside ? stn_op_scratch(ring->call, bytes, &ring->space[1]) : STN_OK;
}

stn_status stni_ring_init(const stn_op_call *call, const stn_spec *rows, const struct stni_attention_args *args,
                          const stn_tensor *const tensor[STNI_RING_TENSORS], unsigned fetched,
                          struct stni_attention_ring *ring)
{
    const struct stni_layout *key = &call->in[KEY]->spec->layout;
    *ring = (struct stni_attention_ring){.call = call,
                                         .rows = rows,
                                         .mesh = key->mesh,
                                         .axes = stni_attention_placed_ring(call),
                                         .split = key->split[key->ndim - 2],
                                         .fetched = fetched};
    memcpy(ring->tensor, tensor, sizeof ring->tensor);
    ring->n_axes = stni_layout_dim_axes(key, key->ndim - 2, ring->axis);
    ring->size = ring->split->n_parts;
    ring->own = stni_spec_piece(call->in[KEY]->spec, key->ndim - 2, ring->mesh->coordinate);
    STNI_TRY(stni_mesh_comm(ring->mesh, ring->axes, &ring->comm));
    ring->beside = goes_beside(ring, args);
    STNI_TRY(set_steps(ring, args));
    return set_space(ring);
}

void stni_ring_fini(struct stni_attention_ring *ring)
{
    stni_free(ring->piece);
}

/* --- exchanges */

/* The first rows of a chunk. */
static stn_box first_rows(const stn_tensor *tensor, int which, int64_t n_rows)
{
    stn_box box;
    stni_tensor_box(tensor, &box);
    box.shape[row_dim(which, box.ndim)] = n_rows;
    return box;
}

/* The same bytes as smaller elements: sums of exponentials go with 16-bit floats. */
static stn_box as_elements(stn_box box, stn_dtype from, stn_dtype to)
{
    const int64_t parts = (int64_t)(stn_dtype_size(from) / stn_dtype_size(to));
    if (parts == 1)
        return box;
    for (int d = 0; d < box.ndim; d++)
        box.strides[d] *= parts;
    box.shape[box.ndim] = parts;
    box.strides[box.ndim++] = 1;
    return box;
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

/* Of one tensor what is of other ranks comes and what is this one's goes; or, on the way home, the other way round. */
static stn_status add_both(const struct stni_attention_ring *ring, struct stni_messages *messages, int which, int step,
                           int home, const stn_box *theirs, const stn_box *own)
{
    struct stni_message_list *with_theirs = home ? &messages->send : &messages->recv,
                             *with_own = home ? &messages->recv : &messages->send;
    STNI_TRY(add(ring, messages, with_theirs, peer_of(ring, which, STNI_RING_THEIRS, step), theirs));
    return add(ring, messages, with_own, peer_of(ring, which, STNI_RING_OWN, step), own);
}

static stn_status list_fetch(const struct stni_attention_ring *ring, int step, struct stni_messages *messages)
{
    const stn_dtype dtype = ring->tensor[STNI_RING_KEY]->spec->layout.dtype;
    void *of[STNI_RING_TENSORS];
    stni_ring_lay_out(ring, ring->fetched, STNI_RING_THEIRS, step, STN_DTYPE_COUNT, ring->space[step % 2], of);
    for (int which = 0; which < STNI_RING_TENSORS; which++) {
        if (!(ring->fetched >> which & 1))
            continue;
        const stn_tensor *t = ring->tensor[which];
        const int64_t n_theirs = stni_ring_moved(ring, which, STNI_RING_THEIRS, step),
                      n_own = stni_ring_moved(ring, which, STNI_RING_OWN, step);
        const stn_box theirs =
            as_elements(stni_ring_box(ring, which, n_theirs, of[which]), t->spec->layout.dtype, dtype);
        const stn_box own = as_elements(first_rows(t, which, n_own), t->spec->layout.dtype, dtype);
        STNI_TRY(add_both(ring, messages, which, step, 0, &theirs, &own));
    }
    return STN_OK;
}

static stn_status list_return(const struct stni_attention_ring *ring, unsigned tensors, int step, stn_dtype dtype,
                              void *given, void *taken, struct stni_messages *messages)
{
    void *given_of[STNI_RING_TENSORS], *taken_of[STNI_RING_TENSORS];
    stni_ring_lay_out(ring, tensors, STNI_RING_THEIRS, step, dtype, given, given_of);
    stni_ring_lay_out(ring, tensors, STNI_RING_OWN, step, dtype, taken, taken_of);
    for (int which = 0; which < STNI_RING_TENSORS; which++) {
        if (!(tensors >> which & 1))
            continue;
        const int64_t n_theirs = stni_ring_moved(ring, which, STNI_RING_THEIRS, step),
                      n_own = stni_ring_moved(ring, which, STNI_RING_OWN, step);
        const stn_box theirs = stni_ring_box(ring, which, n_theirs, given_of[which]),
                      own = stni_ring_box(ring, which, n_own, taken_of[which]);
        STNI_TRY(add_both(ring, messages, which, step, 1, &theirs, &own));
    }
    return STN_OK;
}

static struct stni_messages no_messages(const struct stni_attention_ring *ring)
{
    return (struct stni_messages){.context = ring->call->context, .mesh = ring->mesh, .axes = ring->axes};
}

/* Begins what is listed, and gives the list back. */
static stn_status begin(const struct stni_attention_ring *ring, stn_status listed, struct stni_messages *messages,
                        stn_dtype dtype, struct stni_ring_way *way)
{
    stn_status status = listed;
    way->request = NULL;
    if (status == STN_OK)
        status = ring->beside ? stni_messages_begin(messages, dtype, &way->request)
                              : stni_messages_exchange(messages, dtype);
    stni_messages_fini(messages);
    return status;
}

stn_status stni_ring_fetch_begin(struct stni_attention_ring *ring, int step)
{
    if (step == ring->size)
        return STN_OK;
    struct stni_messages messages = no_messages(ring);
    const stn_status listed = list_fetch(ring, step, &messages);
    return begin(ring, listed, &messages, ring->tensor[STNI_RING_KEY]->spec->layout.dtype, &ring->fetch);
}

stn_status stni_ring_return_begin(const struct stni_attention_ring *ring, unsigned tensors, int step, stn_dtype dtype,
                                  void *theirs, void *own, struct stni_ring_way *way)
{
    struct stni_messages messages = no_messages(ring);
    const stn_status listed = list_return(ring, tensors, step, dtype, theirs, own, &messages);
    return begin(ring, listed, &messages, dtype, way);
}

/* What failed beside the queue is the queue's failure, as it would be on it. */
stn_status stni_ring_finish(const struct stni_attention_ring *ring, struct stni_ring_way *way)
{
    const stn_status status = way->request == NULL ? STN_OK : stn_request_wait(&way->request);
    return status == STN_OK ? STN_OK
                            : stn_queue_fail(ring->call->context->queue, status, "%s", stn_comm_error_text(ring->comm));
}
