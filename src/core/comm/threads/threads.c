/* Families, groups and members of the thread communicator: their making, subsets, destruction. */
#include "core/comm/threads/threads.h"

#include "core/base/host_alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void free_memory(struct stni_thread_group *group)
{
    for (int r = 0; r < group->size; r++) {
        pthread_mutex_destroy(&group->slots[r].inbox_lock);
        pthread_mutex_destroy(&group->slots[r].points_lock);
        stni_free(group->slots[r].kept);
    }
    stni_free(group->memory);
}

static void family_free(struct stni_thread_family *family)
{
    for (struct stni_thread_group *g = family->groups, *next; g; g = next) {
        next = g->next;
        free_memory(g);
    }
    pthread_mutex_destroy(&family->lock);
    stni_free(family);
}

static struct stni_thread_family *family_create(int size)
{
    struct stni_thread_family *family = stni_calloc(1, sizeof *family + (size_t)size * sizeof family->ranks[0]);
    if (!family)
        return NULL;
    atomic_init(&family->refs, size);
    pthread_mutex_init(&family->lock, NULL);
    return family;
}

/* One block: the group with its slots, the world ranks, the flags of who has joined. With the family's lock held, or
 * alone. */
static struct stni_thread_group *group_create(struct stni_thread_family *family, int size, const int *world_ranks)
{
    size_t slots = (size_t)size * sizeof(struct stni_thread_slot), ranks = (size_t)size * sizeof(int);
    char *memory = stni_calloc(1, STNI_THREAD_LINE + sizeof(struct stni_thread_group) + slots + ranks + (size_t)size);
    if (!memory)
        return NULL;
    struct stni_thread_group *group = (void *)(memory + (STNI_THREAD_LINE - (uintptr_t)memory % STNI_THREAD_LINE));
    group->memory = memory;
    group->family = family;
    group->size = size;
    group->id = ++family->last_id;
    group->world_ranks = (int *)(void *)((char *)group->slots + slots);
    group->has_joined = (unsigned char *)(group->world_ranks + size);
    memcpy(group->world_ranks, world_ranks, ranks);
    for (int r = 0; r < size; r++) {
        pthread_mutex_init(&group->slots[r].inbox_lock, NULL);
        pthread_mutex_init(&group->slots[r].points_lock, NULL);
        group->slots[r].inbox_end = &group->slots[r].inbox;
        atomic_init(&group->slots[r].gone, family->ranks[world_ranks[r]].has_left);
    }
    group->next = family->groups;
    if (group->next)
        group->next->prev = group;
    family->groups = group;
    return group;
}

/* With the family's lock held. */
static void group_free(struct stni_thread_group *group)
{
    *(group->prev ? &group->prev->next : &group->family->groups) = group->next;
    if (group->next)
        group->next->prev = group->prev;
    free_memory(group);
}

/* With the family's lock held, or alone. */
static struct stni_thread_member *member_create(struct stni_thread_group *group, int rank, double deadline_seconds)
{
    struct stni_thread_member *member = stni_calloc(1, sizeof *member);
    if (!member)
        return NULL;
    member->group = group;
    member->rank = rank;
    member->deadline_seconds = deadline_seconds;
    member->large = STNI_THREAD_LARGE;
    member->inline_bytes = STNI_THREAD_INLINE;
    member->memcpy_bytes = STNI_THREAD_MEMCPY;
    group->refs++;
    group->joined++;
    group->has_joined[rank] = 1;
    group->family->ranks[group->world_ranks[rank]].members++;
    return member;
}

/* Peers that wait for this rank learn that it will not come. */
static void say_gone(struct stni_thread_group *group, int rank)
{
    atomic_store(&group->slots[rank].gone, 1);
    for (int r = 0; r < group->size; r++) {
        atomic_fetch_add(&group->slots[r].events, 1);
        stni_thread_wake(&group->slots[r], rank);
    }
}

/* The last end of a rank of the world has gone: so has it from the subsets that it was to join. With the family's lock
 * held. */
static void leave_all(struct stni_thread_family *family, int world_rank)
{
    family->ranks[world_rank].has_left = 1;
    for (struct stni_thread_group *g = family->groups; g; g = g->next)
        for (int r = 0; r < g->size; r++)
            if (g->world_ranks[r] == world_rank && !g->has_joined[r])
                say_gone(g, r);
}

/* A group that some rank has not joined yet stays for it. */
static void destroy(void *impl)
{
    struct stni_thread_member *member = impl;
    struct stni_thread_group *group = member->group;
    struct stni_thread_family *family = group->family;
    const int world_rank = group->world_ranks[member->rank];
    stni_thread_drop_points(member);
    say_gone(group, member->rank);
    pthread_mutex_lock(&family->lock);
    if (--family->ranks[world_rank].members == 0)
        leave_all(family, world_rank);
    if (--group->refs == 0 && group->joined == group->size)
        group_free(group);
    pthread_mutex_unlock(&family->lock);
    if (atomic_fetch_sub(&family->refs, 1) == 1)
        family_free(family);
    stni_free(member->scratch);
    stni_free(member);
}

void stni_thread_set_deadline(void *impl, double seconds)
{
    ((struct stni_thread_member *)impl)->deadline_seconds = seconds == 0 ? STNI_DEADLINE_SECONDS : seconds;
}

stn_status stni_thread_reserve(struct stni_thread_member *member, size_t bytes)
{
    if (bytes <= member->scratch_bytes)
        return STN_OK;
    void *scratch = stni_malloc(bytes);
    if (!scratch)
        return stni_thread_fail(member, STN_ERR_MEMORY, "out of memory: scratch of a collective (%zu bytes)", bytes);
    stni_free(member->scratch);
    member->scratch = scratch;
    member->scratch_bytes = bytes;
    return STN_OK;
}

