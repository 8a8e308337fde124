/* Bands of a few rows are joined piece by piece. With each piece as many lines of the next band are prefetched, in
 * the order in which they lie in memory: of the rows themselves a processor reads a line of each in turn, which its
 * prefetchers follow badly, and what it can have in flight by itself is limited by the conversions and comparisons
 * that wait for each line. Where they follow them well nothing is prefetched, and of more rows at a time accumulators
 * stay in the L1 cache. */
#include "ops/reduce/reduce_bands.h"

#include "core/base/dtype.h"
#include "core/box/nontemporal.h"
#include "core/box/nontemporal_line.h"

enum {
    BAND = 4,          /* rows */
    FOLLOWED_BAND = 8, /* where nothing is prefetched */
    PIECE = 512        /* bytes of a row */
};

/* Lines that are still to be prefetched. */
struct ahead {
    const char *row;
    int64_t at;   /* bytes into it */
    int64_t rows; /* left */
};

int stni_reduce_wants_bands(enum stni_reduction op, stn_dtype dtype, stn_dtype acc_dtype, int64_t bytes)
{
    const int counted = op == STNI_REDUCTION_nonzero || stn_dtype_size(dtype) == 1; /* in accumulators of their own, for many rows */
    const int joined_at_once = dtype == acc_dtype && (op == STNI_REDUCTION_sum || stni_dtype_is_integer(dtype));
    return bytes >= STNI_STREAMING_RESULT && !counted && !joined_at_once;
}

static void prefetch(struct ahead *ahead, int64_t lines, int64_t row_bytes, int64_t row_step)
{
    for (; lines > 0 && ahead->rows > 0; lines--) {
        stni_prefetch(ahead->row + ahead->at);
        ahead->at += STNI_LINE;
        if (ahead->at >= row_bytes) {
            ahead->at = 0;
            ahead->row += row_step;
            ahead->rows--;
        }
    }
}

/* Prefetches `next` rows behind these. */
static void join_band(const struct stni_reduce_rows *r, const char *in, int64_t rows, int64_t next)
{
    const int64_t most = PIECE / r->in_size, row_bytes = r->lanes * r->in_size, row_step = r->row_stride * r->in_size;
    struct ahead ahead = {in + rows * row_step, 0, next};
    for (int64_t l = 0; l < r->lanes; l += most) {
        const int64_t n = r->lanes - l < most ? r->lanes - l : most;
        prefetch(&ahead, rows * PIECE / STNI_LINE, row_bytes, row_step);
        r->kernels->accumulate[r->dtype](r->op, r->acc + l * r->acc_size, in + l * r->in_size, rows, r->row_stride, n,
                                         1);
    }
}

void stni_reduce_bands(const struct stni_reduce_rows *r)
{
    const int64_t band = r->followed ? FOLLOWED_BAND : BAND;
    for (int64_t row = 0; row < r->rows; row += band) {
        const int64_t left = r->rows - row, next = left < 2 * band ? left - band : band;
        join_band(r, r->in + row * r->row_stride * r->in_size, left < band ? left : band, r->followed ? 0 : next);
    }
}
