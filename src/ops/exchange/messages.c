#include "ops/exchange/messages.h"

#include "core/context/context.h"
#include "core/base/host_alloc.h"

#include <stdlib.h>
#include <string.h>

struct stni_message_entry {
    stn_message message;
    int order;
};

/* Rank in the communicator of the axes: row-major over their coordinates. */
static int comm_rank(const struct stni_messages *m, const int *coordinate)
{
    int rank = 0;
    for (int a = 0; a < m->mesh->ndim; a++)
        if (m->axes >> a & 1)
            rank = rank * m->mesh->sizes[a] + coordinate[a];
    return rank;
}

stn_status stni_messages_add(const struct stni_messages *m, struct stni_message_list *list, const int *coordinate, const stn_box *box)
{
    if (list->n == list->cap) {
        int cap = list->cap > 0 ? 2 * list->cap : 16;
        struct stni_message_entry *entries = stni_realloc(list->entries, (size_t)cap * sizeof *entries);
        if (entries == NULL)
            return stni_fail_memory(m->context, "list of messages", (size_t)cap * sizeof *entries);
        list->entries = entries;
        list->cap = cap;
    }
    list->entries[list->n] = (struct stni_message_entry){{comm_rank(m, coordinate), *box}, list->n};
    list->n++;
    return STN_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct stni_message_entry *x = a, *y = b;
    if (x->message.peer != y->message.peer)
        return x->message.peer < y->message.peer ? -1 : 1;
    return x->order - y->order;
}

/* Sorts by peer and gives the plain messages, in the list's own memory. */
static const stn_message *sorted(struct stni_message_list *list)
{
    if (list->n == 0)
        return NULL;
    qsort(list->entries, (size_t)list->n, sizeof *list->entries, compare_entries);
    stn_message *messages = (stn_message *)(void *)list->entries;
    for (int i = 0; i < list->n; i++)
        memmove(&messages[i], &list->entries[i].message, sizeof *messages);
    return messages;
}

static int64_t list_elements(const struct stni_message_list *list)
{
    int64_t sum = 0;
    for (int i = 0; i < list->n; i++) {
        const stn_box *box = &list->entries[i].message.box;
        int64_t n = 1;
        for (int d = 0; d < box->ndim; d++)
            n *= box->shape[d];
        sum += n;
    }
    return sum;
}

int64_t stni_messages_bytes(const struct stni_messages *m, stn_dtype dtype)
{
    return (list_elements(&m->send) + list_elements(&m->recv)) * (int64_t)stn_dtype_size(dtype);
}

static stn_exchange exchange_of(struct stni_messages *m, stn_dtype dtype)
{
    stn_exchange exchange = {.dtype = dtype, .n_send = m->send.n, .n_recv = m->recv.n};
    exchange.send = sorted(&m->send);
    exchange.recv = sorted(&m->recv);
    return exchange;
}

stn_status stni_messages_exchange(struct stni_messages *m, stn_dtype dtype)
{
    stn_comm *comm;
    STNI_TRY(stni_mesh_comm(m->mesh, m->axes, &comm));
    const stn_exchange exchange = exchange_of(m, dtype);
    return stni_comm_exchange(comm, m->context->queue, &exchange);
}

stn_status stni_messages_begin(struct stni_messages *m, stn_dtype dtype, stn_request **request)
{
    stn_comm *comm;
    STNI_TRY(stni_mesh_comm(m->mesh, m->axes, &comm));
    const stn_exchange exchange = exchange_of(m, dtype);
    const stn_status status = stni_comm_exchange_begin(comm, &exchange, NULL, request);
    return status == STN_OK ? STN_OK : stn_queue_fail(m->context->queue, status, "%s", stn_comm_error_text(comm));
}

void stni_messages_fini(struct stni_messages *m)
{
    stni_free(m->send.entries);
    stni_free(m->recv.entries);
}
