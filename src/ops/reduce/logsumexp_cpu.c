/* The CPU's kernels of logsumexp. Up to STNI_LOGSUMEXP_LANES results are worked on at once. Elements come as dense
 * blocks of f32 or f64 that the L1 cache holds, each of which is read once for its largest elements and once for the
 * sums: those in memory where they are such blocks, else a copy. */
#include "ops/reduce/logsumexp_kernel.h"

#include "core/device/device.h"
#include "ops/cpu/tile.h"

#include <math.h>
#include <stdalign.h>

enum {
    LANES = STNI_LOGSUMEXP_LANES,
    ROWS = 16,    /* of a block of results side by side */
    LINE = 1024,  /* elements of a block of one result */
    SHORT = 8,    /* results side by side below that are read one by one */
    TURNED = 128, /* elements of one result up to which those of several are turned, so that each result has a lane */
    SEVERAL = 16,
    BLOCK = ROWS * LANES > LINE ? ROWS * LANES : LINE
};

struct work {
    const struct stni_reduce_args *args;
    const struct stni_logsumexp_rows *rows;
    struct stni_tile_kernels tile; /* from elements to blocks */
    int64_t in_size, size;         /* bytes of an element, as stored and of a block */
    int lane, row;                 /* the kept and the reduced dim that lie closest in memory, -1: none */
    int across;                    /* blocks have neighbouring results; else neighbouring elements of one */
    alignas(64) char block[BLOCK * sizeof(double)];
    alignas(64) char max[LANES * sizeof(double)];
    double sum[LANES];
};

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static int goes_across(const struct stni_reduce_args *a)
{
    const int kept = a->n_kept - 1, reduced = a->n_reduced - 1;
    if (kept < 0 || reduced < 0)
        return kept >= 0;
    if (a->reduced[reduced] <= TURNED && a->kept[kept] >= SEVERAL)
        return 1;
    if (a->kept[kept] < SHORT && a->kept[kept] < a->reduced[reduced])
        return 0;
    return magnitude(a->kept_in[kept]) < magnitude(a->reduced_in[reduced]);
}

static void work_init(struct work *w, const struct stni_reduce_args *args, enum stni_isa isa)
{
    const struct stni_logsumexp_kernels *kernels = STNI_ISA_PICK(stni_logsumexp_kernels, isa);
    const stn_dtype dtype = stni_compute_dtype(args->in_dtype);
    w->args = args;
    w->rows = dtype == STN_DTYPE_F64 ? &kernels->f64 : &kernels->f32;
    w->tile = stni_tile_kernels(dtype, args->in_dtype, isa);
    w->in_size = w->tile.from_size;
    w->size = w->tile.to_size;
    w->lane = args->n_kept - 1;
    w->row = args->n_reduced - 1;
    w->across = goes_across(args);
}

/* A tile as a dense block; *row: elements from a row of it to the next. */
static const void *read_block(struct work *w, const char *in, int64_t rows, int64_t cols, int64_t row_step,
                              int64_t col_step, int64_t *row)
{
    const struct stni_tile tile = {
        .rows = rows, .cols = cols, .to_row = cols, .to_col = 1, .from_row = row_step, .from_col = col_step};
    *row = row_step;
    if (w->tile.same_dtype && col_step == 1)
        return in;
    *row = cols;
    stni_tile_read(&w->tile, w->block, in, &tile);
    return w->block;
}

/* The elements along the row dim of `width` results join these. */
static void join_across(struct work *w, const char *in, int64_t width)
{
    const struct stni_reduce_args *a = w->args;
    const int64_t extent = w->row < 0 ? 1 : a->reduced[w->row], step = w->row < 0 ? 0 : a->reduced_in[w->row];
    for (int64_t r = 0, stride; r < extent; r += ROWS) {
        const int64_t rows = extent - r < ROWS ? extent - r : ROWS;
        const void *block = read_block(w, in + r * step * w->in_size, rows, width, step, a->kept_in[w->lane], &stride);
        w->rows->across(block, rows, stride, width, w->max, w->sum);
    }
}

