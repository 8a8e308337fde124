/* The elementary functions of math.h under one name for f32 and f64, for templates. */
#ifndef STNI_OPS_CPU_MATH_CUH
#define STNI_OPS_CPU_MATH_CUH

#include "core/device/cuda/grid.h"
#include "ops/cpu/math.h"

namespace {

STNI_DEVICE float exp_of(float x) { return stni_exp_f32(x); }
STNI_DEVICE double exp_of(double x) { return stni_exp_f64(x); }
STNI_DEVICE float exp_negative_of(float x) { return stni_exp_negative_f32(x); }
STNI_DEVICE double exp_negative_of(double x) { return stni_exp_negative_f64(x); }
STNI_DEVICE float log_of(float x) { return stni_log_f32(x); }
STNI_DEVICE double log_of(double x) { return stni_log_f64(x); }

}

#endif
