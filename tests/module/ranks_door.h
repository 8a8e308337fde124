/* Whose device and communicator the ranks of test_device_ranks have. */
#ifndef SHARDTENSOR_TESTS_MODULE_RANKS_DOOR_H
#define SHARDTENSOR_TESTS_MODULE_RANKS_DOOR_H

#include <shardtensor/comm.h>

/* A rank's communicator, made on its thread from that of the threads, which it owns. */
stn_comm *ranks_comm(stn_comm *threads);

/* Writes the name of a rank's device to `text`, of 16 bytes. */
const char *ranks_device(int rank, char *text);

/* Whether there are devices for so many ranks; where not, the case goes without them. */
int ranks_fit(int ranks);

#endif
