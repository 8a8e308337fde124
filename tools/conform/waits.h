/* For what an op on a device may have its host wait. */
#ifndef CONFORM_WAITS_H
#define CONFORM_WAITS_H

#include <shardtensor/context.h>

/** NULL where the waits of an op, forward or backward, are those that it may have on a device: agreements, staging
 * where a communicator moves memory of the host, and the counts of what is sent where those depend on values. Else
 * the reason of one that it may not have. */
const char *waits_wrong(const char *op, const stn_stats *stats);

#endif
