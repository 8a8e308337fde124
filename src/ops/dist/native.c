#include "ops/dist/native.h"

#include "core/base/host_alloc.h"
#include "core/comm/launch.h"
#include "core/redistribute/identity.h"

enum stni_native stni_native_reverse(enum stni_native native)
{
    static const enum stni_native reverse[] = {
        [STNI_NATIVE_NONE] = STNI_NATIVE_NONE,
        [STNI_NATIVE_ALL_GATHER] = STNI_NATIVE_REDUCE_SCATTER,
        [STNI_NATIVE_REDUCE_SCATTER] = STNI_NATIVE_ALL_GATHER,
        [STNI_NATIVE_BROADCAST] = STNI_NATIVE_REDUCE,
        [STNI_NATIVE_REDUCE] = STNI_NATIVE_BROADCAST,
        [STNI_NATIVE_ALL_TO_ALL] = STNI_NATIVE_ALL_TO_ALL,
    };
    return reverse[native];
}

int stni_native_serves(const struct stni_route_attrs *attrs, const struct stni_layout *in)
{
    for (int d = 0; d < attrs->dim; d++)
        if (in->shape[d] != 1)
            return 0;
    return attrs->native != STNI_NATIVE_NONE;
}

/* Elements behind one place along the dim. */
static int64_t row_of(const stn_op_call *call, int64_t dim)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t n = 1;
    for (int d = (int)dim + 1; d < in->ndim; d++)
        n *= in->shape[d];
    return n;
}

/* One count per rank from a list, in which ranks without elements do not stand. */
static int64_t fill_counts(int64_t *counts, const struct stni_message_range *parts, int64_t n, int64_t row)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        counts[parts[i].peer] = parts[i].length * row;
        sum += parts[i].length * row;
    }
    return sum;
}

/* What each collective reads of a route. */
static void describe(struct stni_coll *coll, const struct stni_route *route, enum stni_native native, int64_t *counts,
                     int p, int64_t row)
{
    const struct stni_message_range *received = route->parts + route->n_send;
    switch (native) {
    case STNI_NATIVE_ALL_GATHER:
        coll->kind = STNI_COLL_ALL_GATHER;
        coll->counts = counts;
        coll->count = fill_counts(counts, received, route->n_receive, row);
        return;
    case STNI_NATIVE_REDUCE_SCATTER:
        coll->kind = STNI_COLL_REDUCE_SCATTER;
        coll->counts = counts;
        coll->count = fill_counts(counts, route->parts, route->n_send, row);
        return;
    case STNI_NATIVE_ALL_TO_ALL:
        coll->kind = STNI_COLL_ALL_TO_ALL;
        coll->counts = counts;
        coll->recv_counts = counts + p;
        coll->count = 0; /* each rank's own affair */
        fill_counts(counts, route->parts, route->n_send, row);
        fill_counts(counts + p, received, route->n_receive, row);
        return;
    case STNI_NATIVE_BROADCAST:
        coll->kind = STNI_COLL_BROADCAST;
        coll->send = coll->recv;
        return;
    case STNI_NATIVE_REDUCE:
    case STNI_NATIVE_NONE: break;
    }
    coll->kind = STNI_COLL_REDUCE;
}

/* The root of a broadcast lays its tensor where the result is to be; without being the root, a reduction leaves
 * zeros. */
static stn_status prepare(const stn_op_call *call, const stn_comm *comm, const struct stni_coll *coll,
                          const stn_tensor *in)
{
    stn_box to, from;
    const int is_root = stn_comm_rank(comm) == coll->root;
    if (coll->count == 0)
        return STN_OK;
    if (coll->kind == STNI_COLL_REDUCE && !is_root)
        return stni_fill_zeros(call->context->queue, coll->recv, coll->count, coll->dtype);
    if (coll->kind != STNI_COLL_BROADCAST || !is_root)
        return STN_OK;
    stni_tensor_box(in, &from);
    stni_tensor_box(call->out[0], &to);
    return stni_box_copy(call->context->queue, &to, &from, stn_dtype_size(coll->dtype));
}

static stn_status run_dense(const stn_op_call *call, stn_comm *comm, const stn_tensor *in)
{
    const struct stni_route_attrs *attrs = call->attrs;
    const int p = stn_comm_size(comm);
    const enum stni_native native = (enum stni_native)attrs->native;
    int64_t *counts = stni_calloc(2 * (size_t)p, sizeof *counts);
    if (counts == NULL)
        return stni_fail_memory(call->context, "counts", 2 * (size_t)p * sizeof *counts);
    struct stni_coll coll = {
        .dtype = in->spec->layout.dtype, .send = in->data, .recv = call->out[0]->data, .count = in->spec->numel};
    if (native == STNI_NATIVE_REDUCE || native == STNI_NATIVE_REDUCE_SCATTER)
        coll.op = (stn_reduce_op)attrs->op;
    if (native == STNI_NATIVE_REDUCE || native == STNI_NATIVE_BROADCAST)
        coll.root = (int)attrs->root;
    describe(&coll, (const struct stni_route *)stni_words_of(call->in[1]), native, counts, p, row_of(call, attrs->dim));
    stn_status status = prepare(call, comm, &coll, in);
    if (status == STN_OK)
        status = stni_comm_launch(comm, call->context->queue, &coll, NULL);
    stni_free(counts);
    return status;
}

stn_status stni_native_run(const stn_op_call *call, stn_comm *comm)
{
    stn_tensor *dense;
    STNI_TRY(stni_tensor_dense(call->in[0], &dense));
    stn_status status = run_dense(call, comm, dense);
    stni_tensor_drop(&dense);
    return status;
}