static void join_along(struct work *w, const char *in, int64_t width)
{
    const struct stni_reduce_args *a = w->args;
    const int64_t extent = w->row < 0 ? 1 : a->reduced[w->row], step = w->row < 0 ? 1 : a->reduced_in[w->row];
    for (int64_t l = 0; l < width; l++, in += w->lane < 0 ? 0 : a->kept_in[w->lane] * w->in_size)
        for (int64_t i = 0, stride; i < extent; i += LINE) {
            const int64_t n = extent - i < LINE ? extent - i : LINE;
            const void *block = read_block(w, in + i * step * w->in_size, 1, n, 0, step, &stride);
            w->rows->along(block, n, w->max + l * w->size, &w->sum[l]);
        }
}

/* Steps through all indices of some dims but the last; returns 0 after the last index. */
static int next_index(int ndim, const int64_t *shape, const int64_t *strides, int64_t *index, int64_t *offset)
{
    for (int d = ndim - 2; d >= 0; d--) {
        *offset += strides[d];
        if (++index[d] < shape[d])
            return 1;
        *offset -= strides[d] * shape[d];
        index[d] = 0;
    }
    return 0;
}

/* The pairs of `width` results whose first element is at `in`. */
static void take_pairs(struct work *w, const char *in, int64_t width)
{
    const struct stni_reduce_args *a = w->args;
    int64_t index[STN_MAX_NDIM] = {0}, offset = 0;
    w->rows->clear(w->max, w->sum, width);
    if (a->empty)
        return;
    do {
        if (w->across)
            join_across(w, in + offset * w->in_size, width);
        else
            join_along(w, in + offset * w->in_size, width);
    } while (next_index(a->n_reduced, a->reduced, a->reduced_in, index, &offset));
}

typedef void (*give_fn)(struct work *w, const struct stni_logsumexp_args *args, int64_t at, int64_t step,
                        int64_t width);

static void give_results(struct work *w, const struct stni_logsumexp_args *args, int64_t at, int64_t step,
                         int64_t width)
{
    w->rows->finish((char *)args->of.out + at * w->size, step, w->max, w->sum, width);
}

static void give_parts(struct work *w, const struct stni_logsumexp_args *args, int64_t at, int64_t step, int64_t width)
{
    w->rows->keep(args->largest + at, args->sum + at, step, w->max, w->sum, width);
}

/* All results, some of the last kept dim at a time. */
static void run_all(struct work *w, const struct stni_logsumexp_args *args, give_fn give)
{
    const struct stni_reduce_args *a = &args->of;
    const int64_t lanes = w->lane < 0 ? 1 : a->kept[w->lane], in_step = w->lane < 0 ? 0 : a->kept_in[w->lane];
    const int64_t out_step = w->lane < 0 ? 1 : a->kept_out[w->lane];
    int64_t in_index[STN_MAX_NDIM] = {0}, in_at = 0, out_index[STN_MAX_NDIM] = {0}, out_at = 0;
    do {
        for (int64_t l = 0; l < lanes; l += LANES) {
            const int64_t width = lanes - l < LANES ? lanes - l : LANES;
            take_pairs(w, (const char *)a->in + (in_at + l * in_step) * w->in_size, width);
            give(w, args, out_at + l * out_step, out_step, width);
        }
        next_index(a->n_kept, a->kept, a->kept_out, out_index, &out_at);
    } while (next_index(a->n_kept, a->kept, a->kept_in, in_index, &in_at));
}

stn_status stni_logsumexp_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_logsumexp_args *args = raw;
    struct work w;
    work_init(&w, &args->of, queue->isa);
    run_all(&w, args, give_results);
    return STN_OK;
}

stn_status stni_logsumexp_parts_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_logsumexp_args *args = raw;
    struct work w;
    work_init(&w, &args->of, queue->isa);
    run_all(&w, args, give_parts);
    return STN_OK;
}

stn_status stni_logsumexp_scale_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_logsumexp_args *a = raw;
    (void)queue;
    for (int64_t i = 0; i < a->count; i++)
        a->sum[i] = stni_logsumexp_about(a->sum[i], a->largest[i], a->max[i]);
    return STN_OK;
}

stn_status stni_logsumexp_finish_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_logsumexp_args *a = raw;
    const int is_f64 = a->of.out_dtype == STN_DTYPE_F64;
    (void)queue;
    for (int64_t i = 0; i < a->count; i++) {
        const double y = a->max[i] + log(a->sum[i]);
        if (is_f64)
            ((double *)a->of.out)[i] = y;
        else
            ((float *)a->of.out)[i] = (float)y;
    }
    return STN_OK;
}
