/* Passes over f16: those of f32 over pieces of a tile whose operands are converted. A part of norm_passes.c.
 * Statistics are f32 for both, so that what is done with an element is the same; sums of more than HALVES elements
 * are added up piece by piece. */
#ifndef STNI_OPS_NORM_NORM_F16_H
#define STNI_OPS_NORM_NORM_F16_H

enum {
    HALVES = NEAR_BLOCK,
    ROWS = 16 /* of a piece whose columns have sums of their own: these are read and written once for all of its rows */
};

/* What an operand's piece begins with, and where it is converted to. */
struct half_operand {
    int which;
    const uint16_t *from;
    float *to;
};

/* A piece of an operand as dense f32, of which the tile is told; what is the same for all rows or columns is
 * converted once. */
static void read_halves(const struct stni_tile_kernels *kernels, const struct half_operand *o, struct tile *piece)
{
    int64_t *const row = &piece->row[o->which], *const col = &piece->col[o->which];
    const struct stni_tile tile = {.rows = *row ? piece->rows : 1,
                                   .cols = *col ? piece->cols : 1,
                                   .to_row = *col ? piece->cols : 1,
                                   .to_col = 1,
                                   .from_row = *row,
                                   .from_col = *col};
    stni_tile_read(kernels, o->to, o->from + piece->at[o->which], &tile);
    piece->at[o->which] = 0;
    *row = *row ? tile.to_row : 0;
    *col = *col ? 1 : 0;
}

enum { READ_X = 1u << NORM_X, READ_Y = 1u << NORM_Y, READ_WEIGHT = 1u << NORM_WEIGHT, READ_BIAS = 1u << NORM_PARAM };

/* `reads`: bits of operands; `out`: the operand that is written, -1: none. */
static void run_halves(const struct stni_norm_pass *p, const struct tile *t, tile_fn run, uint32_t reads, int out)
{
    alignas(STNI_LINE) float x[HALVES], y[HALVES], weight[HALVES], bias[HALVES], result[HALVES];
    const struct stni_tile_kernels from = stni_tile_kernels(STN_DTYPE_F32, STN_DTYPE_F16, STNI_ISA_THIS);
    const struct stni_tile_kernels to = stni_tile_kernels(STN_DTYPE_F16, STN_DTYPE_F32, STNI_ISA_THIS);
    struct stni_norm_args args = *p->args;
    struct stni_norm_pass pass = *p;
    const struct half_operand operands[] = {{NORM_X, args.x, x}, {NORM_Y, args.y, y}, {NORM_WEIGHT, p->weight, weight},
                                            {NORM_PARAM, p->bias, bias}};
    const int64_t cols = least(t->cols, out < 0 && t->col[p->target] != 0 && t->rows >= ROWS ? HALVES / ROWS : HALVES),
                  rows = HALVES / cols;
    pass.args = &args;
    args.x = x;
    args.y = y;
    pass.weight = weight;
    pass.bias = bias;
    for (int64_t r = 0; r < t->rows; r += rows)
        for (int64_t i = 0; i < t->cols; i += cols) {
            struct tile piece = *t;
            piece.rows = least(t->rows - r, rows);
            piece.cols = least(t->cols - i, cols);
            for (int k = 0; k < NORM_OPERANDS; k++)
                piece.at[k] += r * t->row[k] + i * t->col[k];
            piece.at[NORM_WEIGHT] *= p->weight_step;
            piece.at[NORM_PARAM] *= reads & READ_BIAS ? p->bias_step : 1;
            const struct stni_tile back = {.rows = piece.rows,
                                           .cols = piece.cols,
                                           .to_row = out < 0 ? 0 : t->row[out],
                                           .to_col = out < 0 ? 0 : t->col[out],
                                           .from_row = piece.cols,
                                           .from_col = 1,
                                           .streamed = p->streamed};
            uint16_t *const target = out < 0 ? NULL : (uint16_t *)t->to + piece.at[out];
            for (int k = 0; k < 4; k++)
                if (reads >> operands[k].which & 1)
                    read_halves(&from, &operands[k], &piece);
            if (out >= 0) {
                piece.to = result;
                piece.at[out] = 0;
                piece.row[out] = piece.cols;
                piece.col[out] = 1;
            }
            run(&pass, &piece);
            if (out >= 0)
                stni_tile_write(&to, target, result, &back);
        }
}

static void moments_tile_f16(const struct stni_norm_pass *pass, const struct tile *tile)
{
    run_halves(pass, tile, moments_tile_f32, READ_X, -1);
}

static void weighted_tile_f16(const struct stni_norm_pass *pass, const struct tile *tile)
{
    run_halves(pass, tile, weighted_tile_f32, READ_X | READ_WEIGHT, -1);
}

static void weights_tile_f16(const struct stni_norm_pass *pass, const struct tile *tile)
{
    run_halves(pass, tile, weights_tile_f32, READ_WEIGHT, -1);
}

static void normalise_tile_f16(const struct stni_norm_pass *pass, const struct tile *tile)
{
    run_halves(pass, tile, normalise_tile_f32, READ_X | READ_WEIGHT | READ_BIAS, NORM_Y);
}

static void sums_tile_f16(const struct stni_norm_pass *pass, const struct tile *tile)
{
    run_halves(pass, tile, sums_tile_f32, READ_X | READ_Y | READ_WEIGHT, -1);
}

static void apply_tile_f16(const struct stni_norm_pass *pass, const struct tile *tile)
{
    run_halves(pass, tile, apply_tile_f32, READ_X | READ_Y | READ_WEIGHT, NORM_OUT);
}

static void moments_f16(const struct stni_norm_pass *p)
{
    walk(p, p->weight_step ? weighted_tile_f16 : moments_tile_f16);
}

static void weights_f16(const struct stni_norm_pass *p)
{
    walk(p, weights_tile_f16);
}

static void normalise_f16(const struct stni_norm_pass *p)
{
    walk(p, normalise_tile_f16);
    if (p->streamed)
        stni_stream_fence();
}

static void sums_f16(const struct stni_norm_pass *p)
{
    walk(p, sums_tile_f16);
}

static void apply_f16(const struct stni_norm_pass *p)
{
    walk(p, apply_tile_f16);
    if (p->streamed)
        stni_stream_fence();
}

#endif
