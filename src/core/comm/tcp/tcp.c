/* Communicators over TCP: the table, opening and subsets. */
#include "core/comm/tcp/meet.h"
#include "core/comm/tcp/tcp.h"

#include "core/base/fnv.h"
#include "core/base/host_alloc.h"

#include <shardtensor/tcp.h>

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = STN_MAX_AGREE / (int)sizeof(int64_t) };
static const double deadline = 300; /* seconds, where none is given */
static const double spins = 1e-4;

/* Families */

struct stni_tcp_family *stni_tcp_family_create(int rank, int size, const int *lanes)
{
    struct stni_tcp_family *family = stni_calloc(1, sizeof *family);
    if (!family)
        return NULL;
    family->peers = stni_calloc((size_t)size, sizeof *family->peers);
    family->polled = stni_calloc((size_t)size * STNI_TCP_LANES, sizeof *family->polled);
    if (!family->peers || !family->polled) {
        stni_free(family->peers);
        stni_free(family->polled);
        stni_free(family);
        return NULL;
    }
    family->rank = rank;
    family->size = size;
    int here = 0;
    for (int r = 0; r < size; r++) {
        memcpy(family->peers[r].lanes, lanes + STNI_TCP_LANES * r, sizeof family->peers[r].lanes);
        family->peers[r].is_elsewhere = r != rank && !stni_tcp_is_here(family->peers[r].lanes[STNI_TCP_MESSAGES]);
        here += !family->peers[r].is_elsewhere;
    }
    /* Where ranks share a core, who spins keeps from it whom it waits for. */
    family->spins = here <= sysconf(_SC_NPROCESSORS_ONLN) ? spins : 0;
    pthread_mutex_init(&family->lock, NULL);
    return family;
}

/* What has come is read before: to close a connection with something unread would undo what was sent on it. */
static void leave(struct stni_tcp_family *family)
{
    stni_tcp_progress(family, 0);
    stni_tcp_say_leaving(family);
    stni_tcp_drop(family);
    for (int r = 0; r < family->size; r++)
        for (int lane = 0; lane < STNI_TCP_LANES; lane++)
            stni_tcp_close(&family->peers[r].lanes[lane]);
}

void stni_tcp_family_release(struct stni_tcp_family *family)
{
    if (atomic_fetch_sub(&family->refs, 1) > 1)
        return;
    leave(family);
    pthread_mutex_destroy(&family->lock);
    stni_free(family->made);
    stni_free(family->peers);
    stni_free(family->polled);
    stni_free(family);
}

/* Members */

static void destroy(void *impl)
{
    struct stni_tcp_member *member = impl;
    stni_tcp_family_release(member->family);
    stni_free(member->world);
    stni_free(member);
}

/* Rank i of the group is rank ranks[i] of `from`; NULL: of the family. */
static struct stni_tcp_member *make_member(struct stni_tcp_family *family, const struct stni_tcp_member *from,
                                           const int *ranks, int n, uint64_t channel)
{
    struct stni_tcp_member *made = stni_calloc(1, sizeof *made);
    if (made)
        made->world = stni_malloc((size_t)n * sizeof *made->world);
    if (!made || !made->world) {
        stni_free(made);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        made->world[i] = from ? from->world[ranks[i]] : i;
        made->rank = made->world[i] == family->rank ? i : made->rank;
        made->spans_machines |= family->peers[made->world[i]].is_elsewhere;
    }
    made->family = family;
    made->size = n;
    made->channel = channel;
    made->deadline_seconds = from ? from->deadline_seconds : deadline;
    atomic_fetch_add(&family->refs, 1);
    return made;
}

/* Collectives */

static stn_status done(struct stni_tcp_member *member, stn_queue *queue, stn_status status)
{
    return status == STN_OK ? STN_OK : stn_queue_fail(queue, status, "%s", member->error.text);
}

