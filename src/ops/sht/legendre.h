/* The two ops that spherical harmonic transforms are made of, each the adjoint of the other. */
#ifndef STNI_OPS_SHT_LEGENDRE_H
#define STNI_OPS_SHT_LEGENDRE_H

#include "ops/sht/legendre_kernel.h"

/* (…, nlat, mmax) -> (…, lmax, mmax): sums over latitudes of what is there times the conjugate function. */
stn_tensor *stni_legendre_analysis(stn_tensor *input, const struct stni_legendre_function *of, int64_t lmax);

/* (…, lmax, mmax) -> (…, nlat, mmax): sums over degrees of coefficients times functions. */
stn_tensor *stni_legendre_synthesis(stn_tensor *input, const struct stni_legendre_function *of, int64_t nlat);

#endif
