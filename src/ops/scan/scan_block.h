/* Lines that are scanned together, and how their elements come and go. A part of scan_cpu.c. */
#ifndef STNI_OPS_SCAN_SCAN_BLOCK_H
#define STNI_OPS_SCAN_SCAN_BLOCK_H

#include "core/base/dtype.h"
#include "core/box/box_kernel.h"
#include "core/device/device.h"
#include "ops/cpu/convert.h"
#include "ops/scan/scan_kernel.h"

#include <complex.h>
#include <math.h>
#include <stdalign.h>

enum { LANES = 256, FEW = 4, EXTREMA = 16 /* elements that are compared with an extremum at once */ };

/* Elements as they are stored, and how they become those of the arithmetic or come from them. */
struct side {
    int64_t size; /* bytes */
    int log;
    stni_convert_fn convert; /* NULL: they are of the same type */
};

struct block {
    int along; /* one by one */
    const struct stni_copy_kernels *copy;
    struct side in, out;
    int64_t line, width; /* the first line, and how many */
    int64_t at[SCAN_TENSORS], lane[SCAN_TENSORS];
};

/* Elements of a line: the first, and from one to the next. */
struct reach {
    int64_t x, y, out, x_step, y_step, out_step;
};

/* n elements, `step` apart, as dense ones of the arithmetic's type. */
static void bring(const struct block *b, void *to, const void *from, int64_t step, int64_t n)
{
    alignas(int64_t) char raw[LANES * sizeof(double _Complex)];
    const struct stni_tile dense = {.rows = 1, .cols = n, .to_col = 1, .from_col = 1};
    if (from && step != 1)
        b->copy->elements[b->in.log](b->in.convert ? raw : to, b->in.size, from, step * b->in.size, n);
    if (from && b->in.convert)
        b->in.convert(to, step != 1 ? raw : from, &dense);
}

/* And back. */
static void send(const struct block *b, void *to, const void *from, int64_t step, int64_t n)
{
    alignas(int64_t) char raw[LANES * sizeof(double _Complex)];
    const struct stni_tile dense = {.rows = 1, .cols = n, .to_col = 1, .from_col = 1};
    if (b->out.convert)
        b->out.convert(step != 1 ? raw : to, from, &dense);
    if (step != 1 || !b->out.convert)
        b->copy->elements[b->out.log](to, step * b->out.size, b->out.convert ? raw : from, b->out.size, n);
}

static void send_indices(const struct block *b, int64_t *to, const int64_t *from, int64_t step, int64_t n)
{
    b->copy->elements[3]((void *)to, step * (int64_t)sizeof *to, (const void *)from, sizeof *from, n);
}

#endif
