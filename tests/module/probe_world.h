/* Worlds of the test module's communicator: who has joined, what ranks bring, where they meet. One lock serves a
 * family, which is a world and all that was split off it. */
#ifndef SHARDTENSOR_TESTS_MODULE_PROBE_WORLD_H
#define SHARDTENSOR_TESTS_MODULE_PROBE_WORLD_H

#include <shardtensor/comm.h>

#include <pthread.h>
#include <time.h>

enum { PROBE_MAX_RANKS = 16 };

struct probe_family {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    int refs; /* worlds */
    stn_status failed;
    char text[256];
};

/* What a rank brings to a collective. */
struct probe_post {
    const void *send;
    const int64_t *counts;
    const stn_exchange *messages;
};

/* A message on its way. */
struct probe_mail {
    struct probe_mail *next;
    int from, to;
    const stn_box *box;
    int taken;
};

struct probe_world {
    struct probe_world *next; /* among those that still wait for members */
    char name[128];
    struct probe_family *family;
    int size, joined, left;
    unsigned members; /* bit r: rank r has joined */
    int arrived;
    int64_t generation;
    struct probe_post posts[PROBE_MAX_RANKS];
    struct probe_mail *mails;
};

struct probe_member {
    struct probe_world *world;
    int rank;
};

/* Joins the oldest world of that name that `rank` is not in yet, or makes one, of `family` or of a new family. */
stn_status probe_world_join(const char *name, int rank, int size, struct probe_family *family,
                            struct probe_member **out);

/* The last member frees the world, the last world the family. A world that not all have joined stays in the list for
 * them. */
void probe_world_leave(struct probe_member *member);

/* Until all of the world are here. */
stn_status probe_world_meet(const struct probe_member *member, stn_queue *queue);

/* When a wait that begins now gives up. */
struct timespec probe_deadline(void);

/* With the lock held: waits for news, not longer than the deadline. Fails when the family has. */
stn_status probe_family_await(struct probe_family *family, const struct timespec *until);

/* Tells the queue why the family failed. */
stn_status probe_family_failure(const struct probe_family *family, stn_queue *queue);

#endif
