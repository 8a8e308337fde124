#include "ops/cpu/exp.h"

const float stni_exp_range_f32[3] = {-105.0f, 89.0f, -87.3f};
const double stni_exp_range_f64[3] = {-746.0, 710.0, -708.3};
