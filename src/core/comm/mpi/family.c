/* Families: a duplicate of a communicator of MPI, who its ranks are, and this rank's ends of its groups. */
#include "core/comm/mpi/family.h"

#include "core/comm/comm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void family_free(struct stni_mpi_family *family)
{
    /* MPI calls it collective; both implementations only drop a reference. After an abort, messages may be under way in it. */
    if (family->comm != MPI_COMM_NULL && !atomic_load(&family->aborted) && !stni_mpi_is_finalised()) {
        stni_mpi_lock();
        MPI_Comm_free(&family->comm);
        stni_mpi_unlock();
    }
    pthread_mutex_destroy(&family->lock);
    free(family->peers);
    if (family->told)
        return; /* MPI may still read what is told */
    free(family->telling);
    free(family);
}

struct stni_mpi_member *stni_mpi_member_create(struct stni_mpi_family *family, int size, const int *world, int number, double deadline_seconds)
{
    struct stni_mpi_member *m = calloc(1, sizeof *m);
    int *ranks = malloc((size_t)size * sizeof *ranks);
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
    m->number = number;
    m->deadline_seconds = deadline_seconds;
    m->sources = sources;
    m->from = cut;
    m->counts = cut + size;
    atomic_fetch_add(&family->refs, 1);
    return m;
}

void stni_mpi_member_destroy(void *impl)
{
    struct stni_mpi_member *m = impl;
    if (atomic_fetch_sub(&m->family->refs, 1) == 1)
        family_free(m->family);
    free(m->world);
    free(m->sources);
    free(m->from);
    free(m->requests);
    free(m->scratch);
    free(m);
}

/* Waits for a request that MPI makes progress on by itself, no longer than the deadline. */
static int wait_for(MPI_Request *request, double seconds)
{
    struct stni_mpi_pace pace = {0};
    for (int there = 0; !there;) {
        stni_mpi_lock();
        int code = MPI_Test(request, &there, MPI_STATUS_IGNORE);
        stni_mpi_unlock();
        if (code != MPI_SUCCESS)
            return 0;
        if (!there && stni_mpi_wait_a_little(&pace) && seconds >= 0 && (double)(pace.now - pace.begin) > seconds * 1e9)
            return 0;
    }
    return 1;
}

static stn_status duplicate(struct stni_mpi_family *family, MPI_Comm from, double seconds, struct stni_error *error)
{
    MPI_Request request;
    int inter = 0, *most, there = 0;
    stni_mpi_lock();
    int code = MPI_Comm_test_inter(from, &inter);
    if (code == MPI_SUCCESS && !inter)
        code = MPI_Comm_idup(from, &family->comm, &request);
    stni_mpi_unlock();
    if (inter)
        return stni_mpi_say(error, STN_ERR_ARGUMENT, "comm got an inter-communicator, wanted one of one group");
    if (code != MPI_SUCCESS)
        return stni_mpi_say(error, STN_ERR_COMM, "MPI_Comm_idup failed");
    if (!wait_for(&request, seconds)) {
        family->comm = MPI_COMM_NULL;
        stni_mpi_give_up();
        return stni_mpi_say(error, STN_ERR_TIMEOUT, "deadline of %g s passed, not all ranks had come to open the communicator", seconds);
    }
    stni_mpi_lock();
    MPI_Comm_set_errhandler(family->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(family->comm, &family->rank);
    MPI_Comm_size(family->comm, &family->size);
    MPI_Comm_get_attr(family->comm, MPI_TAG_UB, &most, &there);
    stni_mpi_unlock();
    family->tags = there ? *most : 32767;
    return STN_OK;
}

/* What each rank tells all others when a family is made. */
struct card {
    struct stni_mpi_peer peer;
    uint64_t id;
};

/* No other family that this rank has been in has the same. */
static uint64_t own_id(const struct stni_mpi_peer *self)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec) ^ (uint64_t)self->pid << 40;
}

/* Who the ranks are; the family's id is rank 0's. */
static stn_status introduce(struct stni_mpi_member *world, struct stni_error *error)
{
    struct stni_mpi_family *family = world->family;
    struct card *cards = malloc((size_t)family->size * sizeof *cards), *own = cards + family->rank;
    if (!cards)
        return stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: the ranks of a communicator");
    own->peer = family->peers[family->rank] = stni_mpi_this_process();
    own->id = own_id(&own->peer);
    world->kind = STNI_VERB_ALL_GATHER;
    stni_mpi_cut_evenly(world, 0, family->size);
    stn_status status = stni_mpi_share(world, cards, sizeof *cards);
    for (int r = 0; status == STN_OK && r < family->size; r++)
        family->peers[r] = cards[r].peer;
    if (status == STN_OK)
        family->failed.family = family->id = cards[0].id;
    else
        stni_mpi_say(error, status, "%s", world->error.text);
    free(cards);
    return status;
}

static stn_status make_world(struct stni_mpi_family *family, double seconds, struct stni_mpi_member **out)
{
    size_t n = (size_t)family->size;
    int *ranks = malloc(n * sizeof *ranks);
    family->peers = calloc(n, sizeof *family->peers);
    family->telling = malloc(n * sizeof(MPI_Request));
    for (int r = 0; r < family->size && ranks && family->telling; r++) {
        ranks[r] = r;
        family->telling[r] = MPI_REQUEST_NULL;
    }
    *out = ranks && family->peers && family->telling ? stni_mpi_member_create(family, family->size, ranks, 0, seconds) : NULL;
    free(ranks);
    return *out ? STN_OK : STN_ERR_MEMORY;
}

stn_status stni_mpi_family_create(MPI_Comm from, double deadline_seconds, struct stni_mpi_member **out, struct stni_error *error)
{
    struct stni_mpi_family *family = calloc(1, sizeof *family);
    struct stni_mpi_member *world = NULL;
    if (!family)
        return stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: a communicator");
    family->comm = MPI_COMM_NULL;
    pthread_mutex_init(&family->lock, NULL);
    stn_status status = duplicate(family, from, deadline_seconds, error);
    if (status == STN_OK && make_world(family, deadline_seconds, &world) != STN_OK)
        status = stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: a communicator of %d ranks", family->size);
    if (status != STN_OK) {
        family_free(family);
        return status;
    }
    status = introduce(world, error);
    if (status != STN_OK) {
        stni_mpi_member_destroy(world);
        return status;
    }
    *out = world;
    return STN_OK;
}
