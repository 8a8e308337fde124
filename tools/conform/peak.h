/* How many bytes of device memory an op may hold at a time. */
#ifndef CONFORM_PEAK_H
#define CONFORM_PEAK_H

#include <shardtensor/tensor.h>

/** The largest chunk of a spec on any rank, in bytes: of uneven cuts a rank may have none and yet receive a balanced
 * piece. */
int64_t peak_chunk(const stn_spec *spec);

/** What a step may allocate, given the sum of peak_chunk over the tensors that it reads and makes.
 *
 * Each may stand three times at once: as it came, as the rule wants it (moved to another cut, in another memory order,
 * with a halo), and as one operand's worth of temporaries. To that come 512 KiB which do not grow with the tensors:
 * counts and offsets of messages, accumulators of each thread, and of our own convolution a block of columns and what
 * its product packs, 256 KiB each. Conformance tensors are smaller than this, so what the runner finds is temporaries
 * of a higher order; that nothing is gathered is shown by tensors that are larger (tests/conformance/test_peak.c). */
int64_t peak_bound(int64_t chunks);

#endif
