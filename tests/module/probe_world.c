#include "probe_world.h"
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECONDS = 60 };

static pthread_mutex_t worlds_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct probe_world *worlds;

static struct probe_family *family_new(void)
{
    struct probe_family *family = calloc(1, sizeof *family);
    if (family) {
        pthread_mutex_init(&family->mutex, NULL);
        pthread_cond_init(&family->moved, NULL);
    }
    return family;
}

static struct probe_world *world_new(const char *name, int size, struct probe_family *family)
{
    struct probe_world *world = calloc(1, sizeof *world);
    if (!world)
        return NULL;
    world->family = family ? family : family_new();
    if (!world->family) {
        free(world);
        return NULL;
    }
    world->family->refs++;
    snprintf(world->name, sizeof world->name, "%s", name);
    world->size = size;
    return world;
}

stn_status probe_world_join(const char *name, int rank, int size, struct probe_family *family,
                            struct probe_member **out)
{
    struct probe_member *member = calloc(1, sizeof *member);
    if (!member)
        return STN_ERR_MEMORY;
    pthread_mutex_lock(&worlds_mutex);
    struct probe_world **at = &worlds;
    while (*at && (strcmp((*at)->name, name) != 0 || (*at)->members >> rank & 1))
        at = &(*at)->next;
    if (!*at)
        *at = world_new(name, size, family);
    struct probe_world *world = *at;
    if (world) {
        world->members |= 1u << rank;
        if (++world->joined == world->size)
            *at = world->next;
    }
    pthread_mutex_unlock(&worlds_mutex);
    if (!world) {
        free(member);
        return STN_ERR_MEMORY;
    }
    *member = (struct probe_member){world, rank};
    *out = member;
    return STN_OK;
}

stn_status probe_family_await(struct probe_family *family, const struct timespec *until)
{
    if (family->failed == STN_OK && pthread_cond_timedwait(&family->moved, &family->mutex, until) != 0 &&
        family->failed == STN_OK) {
        family->failed = STN_ERR_TIMEOUT;
        snprintf(family->text, sizeof family->text, "probe: nobody came");
        pthread_cond_broadcast(&family->moved);
    }
    return family->failed;
}

struct timespec probe_deadline(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS;
    return until;
}

stn_status probe_family_failure(const struct probe_family *family, stn_queue *queue)
{
    return probe_host->queue_fail(queue, STN_ERR_PEER, "%s", family->text);
}

stn_status probe_world_meet(const struct probe_member *member, stn_queue *queue)
{
    struct probe_world *world = member->world;
    struct probe_family *family = world->family;
    struct timespec until = probe_deadline();
    pthread_mutex_lock(&family->mutex);
    stn_status status = family->failed;
    int64_t generation = world->generation;
    if (status == STN_OK && ++world->arrived == world->size) {
        world->arrived = 0;
        world->generation++;
        pthread_cond_broadcast(&family->moved);
    }
    while (status == STN_OK && world->generation == generation)
        status = probe_family_await(family, &until);
    if (status != STN_OK)
        probe_family_failure(family, queue);
    pthread_mutex_unlock(&family->mutex);
    return status == STN_OK ? STN_OK : STN_ERR_PEER;
}

void probe_world_leave(struct probe_member *member)
{
    struct probe_world *world = member->world;
    struct probe_family *family = world->family;
    pthread_mutex_lock(&worlds_mutex);
    int last = ++world->left == world->size;
    int last_world = last && --family->refs == 0;
    pthread_mutex_unlock(&worlds_mutex);
    if (last)
        free(world);
    if (last_world) {
        pthread_mutex_destroy(&family->mutex);
        pthread_cond_destroy(&family->moved);
        free(family);
    }
    free(member);
}
