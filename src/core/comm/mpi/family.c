/* Families: a duplicate of a communicator of MPI, who its ranks are, and this rank's ends of its groups. */
#include "core/comm/mpi/family.h"

#include "core/comm/comm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void stni_mpi_family_free(struct stni_mpi_family *family)
{
    pthread_mutex_destroy(&family->lock);
    free(family->peers);
    free(family->has_left);
    if (family->told)
        return; /* MPI may still read what is told */
    free(family->telling);
    free(family);
}

/* After an abort messages may be under way: the communicator of MPI stays. */
static void family_end(struct stni_mpi_family *family)
{
    stni_mpi_is_going(family);
    if (family->comm == MPI_COMM_NULL || atomic_load(&family->aborted) || stni_mpi_is_finalised())
        stni_mpi_family_free(family);
    else
        stni_mpi_leave(family);
}

/* Of ranks that have introduced themselves. */
static void see_machines(struct stni_mpi_member *m)
{
    const struct stni_mpi_peer *peers = m->family->peers;
    const uint64_t here = peers[m->family->rank].machine;
    m->spans_machines = 0;
    for (int r = 0; r < m->size; r++)
        m->spans_machines |= peers[m->world[r]].machine != here;
}

struct stni_mpi_member *stni_mpi_member_create(struct stni_mpi_family *family, int size, const int *world, int number,
                                               double deadline_seconds)
{
    struct stni_mpi_member *m = calloc(1, sizeof *m);
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    const void **sources = malloc((size_t)size * sizeof *sources);
    int64_t *cut = malloc(2 * (size_t)size * sizeof *cut);
    if (!m || !ranks || !sources || !cut) {
        free(m);
        free(ranks);
        free(sources);
        free(cut);
        return NULL;
    }
    memcpy(ranks, world, (size_t)size * sizeof *ranks);
    while (ranks[m->rank] != family->rank)
        m->rank++;
    m->family = family;
    m->size = size;
    m->world = ranks;
    m->last = ranks + size;
    for (int r = 0; r < size; r++)
        m->last[r] = -1;
    m->number = number;
    m->deadline_seconds = deadline_seconds;
    m->sources = sources;
    m->from = cut;
    m->counts = cut + size;
    atomic_fetch_add(&family->refs, 1);
    see_machines(m);
    return m;
}

void stni_mpi_member_destroy(void *impl)
{
    struct stni_mpi_member *m = impl;
    if (atomic_fetch_sub(&m->family->refs, 1) == 1)
        family_end(m->family);
    free(m->world);
    free(m->sources);
    free(m->from);
    free(m->parts);
    free(m->scratch);
    free(m);
}

static void ask(struct stni_mpi_family *family)
{
    int *most, there = 0;
    stni_mpi_lock();
    MPI_Comm_set_errhandler(family->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(family->comm, &family->rank);
    MPI_Comm_size(family->comm, &family->size);
    MPI_Comm_get_attr(family->comm, MPI_TAG_UB, &most, &there);
    stni_mpi_unlock();
    family->tags = there ? *most : 32767;
}

/* What each rank tells all others when a family is made. */
struct card {
    struct stni_mpi_peer peer;
    uint64_t id;
    int64_t opening;
};

/* No other family that this rank has been in has the same. */
static uint64_t own_id(const struct stni_mpi_peer *self)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec) ^ (uint64_t)self->pid << 40;
}

/* At which of their openings the ranks are. */
struct openings {
    int64_t earliest, latest;
    int ahead; /* a rank at the latest */
};

static struct openings compare(const struct card *cards, int n)
{
    struct openings found = {cards[0].opening, cards[0].opening, 0};
    for (int r = 1; r < n; r++) {
        if (cards[r].opening < found.earliest)
            found.earliest = cards[r].opening;
        if (cards[r].opening > found.latest)
            found = (struct openings){found.earliest, cards[r].opening, r};
    }
    return found;
}

