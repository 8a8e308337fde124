/* One line sorted by the ranks that share it.
 *
 *     sort     each rank its own elements
 *     choose   the elements with which each rank's part of the result begins, by counting: their places are known
 *     deal     how many of its elements each rank has for each other: all tell each other
 *     send     values and indices, an exchange each
 *     merge    what came, a run from each rank, in the order of their pieces: so equal elements keep theirs
 *
 * The parts are exact, so nothing has to be moved after it. The host waits once: how many elements go where depends on them. */
#include "core/host_alloc.h"
#include "dispatch/services.h"
#include "ops/order/order.h"
#include "ops/util/route.h"

#include <string.h>

struct shared {
    const stn_op_call *call;
    const stn_spec *spec;
    struct stni_order order;
    stn_comm *comm;
    int p, dim;
    uint32_t axes;
    /* On the host, p entries each, and one more of begins. */
    int64_t *begins, *pieces64, *send, *recv;
    int *pieces;
    struct stni_order_target *places; /* p */
    stn_message *messages;            /* 2 p */
    void *host;
    /* On the device: this rank's elements, in order, where the result will be; what came, and from each rank how much. */
    void *values, *came_values;
    int64_t *indices, *came_indices, *theirs, *on_pieces;
};

static stn_status allocate_host(struct shared *s)
{
    const size_t p = (size_t)s->p;
    const size_t bytes = 2 * p * sizeof *s->messages + p * sizeof *s->places + (4 * p + 1) * sizeof(int64_t) + p * sizeof(int);
    s->host = stni_malloc(bytes);
    if (!s->host)
        return stni_fail_memory(s->call->context, "counts of sorted parts", bytes);
    s->messages = s->host;
    s->places = (struct stni_order_target *)(void *)(s->messages + 2 * p);
    s->begins = (int64_t *)(void *)(s->places + p);
    s->pieces64 = s->begins + p + 1;
    s->send = s->pieces64 + p;
    s->recv = s->send + p;
    s->pieces = (int *)(void *)(s->recv + p);
    return STN_OK;
}

static void find_pieces(struct shared *s)
{
    const struct stni_split *split = s->spec->layout.split[s->dim];
    stni_order_pieces(s->spec, s->dim, s->axes, s->p, s->pieces);
    for (int i = 0; i <= s->p; i++)
        s->begins[i] = stni_split_offset(split, i);
    for (int i = 0; i < s->p; i++) {
        int64_t begin = s->begins[i + 1 < s->p ? i + 1 : i];
        s->pieces64[i] = s->pieces[i];
        s->places[i] = (struct stni_order_target){0, 0, begin < split->n ? begin : split->n - 1};
    }
}

static struct stni_order_lines dense_line(int64_t n, int64_t first)
{
    return (struct stni_order_lines){.step = {1, 1, 1}, .n_along = 1, .along = {n}, .along_in = {1}, .along_index = {1}, .first = first, .n = n};
}

/* The memory for it is given back. */
static stn_status sort_own(const struct shared *s)
{
    const stn_tensor *in = s->call->in[0];
    const int mark = stni_scratch_mark(s->call->context);
    struct stni_order_sort_args args = {.order = s->order, .in = in->data, .values = s->values, .indices = s->indices,
                                        .lines = dense_line(s->spec->local_shape[s->dim], s->spec->local_offset[s->dim])};
    args.lines.along_in[0] = in->strides[s->dim];
    if (args.lines.n == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(s->call, stni_order_sort_bytes(s->order.dtype, args.lines.n), &args.work));
    stn_status status = stn_op_launch(s->call, STNI_ORDER_SORT, s->order.dtype, &args, sizeof args);
    stni_scratch_release(s->call->context, mark);
    return status;
}

static stn_status merge(const struct shared *s)
{
    struct stni_order_runs_args args = {.order = s->order, .n_pieces = s->p, .counts = s->theirs, .pieces = s->on_pieces,
                                        .in = s->came_values, .in_indices = s->came_indices, .values = s->values, .indices = s->indices};
    STNI_TRY(stni_rows_memory(s->call, s->p, sizeof *args.runs, &args.runs));
    return stn_op_launch(s->call, STNI_ORDER_RUNS, s->order.dtype, &args, sizeof args);
}

static stn_status copy_in(const struct shared *s, const void *from, size_t bytes, void *out)
{
    void *to;
    STNI_TRY(stn_op_scratch(s->call, bytes, &to));
    memcpy(out, &to, sizeof to);
    return stni_queue_copy(s->call->context->queue, to, from, bytes, STNI_COPY_TO_DEVICE);
}

