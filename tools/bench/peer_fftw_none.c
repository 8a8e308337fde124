/* Without FFTW's threads. */
#include "peer_fftw.h"

#include <stddef.h>

struct peer_fftw *peer_fftw_create(int64_t side, int is_real, int threads)
{
    (void)side, (void)is_real, (void)threads;
    return NULL;
}

void peer_fftw_destroy(struct peer_fftw **peer)
{
    (void)peer;
}

void peer_fftw_run(struct peer_fftw *peer, int64_t n)
{
    (void)peer, (void)n;
}
