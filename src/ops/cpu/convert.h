/* Conversion of strided tiles between element types, for CPU kernels: how they read any dtype into the type in which
 * they compute, and write the result back. Compiled once per instruction set.
 *
 * A compute type is one in which arithmetic is done: f32 (also for 16-bit floats), f64, i64 (for all integers),
 * bool, c64, c128. Every dtype is read into every compute type, and a compute type is written to the dtypes that
 * compute in it; f64 to the 16-bit floats as well, by way of f32. From complex to real the real part is taken; a
 * floating value outside i64 gives the smallest i64; to bool x != 0; i64 to a narrower integer keeps the low bits. */
#ifndef STNI_OPS_CPU_CONVERT_H
#define STNI_OPS_CPU_CONVERT_H

#include "core/base/dtype.h"
#include "core/base/isa.h"

/* rows x cols elements; strides in elements of either side. A source stride of 0 repeats. */
struct stni_tile {
    int64_t rows, cols;
    int64_t to_row, to_col, from_row, from_col;
    int streamed;  /* dense rows of dense sources are written by non-temporal stores (core/box/nontemporal_line.h) */
    int64_t ahead; /* how far ahead the source is prefetched, bytes; 0: not at all */
};

/* The two sides do not overlap. */
typedef void (*stni_convert_fn)(void *to, const void *from, const struct stni_tile *tile);

struct stni_convert_kernels {
    stni_convert_fn pair[STN_DTYPE_COUNT][STN_DTYPE_COUNT]; /* [to][from]; NULL where a compute type stands between */
};

/* Runs a conversion along whichever side of the tile is better: the one whose elements lie closer, unless it is too
 * short. */
static inline void stni_convert_tile(stni_convert_fn convert, void *to, const void *from, struct stni_tile tile)
{
    enum { SHORT = 8 };
    int apart = tile.to_row + tile.from_row < tile.to_col + tile.from_col && tile.rows >= SHORT;
    if (apart || (tile.cols < SHORT && tile.rows > tile.cols))
        tile = (struct stni_tile){tile.cols,     tile.rows,     tile.to_col,   tile.to_row,
                                  tile.from_col, tile.from_row, tile.streamed, tile.ahead};
    convert(to, from, &tile);
}

extern const struct stni_convert_kernels stni_convert_kernels_base, stni_convert_kernels_avx2,
    stni_convert_kernels_avx512;

/* The compute type of a dtype. */
static inline stn_dtype stni_compute_dtype(stn_dtype dtype)
{
    static const uint8_t compute[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = STN_DTYPE_F32, [STN_DTYPE_F64] = STN_DTYPE_F64,   [STN_DTYPE_BF16] = STN_DTYPE_F32,
        [STN_DTYPE_F16] = STN_DTYPE_F32, [STN_DTYPE_I64] = STN_DTYPE_I64,   [STN_DTYPE_I32] = STN_DTYPE_I64,
        [STN_DTYPE_U8] = STN_DTYPE_I64,  [STN_DTYPE_BOOL] = STN_DTYPE_BOOL, [STN_DTYPE_C64] = STN_DTYPE_C64,
        [STN_DTYPE_C128] = STN_DTYPE_C128, [STN_DTYPE_I8] = STN_DTYPE_I64, [STN_DTYPE_I16] = STN_DTYPE_I64};
    return (stn_dtype)compute[dtype];
}

#endif