/* Where each part begins, and then how many elements go to each rank, and come from it. */
static stn_status deal(struct shared *s)
{
    stn_queue *queue = s->call->context->queue;
    const int64_t n = s->spec->local_shape[s->dim], p = s->p;
    struct stni_order_choice choice = {.call = s->call, .comm = s->comm, .count_slot = STNI_ORDER_COUNT, .narrow_slot = STNI_ORDER_NARROW,
                                       .n = s->spec->layout.shape[s->dim],
                                       .count = {.order = s->order, .lines = dense_line(n, 0), .in = s->values, .sorted_indices = s->indices,
                                                 .n_targets = p - 1}};
    struct stni_order_deal_args args = {.order = s->order, .n = n, .values = s->values, .indices = s->indices, .n_pieces = s->p,
                                        .n_all = choice.n};
    struct stni_order_target *targets;
    int64_t *begins;
    STNI_TRY(copy_in(s, s->places, (size_t)p * sizeof *targets, &targets));
    STNI_TRY(copy_in(s, s->begins, (size_t)(p + 1) * sizeof *begins, &begins));
    STNI_TRY(copy_in(s, s->pieces64, (size_t)p * sizeof *s->on_pieces, &s->on_pieces));
    STNI_TRY(stni_rows_memory(s->call, p, sizeof(int64_t), &args.counts));
    STNI_TRY(stni_rows_memory(s->call, p, sizeof(int64_t), &s->theirs));
    STNI_TRY(stni_order_choose(&choice, targets));
    args.begins = begins;
    args.pieces = s->on_pieces;
    args.targets = targets;
    STNI_TRY(stn_op_launch(s->call, STNI_ORDER_DEAL, s->order.dtype, &args, sizeof args));
    for (int r = 0; r < s->p; r++)
        s->send[r] = s->recv[r] = 1;
    STNI_TRY(stni_comm_all_to_all(s->comm, queue, args.counts, s->send, s->theirs, s->recv, STN_DTYPE_I64));
    STNI_TRY(stni_queue_copy(queue, s->send, args.counts, (size_t)p * sizeof(int64_t), STNI_COPY_TO_HOST));
    STNI_TRY(stni_queue_copy(queue, s->recv, s->theirs, (size_t)p * sizeof(int64_t), STNI_COPY_TO_HOST));
    return stn_queue_sync(queue);
}

/* Messages to or from each rank, whose parts lie in the order of their pieces. Returns how many there are. */
static int make_messages(const struct shared *s, const int64_t *counts, void *data, size_t size, stn_message *out)
{
    int n = 0;
    for (int r = 0; r < s->p; r++) {
        int64_t before = 0;
        for (int q = 0; q < s->p; q++)
            before += s->pieces[q] < s->pieces[r] ? counts[q] : 0;
        if (counts[r] > 0)
            out[n++] = (stn_message){r, {(char *)data + before * (int64_t)size, 1, {counts[r]}, {1}}};
    }
    return n;
}

static stn_status send(const struct shared *s, stn_dtype dtype, void *from, void *to)
{
    const size_t size = stn_dtype_size(dtype);
    stn_exchange exchange = {.dtype = dtype, .send = s->messages, .recv = s->messages + s->p};
    exchange.n_send = make_messages(s, s->send, from, size, s->messages);
    exchange.n_recv = make_messages(s, s->recv, to, size, s->messages + s->p);
    return stni_comm_exchange(s->comm, s->call->context->queue, &exchange);
}

/* One line is dense in the outputs: they serve for this rank's own elements meanwhile. */
static stn_status sort_shared(struct shared *s)
{
    const stn_op_call *call = s->call;
    const int64_t n = s->spec->local_shape[s->dim];
    STNI_TRY(allocate_host(s));
    find_pieces(s);
    s->values = call->out[0]->data;
    s->indices = call->out[1]->data;
    STNI_TRY(sort_own(s));
    STNI_TRY(deal(s));
    STNI_TRY(stni_rows_memory(call, n, stn_dtype_size(s->order.dtype), &s->came_values));
    STNI_TRY(stni_rows_memory(call, n, sizeof(int64_t), &s->came_indices));
    STNI_TRY(send(s, s->order.dtype, s->values, s->came_values));
    STNI_TRY(send(s, STN_DTYPE_I64, s->indices, s->came_indices));
    return merge(s);
}

stn_status stni_order_sort_shared(const stn_op_call *call, int dim, uint32_t axes, struct stni_order order)
{
    struct shared s = {.call = call, .spec = call->in[0]->spec, .order = order, .dim = dim, .axes = axes};
    STNI_TRY(stni_mesh_comm(s.spec->layout.mesh, axes, &s.comm));
    s.p = s.comm->size;
    stn_status status = sort_shared(&s);
    if (status != STN_OK)
        stn_queue_sync(call->context->queue); /* copies from and to the host's memory */
    stni_free(s.host);
    return status;
}
