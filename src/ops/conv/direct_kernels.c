/* Sums of direct convolutions of one instruction set (core/base/isa.h). They are fused where the processor fuses, as
 * those of products of matrices are. */
#include "ops/conv/direct_tile.h"

#define T float
#define NAME(x) x##_f32
#include "ops/conv/direct_tmpl.h"

#define T double
#define NAME(x) x##_f64
#include "ops/conv/direct_tmpl.h"

extern const struct stni_conv_direct_kernels STNI_ISA_NAME(stni_conv_direct_kernels);
const struct stni_conv_direct_kernels STNI_ISA_NAME(stni_conv_direct_kernels) = {
    .correlate = {[STN_DTYPE_F32] = correlate_f32, [STN_DTYPE_F64] = correlate_f64},
    .dots = {[STN_DTYPE_F32] = dots_f32, [STN_DTYPE_F64] = dots_f64},
};
