/* FFTW's transforms for MPI, in the peer process. */
#ifndef BENCH_MPI_FFTW_H
#define BENCH_MPI_FFTW_H

/** Seconds that `n` forward transforms of side^3 f32 elements take, complex or (is_real) of reals to the half that is
 * kept, in slabs, out of place; `is_left`: cut along the second dim in the end; collective. Keeps the plan for the next
 * call. Negative where FFTW for MPI was not found at build time, or there is no memory. */
double mpi_fftw_run(long long side, int is_real, int is_left, long long n);
void mpi_fftw_end(void); /**< Drops the plan. */

#endif
