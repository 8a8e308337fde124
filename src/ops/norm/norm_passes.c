/* The passes of normalisations over a chunk, compiled once per instruction set (core/base/isa.h). */
#include "ops/norm/norm_tile.h"

#define TEMPLATE "ops/norm/norm_moments_tmpl.h"
#include "core/box/each_float_but_f16.h"
#undef TEMPLATE

#define TEMPLATE "ops/norm/norm_lanes_tmpl.h"
#include "core/box/each_float_but_f16.h"
#undef TEMPLATE

#define TEMPLATE "ops/norm/norm_whole_tmpl.h"
#include "core/box/each_float_but_f16.h"

#include "ops/norm/norm_f16.h"

const struct stni_norm_cpu STNI_ISA_NAME(stni_norm_cpu) = {
    .moments = {moments_f32, moments_f64, moments_bf16, moments_f16},
    .weights = {weights_f32, weights_f64, weights_bf16, weights_f16},
    .normalise = {normalise_f32, normalise_f64, normalise_bf16, normalise_f16},
    .whole = {whole_f32, whole_f64, whole_bf16, NULL},
    .sums = {sums_f32, sums_f64, sums_bf16, sums_f16},
    .apply = {apply_f32, apply_f64, apply_bf16, apply_f16},
};
