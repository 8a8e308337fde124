/* The arithmetic of losses over dense runs, compiled once per instruction set. Sums are f64 in LANES lanes, which
 * are added pairwise, half to half, alike in every instruction set. */
#include "ops/loss/loss_functions.h"
#include "ops/cpu/math.h"

enum { LANES = 16 };

#define T float
#define NAME(f) f##_f32
#define LOG stni_log_f32
#define LOG1P stni_log1p_f32
#define LOG1P_UNIT stni_log1p_unit_f32
#define EXP stni_exp_f32
#define SIGMOID stni_sigmoid_f32
#include "ops/loss/loss_block_tmpl.h"
#define T double
#define NAME(f) f##_f64
#define LOG log
#define LOG1P log1p
#define LOG1P_UNIT log1p
#define EXP stni_exp_f64
#define SIGMOID stni_sigmoid_f64
#include "ops/loss/loss_block_tmpl.h"

const struct stni_loss_kernels STNI_ISA_NAME(stni_loss_kernels) = {.map = {map_f32, map_f64},
                                                                   .sum = {sum_f32, sum_f64}};
