/* Builds without cuFFT's header. */
#include "ops/cuda/cufft.h"

stn_status stni_cufft_workspace(stn_queue *queue, const struct stni_cufft_lines *lines, size_t *bytes)
{
    (void)queue, (void)lines, (void)bytes;
    return STN_ERR_UNSUPPORTED;
}

stn_status stni_cufft_run(stn_queue *queue, const struct stni_cufft_lines *lines, int backward, void *in, void *out,
                          void *workspace)
{
    (void)queue, (void)lines, (void)backward, (void)in, (void)out, (void)workspace;
    return STN_ERR_UNSUPPORTED;
}
