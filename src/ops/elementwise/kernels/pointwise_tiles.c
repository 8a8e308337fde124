/* Pointwise ops over an iteration space that is not one dense run: cuts it into tiles of the two inner dims, brings
 * each operand's tile to a dense run of the compute type (where it lies so already, nothing is copied), and lets the
 * op's block do the arithmetic. A result that is too large to stay in the caches is written by non-temporal stores,
 * which do not read the lines that they overwrite. */
#include "ops/elementwise/kernels/pointwise_tiles.h"

#include "core/box/box_kernel.h"
#include "core/device/device.h"
#include "ops/common/bad_value.h"
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/cpu/tile.h"

#include <stdalign.h>
#include <string.h>

enum {
    LANES = STNI_POINTWISE_MAX_IN + 1,
    OUT = STNI_POINTWISE_MAX_IN,
    BUFFER = 4096,            /* bytes of a lane's tile that is converted */
    NUMBERS = 16 << 10,       /* of a number's, where only numbers have buffers and the rows are long: fewer tiles for more to fill */
    LONG_ROW = 256 << 10,     /* bytes of such a row */
    BUFFERS = 40 << 10,       /* of all that are needed together */
    ACROSS_ROWS = 64,         /* of a tile that is transposed */
    FAR = 32 << 10,           /* bytes between rows, up to which the same place in the next rows is prefetched */
    ACROSS_AHEAD = 8,         /* rows, or columns to transpose, to prefetch ahead: more of them would evict each other from the caches */
    ROW_RUN = 32,             /* elements from which on a row is worth a call of its own */
    STREAM_RUN = 256,         /* bytes of a tile's row that are worth non-temporal stores */
    SHORT_PIECE = 256         /* bytes of a result that go out at a time where operands are not prefetched */
};

/* One operand, or the output, on its way through the tiles. */
struct lane {
    char *at;        /* its element at the first index of the current rows */
    size_t size;     /* bytes of an element */
    stn_dtype dtype;
    int64_t row, col; /* strides of the two inner dims, elements */
    int same;        /* one value for the whole space: the buffer holds it already */
    char *buffer;    /* of a tile, where the block cannot work on the memory itself */
    int64_t ahead;   /* how far ahead it is prefetched, bytes; 0: not at all */
    struct stni_tile_kernels kernels;
};

struct space {
    stn_queue *queue;
    const struct stni_pointwise_args *args;
    enum stni_isa isa;
    stni_pointwise_block_fn block;
    stn_dtype result;             /* what the block writes */
    int64_t compute_size;         /* bytes of an element of the compute type */
    int64_t result_size;          /* and of the result's */
    int64_t rows, cols;           /* of the two inner dims */
    int64_t tile_rows, tile_cols; /* at most */
    int64_t pad;                  /* bytes between two rows in a lane's buffer */
    int64_t n_of_number;          /* 0: a number fills as much as a tile has; else elements that its buffer holds, which every piece reads again */
    struct lane lane[LANES];
    size_t piece;                 /* bytes of the output that go out at a time, where non-temporal stores write it */
    char *buffer;                 /* NULL, or where blocks of the output wait for them: */
    alignas(STNI_LINE) char place[STNI_BLOCK_ROOM];
    alignas(STNI_LINE) char buffers[BUFFERS];
};

static void check_divisor(const struct space *s, const int64_t *divisor, int64_t n)
{
    int zeros = 0;
    if (s->n_of_number && s->lane[1].same)
        n = 1;
    for (int64_t k = 0; k < n; k++)
        zeros |= divisor[k] == 0;
    if (zeros)
        stn_queue_value_error(s->queue, s->args->number_of_op, STNI_BAD_DIVISOR, 0, NULL);
}

/* A lane's tile as the block sees it. */
struct view {
    char *at;
    int64_t row; /* bytes from row to row; within a row elements are dense */
};

/* Whether the block reads or writes elements as they are there. */
static int is_as_in_block(const struct space *s, const struct lane *lane)
{
    return lane->col == 1 && lane->dtype == (lane == &s->lane[OUT] ? s->result : s->args->compute);
}

/* Whether a block can work on a lane's memory, in one call or in one for each row. */
static int is_direct(const struct space *s, const struct lane *lane, int64_t rows, int64_t cols)
{
    return is_as_in_block(s, lane) && (rows == 1 || lane->row == cols || s->cols >= ROW_RUN);
}

/* Fills a buffer with copies of its first bytes, twice as many each time. */
static void repeat(char *buffer, int64_t have, int64_t want)
{
    for (int64_t more; have < want; have += more) {
        more = want - have < have ? want - have : have;
        memcpy(buffer + have, buffer, (size_t)more);
    }
}

/* Bytes from row to row in a lane's buffer. */
static int64_t row_of_buffer(const struct space *s, int64_t cols, int64_t size)
{
    return cols * size + s->pad;
}

