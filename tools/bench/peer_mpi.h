/* The MPI that was found at build time, as a peer: two processes under mpirun that wait, asleep, for one order after
 * the other. */
#ifndef BENCH_PEER_MPI_H
#define BENCH_PEER_MPI_H

#include <stdint.h>

struct peer_mpi;

/** Starts the peer; NULL where it was not built or cannot be started. */
struct peer_mpi *peer_mpi_start(int ranks);
void peer_mpi_stop(struct peer_mpi **peer);

/** Seconds that `n` repetitions took on the slowest rank; negative where it failed. `collective`: "barrier",
 * "allreduce" (f32 SUM) or "alltoallv" (of 4-byte elements; rank r sends `first` to itself and `second` to the other
 * rank); with "our-" before it, the library's on the same processes; `first`: elements per rank. Or "fft" and "rfft",
 * FFTW's transforms for MPI of `first`^3 elements, the result left cut along its second dim where `second` is 1. Or
 * "U-Net", "transformer" and "SFNO", training steps of the library's ranks on `first` samples, of the small model where
 * `second` is 1. */
double peer_mpi_run(struct peer_mpi *peer, const char *coll, int64_t first, int64_t second, int64_t n);

#endif
