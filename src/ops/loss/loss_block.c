/* The arithmetic of losses over dense runs, compiled once per instruction set. Sums are f64 in LANES lanes that are folded in halves: every set
 * gives the same bits. */
#include "ops/loss/loss_kernel.h"

enum { LANES = 16 };

#define T float
#define MAP map_f32
#define SUM sum_f32
#include "ops/loss/loss_block.inc"
#define T double
#define MAP map_f64
#define SUM sum_f64
#include "ops/loss/loss_block.inc"

const struct stni_loss_kernels STNI_ISA_NAME(stni_loss_kernels) = {.map = {map_f32, map_f64}, .sum = {sum_f32, sum_f64}};
