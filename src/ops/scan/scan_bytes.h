/* Sums of bytes, as masks are counted by: added where they lie, where other scans of bytes convert them first. A
 * part of scan_cpu.c. */
#ifndef STNI_OPS_SCAN_SCAN_BYTES_H
#define STNI_OPS_SCAN_SCAN_BYTES_H

#include "ops/scan/scan_block.h"

#include <string.h>

/* The sums so far of a block's lines, of states whose second number means nothing. */
static void begin_sums(const struct stni_scan_args *a, const struct block *b, int64_t *sum)
{
    const int64_t *states = a->states;
    for (int64_t l = 0; l < b->width; l++)
        sum[l] = states ? states[2 * (b->line + l)] : 0;
}

static void sum_line(const struct stni_scan_args *a, const uint8_t *x, int64_t *out, int64_t sum)
{
    const int64_t n = a->lines.n, next = a->reverse ? -1 : 1, x_step = a->lines.step[SCAN_X],
                  out_step = a->lines.step[SCAN_OUT];
    for (int64_t k = 0, i = a->reverse ? n - 1 : 0; k < n; k++, i += next) {
        const int64_t before = sum;
        sum += x[i * x_step];
        out[i * out_step] = a->exclusive ? before : sum;
    }
}

/* Lines side by side, at one element of the dim. */
static void sum_row(const struct block *b, int exclusive, const uint8_t *restrict x, int64_t *restrict out,
                    int64_t *restrict sum)
{
    const int64_t width = b->width, x_lane = b->lane[SCAN_X], out_lane = b->lane[SCAN_OUT];
    for (int64_t l = 0; l < width && exclusive; l++)
        out[l * out_lane] = sum[l];
    if (x_lane == 1)
        for (int64_t l = 0; l < width; l++)
            sum[l] += x[l];
    else
        for (int64_t l = 0; l < width; l++)
            sum[l] += x[l * x_lane];
    if (out_lane == 1 && !exclusive)
        memcpy(out, sum, (size_t)width * sizeof *out);
    for (int64_t l = 0; l < width && out_lane != 1 && !exclusive; l++)
        out[l * out_lane] = sum[l];
}

static void scan_bytes(const struct stni_scan_args *a, const struct block *b)
{
    const uint8_t *x = (const uint8_t *)a->x + b->at[SCAN_X];
    int64_t *out = (int64_t *)a->out + b->at[SCAN_OUT], sum[LANES];
    begin_sums(a, b, sum);
    for (int64_t l = 0; l < b->width && b->along; l++)
        sum_line(a, x + l * b->lane[SCAN_X], out + l * b->lane[SCAN_OUT], sum[l]);
    for (int64_t k = 0; k < a->lines.n && !b->along; k++) {
        const int64_t i = a->reverse ? a->lines.n - 1 - k : k;
        sum_row(b, a->exclusive, x + i * a->lines.step[SCAN_X], out + i * a->lines.step[SCAN_OUT], sum);
    }
}

#endif
