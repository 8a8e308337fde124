/* The two ops that spherical harmonic transforms are made of, each the adjoint of the other. */
#ifndef STNI_OPS_SHT_LEGENDRE_H
#define STNI_OPS_SHT_LEGENDRE_H

#include "core/shard/spec.h"
#include "ops/sht/legendre_kernel.h"

/* (…, nlat, mmax) -> (…, lmax, mmax): sums over latitudes of what is there times the conjugate function. */
stn_tensor *stni_legendre_analysis(stn_tensor *input, const struct stni_legendre_function *of, int64_t lmax);

/* (…, lmax, mmax) -> (…, nlat, mmax): sums over degrees of coefficients times functions. */
stn_tensor *stni_legendre_synthesis(stn_tensor *input, const struct stni_legendre_function *of, int64_t nlat);

/* The layout in which these ops want their input, whose columns are whole: for who gives it to both. */
stn_status stni_legendre_want(stn_context *context, struct stni_layout *layout, int64_t lmax);

#endif