/* The elements of an operand's tile, converted into its buffer unless the block can read them where they are. */
static struct view read_tile(struct space *s, int l, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    const struct lane *lane = &s->lane[l];
    const int64_t dense = row_of_buffer(s, cols, s->compute_size);
    if (lane->same)
        return (struct view){lane->buffer, dense};
    char *from = lane->at + (row * lane->row + col * lane->col) * (int64_t)lane->size;
    if (is_direct(s, lane, rows, cols))
        return (struct view){from, lane->row * (int64_t)lane->size};
    int repeats = lane->row == 0;
    const struct stni_tile tile = {repeats ? 1 : rows, cols, dense / s->compute_size, 1, lane->row, lane->col, 0,
                                   lane->ahead};
    stni_tile_read(&lane->kernels, lane->buffer, from, &tile);
    if (repeats && cols >= ROW_RUN)
        return (struct view){lane->buffer, 0};
    if (repeats)
        repeat(lane->buffer, dense, rows * dense);
    return (struct view){lane->buffer, dense};
}

/* How far ahead, in bytes, the block prefetches while it reads row r of an operand; 0 where it reads a buffer. After
 * the last rows of a tile that is transposed it prefetches the first rows of the next tile. */
static size_t ahead_of_row(const struct space *s, const struct lane *lane, const struct view *view, int64_t r,
                           int64_t rows)
{
    int64_t ahead = view->at == lane->buffer ? 0 : lane->ahead;
    if (s->pad > 0 && ahead != 0 && r + ACROSS_AHEAD >= rows)
        ahead += (s->tile_cols - rows * lane->row) * (int64_t)lane->size;
    return (size_t)ahead;
}

/* In one call where rows follow each other in every view. */
static void run_views(const struct space *s, const struct view *view, int64_t rows, int64_t cols)
{
    const struct stni_pointwise_args *args = s->args;
    struct stni_pointwise_block block = {.op = args->op, .n = cols, .a = args->a, .b = args->b, .c = args->c};
    block.buffer = view[OUT].at == s->lane[OUT].buffer ? NULL : s->buffer;
    block.piece = s->piece;
    int follow = 1;
    for (int l = 0; l < STNI_POINTWISE_MAX_IN; l++)
        block.same[l] = s->n_of_number && s->lane[l < args->n_in ? l : 0].same;
    for (int l = 0; l < LANES; l++)
        follow = follow && view[l].row == cols * (l == OUT ? s->result_size : s->compute_size);
    if (follow || rows == 1) {
        block.n = rows * cols;
        rows = 1;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int l = 0; l < STNI_POINTWISE_MAX_IN; l++)
            block.in[l] = view[l].at + r * view[l].row;
        for (int l = 0; l < args->n_in; l++)
            block.ahead[l] = ahead_of_row(s, &s->lane[l], &view[l], r, rows);
        block.out = view[OUT].at + r * view[OUT].row;
        if (args->divides)
            check_divisor(s, block.in[1], block.n);
        s->block(&block);
    }
}

/* Whether the block writes the output where it belongs. Short rows go through the buffer first where non-temporal
 * stores write them, which are faster for one long run than for many short ones. */
static int is_out_direct(const struct space *s, int64_t rows, int64_t cols)
{
    const struct lane *out = &s->lane[OUT];
    return is_direct(s, out, rows, cols) && (!s->buffer || s->cols * (int64_t)out->size >= STREAM_RUN);
}

/* From where the block has put the output's tile, or from the operand of a cast, to where it belongs. */
static void put_tile(const struct space *s, char *to, const struct view *from, int64_t ahead, int64_t rows,
                     int64_t cols)
{
    const struct lane *out = &s->lane[OUT];
    const int64_t from_row = from->row / out->kernels.from_size;
    if (out->row == cols && from_row == cols) {
        cols *= rows;
        rows = 1;
    }
    const struct stni_tile tile = {rows, cols, out->row, out->col, from_row, 1, s->buffer != NULL, ahead};
    stni_tile_write(&out->kernels, to, from->at, &tile);
}

static void run_tile(struct space *s, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    const struct lane *out = &s->lane[OUT];
    char *to = out->at + (row * out->row + col * out->col) * (int64_t)out->size;
    const int direct = is_out_direct(s, rows, cols);
    struct view view[LANES];
    for (int l = 0; l < STNI_POINTWISE_MAX_IN; l++)
        view[l] = l < s->args->n_in ? read_tile(s, l, row, col, rows, cols) : view[0];
    view[OUT] = direct ? (struct view){to, out->row * (int64_t)out->size}
                       : (struct view){out->buffer, row_of_buffer(s, cols, s->result_size)};
    if (s->args->op == STNI_POINTWISE_cast && out->dtype != s->args->compute) { /* its arithmetic would be a copy */
        put_tile(s, to, &view[0], s->lane[0].ahead, rows, cols);
        return;
    }
    run_views(s, view, rows, cols);
    if (!direct)
        put_tile(s, to, &view[OUT], 0, rows, cols);
}

