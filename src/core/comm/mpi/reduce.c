/* Reductions: every rank gets all ranks' addends for its part and combines them in the order of ranks, with the
 * library's own kernel. MPI's reductions promise neither an order nor the same bits from run to run. */
#include "core/comm/mpi/family.h"

#include "core/base/clamp.h"

#include <stdlib.h>

/* Up to so many bytes received by each rank, one exchange of everything is quicker than two of parts. */
enum { DIRECT = 1 << 15 };

static stn_status reserve_scratch(struct stni_mpi_member *m, int64_t bytes)
{
    if (bytes <= (int64_t)m->scratch_bytes)
        return STN_OK;
    free(m->scratch);
    m->scratch = malloc((size_t)bytes);
    m->scratch_bytes = m->scratch ? (size_t)bytes : 0;
    if (!m->scratch)
        return stni_mpi_fail(m, STN_ERR_MEMORY, "out of memory: scratch of a reduction (%lld bytes)", (long long)bytes);
    return STN_OK;
}

/* Where the addends of `peer` arrive. */
static char *slot(const struct stni_mpi_member *m, int peer, size_t size)
{
    int distance = (peer - m->rank + m->size) % m->size;
    return m->scratch + (distance - 1) * m->counts[m->rank] * (int64_t)size;
}

/* This rank's part of the split, combined from all ranks; dst NULL: behind the addends in scratch. Parts may
 * overlap. */
static stn_status combine(struct stni_mpi_member *m, const struct stni_coll *v, void *dst)
{
    size_t size = stni_mpi_size(v->dtype);
    const stn_host *host = atomic_load(&stni_mpi_host);
    const char *send = v->send;
    int64_t own = m->counts[m->rank], all = 0;
    for (int r = 0; r < m->size; r++)
        all += m->counts[r];
    STNI_TRY(reserve_scratch(m, m->size * own * (int64_t)size));
    STNI_TRY(stni_mpi_reserve(m, 2 * (int64_t)m->size, (all + m->size * own) * (int64_t)size));
    for (int i = 1; i < m->size && own > 0; i++) {
        int peer = (m->rank + i) % m->size;
        STNI_TRY(stni_mpi_receive(m, peer, slot(m, peer, size), own * (int64_t)size));
    }
    for (int i = 1; i < m->size; i++) {
        int peer = (m->rank + m->size - i) % m->size;
        if (m->counts[peer] > 0)
            STNI_TRY(stni_mpi_send(m, peer, send + m->from[peer] * (int64_t)size, m->counts[peer] * (int64_t)size));
    }
    STNI_TRY(stni_mpi_complete(m));
    if (own == 0)
        return STN_OK;
    for (int r = 0; r < m->size; r++)
        m->sources[r] = r == m->rank ? send + m->from[r] * (int64_t)size : slot(m, r, size);
    if (!dst)
        dst = m->scratch + (m->size - 1) * own * (int64_t)size;
    if (host->queue_reduce(m->queue, dst, m->sources, m->size, own, v->dtype, v->op) != STN_OK)
        return stni_mpi_fail(m, STN_ERR_MEMORY, "out of memory: a reduction");
    return STN_OK;
}

static char *at(const struct stni_coll *v, int64_t element)
{
    return (char *)v->recv + element * (int64_t)stni_mpi_size(v->dtype);
}

static int is_direct(const struct stni_mpi_member *m, const struct stni_coll *v)
{
    return v->count <= DIRECT / (int64_t)stni_mpi_size(v->dtype) / (m->size > 1 ? m->size - 1 : 1);
}

/* Elements that are reduced at a time. */
static int64_t piece(const struct stni_coll *v)
{
    return STNI_MPI_PIECE / (int64_t)stni_mpi_size(v->dtype);
}

stn_status stni_mpi_all_reduce(struct stni_mpi_member *m, const struct stni_coll *v)
{
    if (is_direct(m, v)) {
        for (int r = 0; r < m->size; r++) {
            m->from[r] = 0;
            m->counts[r] = v->count;
        }
        return combine(m, v, v->recv);
    }
    for (int64_t first = 0; first < v->count; first += piece(v)) {
        int64_t n = v->count - first;
        stni_mpi_cut_evenly(m, first, n < piece(v) ? n : piece(v));
        STNI_TRY(combine(m, v, at(v, m->from[m->rank])));
        STNI_TRY(stni_mpi_share(m, v->recv, stni_mpi_size(v->dtype)));
    }
    return STN_OK;
}

stn_status stni_mpi_reduce(struct stni_mpi_member *m, const struct stni_coll *v)
{
    int is_root = m->rank == v->root;
    size_t size = stni_mpi_size(v->dtype);
    if (is_direct(m, v)) {
        for (int r = 0; r < m->size; r++) {
            m->from[r] = 0;
            m->counts[r] = r == v->root ? v->count : 0;
        }
        return combine(m, v, v->recv);
    }
    for (int64_t first = 0; first < v->count; first += piece(v)) {
        int64_t n = v->count - first;
        stni_mpi_cut_evenly(m, first, n < piece(v) ? n : piece(v));
        STNI_TRY(combine(m, v, is_root ? at(v, m->from[m->rank]) : NULL));
        const char *part =
            is_root ? at(v, m->from[m->rank]) : m->scratch + (m->size - 1) * m->counts[m->rank] * (int64_t)size;
        STNI_TRY(stni_mpi_collect(m, part, v->recv, size, v->root));
    }
    return STN_OK;
}

/* A piece of every rank's part at a time. */
stn_status stni_mpi_reduce_scatter(struct stni_mpi_member *m, const struct stni_coll *v)
{
    int64_t most = 0, step = piece(v) / m->size, first = 0;
    step = step > 0 ? step : 1;
    for (int r = 0; r < m->size; r++)
        most = v->counts[r] > most ? v->counts[r] : most;
    for (; first < most; first += step) {
        stni_mpi_cut(m, v->counts);
        for (int r = 0; r < m->size; r++) {
            m->from[r] += first;
            m->counts[r] = stni_clamp(m->counts[r] - first, 0, step);
        }
        STNI_TRY(combine(m, v, at(v, first)));
    }
    return STN_OK;
}