/* The subset that these ranks are making and that `rank` of it has not joined yet; NULL if it is the first. */
static struct stni_thread_group *find_group(const struct stni_thread_member *member, const int *world_ranks, int n,
                                            int rank)
{
    struct stni_thread_group *oldest = NULL;
    for (struct stni_thread_group *g = member->group->family->groups; g; g = g->next)
        if (g->parent_id == member->group->id && g->size == n && !g->has_joined[rank] &&
            memcmp(g->world_ranks, world_ranks, (size_t)n * sizeof *world_ranks) == 0)
            oldest = g;
    return oldest;
}

/* With the family's lock held. Nothing waits here: a rank that never joins is found by the first collective. */
static struct stni_thread_member *join(struct stni_thread_member *member, const int *world_ranks, int n, int rank)
{
    struct stni_thread_family *family = member->group->family;
    struct stni_thread_group *group = find_group(member, world_ranks, n, rank);
    if (!group) {
        group = group_create(family, n, world_ranks);
        if (!group)
            return NULL;
        group->parent_id = member->group->id;
    }
    struct stni_thread_member *joined = member_create(group, rank, member->deadline_seconds);
    if (joined)
        atomic_fetch_add(&family->refs, 1);
    return joined;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    struct stni_thread_member *member = impl, *joined = NULL;
    struct stni_thread_family *family = member->group->family;
    int rank = -1;
    if (stni_thread_aborted(member)) {
        stni_thread_fail_aborted(member);
        return stn_queue_fail(queue, member->error.status, "%s", member->error.text);
    }
    int *world_ranks = stni_malloc((size_t)n_ranks * sizeof *world_ranks);
    if (world_ranks) {
        for (int i = 0; i < n_ranks; i++) {
            world_ranks[i] = member->group->world_ranks[ranks[i]];
            rank = ranks[i] == member->rank ? i : rank;
        }
        assert(rank >= 0);
        pthread_mutex_lock(&family->lock);
        joined = join(member, world_ranks, n_ranks, rank);
        pthread_mutex_unlock(&family->lock);
    }
    stni_free(world_ranks);
    if (!joined) {
        stni_thread_fail(member, STN_ERR_MEMORY, "out of memory: a communicator of %d ranks", n_ranks);
        return stn_queue_fail(queue, member->error.status, "%s", member->error.text);
    }
    *out = joined;
    return STN_OK;
}

stn_status stni_thread_run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    struct stni_thread_member *member = comm->impl;
    stn_status status;
    member->isa = queue->isa;
    if (!queue->immediate && !queue->device->is_cpu && !coll->host)
        status = stni_thread_run_on_device(member, queue, coll);
    else
        status =
            coll->kind == STNI_COLL_GROUP ? stni_thread_group_coll(member, coll) : stni_thread_collective(member, coll);
    if (status != STN_OK)
        stn_queue_fail(queue, member->error.status, "%s", member->error.text);
    return status;
}

static int64_t waited(void *impl)
{
    return ((const struct stni_thread_member *)impl)->waited;
}

static const stn_comm_ops ops = {
    .size = sizeof(stn_comm_ops),
    .name = "threads",
    .subset = subset,
    .abort = stni_thread_abort,
    .destroy = destroy,
    .set_deadline = stni_thread_set_deadline,
    .waited = waited,
    .leave = stni_thread_leave,
};

/* Members of a world whose family counts a reference for each rank. */
static stn_status create_members(struct stni_thread_family *family, int size, double deadline_seconds, stn_comm **comms)
{
    stn_status status = STN_ERR_MEMORY;
    int made = 0, *ranks = stni_malloc((size_t)size * sizeof *ranks);
    for (int r = 0; ranks && r < size; r++)
        ranks[r] = r;
    struct stni_thread_group *world = ranks ? group_create(family, size, ranks) : NULL;
    stni_free(ranks);
    for (; world && made < size; made++) {
        struct stni_thread_member *member = member_create(world, made, 0);
        if (!member)
            break;
        stni_thread_set_deadline(member, deadline_seconds);
        status = stni_comm_create(&ops, stni_thread_run, member, made, size, &comms[made]);
        if (status != STN_OK) {
            stni_free(member);
            break;
        }
    }
    if (made == size)
        return STN_OK;
    atomic_fetch_sub(&family->refs, size - made - 1); /* one stays until the end of this */
    for (int r = 0; r < made; r++)
        stn_comm_destroy(&comms[r]);
    family_free(family);
    return status == STN_OK ? STN_ERR_MEMORY : status;
}

stn_status stni_comm_create_threads(int size, double deadline_seconds, stn_comm **comms)
{
    if (size < 1)
        return STN_ERR_ARGUMENT;
    struct stni_thread_family *family = family_create(size);
    if (!family)
        return STN_ERR_MEMORY;
    return create_members(family, size, deadline_seconds, comms);
}

stn_status stn_comm_create_threads(int n, stn_comm **out)
{
    enum { MOST = 1024 };
    if (n < 1 || n > MOST || !out)
        return STN_ERR_ARGUMENT;
    stn_comm **comms = stni_calloc((size_t)n, sizeof *comms);
    if (!comms)
        return STN_ERR_MEMORY;
    stn_status status = stni_comm_create_threads(n, 0, comms);
    if (status == STN_OK)
        memcpy(out, comms, (size_t)n * sizeof *out);
    stni_free(comms);
    return status;
}
