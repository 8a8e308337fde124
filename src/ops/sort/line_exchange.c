#include "ops/sort/line_exchange.h"

#include "core/base/host_alloc.h"
#include "ops/exchange/row_router.h"

#include <string.h>

static stn_status allocate_host(struct stni_sort_swap *swap)
{
    const size_t p = (size_t)swap->p, bytes = 2 * p * sizeof *swap->messages + (4 * p + 1) * sizeof(int64_t);
    swap->host = stni_malloc(bytes);
    if (!swap->host)
        return stni_fail_memory(swap->call->context, "counts of elements that change places", bytes);
    swap->messages = swap->host;
    swap->host_begins = (int64_t *)(void *)(swap->messages + 2 * p);
    swap->host_pieces = swap->host_begins + p + 1;
    swap->send = swap->host_pieces + p;
    swap->recv = swap->send + p;
    return STN_OK;
}

/* Which piece each rank of the communicator of `axes` has. */
static void find_pieces(struct stni_sort_swap *swap, uint32_t axes)
{
    const stn_mesh *mesh = swap->spec->layout.mesh;
    int coordinate[STN_MAX_MESH_NDIM];
    memcpy(coordinate, mesh->coordinate, sizeof coordinate);
    for (int r = 0; r < swap->p; r++) {
        for (int a = mesh->ndim - 1, rest = r; a >= 0; a--)
            if (axes >> a & 1) {
                coordinate[a] = rest % mesh->sizes[a];
                rest /= mesh->sizes[a];
            }
        swap->host_pieces[r] = stni_spec_piece(swap->spec, swap->dim, coordinate);
    }
    for (int i = 0; i <= swap->p; i++)
        swap->host_begins[i] = stni_split_offset(swap->spec->layout.split[swap->dim], i);
}

stn_status stni_sort_copy_in(const stn_op_call *call, const void *from, size_t bytes, void *out)
{
    void *to;
    STNI_TRY(stn_op_scratch(call, bytes, &to));
    memcpy(out, &to, sizeof to);
    return stni_queue_copy(call->context->queue, to, from, bytes, STNI_COPY_TO_DEVICE);
}

stn_status stni_sort_swap_begin(struct stni_sort_swap *swap, const stn_op_call *call, const stn_spec *spec, int dim,
                                uint32_t axes)
{
    *swap = (struct stni_sort_swap){.call = call, .spec = spec, .dim = dim};
    STNI_TRY(stni_context_not_captured(call->context, "sorting along a sharded dim",
                                       "for what goes to which rank depends on values"));
    STNI_TRY(stni_mesh_comm(spec->layout.mesh, axes, &swap->comm));
    swap->p = swap->comm->size;
    STNI_TRY(allocate_host(swap));
    find_pieces(swap, axes);
    STNI_TRY(stni_sort_copy_in(call, swap->host_begins, (size_t)(swap->p + 1) * sizeof(int64_t), &swap->begins));
    STNI_TRY(stni_sort_copy_in(call, swap->host_pieces, (size_t)swap->p * sizeof(int64_t), &swap->pieces));
    return stni_rows_memory(call, swap->p, sizeof(int64_t), &swap->theirs);
}

stn_status stni_sort_swap_counts(struct stni_sort_swap *swap, const int64_t *counts)
{
    stn_queue *queue = swap->call->context->queue;
    const size_t bytes = (size_t)swap->p * sizeof(int64_t);
    for (int r = 0; r < swap->p; r++)
        swap->send[r] = swap->recv[r] = 1;
    STNI_TRY(stni_comm_all_to_all(swap->comm, queue, counts, swap->send, swap->theirs, swap->recv, STN_DTYPE_I64));
    STNI_TRY(stni_queue_copy(queue, swap->send, counts, bytes, STNI_COPY_TO_HOST));
    STNI_TRY(stni_queue_copy(queue, swap->recv, swap->theirs, bytes, STNI_COPY_TO_HOST));
    return stni_queue_sync_for(queue, STN_SYNC_COUNTS);
}

/* Messages to or from each rank. Returns how many there are. */
static int make_messages(const struct stni_sort_swap *swap, const int64_t *counts, void *data, size_t size,
                         stn_message *out)
{
    int n = 0;
    for (int r = 0; r < swap->p; r++) {
        int64_t before = 0;
        for (int q = 0; q < swap->p; q++)
            before += swap->host_pieces[q] < swap->host_pieces[r] ? counts[q] : 0;
        if (counts[r] > 0)
            out[n++] = (stn_message){r, {(char *)data + before * (int64_t)size, 1, {counts[r]}, {1}}};
    }
    return n;
}

stn_status stni_sort_swap_send(const struct stni_sort_swap *swap, stn_dtype dtype, void *from, void *to)
{
    const size_t size = stn_dtype_size(dtype);
    stn_exchange exchange = {.dtype = dtype, .send = swap->messages, .recv = swap->messages + swap->p};
    exchange.n_send = make_messages(swap, swap->send, from, size, swap->messages);
    exchange.n_recv = make_messages(swap, swap->recv, to, size, swap->messages + swap->p);
    return stni_comm_exchange(swap->comm, swap->call->context->queue, &exchange);
}

stn_status stni_sort_swap_end(struct stni_sort_swap *swap, stn_status status)
{
    if (status != STN_OK)
        stni_queue_sync_for(swap->call->context->queue, STN_SYNC_COUNTS); /* copies from and to the host's memory */
    stni_free(swap->host);
    swap->host = NULL;
    return status;
}
