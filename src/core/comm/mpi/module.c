/* The MPI module: the table of collectives, opening and subsets. */
#include "core/comm/mpi/family.h"

#include "core/base/fnv.h"
#include "core/comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Atomic(const stn_host *) stni_mpi_host;

static const stn_host *host(void)
{
    return atomic_load(&stni_mpi_host);
}

static stn_status run(void *impl, stn_queue *queue, const struct stni_coll *coll)
{
    struct stni_mpi_member *m = impl;
    m->queue = queue;
    stn_status status = stni_mpi_run(m, coll);
    if (status != STN_OK)
        host()->queue_fail(queue, status, "%s", m->error.text);
    return status;
}

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    struct stni_coll coll = {STNI_COLL_ALL_REDUCE, dtype, op, 0, count, send, recv, NULL, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                         stn_reduce_op op, int root)
{
    struct stni_coll coll = {STNI_COLL_REDUCE, dtype, op, root, count, send, recv, NULL, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status all_gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                             stn_dtype dtype)
{
    struct stni_coll coll = {STNI_COLL_ALL_GATHER, dtype, 0, 0, 0, send, recv, counts, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                         stn_dtype dtype, int root)
{
    struct stni_coll coll = {STNI_COLL_GATHER, dtype, 0, root, 0, send, recv, counts, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status reduce_scatter(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                 stn_dtype dtype, stn_reduce_op op)
{
    struct stni_coll coll = {STNI_COLL_REDUCE_SCATTER, dtype, op, 0, 0, send, recv, counts, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status scatter(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                          stn_dtype dtype, int root)
{
    struct stni_coll coll = {STNI_COLL_SCATTER, dtype, 0, root, 0, send, recv, counts, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status broadcast(void *impl, stn_queue *queue, void *buffer, int64_t count, stn_dtype dtype, int root)
{
    struct stni_coll coll = {STNI_COLL_BROADCAST, dtype, 0, root, count, buffer, buffer, NULL, NULL, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status all_to_all(void *impl, stn_queue *queue, const void *send, const int64_t *send_counts, void *recv,
                             const int64_t *recv_counts, stn_dtype dtype)
{
    struct stni_coll coll = {STNI_COLL_ALL_TO_ALL, dtype, 0, 0, 0, send, recv, send_counts, recv_counts, NULL, 0, 0};
    return run(impl, queue, &coll);
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = messages->dtype, .messages = messages};
    return run(impl, queue, &coll);
}

static stn_status barrier(void *impl, stn_queue *queue)
{
    struct stni_coll coll = {.kind = STNI_COLL_BARRIER};
    return run(impl, queue, &coll);
}

/* What the ranks of a subset tell each other: the first number that this rank has not used, and the subset that it
 * means. */
struct proposal {
    int64_t number;
    uint64_t ranks;
};

static uint64_t hash_ranks(const struct stni_mpi_member *m, const int *ranks, int n)
{
    uint64_t hash = STNI_FNV_EMPTY;
    for (int i = 0; i < n; i++)
        hash = stni_fnv(hash, &m->world[ranks[i]], sizeof m->world[ranks[i]]);
    return hash;
}

/* Messages on the tag of the parent: each pair of ranks calls its collectives, groups and subsets in the same order. */
static stn_status exchange_proposals(struct stni_mpi_member *m, const int *ranks, int n, int at, struct proposal *all)
{
    STNI_TRY(stni_mpi_reserve(m, 2 * (int64_t)n, 0));
    for (int i = 0; i < n; i++)
        if (i != at)
            STNI_TRY(stni_mpi_receive(m, ranks[i], &all[i], sizeof all[i]));
    for (int i = 0; i < n; i++)
        if (i != at)
            STNI_TRY(stni_mpi_send(m, ranks[i], &all[at], sizeof all[at]));
    return stni_mpi_complete(m);
}

/* The largest of the first unused numbers of all members: every group that contains one of them has another number. */
static stn_status agree_on_number(struct stni_mpi_member *m, const int *ranks, int n, struct proposal *all, int *number)
{
    int at = 0;
    int64_t most = 0;
    while (ranks[at] != m->rank)
        at++;
    pthread_mutex_lock(&m->family->lock);
    all[at] = (struct proposal){(int64_t)m->family->used + 1, hash_ranks(m, ranks, n)};
    pthread_mutex_unlock(&m->family->lock);
    STNI_TRY(exchange_proposals(m, ranks, n, at, all));
    for (int i = 0; i < n; i++) {
        if (all[i].ranks != all[at].ranks)
            return stni_mpi_fail(m, STN_ERR_MISMATCH, "subset: ranks %d and %d pass different lists of ranks",
                                 m->world[m->rank], m->world[ranks[i]]);
        most = all[i].number > most ? all[i].number : most;
    }
    if (STNI_MPI_TAGS * (most + 1) > m->family->tags)
        return stni_mpi_fail(m, STN_ERR_COMM, "subset: MPI has no tags left after %lld subsets", (long long)most);
    pthread_mutex_lock(&m->family->lock);
    if (most > m->family->used)
        m->family->used = (int)most;
    pthread_mutex_unlock(&m->family->lock);
    *number = (int)most;
    return STN_OK;
}

static stn_status make_subset(struct stni_mpi_member *m, const int *ranks, int n, struct stni_mpi_member **out)
{
    int number = 0, *world = malloc((size_t)n * sizeof *world);
    struct proposal *all = malloc((size_t)n * sizeof *all);
    stn_status status = world && all ? agree_on_number(m, ranks, n, all, &number) : STN_OK;
    for (int i = 0; world && i < n; i++)
        world[i] = m->world[ranks[i]];
    if (status == STN_OK)
        *out = world && all ? stni_mpi_member_create(m->family, n, world, number, m->deadline_seconds) : NULL;
    if (status == STN_OK && !*out)
        status = stni_mpi_fail(m, STN_ERR_MEMORY, "out of memory: a communicator of %d ranks", n);
    free(world);
    free(all);
    return status;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    struct stni_mpi_member *m = impl, *made = NULL;
    m->kind = STNI_COLL_BARRIER;
    stn_status status =
        atomic_load(&m->family->aborted) ? stni_mpi_fail_aborted(m) : make_subset(m, ranks, n_ranks, &made);
    if (status != STN_OK)
        return host()->queue_fail(queue, status, "%s", m->error.text);
    *out = made;
    return STN_OK;
}

static void abort_all(void *impl, stn_status status, const char *text)
{
    struct stni_mpi_member *m = impl;
    stni_mpi_abort(m->family, m->family->rank, status, text);
}

static void set_deadline(void *impl, double seconds)
{
    ((struct stni_mpi_member *)impl)->deadline_seconds = seconds;
    stni_mpi_expect(seconds, NULL, 0);
}

/* MPI moves memory of the host in any case. */
static stn_status agree(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op)
{
    return all_reduce(impl, queue, words, words, n, STN_DTYPE_I64, op);
}

static stn_status agree_broadcast(void *impl, stn_queue *queue, void *bytes, size_t n, int root)
{
    return broadcast(impl, queue, bytes, (int64_t)n, STN_DTYPE_U8, root);
}

static int64_t waited(void *impl)
{
    return ((const struct stni_mpi_member *)impl)->waited;
}

/* Within a machine MPI copies, and the rank's core does it. */
static int beside(void *impl)
{
    return ((const struct stni_mpi_member *)impl)->spans_machines && stni_mpi_any_thread();
}

/* No `exchange`: the library packs boxes into pieces, which travel by `group`. */
static const stn_comm_ops comm_ops = {
    .size = sizeof comm_ops,
    .name = "mpi",
    .all_reduce = all_reduce,
    .reduce = reduce,
    .all_gather = all_gather,
    .gather = gather,
    .reduce_scatter = reduce_scatter,
    .scatter = scatter,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .group = group,
    .barrier = barrier,
    .subset = subset,
    .abort = abort_all,
    .destroy = stni_mpi_member_destroy,
    .set_deadline = set_deadline,
    .agree = agree,
    .agree_broadcast = agree_broadcast,
    .host_memory = 1,
    .waited = waited,
    .beside = beside,
};

/* Which MPI this module was compiled against: handles of another mean nothing to it. */
#if defined(OPEN_MPI)
static const char implementation[] = "openmpi";
#elif defined(MPICH_VERSION) || defined(MPICH)
static const char implementation[] = "mpich";
#else
static const char implementation[] = "other";
#endif

struct wish {
    double deadline; /* seconds */
    int has_comm;
    MPI_Fint comm;
    int ranks; /* 0: as many as there are */
};

/* Words "deadline=SECONDS", "comm=HANDLE" (as MPI_Comm_c2f gives it), "ranks=N", as many as have to be there, and
 * "mpi=NAME", the caller's MPI. */
static stn_status parse(const char *text, struct wish *wish, struct stni_error *error)
{
    *wish = (struct wish){.deadline = STNI_DEADLINE_SECONDS};
    for (const char *at = text ? text + strspn(text, " ") : ""; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        long long handle;
        if (sscanf(at, "deadline=%lf", &wish->deadline) == 1 || sscanf(at, "ranks=%d", &wish->ranks) == 1)
            continue;
        if (sscanf(at, "comm=%lld", &handle) == 1) {
            wish->has_comm = 1;
            wish->comm = (MPI_Fint)handle;
            continue;
        }
        if (strncmp(at, "mpi=", 4) != 0)
            return stni_mpi_say(error, STN_ERR_ARGUMENT,
                                "option got \"%.*s\", wanted deadline=, comm=, ranks= or mpi=", (int)n, at);
        if (n - 4 != strlen(implementation) || strncmp(at + 4, implementation, n - 4) != 0)
            return stni_mpi_say(error, STN_ERR_VERSION, "the caller's MPI is %.*s, the module's is %s", (int)n - 4,
                                at + 4, implementation);
    }
    return STN_OK;
}

static stn_status check_ranks(MPI_Comm from, int wanted, struct stni_error *error)
{
    int ranks = 0;
    if (wanted == 0)
        return STN_OK;
    MPI_Comm_size(from, &ranks);
    if (ranks == wanted)
        return STN_OK;
    return stni_mpi_say(error, STN_ERR_MISMATCH, "the launcher started %d processes, but MPI opened a world of %d",
                        wanted, ranks);
}

static stn_status join(const char *options, struct stni_mpi_member **out, struct stni_error *error)
{
    struct wish wish;
    STNI_TRY(parse(options, &wish, error));
    STNI_TRY(stni_mpi_start(error));
    MPI_Comm from = wish.has_comm ? MPI_Comm_f2c(wish.comm) : MPI_COMM_WORLD;
    if (from == MPI_COMM_NULL)
        return stni_mpi_say(error, STN_ERR_ARGUMENT, "comm got MPI_COMM_NULL");
    STNI_TRY(check_ranks(from, wish.ranks, error));
    STNI_TRY(stni_mpi_family_create(from, wish.deadline, out, error));
    stni_mpi_expect(wish.deadline, wish.has_comm ? NULL : (*out)->family->peers, (*out)->size);
    return STN_OK;
}

static stn_status comm_join(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size,
                            char *text, size_t text_size)
{
    struct stni_mpi_member *member = NULL;
    struct stni_error error = {0};
    stn_status status = stni_mpi_thread_allowed()
                            ? join(options, &member, &error)
                            : stni_mpi_say(&error, STN_ERR_UNSUPPORTED,
                                           "MPI was initialised for its main thread alone, and this is another");
    if (status != STN_OK) {
        snprintf(text, text_size, "%s", error.text);
        return status;
    }
    *ops = &comm_ops;
    *impl = member;
    *rank = member->rank;
    *size = member->size;
    return STN_OK;
}

STN_API const stn_module *stn_module_mpi(const stn_host *host);

const stn_module *stn_module_mpi(const stn_host *given)
{
    static const stn_module module = {
        .size = sizeof module,
        .abi = STN_MODULE_ABI,
        .name = "mpi",
        .comm_join = comm_join,
    };
    if (given->abi != STN_MODULE_ABI || given->size < offsetof(stn_host, queue_reduce) + sizeof given->queue_reduce)
        return NULL;
    atomic_store(&stni_mpi_host, given);
    return &module;
}
