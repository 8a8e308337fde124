/* One line's discrete Fourier transform, unnormalised: y_k = sum_j x_j exp(-+ 2 pi i j k / n). By FFTW where the
 * build has it, else by mixed_radix.c. */
#ifndef STNI_OPS_FFT_TRANSFORM_H
#define STNI_OPS_FFT_TRANSFORM_H

#include "core/context/context.h"
#include "ops/fft/fft_kernel.h"

/* Lines are contiguous and begin at addresses that are multiples of 64 bytes. */
struct stni_transform {
    enum stni_transform_kind kind;
    stn_dtype dtype; /* f32 or f64: of real numbers, and of the parts of complex ones */
    int64_t n;
    size_t work_bytes;
    void *plan; /* of who made it */
    /* `in` may be written to; `in`, `out` and `work` do not overlap. Any thread. */
    void (*run)(const struct stni_transform *transform, void *in, void *out, void *work);
    void (*destroy)(struct stni_transform *transform); /* the plan */
};

/* The context's plan for lines of n >= 1 elements, made at first use; it lasts as long as the work queued so far and
 * the op under way. On the context's thread. */
stn_status stni_transform_get(stn_context *context, enum stni_transform_kind kind, stn_dtype dtype, int64_t n,
                              const struct stni_transform **out);

/* One that was made for work queued since; NULL where there is none. Any thread. */
const struct stni_transform *stni_transform_find(stn_context *context, enum stni_transform_kind kind, stn_dtype dtype,
                                                 int64_t n);

/* Fill in plan, work_bytes, run and destroy. STN_ERR_UNSUPPORTED where FFTW is not there or has no plan. */
stn_status stni_transform_fftw(struct stni_transform *transform);
stn_status stni_transform_own(struct stni_transform *transform); /* STN_ERR_MEMORY */

#endif
