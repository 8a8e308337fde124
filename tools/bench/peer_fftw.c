/* FFTW's planner and threads. */
#include "peer_fftw.h"

#include <fftw3.h>

#include <stdlib.h>

struct peer_fftw {
    fftwf_plan plan;
    float *in;
    fftwf_complex *out;
};

static int make_plan(struct peer_fftw *peer, int64_t side, int is_real, int threads)
{
    const int n = (int)side;
    const size_t cube = (size_t)(side * side * side);
    peer->in = fftwf_alloc_real(is_real ? cube : 2 * cube);
    peer->out = fftwf_alloc_complex(cube);
    if (!peer->in || !peer->out || !fftwf_init_threads())
        return 0;
    fftwf_plan_with_nthreads(threads);
    peer->plan = is_real ? fftwf_plan_dft_r2c_3d(n, n, n, peer->in, peer->out, FFTW_MEASURE)
                         : fftwf_plan_dft_3d(n, n, n, (fftwf_complex *)peer->in, peer->out, FFTW_FORWARD, FFTW_MEASURE);
    fftwf_plan_with_nthreads(1); /* the library's own plans are of one thread, as its ranks are */
    for (size_t i = 0; i < (is_real ? cube : 2 * cube); i++)
        peer->in[i] = (float)(i % 127) / 64 - 1;
    return peer->plan != NULL;
}

struct peer_fftw *peer_fftw_create(int64_t side, int is_real, int threads)
{
    struct peer_fftw *peer = calloc(1, sizeof *peer);
    if (peer != NULL && !make_plan(peer, side, is_real, threads))
        peer_fftw_destroy(&peer);
    return peer;
}

void peer_fftw_destroy(struct peer_fftw **peer)
{
    if (*peer == NULL)
        return;
    if ((*peer)->plan)
        fftwf_destroy_plan((*peer)->plan);
    fftwf_free((*peer)->in);
    fftwf_free((*peer)->out);
    free(*peer);
    *peer = NULL;
}

void peer_fftw_run(struct peer_fftw *peer, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        fftwf_execute(peer->plan);
}
