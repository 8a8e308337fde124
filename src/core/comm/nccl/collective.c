/* The collectives. What only moves elements moves bytes; sizes that differ go as one group of sends and receives, in
 * which messages without elements are left out at both ends. Reductions are NCCL's where `stni_nccl_reduces` says
 * so. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/module.h"

/* What NCCL takes as a number. Integers of NCCL's wrap as the library's do. */
static const struct type {
    int known;
    ncclDataType_t type;
    int parts; /* numbers that an element has */
    int floats;
} types[STN_DTYPE_COUNT] = {
    [STN_DTYPE_F32] = {1, ncclFloat32, 1, 1}, [STN_DTYPE_F64] = {1, ncclFloat64, 1, 1},
    [STN_DTYPE_F16] = {1, ncclFloat16, 1, 1}, [STN_DTYPE_BF16] = {1, ncclBfloat16, 1, 1},
    [STN_DTYPE_C64] = {1, ncclFloat32, 2, 1}, [STN_DTYPE_C128] = {1, ncclFloat64, 2, 1},
    [STN_DTYPE_I64] = {1, ncclInt64, 1, 0},   [STN_DTYPE_I32] = {1, ncclInt32, 1, 0},
    [STN_DTYPE_I8] = {1, ncclInt8, 1, 0},     [STN_DTYPE_U8] = {1, ncclUint8, 1, 0},
};

static const ncclRedOp_t ops[STN_REDUCE_OP_COUNT] = {
    [STN_SUM] = ncclSum, [STN_AVG] = ncclAvg, [STN_PROD] = ncclProd, [STN_MIN] = ncclMin, [STN_MAX] = ncclMax,
};

/* "Or" and "and" of bytes that are 0 or 1. */
static const ncclRedOp_t bool_ops[STN_REDUCE_OP_COUNT] = {
    [STN_SUM] = ncclMax, [STN_AVG] = ncclMax, [STN_PROD] = ncclMin, [STN_MIN] = ncclMin, [STN_MAX] = ncclMax,
};

const char *stni_nccl_name(enum stni_coll_kind kind)
{
    static const char *const names[STNI_COLL_COUNT] = {
        [STNI_COLL_ALL_REDUCE] = "all_reduce", [STNI_COLL_REDUCE] = "reduce",       [STNI_COLL_ALL_GATHER] = "all_gather",
        [STNI_COLL_REDUCE_SCATTER] = "reduce_scatter", [STNI_COLL_BROADCAST] = "broadcast", [STNI_COLL_GROUP] = "group",
        [STNI_COLL_BARRIER] = "barrier",
    };
    return names[kind] ? names[kind] : "collective";
}

/* MIN and MAX of floating numbers are not NCCL's, which does not say what becomes of a NaN; nor are products of
 * complex numbers, nor means of integers, whose rounding it does not promise. Its means of floating numbers are
 * scaled before they are added: with another number of ranks than a power of two that rounds what need not be
 * rounded. */
int stni_nccl_reduces(const struct stni_nccl_member *m, stn_dtype dtype, stn_reduce_op op)
{
    const struct type *t = &types[dtype];
    const int extreme = op == STN_MIN || op == STN_MAX;
    if (dtype == STN_DTYPE_BOOL)
        return 1;
    if (!t->known || (t->parts > 1 && op == STN_PROD))
        return 0;
    if (op == STN_AVG && (m->size & (m->size - 1)) != 0)
        return 0;
    return t->floats ? !extreme && !m->rank_order : op != STN_AVG;
}

/* One collective as it is put on the stream. */
struct work {
    const struct stni_nccl_member *m;
    const struct stni_coll *v;
    const struct stni_nccl_library *nccl;
    size_t element; /* bytes */
};

static char *at(const struct work *w, const void *data, int64_t element)
{
    return (char *)(uintptr_t)data + element * (int64_t)w->element;
}

static size_t bytes(const struct work *w, int64_t count)
{
    return (size_t)count * w->element;
}

/* The first answer that is neither a success nor merely in progress; else whether something is. */
static ncclResult_t both(ncclResult_t a, ncclResult_t b)
{
    return a == ncclSuccess || (a == ncclInProgress && b != ncclSuccess) ? b : a;
}

