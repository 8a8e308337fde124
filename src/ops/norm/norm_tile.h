/* Tiles of a chunk, the walk over them, and tiles whose results are written by non-temporal stores. A part of
 * norm_passes.c. */
#ifndef STNI_OPS_NORM_NORM_TILE_H
#define STNI_OPS_NORM_NORM_TILE_H

#include "core/box/box_kernel.h"
#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "ops/norm/norm_rows.h"
#include "ops/common/moments.h"
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/cpu/scalar_loop.h"
#include "ops/cpu/tile.h"

#include <stdalign.h>

enum {
    LANES = 16, /* partial sums of a row, added up at its end */
    WIDTH = 32, STEPS = 8, SPAN = WIDTH * STEPS, NEAR_BLOCK = 8 * SPAN, SAMPLES = 8, /* norm_moments_tmpl.h */
    NEAR_LINE = 1 << 16, /* columns; longer rows come from memory, which four concurrent streams read faster */
    BLOCK = 2048, /* columns with sums of their own that are passed over at once */
    PIECE = 2048, /* bytes of a result that go out in one run of non-temporal stores */
    TOGETHER = 64 /* short rows of which a piece is made, at most */
};

/* The two fastest dims at one index of the others. */
struct tile {
    int64_t rows, cols;
    int64_t at[NORM_OPERANDS], row[NORM_OPERANDS], col[NORM_OPERANDS];
    void *to; /* where the result is put */
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
    struct tile t = {.rows = row < 0 ? 1 : a->shape[row], .cols = a->shape[col], .to = pass->to};
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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Prefetches what is normalised later, so that reads go on while the result is written to memory. */
static void ask_for_x(const struct stni_norm_pass *p, const struct tile *t, int64_t size)
{
    const char *x = (const char *)p->args->x + t->at[NORM_X] * size;
    for (int64_t r = 0; r < t->rows && t->col[NORM_X] == 1; r++)
        stni_block_prefetch(x + r * t->row[NORM_X] * size, (size_t)(t->cols * size), (size_t)p->ahead);
}

/* Normalises a tile whose result is written by non-temporal stores, piece by piece through a buffer. A piece is
 * several rows where these are short and contiguous, else a part of one row. */
static void stream_tile(const struct stni_norm_pass *p, const struct tile *t, tile_fn run, int out, int64_t size)
{
    alignas(64) char buffer[STNI_STREAMING_PAGE + PIECE];
    const int64_t cols = least(t->cols, PIECE / size),
                  rows = t->row[out] == cols ? least(t->rows, PIECE / size / cols) : 1;
    for (int64_t r = 0; r < t->rows; r += rows)
        for (int64_t i = 0; i < t->cols; i += cols) {
            struct tile piece = *t;
            for (int k = 0; k < NORM_OPERANDS; k++)
                piece.at[k] += r * t->row[k] + i * t->col[k];
            void *to = (char *)t->to + piece.at[out] * size;
            piece.to = stni_streaming_place(buffer, 1, &to);
            piece.rows = least(t->rows - r, rows);
            piece.cols = least(t->cols - i, cols);
            piece.at[out] = 0;
            piece.row[out] = cols;
            ask_for_x(p, &piece, size);
            run(p, &piece);
            STNI_ISA_NAME(stni_copy_kernels).stream(to, piece.to, piece.rows * piece.cols * size);
        }
}

/* Sums of squares of up to NEAR_BLOCK numbers between which none overflowed in f32, and none that counts lost bits
 * for being small. */
static const double least_squares = 0x1p-110, most_squares = 0x1p126;

#endif