static void begin(struct stni_tcp_member *member, const stn_queue *queue)
{
    member->collective = queue->collective ? queue->collective : "group";
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    begin(impl, queue);
    return done(impl, queue, stni_tcp_group(impl, messages));
}

/* The library adds up in rank order what `group` brings. */
static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    (void)impl, (void)queue, (void)send, (void)recv, (void)count, (void)dtype, (void)op;
    return STN_ERR_UNSUPPORTED;
}

/* Every rank's `size` bytes at `mine` to every other, which has them at `all` + rank * size. */
static stn_status tell_all(struct stni_tcp_member *member, const void *mine, void *all, size_t size)
{
    const int n = member->size;
    struct stni_tcp_transfer *transfers = stni_calloc((size_t)(2 * n), sizeof *transfers);
    int at = 0;
    if (!transfers)
        return stni_tcp_fail(member, STN_ERR_MEMORY, "out of memory: %d messages", 2 * n);
    for (int i = 0; i < 2 * n; i++) {
        const int receives = i < n, peer = i % n;
        char *data = receives ? (char *)all + (size_t)peer * size : (char *)(uintptr_t)mine;
        if (peer != member->rank)
            transfers[at++] =
                (struct stni_tcp_transfer){.peer = member->world[peer], .header.bytes = (int64_t)size, .data = data};
    }
    memcpy((char *)all + (size_t)member->rank * size, mine, size);
    stn_status status = stni_tcp_pass(member, transfers, n - 1, at);
    stni_free(transfers);
    return status;
}

static int64_t combine(int64_t a, int64_t b, stn_reduce_op op)
{
    if (op == STN_SUM) /* wraps, as sums of hashes do */
        return (int64_t)((uint64_t)a + (uint64_t)b);
    return op == STN_MIN ? (a < b ? a : b) : a > b ? a : b;
}

static stn_status agree(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op)
{
    struct stni_tcp_member *member = impl;
    begin(member, queue);
    int64_t *all = n <= WORDS ? stni_malloc((size_t)member->size * (size_t)n * sizeof *all) : NULL;
    if (!all)
        return done(member, queue,
                    stni_tcp_fail(member, STN_ERR_MEMORY, "out of memory: %d words of %d ranks", n, member->size));
    stn_status status = tell_all(member, words, all, (size_t)n * sizeof *words);
    for (int i = 0; i < n && status == STN_OK; i++) {
        words[i] = all[i];
        for (int r = 1; r < member->size; r++)
            words[i] = combine(words[i], all[r * n + i], op);
    }
    stni_free(all);
    return done(member, queue, status);
}

static stn_status agree_broadcast(void *impl, stn_queue *queue, void *bytes, size_t n, int root)
{
    const struct stni_tcp_member *member = impl;
    const stn_box box = {bytes, 1, {(int64_t)n}, {1}};
    stn_message *messages = stni_malloc((size_t)member->size * sizeof *messages);
    int sends = 0;
    if (!messages)
        return done(impl, queue, stni_tcp_fail(impl, STN_ERR_MEMORY, "out of memory: %d messages", member->size));
    for (int r = 0; r < member->size && member->rank == root; r++)
        if (r != root)
            messages[sends++] = (stn_message){r, box};
    messages[sends] = (stn_message){root, box};
    const stn_exchange exchange = {.dtype = STN_DTYPE_U8,
                                   .n_send = sends,
                                   .n_recv = member->rank != root,
                                   .send = messages,
                                   .recv = messages + sends};
    stn_status status = group(impl, queue, &exchange);
    stni_free(messages);
    return status;
}

/* Subsets */

/* How often a group of these ranks, in this order, has been made before: every one of them counts the same. With the
 * lock held; -1: no memory. */
static int64_t times_made(struct stni_tcp_family *family, uint64_t ranks)
{
    for (int i = 0; i < family->n_made; i++)
        if (family->made[i].ranks == ranks)
            return (int64_t)family->made[i].times++;
    struct stni_tcp_made *grown = stni_realloc(family->made, (size_t)(family->n_made + 1) * sizeof *grown);
    if (!grown)
        return -1;
    family->made = grown;
    grown[family->n_made++] = (struct stni_tcp_made){ranks, 1};
    return 0;
}