/* Who the ranks are; the family's id is rank 0's. */
static stn_status introduce(struct stni_mpi_member *world, int64_t opening, struct openings *found,
                            struct stni_error *error)
{
    struct stni_mpi_family *family = world->family;
    struct card *cards = malloc((size_t)family->size * sizeof *cards), *own = cards + family->rank;
    if (!cards)
        return stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: the ranks of a communicator");
    own->peer = family->peers[family->rank] = stni_mpi_this_process();
    own->id = own_id(&own->peer);
    own->opening = opening;
    world->kind = STNI_COLL_ALL_GATHER;
    stni_mpi_cut_evenly(world, 0, family->size);
    stn_status status = stni_mpi_share(world, cards, sizeof *cards);
    if (status == STN_OK) {
        for (int r = 0; r < family->size; r++)
            family->peers[r] = cards[r].peer;
        see_machines(world);
        family->leaving.family = family->failed.family = family->id = cards[0].id;
        *found = compare(cards, family->size);
    } else {
        stni_mpi_say(error, status, "%s", world->error.text);
    }
    free(cards);
    return status;
}

static stn_status make_world(struct stni_mpi_family *family, double seconds, struct stni_mpi_member **out)
{
    size_t n = (size_t)family->size;
    int *ranks = malloc(n * sizeof *ranks);
    family->peers = calloc(n, sizeof *family->peers);
    family->telling = malloc(n * sizeof(MPI_Request));
    family->has_left = calloc(n, sizeof *family->has_left);
    family->leaving.rank = family->rank;
    for (int r = 0; r < family->size && ranks && family->telling; r++) {
        ranks[r] = r;
        family->telling[r] = MPI_REQUEST_NULL;
    }
    int complete = ranks && family->peers && family->telling && family->has_left;
    *out = complete ? stni_mpi_member_create(family, family->size, ranks, 0, seconds) : NULL;
    free(ranks);
    return *out ? STN_OK : STN_ERR_MEMORY;
}

/* A family on `comm`, which it owns from then on. */
static stn_status create(MPI_Comm comm, int64_t opening, double seconds, struct stni_mpi_member **out,
                         struct openings *found, struct stni_error *error)
{
    struct stni_mpi_family *family = calloc(1, sizeof *family);
    struct stni_mpi_member *world = NULL;
    if (!family)
        return stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: a communicator");
    family->comm = comm;
    pthread_mutex_init(&family->lock, NULL);
    ask(family);
    if (make_world(family, seconds, &world) != STN_OK) {
        stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: a communicator of %d ranks", family->size);
        stni_mpi_family_free(family);
        return error->status;
    }
    stn_status status = introduce(world, opening, found, error);
    if (status != STN_OK)
        stni_mpi_member_destroy(world);
    else
        *out = world;
    return status;
}

/* Rounds, until all ranks are at the same opening: in each, all make a duplicate and compare. */
stn_status stni_mpi_family_create(MPI_Comm from, double deadline_seconds, struct stni_mpi_member **out,
                                  struct stni_error *error)
{
    struct stni_mpi_openings *openings = stni_mpi_openings_of(from);
    struct stni_mpi_backoff backoff = {0};
    struct openings found = {0};
    struct stni_mpi_member *world = NULL;
    MPI_Comm comm;
    if (!openings)
        return stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: a communicator");
    const int64_t opening = ++openings->begun;
    for (;;) {
        STNI_TRY(stni_mpi_duplicate(from, openings, &backoff, deadline_seconds, &comm, error));
        STNI_TRY(create(comm, opening, deadline_seconds, &world, &found, error));
        if (found.earliest == found.latest)
            break;
        stni_mpi_member_destroy(world);
        if (found.latest > opening)
            return stni_mpi_say(
                error, STN_ERR_PEER,
                "rank %d has given up waiting: it opens the communicator for time %lld, this rank for time %lld",
                found.ahead, (long long)found.latest, (long long)opening);
    }
    stni_mpi_end_families();
    stni_mpi_enter(world->family);
    *out = world;
    return STN_OK;
}