static void run_rows(struct space *s)
{
    for (int64_t row = 0; row < s->rows; row += s->tile_rows) {
        int64_t rows = s->rows - row < s->tile_rows ? s->rows - row : s->tile_rows;
        for (int64_t col = 0; col < s->cols; col += s->tile_cols)
            run_tile(s, row, col, rows, s->cols - col < s->tile_cols ? s->cols - col : s->tile_cols);
    }
}

static const int64_t *strides_of(const struct stni_pointwise_args *args, int l)
{
    return l == OUT ? args->out.strides : args->in[l].strides;
}

/* Moves every lane by `steps` along an outer dim. */
static void advance(struct space *s, int dim, int64_t steps)
{
    for (int l = 0; l < LANES; l++)
        if (l == OUT || (l < s->args->n_in && !s->lane[l].same))
            s->lane[l].at += strides_of(s->args, l)[dim] * steps * (int64_t)s->lane[l].size;
}

static void run_outer(struct space *s)
{
    int64_t index[STN_MAX_NDIM] = {0};
    for (int d; ; index[d]++, advance(s, d, 1)) {
        run_rows(s);
        for (d = s->args->ndim - 3; d >= 0 && index[d] == s->args->shape[d] - 1; d--) {
            advance(s, d, -index[d]);
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

static void set_lane(struct space *s, int l, const struct stni_pointwise_operand *operand)
{
    int ndim = s->args->ndim;
    s->lane[l] = (struct lane){.at = operand->data,
                               .size = stn_dtype_size(operand->dtype),
                               .dtype = operand->dtype,
                               .row = ndim > 1 ? operand->strides[ndim - 2] : 0,
                               .col = ndim > 0 ? operand->strides[ndim - 1] : 1};
}

/* A number fills its buffer as an f64 or, where that is what is computed in, as an i64. */
static void fill(struct space *s, int l)
{
    const struct stni_pointwise_operand *operand = &s->args->in[l];
    const struct stni_pointwise_number *number = &s->args->number[l];
    const int64_t n = s->n_of_number ? s->n_of_number
                                     : s->tile_rows * row_of_buffer(s, s->tile_cols, s->compute_size) / s->compute_size;
    int whole = s->args->compute == STN_DTYPE_I64;
    const void *value = operand->data ? operand->data : whole ? (const void *)&number->i : &number->f;
    stn_dtype dtype = operand->data ? operand->dtype : whole ? STN_DTYPE_I64 : STN_DTYPE_F64;
    const struct stni_tile tile = {.rows = 1, .cols = n, .to_col = 1};
    stni_tile_kernels(s->args->compute, dtype, s->isa).convert(s->lane[l].buffer, value, &tile);
}

static int is_same_everywhere(const struct stni_pointwise_args *args, int l)
{
    if (!args->in[l].data)
        return 1;
    for (int d = 0; d < args->ndim; d++)
        if (args->in[l].strides[d] != 0)
            return 0;
    return args->ndim > 0;
}

static int runs_across(const struct lane *lane)
{
    return lane->row != 0 && lane->row < lane->col;
}

/* Every lane that the block cannot work on where it lies gets an equal share of the buffers. @return bytes of a
 * share; `numbers`: whether they hold nothing else */
static int64_t share_buffers(struct space *s, int *numbers)
{
    char **owner[LANES + 1];
    int n = 0;
    *numbers = 1;
    for (int l = 0; l < s->args->n_in; l++)
        if (s->lane[l].same || !is_direct(s, &s->lane[l], s->rows, s->cols)) {
            owner[n++] = &s->lane[l].buffer;
            *numbers &= s->lane[l].same;
        }
    if (!is_out_direct(s, s->rows, s->cols)) {
        owner[n++] = &s->lane[OUT].buffer;
        *numbers = 0;
    }
    if (n == 0)
        return 0;
    const int64_t share = BUFFERS / n / STNI_STREAMING_PAGE * STNI_STREAMING_PAGE;
    for (int i = 0; i < n; i++)
        *owner[i] = s->buffers + i * share;
    return share;
}

static int any_runs_across(const struct space *s)
{
    int across = runs_across(&s->lane[OUT]);
    for (int l = 0; l < s->args->n_in; l++)
        across = across || runs_across(&s->lane[l]);
    return across;
}

/* How far ahead an operand is prefetched, so that reads go on while writes keep memory busy: the same place in the
 * next rows, where the rows are not contiguous but near each other, else what comes next in the row. */
static int64_t ahead_of(const struct space *s, const struct lane *lane, int across)
{
    const int64_t size = (int64_t)lane->size;
    if (!s->buffer || lane->same || lane->col == 0 || (lane->row == 0 && s->rows > 1))
        return 0;
    if (across)
        return ACROSS_AHEAD * (runs_across(lane) ? lane->col : lane->row) * size;
    const int64_t rows = s->tile_rows * lane->row * size, cols = s->tile_cols * lane->col * size;
    if ( s->rows > s->tile_rows && lane->row != s->cols * lane->col && rows <= FAR && rows >= -FAR)
        return rows;
    return is_direct(s, lane, s->rows, s->cols) ? stni_queue_run_ahead(s->queue, STNI_BLOCK_AHEAD) : cols;
}

/* Where only numbers have buffers and all else is one row that is streamed, which goes piece by piece: the elements
 * of the longest piece. */
static int64_t n_of_number(const struct space *s, int64_t share, int numbers)
{
    return s->buffer && s->rows == 1 && share > 0 && numbers ? STNI_PIECE / s->result_size : 0;
}

/* Tiles are of whole rows where they are short; where no buffer is needed but for a piece of a number, a row is one.
 * If some lane's elements lie closer from row to row than within a row, tiles have many rows, so that this lane too
 * is read in runs, and are as wide as the buffers allow, up to a piece. Their rows lie a line further apart than
 * they are long: at distances that are powers of two they would map to the same sets of the L1 cache. */
static void set_tiles(struct space *s)
{
    int numbers;
    const int64_t share = share_buffers(s, &numbers);
    const int large = numbers && share >= NUMBERS && s->cols * s->compute_size >= LONG_ROW;
    const int64_t capacity = (large ? NUMBERS : BUFFER) / s->compute_size;
    int64_t wide = STNI_PIECE;
    while (wide > STNI_LINE && ACROSS_ROWS * (wide + STNI_LINE) > share)
        wide /= 2;
    const int across = any_runs_across(s) && s->cols >= ROW_RUN && s->cols * s->compute_size > wide;
    s->n_of_number = across ? 0 : n_of_number(s, share, numbers);
    const int whole = share == 0 || s->n_of_number || s->cols < capacity;
    s->tile_cols = across ? wide / s->compute_size : whole ? s->cols : capacity;
    s->tile_rows = across ? ACROSS_ROWS : s->tile_cols < capacity ? capacity / s->tile_cols : 1;
    if (s->tile_rows > s->rows)
        s->tile_rows = s->rows;
    s->pad = across ? STNI_LINE : 0;
    for (int l = 0; l < s->args->n_in; l++)
        s->lane[l].ahead = ahead_of(s, &s->lane[l], across);
}

static int is_streamed(const struct space *s)
{
    const struct lane *out = &s->lane[OUT];
    int64_t bytes = (int64_t)out->size;
    for (int d = 0; d < s->args->ndim; d++)
        bytes *= s->args->shape[d];
    return out->col == 1 && (out->row == s->cols || s->cols * (int64_t)out->size >= STREAM_RUN) &&
           stni_pointwise_is_streamed(s->args, bytes);
}

static void set_lanes(struct space *s)
{
    const struct stni_pointwise_args *args = s->args;
    set_lane(s, OUT, &args->out);
    s->lane[OUT].kernels = stni_tile_kernels(args->out.dtype, s->result, s->isa);
    for (int l = 0; l < args->n_in; l++) {
        set_lane(s, l, &args->in[l]);
        s->lane[l].kernels = stni_tile_kernels(args->compute, args->in[l].dtype, s->isa);
        s->lane[l].same = is_same_everywhere(args, l);
    }
}

void stni_pointwise_tiles(stn_queue *queue, const struct stni_pointwise_args *args, stni_pointwise_block_fn block)
{
    struct space s;
    s.queue = queue;
    s.args = args;
    s.isa = queue->isa;
    s.block = block;
    s.result = stni_pointwise_result(args->op, args->compute);
    s.compute_size = (int64_t)stn_dtype_size(args->compute);
    s.result_size = (int64_t)stn_dtype_size(s.result);
    s.cols = args->ndim > 0 ? args->shape[args->ndim - 1] : 1;
    s.rows = args->ndim > 1 ? args->shape[args->ndim - 2] : 1;
    set_lanes(&s);
    s.buffer = is_streamed(&s) ? s.place : NULL;
    s.piece = queue->follows_runs && s.result_size >= s.compute_size ? SHORT_PIECE : STNI_PIECE;
    set_tiles(&s);
    for (int l = 0; l < args->n_in; l++)
        if (s.lane[l].same)
            fill(&s, l);
    run_outer(&s);
    if (s.buffer)
        STNI_ISA_PICK(stni_copy_kernels, s.isa)->fence();
}