/* The members of a subset make sure that they mean the same, by messages on the channel of the communicator that
 * they all have. */
static stn_status compare(struct stni_tcp_member *member, const int *ranks, int n, uint64_t hash)
{
    struct stni_tcp_transfer *transfers = stni_calloc((size_t)(2 * n), sizeof *transfers);
    uint64_t *all = stni_malloc((size_t)n * sizeof *all);
    stn_status status = STN_ERR_MEMORY;
    int at = 0;
    for (int i = 0; transfers && all && i < 2 * n; i++)
        if (ranks[i % n] != member->rank)
            transfers[at++] = (struct stni_tcp_transfer){.peer = member->world[ranks[i % n]],
                                                         .header.bytes = sizeof hash,
                                                         .data = i < n ? (char *)&all[i] : (char *)&hash};
    if (transfers && all)
        status = stni_tcp_pass(member, transfers, n - 1, at);
    else
        stni_tcp_fail(member, status, "out of memory: a communicator of %d ranks", n);
    for (int i = 0; i < n && status == STN_OK; i++)
        if (ranks[i] != member->rank && all[i] != hash)
            status = stni_tcp_fail(member, STN_ERR_MISMATCH, "subset: ranks %d and %d pass different lists of ranks",
                                   member->family->rank, member->world[ranks[i]]);
    stni_free(transfers);
    stni_free(all);
    return status;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    struct stni_tcp_member *member = impl, *made = NULL;
    uint64_t hash = STNI_FNV_EMPTY;
    member->collective = "subset";
    for (int i = 0; i < n_ranks; i++)
        hash = stni_fnv(hash, &member->world[ranks[i]], sizeof member->world[ranks[i]]);
    stn_status status = compare(member, ranks, n_ranks, hash);
    if (status != STN_OK)
        return done(member, queue, status);
    stni_tcp_lock(member->family);
    const int64_t times = times_made(member->family, hash);
    stni_tcp_unlock(member->family);
    if (times >= 0)
        made = make_member(member->family, member, ranks, n_ranks, stni_fnv(hash, &times, sizeof times));
    if (!made)
        return done(member, queue,
                    stni_tcp_fail(member, STN_ERR_MEMORY, "out of memory: a communicator of %d ranks", n_ranks));
    *out = made;
    return STN_OK;
}

static void abort_all(void *impl, stn_status status, const char *text)
{
    const struct stni_tcp_member *member = impl;
    stni_tcp_abort(member->family, member->family->rank, status, text);
}

/* Told when the family's last member goes, behind all messages. */
static void leave_with(void *impl, stn_status status, const char *text)
{
    struct stni_tcp_family *family = ((const struct stni_tcp_member *)impl)->family;
    (void)status;
    stni_tcp_lock(family);
    if (family->leaves_with[0] == '\0')
        snprintf(family->leaves_with, sizeof family->leaves_with, "%s", text);
    stni_tcp_unlock(family);
}

static void set_deadline(void *impl, double seconds)
{
    ((struct stni_tcp_member *)impl)->deadline_seconds = seconds;
}

static int64_t waited(void *impl)
{
    return ((const struct stni_tcp_member *)impl)->waited;
}

static int beside(void *impl)
{
    return ((const struct stni_tcp_member *)impl)->spans_machines;
}

static const stn_comm_ops table = {
    .size = sizeof table,
    .name = "tcp",
    .all_reduce = all_reduce,
    .group = group,
    .subset = subset,
    .abort = abort_all,
    .destroy = destroy,
    .set_deadline = set_deadline,
    .agree = agree,
    .agree_broadcast = agree_broadcast,
    .host_memory = 1,
    .waited = waited,
    .beside = beside,
    .leave = leave_with,
};

/* Opening */

