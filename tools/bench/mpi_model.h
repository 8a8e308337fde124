/* Training steps on ranks of MPI, in the peer process. */
#ifndef BENCH_MPI_MODEL_H
#define BENCH_MPI_MODEL_H

/** Seconds that `n` steps of the model of a name take, on `samples` samples; collective. Keeps the model for the next
 * call. Negative where that fails. */
double mpi_model_run(const char *name, long long samples, int is_small, long long n);
void mpi_model_end(void); /**< Drops the model. */

#endif
