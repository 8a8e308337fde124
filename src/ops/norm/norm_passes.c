/* The passes of normalisations over a chunk, compiled once per instruction set (core/isa.h). */
#include "core/dtype.h"
#include "core/isa.h"
#include "ops/norm/norm_kernel.h"

enum {
    LANES = 16, /* partial sums of a row, folded at its end */
    BLOCK = 512 /* columns with sums of their own that are passed over at once */
};

/* The two fastest dims at one index of the others. */
struct tile {
    int64_t rows, cols;
    int64_t at[NORM_OPERANDS], row[NORM_OPERANDS], col[NORM_OPERANDS];
};

/* Steps from column to column, known to the compiler where they are the usual ones. */
struct steps {
    int64_t x, y, stat, weight, target;
};

typedef void (*tile_fn)(const struct stni_norm_pass *pass, const struct tile *tile);

/* Of z = x - shift: z and z^2, or each weighted. The weight. Of g = weight y: g and g (x - mean) rstd. */
enum terms { MOMENTS, WEIGHTED, WEIGHTS, SUMS };

static void walk(const struct stni_norm_pass *pass, tile_fn run)
{
    const struct stni_norm_args *a = pass->args;
    const int col = a->ndim - 1, row = a->ndim - 2;
    int64_t index[STN_MAX_NDIM] = {0};
    struct tile t = {.rows = row < 0 ? 1 : a->shape[row], .cols = a->shape[col]};
    for (int k = 0; k < NORM_OPERANDS; k++) {
        int64_t factor = k == NORM_WEIGHT ? pass->weight_step : k == NORM_PARAM && pass->bias ? pass->bias_step : 1;
        t.row[k] = row < 0 ? 0 : a->strides[k][row] * factor;
        t.col[k] = a->strides[k][col] * factor;
    }
    for (int d; ; index[d]++) {
        run(pass, &t);
        for (d = row - 1; d >= 0 && index[d] == a->shape[d] - 1; d--) {
            for (int k = 0; k < NORM_OPERANDS; k++)
                t.at[k] -= index[d] * a->strides[k][d];
            index[d] = 0;
        }
        if (d < 0)
            return;
        for (int k = 0; k < NORM_OPERANDS; k++)
            t.at[k] += a->strides[k][d];
    }
}

#define TEMPLATE "ops/norm/norm_lanes.inc"
#include "core/each_float.h"

const struct stni_norm_cpu STNI_ISA_NAME(stni_norm_cpu) = {
    .moments = {moments_f32, moments_f64, moments_bf16, moments_f16},
    .weights = {weights_f32, weights_f64, weights_bf16, weights_f16},
    .normalise = {normalise_f32, normalise_f64, normalise_bf16, normalise_f16},
    .sums = {sums_f32, sums_f64, sums_bf16, sums_f16},
    .apply = {apply_f32, apply_f64, apply_bf16, apply_f16},
};
