/* Traces beyond their beginning and end (context.h): bands of the caller's, and where the time went, over all ranks.
 *
 * A trace has a slice for each op (shapes and layouts of its inputs and outputs), for each redistribution (from, to,
 * for which op), for each kernel, and for each collective (dtype, count, ranks, bytes; how long it waited for peers,
 * where the communicator knows); and a counter of the bytes of memory that were live after each op and
 * redistribution. */
#ifndef SHARDTENSOR_TRACE_H
#define SHARDTENSOR_TRACE_H

#include <shardtensor/context.h>

STN_BEGIN_DECLS

/** Begins a band of this text in the trace, around what follows; bands nest. Does nothing while no trace is on.
 *  Backward passes and steps of optimizers have bands of their own. Local. @return STN_ERR_ARGUMENT (NULL). */
STN_API stn_status stn_trace_range_begin(stn_context *context, const char *text);

/** Ends the innermost band; does nothing where none is open. Local. @return STN_ERR_ARGUMENT (NULL). */
STN_API stn_status stn_trace_range_end(stn_context *context);

/** Ranges of NVTX, which Nsight Systems shows beside the GPU's work: on (1) or off (0, as at first). One for each op,
 *  redistribution and collective and for each band, by the names that traces have, in the domain "shardtensor", on the
 *  thread that calls it (collectives of a worker queue: on that queue's). No trace has to be on. Off, they cost nothing
 *  beside what a trace that is off costs. stn_launch switches them on where STN_NVTX=1 is set. Waits for the queue.
 *  Local. @return STN_ERR_ARGUMENT (NULL), STN_ERR_UNSUPPORTED (a build without NVTX's headers), STN_ERR_MEMORY. */
STN_API stn_status stn_trace_nvtx(stn_context *context, int on);

/** Finds out by how much this rank's clock differs from rank 0's: traces that are written from now on have times of
 *  rank 0's clock, so that those of several machines lie side by side. Ranks of one machine have one clock. On others
 *  it is known to half of the shortest of 8 round trips. stn_launch does it where STN_TRACE is set.
 *
 * Collective: over the world, two broadcasts of a few bytes for each round trip of each machine but rank 0's. Waits for
 *             the queue.
 * @return STN_ERR_MEMORY, STN_ERR_COMM, or the kept error.
 * Source: Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989. */
STN_API stn_status stn_trace_align_clocks(stn_context *context);

/** Writes a table of what was traced so far, a row for each op, redistribution, kernel, collective and band: how often,
 *  the time of the slowest and the fastest rank and their ratio, bytes and messages sent by all ranks, and how long the
 *  rank that waited most waited for peers. Times include what ran inside. The same text on every rank.
 *
 * Collective: over the world; every rank has a trace on. Waits for the queue.
 * @param text  up to `size` bytes, ended by a zero; NULL: the table goes to the log at STN_LOG_INFO, on rank 0.
 * @return agreed: STN_ERR_STATE (no trace is on), STN_ERR_MEMORY, or the kept error. */
STN_API stn_status stn_trace_summary(stn_context *context, char *text, size_t size);

STN_END_DECLS
#endif