/* What a rank keeps for itself. */
static ncclResult_t keep(const struct work *w, void *to, const void *from, int64_t count)
{
    if (count == 0 || to == from)
        return ncclSuccess;
    const cudaError_t answer = cudaMemcpyAsync(to, from, bytes(w, count), cudaMemcpyDefault, w->m->stream);
    return answer == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t send(const struct work *w, int peer, const void *data, int64_t count)
{
    return count == 0 ? ncclSuccess
                      : w->nccl->ncclSend(data, bytes(w, count), ncclUint8, peer, w->m->comm, w->m->stream);
}

static ncclResult_t receive(const struct work *w, int peer, void *data, int64_t count)
{
    return count == 0 ? ncclSuccess
                      : w->nccl->ncclRecv(data, bytes(w, count), ncclUint8, peer, w->m->comm, w->m->stream);
}

struct reduction {
    ncclDataType_t type;
    ncclRedOp_t op;
    size_t parts;
};

static struct reduction reduction_of(const struct stni_coll *v)
{
    if (v->dtype == STN_DTYPE_BOOL)
        return (struct reduction){ncclUint8, bool_ops[v->op], 1};
    return (struct reduction){types[v->dtype].type, ops[v->op], (size_t)types[v->dtype].parts};
}

static ncclResult_t all_reduce(const struct work *w)
{
    const struct stni_coll *v = w->v;
    const struct reduction r = reduction_of(v);
    return w->nccl->ncclAllReduce(v->send, v->recv, (size_t)v->count * r.parts, r.type, r.op, w->m->comm, w->m->stream);
}

static ncclResult_t reduce(const struct work *w)
{
    const struct stni_coll *v = w->v;
    const struct reduction r = reduction_of(v);
    return w->nccl->ncclReduce(v->send, v->recv, (size_t)v->count * r.parts, r.type, r.op, v->root, w->m->comm,
                               w->m->stream);
}

static int are_equal(const int64_t *counts, int n)
{
    for (int r = 1; r < n; r++)
        if (counts[r] != counts[0])
            return 0;
    return 1;
}

/* Parts of different sizes: each is reduced to its rank. */
static ncclResult_t reduce_parts(const struct work *w, const struct reduction *r)
{
    const struct stni_coll *v = w->v;
    int64_t from = 0;
    ncclResult_t answer = w->nccl->ncclGroupStart();
    for (int root = 0; root < w->m->size; from += v->counts[root++])
        if (v->counts[root] > 0)
            answer = both(answer, w->nccl->ncclReduce(at(w, v->send, from), v->recv, (size_t)v->counts[root] * r->parts,
                                                      r->type, r->op, root, w->m->comm, w->m->stream));
    return both(answer, w->nccl->ncclGroupEnd());
}

static ncclResult_t reduce_scatter(const struct work *w)
{
    const struct stni_coll *v = w->v;
    const struct reduction r = reduction_of(v);
    if (!are_equal(v->counts, w->m->size))
        return reduce_parts(w, &r);
    return w->nccl->ncclReduceScatter(v->send, v->recv, (size_t)v->counts[0] * r.parts, r.type, r.op, w->m->comm,
                                      w->m->stream);
}

static ncclResult_t gather_parts(const struct work *w)
{
    const struct stni_coll *v = w->v;
    const int rank = w->m->rank;
    int64_t from = 0;
    ncclResult_t answer = w->nccl->ncclGroupStart();
    for (int r = 0; r < w->m->size; from += v->counts[r++]) {
        if (r == rank) {
            answer = both(answer, keep(w, at(w, v->recv, from), v->send, v->counts[r]));
            continue;
        }
        answer = both(answer, send(w, r, v->send, v->counts[rank]));
        answer = both(answer, receive(w, r, at(w, v->recv, from), v->counts[r]));
    }
    return both(answer, w->nccl->ncclGroupEnd());
}

static ncclResult_t all_gather(const struct work *w)
{
    const struct stni_coll *v = w->v;
    if (!are_equal(v->counts, w->m->size))
        return gather_parts(w);
    return w->nccl->ncclAllGather(v->send, v->recv, bytes(w, v->counts[0]), ncclUint8, w->m->comm, w->m->stream);
}

static ncclResult_t broadcast(const struct work *w)
{
    const struct stni_coll *v = w->v;
    return w->nccl->ncclBroadcast(v->recv, v->recv, bytes(w, v->count), ncclUint8, v->root, w->m->comm, w->m->stream);
}

static int64_t box_count(const stn_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* Messages of this rank to itself, in their order. That they match was checked. */
static ncclResult_t keep_messages(const struct work *w)
{
    const stn_exchange *e = w->v->messages;
    ncclResult_t answer = ncclSuccess;
    for (int i = 0, s = 0; i < e->n_recv; i++) {
        if (e->recv[i].peer != w->m->rank)
            continue;
        while (e->send[s].peer != w->m->rank)
            s++;
        answer = both(answer, keep(w, e->recv[i].box.data, e->send[s++].box.data, box_count(&e->recv[i].box)));
    }
    return answer;
}

static ncclResult_t group(const struct work *w)
{
    const stn_exchange *e = w->v->messages;
    ncclResult_t answer = both(keep_messages(w), w->nccl->ncclGroupStart());
    for (int i = 0; i < e->n_send; i++)
        if (e->send[i].peer != w->m->rank)
            answer = both(answer, send(w, e->send[i].peer, e->send[i].box.data, box_count(&e->send[i].box)));
    for (int i = 0; i < e->n_recv; i++)
        if (e->recv[i].peer != w->m->rank)
            answer = both(answer, receive(w, e->recv[i].peer, e->recv[i].box.data, box_count(&e->recv[i].box)));
    return both(answer, w->nccl->ncclGroupEnd());
}

/* STN_OK where each message of this rank to itself is sent and wanted with one size. */
static stn_status check_own_messages(struct stni_nccl_member *m, const stn_exchange *e, struct stni_error *error)
{
    int s = 0;
    for (int i = 0; i < e->n_recv; i++) {
        if (e->recv[i].peer != m->rank)
            continue;
        while (s < e->n_send && e->send[s].peer != m->rank)
            s++;
        if (s == e->n_send || box_count(&e->send[s].box) != box_count(&e->recv[i].box))
            return stni_nccl_fail(m, error, STN_ERR_MISMATCH, "group: a message from rank %d to itself %s", m->rank,
                                  s == e->n_send ? "is wanted but not sent" : "has different shapes at its ends");
        s++;
    }
    return STN_OK;
}

static ncclResult_t (*const collectives[STNI_COLL_COUNT])(const struct work *w) = {
    [STNI_COLL_ALL_REDUCE] = all_reduce,         [STNI_COLL_REDUCE] = reduce,       [STNI_COLL_ALL_GATHER] = all_gather,
    [STNI_COLL_REDUCE_SCATTER] = reduce_scatter, [STNI_COLL_BROADCAST] = broadcast, [STNI_COLL_GROUP] = group,
};

/* No rank has anything to do: all know the counts, and a group is of those that take part. */
static int is_empty(const struct stni_coll *v)
{
    return v->messages ? v->messages->n_send + v->messages->n_recv == 0 : v->count == 0;
}

stn_status stni_nccl_run(struct stni_nccl_member *m, stn_queue *queue, const struct stni_coll *v,
                         struct stni_error *error)
{
    struct stni_nccl_watched *watched = NULL;
    int records = 0;
    const struct work work = {m, v, stni_nccl(), stni_cuda_host()->dtype_size(v->dtype)};
    if (atomic_load(&m->family->aborted))
        return stni_nccl_fail_aborted(m, error);
    if (is_empty(v))
        return STN_OK;
    if (v->messages)
        STNI_TRY(check_own_messages(m, v->messages, error));
    const int before = stni_nccl_enter(m->device);
    stn_status status = stni_nccl_check_queue(m, queue, v, &records, error);
    if (status == STN_OK)
        status = records ? stni_nccl_record_begin(m, queue, v, error) : stni_nccl_begin(m, queue, v, &watched, error);
    if (status == STN_OK) {
        const ncclResult_t answer = collectives[v->kind](&work);
        status = records ? stni_nccl_record_end(m, queue, answer, error) : stni_nccl_end(m, watched, answer, error);
    }
    stni_nccl_leave(m->device, before);
    return status;
}
