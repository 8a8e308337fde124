#include "ops/exchange/messages.h"

#include "core/base/host_alloc.h"
#include "core/box/box_list.h"
#include "core/context/context.h"

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

static int own_rank(const struct stni_messages *m)
{
    return m->mesh != NULL ? comm_rank(m, m->mesh->coordinate) : 0;
}

static stn_status append(const struct stni_messages *m, struct stni_message_list *list, int peer, const stn_box *box)
{
    if (list->n == list->cap) {
        int cap = list->cap > 0 ? 2 * list->cap : 16;
        struct stni_message_entry *entries = stni_realloc(list->entries, (size_t)cap * sizeof *entries);
        if (entries == NULL)
            return stni_fail_memory(m->context, "list of messages", (size_t)cap * sizeof *entries);
        list->entries = entries;
        list->cap = cap;
    }
    list->entries[list->n] = (struct stni_message_entry){{peer, *box}, list->n};
    list->n++;
    return STN_OK;
}

stn_status stni_messages_add(const struct stni_messages *m, struct stni_message_list *list, const int *coordinate,
                             const stn_box *box)
{
    return append(m, list, comm_rank(m, coordinate), box);
}

stn_status stni_messages_add_own(struct stni_messages *m, const stn_box *to, const stn_box *from)
{
    STNI_TRY(append(m, &m->send, own_rank(m), from));
    return append(m, &m->recv, own_rank(m), to);
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

/* But those to this rank. */
static int64_t list_elements(const struct stni_message_list *list, int own)
{
    int64_t sum = 0;
    for (int i = 0; i < list->n; i++)
        if (list->entries[i].message.peer != own)
            sum += stni_box_numel(&list->entries[i].message.box);
    return sum;
}

int64_t stni_messages_bytes(const struct stni_messages *m, stn_dtype dtype)
{
    const int own = own_rank(m);
    return (list_elements(&m->send, own) + list_elements(&m->recv, own)) * (int64_t)stn_dtype_size(dtype);
}

static stn_exchange exchange_of(struct stni_messages *m, stn_dtype dtype)
{
    stn_exchange exchange = {.dtype = dtype, .n_send = m->send.n, .n_recv = m->recv.n};
    exchange.send = sorted(&m->send);
    exchange.recv = sorted(&m->recv);
    return exchange;
}

static stn_status copy_own(const struct stni_messages *m, stn_dtype dtype)
{
    const struct stni_message_entry *to = m->recv.entries, *from = m->send.entries;
    struct stni_box_list list;
    stni_box_list_begin(&list, m->context->queue);
    for (int i = 0; i < m->recv.n; i++)
        STNI_TRY(stni_box_list_add(&list, &to[i].message.box, &from[i].message.box, stn_dtype_size(dtype)));
    return stni_box_list_launch(&list);
}

stn_status stni_messages_exchange(struct stni_messages *m, stn_dtype dtype)
{
    stn_comm *comm;
    if (m->axes == 0)
        return copy_own(m, dtype);
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
