/* Checks mode: before a collective runs, its ranks compare what they are about to call, through the communicator itself. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"

#include <string.h>

/* What all ranks have to agree on. */
enum { SEQUENCE, KIND, COUNT, DTYPE, OP, ROOT, FIELDS };

static void fill(int64_t *fields, const struct stni_coll *coll, int64_t sequence)
{
    fields[SEQUENCE] = sequence;
    fields[KIND] = coll->kind;
    fields[COUNT] = coll->count;
    fields[DTYPE] = coll->dtype;
    fields[OP] = coll->op;
    fields[ROOT] = coll->root;
}

static void describe(const int64_t *fields, char *text, size_t size)
{
    struct stni_coll coll = {.kind = (enum stni_coll_kind)fields[KIND],
                             .count = fields[COUNT],
                             .dtype = (stn_dtype)fields[DTYPE],
                             .op = (stn_reduce_op)fields[OP],
                             .root = (int)fields[ROOT]};
    stni_coll_describe(&coll, text, size);
}

static stn_status compare(stn_queue *queue, const int64_t *all, int size)
{
    for (int r = 1; r < size; r++) {
        const int64_t *fields = all + (int64_t)r * FIELDS;
        char got[96], wanted[96];
        if (memcmp(all, fields, FIELDS * sizeof *all) == 0)
            continue;
        describe(fields, got, sizeof got);
        describe(all, wanted, sizeof wanted);
        return stn_queue_fail(queue, STN_ERR_MISMATCH, "rank %d makes call %lld, %s, rank 0 call %lld, %s", r,
                              (long long)fields[SEQUENCE], got, (long long)all[SEQUENCE], wanted);
    }
    return STN_OK;
}

stn_status stni_comm_check(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll, int64_t sequence)
{
    /* A group of messages is called only by the ranks that take part in it, so no collective can compare it; the fake has no peers. */
    if (coll->kind == STNI_COLL_GROUP || comm->ops == &stni_fake_ops || comm->size == 1)
        return STN_OK;
    size_t n = (size_t)comm->size, bytes = (n + n * FIELDS) * sizeof(int64_t);
    int64_t own[FIELDS], *counts = stni_malloc(bytes), *all = counts + n;
    if (!counts)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "checks: out of memory (%zu bytes)", bytes);
    for (size_t r = 0; r < n; r++)
        counts[r] = FIELDS;
    fill(own, coll, sequence);
    struct stni_coll gather = {.kind = STNI_COLL_ALL_GATHER, .dtype = STN_DTYPE_I64, .count = (int64_t)n * FIELDS,
                               .send = own, .recv = all, .counts = counts};
    stn_status status = comm->run(comm, queue, &gather);
    if (status == STN_OK)
        status = compare(queue, all, comm->size);
    stni_free(counts);
    return status;
}