static stn_status check(const stn_tcp_options *o, struct stni_error *error)
{
    if (!o->host || !*o->host)
        return stni_error_set(error, STN_ERR_ARGUMENT, "host got %s, wanted the name or address of rank 0's machine",
                              o->host ? "\"\"" : "NULL");
    if (o->port < 1 || o->port > 65536 - STNI_TCP_PORTS)
        return stni_error_set(error, STN_ERR_ARGUMENT, "port got %d, wanted 1 to %d", o->port, 65536 - STNI_TCP_PORTS);
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
        return stni_error_set(error, STN_ERR_ARGUMENT, "rank got %d of %d ranks, wanted 0 <= rank < ranks", o->rank,
                              o->ranks);
    if (!isfinite(o->deadline_seconds)) /* one that is no number never passes */
        return stni_error_set(error, STN_ERR_ARGUMENT, "deadline_seconds got %g, wanted a finite number",
                              o->deadline_seconds);
    return STN_OK;
}

/* The ranks have met, and this one cannot go on. Its peers, who may have begun, are told why: all that they would see
 * is that its connections have ended. */
static stn_status open_failed(const stn_tcp_options *o, const int *lanes, struct stni_tcp_family *family,
                              struct stni_error *error)
{
    stni_error_set(error, STN_ERR_MEMORY, "out of memory: a communicator of %d ranks", o->ranks);
    if (family)
        stni_tcp_abort(family, o->rank, STN_ERR_MEMORY, error->text);
    else
        stni_tcp_tell_failure(lanes, o->rank, o->ranks, STN_ERR_MEMORY, error->text);
    return STN_ERR_MEMORY;
}

/* Takes the connections, also where it fails. */
static stn_status open_member(const stn_tcp_options *o, int *lanes, struct stni_tcp_member **out,
                              struct stni_error *error)
{
    struct stni_tcp_family *family = stni_tcp_family_create(o->rank, o->ranks, lanes);
    *out = family ? make_member(family, NULL, NULL, o->ranks, STNI_FNV_EMPTY) : NULL;
    if (*out)
        return STN_OK;
    const stn_status status = open_failed(o, lanes, family, error);
    for (int i = 0; i < STNI_TCP_LANES * o->ranks && !family; i++)
        stni_tcp_close(&lanes[i]);
    if (family)
        stni_tcp_family_release(family);
    return status;
}

static stn_status open_world(const stn_tcp_options *o, stn_comm **out, struct stni_error *error)
{
    STNI_TRY(check(o, error));
    const char *job = o->job ? o->job : "";
    const struct stni_tcp_wish wish = {o->host, o->port, o->rank, o->ranks, stni_fnv(STNI_FNV_EMPTY, job, strlen(job)),
                                       o->deadline_seconds != 0 ? o->deadline_seconds : deadline};
    int *lanes = stni_malloc((size_t)o->ranks * STNI_TCP_LANES * sizeof *lanes);
    if (!lanes)
        return stni_error_set(error, STN_ERR_MEMORY, "out of memory: %d ranks", o->ranks);
    struct stni_tcp_member *member = NULL;
    stn_status status = stni_tcp_meet(&wish, lanes, error);
    if (status == STN_OK)
        status = open_member(o, lanes, &member, error);
    stni_free(lanes);
    STNI_TRY(status);
    member->deadline_seconds = wish.deadline_seconds;
    status = stn_comm_create(&table, member, o->rank, o->ranks, out);
    if (status != STN_OK) {
        open_failed(o, NULL, member->family, error);
        destroy(member);
    }
    return status;
}

stn_status stn_comm_create_tcp(const stn_tcp_options *options, stn_comm **out)
{
    struct stni_error error = {0};
    if (!options || !out || options->size != sizeof *options)
        return STN_ERR_ARGUMENT;
    stn_status status = open_world(options, out, &error);
    if (status != STN_OK && options->error_text && options->error_text_size > 0)
        snprintf(options->error_text, options->error_text_size, "%s", error.text);
    return status;
}
