/* FFTW's transform of a whole cube on several threads: the peer of transforms over sharded dims. */
#ifndef BENCH_PEER_FFTW_H
#define BENCH_PEER_FFTW_H

#include <stdint.h>

struct peer_fftw;

/** A forward transform in f32 of side^3 elements, complex or (is_real) of reals to the half that is kept, out of
 * place. FFTW measures which way is the fastest. NULL where FFTW's threads were not found or there is no memory.
 * Nobody else may plan at the same time. */
struct peer_fftw *peer_fftw_create(int64_t side, int is_real, int threads);
void peer_fftw_destroy(struct peer_fftw **peer);

void peer_fftw_run(struct peer_fftw *peer, int64_t n); /**< n times. */

#endif
