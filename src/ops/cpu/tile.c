/* Tiles of strided operands: dense rows are converted as they are, elements with a step between them are gathered
 * first, and columns that are runs are transposed. */
#include "ops/cpu/tile.h"

#include "core/box/nontemporal_line.h"

#include <stdalign.h>
#include <stdint.h>

enum {
    SCRATCH = 4096, /* bytes that are converted before they are transposed */
    SOME = 128,     /* elements of a row that are read between two rounds of prefetching */
    SHORT = 8       /* elements of a row that are not worth it */
};

static int log2_of(int64_t size)
{
    int log = 0;
    while (size >> log > 1)
        log++;
    return log;
}

struct stni_tile_kernels stni_tile_kernels(stn_dtype to, stn_dtype from, enum stni_isa isa)
{
    const struct stni_convert_kernels *convert = STNI_ISA_PICK(stni_convert_kernels, isa);
    const struct stni_copy_kernels *copies = STNI_ISA_PICK(stni_copy_kernels, isa);
    const int64_t to_size = (int64_t)stn_dtype_size(to), from_size = (int64_t)stn_dtype_size(from);
    return (struct stni_tile_kernels){copies->elements[log2_of(from_size)],
                                      copies->transpose[log2_of(to_size)],
                                      convert->pair[to][from],
                                      to_size,
                                      from_size,
                                      to == from};
}

/* Prefetches the cache lines of n elements, `step` bytes apart, at `ahead` bytes from where they lie. Prefetching an
 * address outside the operand is harmless. */
static void prefetch(const char *from, int64_t step, int64_t n, int64_t ahead)
{
    const int64_t first = step < 0 ? (n - 1) * step : 0, bytes = n * (step < 0 ? -step : step);
    for (int64_t at = 0; at < bytes; at += STNI_LINE)
        stni_prefetch((const void *)((uintptr_t)from + (uintptr_t)(first + at + ahead)));
}

/* Reads a row, some elements at a time: the next ones are prefetched while these are worked on. */
static void read_row(const struct stni_tile_kernels *k, char *to, const char *from, const struct stni_tile *tile)
{
    alignas(STNI_LINE) char scratch[SOME * sizeof(double _Complex)];
    const int64_t step = tile->from_col * k->from_size, apart = step != k->from_size && step != 0;
    const int prefetches = tile->ahead != 0 && step <= STNI_LINE && step >= -STNI_LINE;
    const int64_t most = prefetches || (apart && !k->same_dtype) ? SOME : tile->cols;
    for (int64_t c = 0; c < tile->cols; c += most) {
        const int64_t n = tile->cols - c < most ? tile->cols - c : most;
        const struct stni_tile some = {.rows = 1, .cols = n, .to_col = 1, .from_col = apart ? 1 : tile->from_col};
        if (prefetches)
            prefetch(from + c * step, step, n, tile->ahead);
        if (apart)
            k->elements(k->same_dtype ? to + c * k->to_size : scratch, k->from_size, from + c * step, step, n);
        if (!apart || !k->same_dtype)
            k->convert(to + c * k->to_size, apart ? scratch : from + c * step, &some);
    }
}

/* Reads a tile whose columns are dense, some columns at a time through a scratch buffer in which they are converted. */
static void turn_converted(const struct stni_tile_kernels *k, char *to, const char *from, const struct stni_tile *tile)
{
    alignas(STNI_LINE) char scratch[SCRATCH];
    const int64_t apart = tile->from_col * k->from_size, run = tile->rows * k->to_size, most = SCRATCH / run;
    for (int64_t c = 0; c < tile->cols; c += most) {
        const int64_t n = tile->cols - c < most ? tile->cols - c : most;
        for (int64_t col = 0; col < n; col++) {
            const struct stni_tile one = {.rows = 1, .cols = tile->rows, .to_col = 1, .from_col = 1};
            if (tile->ahead != 0)
                prefetch(from + (c + col) * apart, k->from_size, tile->rows, tile->ahead);
            k->convert(scratch + col * run, from + (c + col) * apart, &one);
        }
        k->transpose(to + c * k->to_size, tile->to_row * k->to_size, scratch, run, n, tile->rows, 0, 0);
    }
}

/* Rows that follow each other on both sides are one. */
static struct stni_tile joined(const struct stni_tile *tile)
{
    struct stni_tile t = *tile;
    if (t.to_row == t.cols && t.from_row == t.cols * t.from_col) {
        t.cols *= t.rows;
        t.rows = 1;
    }
    return t;
}

static void read_rows(const struct stni_tile_kernels *k, char *to, const char *from, const struct stni_tile *tile)
{
    const struct stni_tile t = joined(tile);
    const int dense = t.from_col == 1 || t.from_col == 0;
    if (t.cols < SHORT || (dense && t.ahead == 0))
        stni_convert_tile(k->convert, to, from, t);
    else
        for (int64_t row = 0; row < t.rows; row++)
            read_row(k, to + row * t.to_row * k->to_size, from + row * t.from_row * k->from_size, &t);
}

void stni_tile_read(const struct stni_tile_kernels *kernels, void *to, const void *from, const struct stni_tile *tile)
{
    const int64_t size = kernels->to_size;
    const int transposed = tile->from_row == 1 && tile->from_col > 1 && tile->rows > 1;
    if (transposed && kernels->same_dtype)
        kernels->transpose(to, tile->to_row * size, from, tile->from_col * size, tile->cols, tile->rows, 0,
                           tile->ahead);
    else if (transposed && tile->rows * size <= SCRATCH)
        turn_converted(kernels, to, from, tile);
    else
        read_rows(kernels, to, from, tile);
}

void stni_tile_write(const struct stni_tile_kernels *kernels, void *to, const void *from, const struct stni_tile *tile)
{
    const int64_t size = kernels->to_size;
    if (kernels->same_dtype && tile->to_row == 1 && tile->rows > 1)
        kernels->transpose(to, tile->to_col * size, from, tile->from_row * size, tile->rows, tile->cols, 0, 0);
    else
        stni_convert_tile(kernels->convert, to, from, *tile);
}
