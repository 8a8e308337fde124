/* A communicator of which this process plays rank 0, whose messages take the time of a wire and no core: what other
 * ranks would send is this rank's own. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <shardtensor/shardtensor.h>

/** `size` ranks; each collective takes the messages and bytes that this rank sends. @return as stn_comm_create. */
stn_status wire_create(int size, double seconds_per_message, double bytes_per_second, stn_comm **out);

#endif
