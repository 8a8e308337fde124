/* Products of a matrix and a vector, compiled once per instruction set. They read the matrix once and are bound by
 * memory, so that exact sums cost nothing where it is large. Fused where the processor fuses. */
#include "ops/cpu/gemv_tile.h"

#include "core/base/isa.h"

#define T float
#define NAME(x) x##_f32
#include "ops/cpu/gemv_tmpl.h"

#define T double
#define NAME(x) x##_f64
#include "ops/cpu/gemv_tmpl.h"

extern const struct stni_gemv_kernels STNI_ISA_NAME(stni_gemv_kernels);
const struct stni_gemv_kernels STNI_ISA_NAME(stni_gemv_kernels) = {
    {[STN_DTYPE_F32] = run_f32, [STN_DTYPE_F64] = run_f64}};
