/* Conversions by way of i32. A part of convert.c. */
#ifndef STNI_OPS_CPU_CONVERT_WIDENED_H
#define STNI_OPS_CPU_CONVERT_WIDENED_H

#include "ops/cpu/convert.h"

enum { WIDENED = 512 }; /* elements at a time: they stay in the L1 cache */

static void convert_widened(stni_convert_fn widen, stni_convert_fn convert, char *to, int64_t to_size, const char *from,
                            int64_t from_size, const struct stni_tile *tile)
{
    int32_t wide[WIDENED];
    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < tile->cols; c += WIDENED) {
            const int64_t n = tile->cols - c < WIDENED ? tile->cols - c : WIDENED;
            const struct stni_tile in = {1, n, 0, 1, 0, tile->from_col, 0, 0},
                                   out = {1, n, 0, tile->to_col, 0, 1, tile->streamed, 0};
            widen(wide, from + (r * tile->from_row + c * tile->from_col) * from_size, &in);
            convert(to + (r * tile->to_row + c * tile->to_col) * to_size, wide, &out);
        }
}

#endif
