/* A group of torch.distributed as the library's collectives need it, without Python: group.cpp knows torch, module.c
 * knows Python. */
#ifndef STNP_C10D_GROUP_H
#define STNP_C10D_GROUP_H

#include <shardtensor/shardtensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stnp_group stnp_group;

/** Finds a group by the name that torch.distributed registered it under. members[r] is rank r's number in that group;
 * all of it are members. Local. @return NULL with a text. */
stnp_group *stnp_group_open(const char *name, const int *members, int n, int rank, char *text, size_t text_size);

/** Lets go of torch's group. `group` is from stnp_group_open. */
void stnp_group_close(stnp_group *group);

/** A Python object that lives as long as the group does: module.c's. */
void **stnp_group_owner(stnp_group *group);

int stnp_group_rank(const stnp_group *group);
int stnp_group_size(const stnp_group *group);

/** How long a collective waits, seconds, negative: without end. Until set it is what the program gave torch's group. */
double stnp_group_deadline(const stnp_group *group);

/* Entries of stn_comm_ops; `impl` is a stnp_group. */
void stnp_group_set_deadline(void *impl, double seconds);
stn_status stnp_group_all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count,
                                 stn_dtype dtype, stn_reduce_op op);
stn_status stnp_group_broadcast(void *impl, stn_queue *queue, void *buffer, int64_t count, stn_dtype dtype, int root);
stn_status stnp_group_messages(void *impl, stn_queue *queue, const stn_exchange *messages);
stn_status stnp_group_barrier(void *impl, stn_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
