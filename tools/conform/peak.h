/* How many bytes of device memory an op may hold at a time. */
#ifndef CONFORM_PEAK_H
#define CONFORM_PEAK_H

#include <shardtensor/tensor.h>

/** The largest chunk of a spec on any rank, in bytes: of uneven cuts a rank may have none and yet receive a balanced piece. */
int64_t peak_chunk(const stn_spec *spec);

/** What a step may allocate, given the sum of peak_chunk over the tensors that it reads and makes.
 *
 * Each may stand three times at once: as it came, as the rule wants it (moved to another cut, in another memory order, with a halo), and as one
 * operand's worth of temporaries. To that comes what does not grow with the tensors: counts and offsets of messages, blocked copies for
 * the library of convolutions, accumulators of each thread. Conformance tensors are smaller than this buffer, so what it finds is temporaries of
 * a higher order; that nothing is gathered is shown by tensors that are larger (tests/conformance/test_peak.c). */
int64_t peak_bound(int64_t chunks);

#endif
