/* Updates of dense chunks, compiled once per instruction set. */
#include "train/update_kernel.h"

#include <math.h>

#define T float
#define SQRT sqrtf
#define NAME(x) x##_f32
#include "train/update_tmpl.h"

#define T double
#define SQRT sqrt
#define NAME(x) x##_f64
#include "train/update_tmpl.h"

const struct stni_update_kernels STNI_ISA_NAME(stni_update_kernels) = {
    .f32 = {[STNI_UPDATE_SGD] = sgd_f32, [STNI_UPDATE_MOMENTUM] = momentum_f32, [STNI_UPDATE_ADAMW] = adamw_f32,
            [STNI_UPDATE_ADAM] = adam_f32, [STNI_UPDATE_AVERAGE] = average_f32, [STNI_UPDATE_SWAP] = swap_f32,
            [STNI_UPDATE_NORM] = norm_f32, [STNI_UPDATE_SCALE] = scale_f32, [STNI_UPDATE_UNSCALE] = unscale_f32},
    .f64 = {[STNI_UPDATE_SGD] = sgd_f64, [STNI_UPDATE_MOMENTUM] = momentum_f64, [STNI_UPDATE_ADAMW] = adamw_f64,
            [STNI_UPDATE_ADAM] = adam_f64, [STNI_UPDATE_AVERAGE] = average_f64, [STNI_UPDATE_SWAP] = swap_f64,
            [STNI_UPDATE_NORM] = norm_f64, [STNI_UPDATE_SCALE] = scale_f64, [STNI_UPDATE_UNSCALE] = unscale_f64},
};
