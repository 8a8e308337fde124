/* In place of fftw.c where FFTW is not there. */
#include "ops/fft/transform.h"

stn_status stni_transform_fftw(struct stni_transform *transform)
{
    (void)transform;
    return STN_ERR_UNSUPPORTED;
}
