/* Kernels of losses on the CPU: tiles of the two inner dims, brought to dense runs of the compute type where they
 * are not, and the loops of loss_block.c over them. One pass over the data. */
#include "ops/loss/loss_kernel.h"

#include "core/device/device.h"
#include "core/base/dtype.h"
#include "ops/cpu/tile.h"

#include <stdalign.h>

enum { TILE = 512 }; /* elements */

struct lane {
    char *at; /* NULL: ones */
    int64_t size, row, col;
    stn_dtype dtype;
    struct stni_tile_kernels kernels;
};

struct walk {
    const struct stni_loss_args *args;
    struct stni_loss_block block;
    stni_loss_block_fn run;
    int64_t rows, cols, tile_rows, tile_cols;
    struct lane lane[LOSS_OPERANDS];
    alignas(64) char buffer[LOSS_OPERANDS][TILE * sizeof(double)];
};

static int is_dense(const struct walk *w, const struct lane *lane, int64_t rows, int64_t cols)
{
    return lane->dtype == w->args->compute && lane->col == 1 && (rows == 1 || lane->row == cols);
}

/* A tile of a lane as a dense run: where it lies, or in the lane's buffer. */
static void *tile_of(struct walk *w, int l, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    struct lane *lane = &w->lane[l];
    if (!lane->at)
        return w->buffer[l];
    char *from = lane->at + (row * lane->row + col * lane->col) * lane->size;
    if (is_dense(w, lane, rows, cols))
        return from;
    const struct stni_tile tile = {rows, cols, cols, 1, lane->row, lane->col, 0, 0};
    if (l != LOSS_OUT)
        stni_tile_read(&lane->kernels, w->buffer[l], from, &tile);
    return w->buffer[l];
}

static void run_tile(struct walk *w, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    struct stni_loss_block *b = &w->block;
    const struct lane *out = &w->lane[LOSS_OUT];
    b->n = rows * cols;
    b->x = tile_of(w, LOSS_INPUT, row, col, rows, cols);
    b->y = tile_of(w, LOSS_TARGET, row, col, rows, cols);
    b->w = tile_of(w, LOSS_WEIGHT, row, col, rows, cols);
    b->z = tile_of(w, LOSS_EXTRA, row, col, rows, cols);
    b->g = tile_of(w, LOSS_GRAD, row, col, rows, cols);
    b->out = tile_of(w, LOSS_OUT, row, col, rows, cols);
    w->run(b);
    const struct stni_tile tile = {rows, cols, out->row, out->col, cols, 1, 0, 0};
    if (out->at && b->out == w->buffer[LOSS_OUT])
        stni_tile_write(&out->kernels, out->at + (row * out->row + col * out->col) * out->size, b->out, &tile);
}

static void run_rows(struct walk *w)
{
    for (int64_t r = 0; r < w->rows; r += w->tile_rows)
        for (int64_t c = 0; c < w->cols; c += w->tile_cols)
            run_tile(w, r, c, w->rows - r < w->tile_rows ? w->rows - r : w->tile_rows,
                     w->cols - c < w->tile_cols ? w->cols - c : w->tile_cols);
}

static void advance(struct walk *w, int dim, int64_t steps)
{
    for (int l = 0; l < LOSS_OPERANDS; l++)
        if (w->lane[l].at)
            w->lane[l].at += w->args->operand[l].strides[dim] * steps * w->lane[l].size;
}

static void run_outer(struct walk *w)
{
    int64_t index[STN_MAX_NDIM] = {0};
    for (int d; ; index[d]++, advance(w, d, 1)) {
        run_rows(w);
        for (d = w->args->ndim - 3; d >= 0 && index[d] == w->args->shape[d] - 1; d--) {
            advance(w, d, -index[d]);
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

static void set_lane(struct walk *w, enum stni_isa isa, int l)
{
    const struct stni_loss_args *a = w->args;
    const struct stni_loss_operand *o = &a->operand[l];
    w->lane[l] = (struct lane){.at = o->data,
                               .dtype = o->dtype,
                               .size = (int64_t)stn_dtype_size(o->dtype),
                               .col = a->ndim > 0 ? o->strides[a->ndim - 1] : 1,
                               .row = a->ndim > 1 ? o->strides[a->ndim - 2] : 0};
    w->lane[l].kernels =
        l == LOSS_OUT ? stni_tile_kernels(o->dtype, a->compute, isa) : stni_tile_kernels(a->compute, o->dtype, isa);
    if (o->data)
        return;
    for (int i = 0; i < TILE; i++)
        if (a->compute == STN_DTYPE_F64)
            ((double *)w->buffer[l])[i] = 1;
        else
            ((float *)w->buffer[l])[i] = 1;
}

stn_status stni_loss_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_loss_args *a = raw;
    const int wide = a->compute == STN_DTYPE_F64, sums = !a->operand[LOSS_OUT].data;
    const enum stni_isa isa = queue->isa;
    const struct stni_loss_kernels *kernels = STNI_ISA_PICK(stni_loss_kernels, isa);
    struct walk w;
    if (sums)
        a->sum[0] = a->sum[1] = 0;
    if (a->empty)
        return STN_OK;
    w.args = a;
    w.block = (struct stni_loss_block){
        .loss = a->loss, .term = a->term, .p = a->p, .q = a->q, .scale = a->total ? 1 / *a->total : 1, .sum = a->sum};
    w.run = sums ? kernels->sum[wide] : kernels->map[wide];
    w.cols = a->ndim > 0 ? a->shape[a->ndim - 1] : 1;
    w.rows = a->ndim > 1 ? a->shape[a->ndim - 2] : 1;
    w.tile_cols = w.cols < TILE ? w.cols : TILE;
    w.tile_rows = TILE / w.tile_cols;
    for (int l = 0; l < LOSS_OPERANDS; l++)
        set_lane(&w, isa, l);
    run_outer(&w);
    return STN_OK;
}

stn_status stni_loss_finish_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_loss_finish_args *a = raw;
    const double total = a->by_weights ? a->sum[1] : a->count;
    (void)queue;
    *a->total = total;
    if (!a->out)
        return STN_OK;
    const double value = a->sum[0] / total;
    if (a->dtype == STN_DTYPE_F64)
        *(double *)a->out = value;
    else if (a->dtype == STN_DTYPE_F32)
        *(float *)a->out = (float)value;
    else if (a->dtype == STN_DTYPE_BF16)
        *(uint16_t *)a->out = stni_f32_to_bf16((float)value);
    else
        *(uint16_t *)a->out = stni_f32_to_f16((float)value);
    return STN_OK;
}
