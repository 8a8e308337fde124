/* The rows of logsumexp, compiled once per instruction set (core/base/isa.h). */
#include "ops/cpu/math.h"
#include "ops/reduce/logsumexp_kernel.h"

#include <math.h>

enum { LANES = 16 };

#define ACC float
#define NAME(f) f##_f32
#define MATH(f) stni_##f##_f32
#include "ops/reduce/logsumexp_rows_tmpl.h"
#undef ACC
#undef NAME
#undef MATH

#define ACC double
#define NAME(f) f##_f64
#define MATH(f) stni_##f##_f64
#include "ops/reduce/logsumexp_rows_tmpl.h"

const struct stni_logsumexp_kernels STNI_ISA_NAME(stni_logsumexp_kernels) = {
    .f32 = {clear_f32, along_f32, across_f32, finish_f32, keep_f32},
    .f64 = {clear_f64, along_f64, across_f64, finish_f64, keep_f64},
};
