#include "ops/cpu/exp.h"

const float stni_exp_range_f32[2] = {-104.0f, 89.0f};
const double stni_exp_range_f64[2] = {-746.0, 710.0};
