/* FFTW's planner for MPI. */
#include "mpi_fftw.h"

#include <fftw3-mpi.h>
#include <mpi.h>

#include <stddef.h>

/* The transform of the last call. */
static struct {
    long long side;
    int is_real, is_left;
    fftwf_plan plan;
    float *in;
    fftwf_complex *out;
} kept;

void mpi_fftw_end(void)
{
    if (kept.plan)
        fftwf_destroy_plan(kept.plan);
    fftwf_free(kept.in);
    fftwf_free(kept.out);
    kept.plan = NULL;
    kept.in = NULL;
    kept.out = NULL;
}

/* Where a line of reals lies among complex numbers FFTW wants room for these. */
static int make(long long side, int is_real, int is_left)
{
    ptrdiff_t rows, first;
    mpi_fftw_end();
    fftwf_mpi_init();
    const ptrdiff_t last = is_real ? side / 2 + 1 : side;
    const ptrdiff_t elements = fftwf_mpi_local_size_3d(side, side, last, MPI_COMM_WORLD, &rows, &first);
    kept.in = fftwf_alloc_real(2 * (size_t)elements);
    kept.out = fftwf_alloc_complex((size_t)elements);
    if (!kept.in || !kept.out)
        return 0;
    const unsigned flags = FFTW_MEASURE | (is_left ? FFTW_MPI_TRANSPOSED_OUT : 0);
    kept.plan = is_real ? fftwf_mpi_plan_dft_r2c_3d(side, side, side, kept.in, kept.out, MPI_COMM_WORLD, flags)
                        : fftwf_mpi_plan_dft_3d(side, side, side, (fftwf_complex *)kept.in, kept.out, MPI_COMM_WORLD,
                                                FFTW_FORWARD, flags);
    for (ptrdiff_t i = 0; i < 2 * elements; i++)
        kept.in[i] = (float)(i % 127) / 64 - 1;
    kept.side = side;
    kept.is_real = is_real;
    kept.is_left = is_left;
    return kept.plan != NULL;
}

double mpi_fftw_run(long long side, int is_real, int is_left, long long n)
{
    const int is_kept = kept.plan && kept.side == side && kept.is_real == is_real && kept.is_left == is_left;
    if (!is_kept && !make(side, is_real, is_left))
        return -1;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long long i = 0; i < n; i++)
        fftwf_execute(kept.plan);
    return MPI_Wtime() - start;
}
