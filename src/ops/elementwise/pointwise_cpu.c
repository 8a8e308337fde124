/* The CPU's kernel of pointwise ops: cuts the iteration space into tiles of the two inner dims, brings each operand's tile to a dense run
 * of the compute type (where it lies so already, nothing is copied), and lets the op's block do the arithmetic. */
#include "ops/elementwise/pointwise_kernel.h"

#include "core/box_kernel.h"
#include "core/context.h"
#include "core/streaming.h"
#include "ops/util/convert.h"

#include <stdalign.h>
#include <string.h>

enum {
    LANES = STNI_POINTWISE_MAX_IN + 1,
    OUT = STNI_POINTWISE_MAX_IN,
    BUFFER = 4096,            /* bytes of a lane's tile that is converted */
    ACROSS_BUFFER = 4 * BUFFER, /* that is turned over */
    ROW_RUN = 32,             /* elements from which on a row is worth a call of its own */
    STREAM_BYTES = 8 << 20    /* results that caches will not keep */
};

/* One operand, or the output, on its way through the tiles. */
struct lane {
    char *at;        /* its element at the first index of the current rows */
    size_t size;     /* bytes of an element */
    stn_dtype dtype;
    int64_t row, col; /* strides of the two inner dims, elements */
    int same;        /* one value for the whole space: the buffer holds it already */
    stni_convert_fn convert;
};

struct space {
    const struct stni_pointwise_args *args;
    stni_pointwise_block_fn block;
    int64_t compute_size;         /* bytes of an element of the compute type */
    int64_t rows, cols;           /* of the two inner dims */
    int64_t tile_rows, tile_cols; /* at most */
    struct lane lane[LANES];
    const struct stni_copy_kernels *copies;
    alignas(64) char buffer[LANES][ACROSS_BUFFER];
};

static void check_divisor(const struct stni_pointwise_args *args, const int64_t *divisor, int64_t n)
{
    int zeros = 0;
    for (int64_t k = 0; k < n; k++)
        zeros |= divisor[k] == 0;
    if (zeros)
        stni_value_error(args->divides, "%s: an integer is divided by 0", args->name);
}

static void compute(const struct stni_pointwise_args *args, stni_pointwise_block_fn function, const struct stni_pointwise_block *block)
{
    if (args->divides)
        check_divisor(args, block->in[1], block->n);
    function(block);
}

/* A lane's tile as the block sees it. */
struct view {
    char *at;
    int64_t row; /* bytes from row to row; within a row elements are dense */
};

static int is_dense(const struct space *s, const struct lane *lane, int64_t rows, int64_t cols)
{
    return lane->dtype == s->args->compute && lane->col == 1 && (rows == 1 || lane->row == cols);
}

/* Whether a block can work on a lane's memory, in one call or in one for each row. */
static int is_direct(const struct space *s, const struct lane *lane, int64_t rows, int64_t cols)
{
    return is_dense(s, lane, rows, cols) || (lane->dtype == s->args->compute && lane->col == 1 && cols >= ROW_RUN);
}

/* Fills a buffer with copies of its first bytes, twice as many each time. */
static void repeat(char *buffer, int64_t have, int64_t want)
{
    for (int64_t more; have < want; have += more) {
        more = want - have < have ? want - have : have;
        memcpy(buffer + have, buffer, (size_t)more);
    }
}

static int log2_of(size_t size)
{
    int log = 0;
    while (size >> log > 1)
        log++;
    return log;
}

/* Between a lane's memory and a dense tile. What lies row by row where the tile lies column by column is turned over. */
static void convert(const struct space *s, const struct lane *lane, void *to, const void *from, const struct stni_tile *tile)
{
    int reads = tile->to_col == 1;
    if (lane->dtype != s->args->compute || lane->row != 1 || tile->rows == 1) {
        stni_convert_tile(lane->convert, to, from, *tile);
        return;
    }
    const int64_t size = (int64_t)lane->size, apart = lane->col * size, dense = tile->cols * size;
    if (reads)
        s->copies->transpose[log2_of(lane->size)](to, dense, from, apart, tile->cols, tile->rows, 0);
    else
        s->copies->transpose[log2_of(lane->size)](to, apart, from, dense, tile->rows, tile->cols, 0);
}

/* The elements of an operand's tile, converted into its buffer unless the block can read them where they are. */
static struct view read_tile(struct space *s, int l, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    const struct lane *lane = &s->lane[l];
    const int64_t dense = cols * s->compute_size;
    if (lane->same)
        return (struct view){s->buffer[l], dense};
    char *from = lane->at + (row * lane->row + col * lane->col) * (int64_t)lane->size;
    if (is_direct(s, lane, rows, cols))
        return (struct view){from, lane->row * (int64_t)lane->size};
    int repeats = lane->row == 0;
    const struct stni_tile tile = {repeats ? 1 : rows, cols, cols, 1, lane->row, lane->col};
    convert(s, lane, s->buffer[l], from, &tile);
    if (repeats && cols >= ROW_RUN)
        return (struct view){s->buffer[l], 0};
    if (repeats)
        repeat(s->buffer[l], dense, rows * dense);
    return (struct view){s->buffer[l], dense};
}

/* In one call where rows follow each other in every view. */
static void run_views(const struct space *s, const struct view *view, int64_t rows, int64_t cols)
{
    const struct stni_pointwise_args *args = s->args;
    struct stni_pointwise_block block = {.op = args->op, .n = cols, .a = args->a, .b = args->b, .c = args->c};
    int follow = 1;
    for (int l = 0; l < LANES; l++)
        follow = follow && view[l].row == cols * s->compute_size;
    if (follow || rows == 1) {
        block.n = rows * cols;
        rows = 1;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int l = 0; l < STNI_POINTWISE_MAX_IN; l++)
            block.in[l] = view[l].at + r * view[l].row;
        block.out = view[OUT].at + r * view[OUT].row;
        compute(args, s->block, &block);
    }
}

static void run_tile(struct space *s, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    const struct lane *out = &s->lane[OUT];
    char *to = out->at + (row * out->row + col * out->col) * (int64_t)out->size;
    int direct = is_direct(s, out, rows, cols);
    struct view view[LANES];
    for (int l = 0; l < STNI_POINTWISE_MAX_IN; l++)
        view[l] = l < s->args->n_in ? read_tile(s, l, row, col, rows, cols) : view[0];
    view[OUT] = direct ? (struct view){to, out->row * (int64_t)out->size} : (struct view){s->buffer[OUT], cols * s->compute_size};
    run_views(s, view, rows, cols);
    if (!direct) {
        const struct stni_tile tile = {rows, cols, out->row, out->col, cols, 1};
        convert(s, out, to, s->buffer[OUT], &tile);
    }
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
    s->lane[l] = (struct lane){.at = operand->data, .size = stn_dtype_size(operand->dtype), .dtype = operand->dtype,
                               .row = ndim > 1 ? operand->strides[ndim - 2] : 0, .col = ndim > 0 ? operand->strides[ndim - 1] : 1};
}

/* A number fills its buffer as an f64 or, where that is what is computed in, as an i64. */
static void fill(struct space *s, const struct stni_convert_kernels *kernels, int l, int64_t n)
{
    const struct stni_pointwise_operand *operand = &s->args->in[l];
    const struct stni_pointwise_number *number = &s->args->number[l];
    int whole = s->args->compute == STN_DTYPE_I64;
    const void *value = operand->data ? operand->data : whole ? (const void *)&number->i : &number->f;
    stn_dtype dtype = operand->data ? operand->dtype : whole ? STN_DTYPE_I64 : STN_DTYPE_F64;
    const struct stni_tile tile = {1, n, n, 1, 0, 0};
    kernels->pair[s->args->compute][dtype](s->buffer[l], value, &tile);
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

/* Tiles are as large as the buffers allow, of whole rows where they are short; where no buffer is needed, a row is one. If some lane's
 * elements lie closer from row to row than within a row, tiles are square, so that this lane too is read in runs. */
static void set_tiles(struct space *s)
{
    int64_t capacity = BUFFER / s->compute_size, side = s->compute_size <= 4 ? 64 : 32;
    int dense = is_dense(s, &s->lane[OUT], 1, s->cols), across = runs_across(&s->lane[OUT]);
    for (int l = 0; l < s->args->n_in; l++) {
        dense = dense && !s->lane[l].same && is_dense(s, &s->lane[l], 1, s->cols);
        across = across || runs_across(&s->lane[l]);
    }
    across = across && s->cols > side;
    s->tile_cols = across ? side : dense || s->cols < capacity ? s->cols : capacity;
    s->tile_rows = across ? side : s->tile_cols < capacity ? capacity / s->tile_cols : 1;
    if (s->tile_rows > s->rows)
        s->tile_rows = s->rows;
}

static void run_space(const struct stni_pointwise_args *args, stni_pointwise_block_fn block,
                      const struct stni_convert_kernels *convert)
{
    struct space s;
    s.args = args;
    s.block = block;
    s.copies = STNI_ISA_PICK(stni_copy_kernels, stni_isa_best());
    s.compute_size = (int64_t)stn_dtype_size(args->compute);
    s.cols = args->ndim > 0 ? args->shape[args->ndim - 1] : 1;
    s.rows = args->ndim > 1 ? args->shape[args->ndim - 2] : 1;
    set_lane(&s, OUT, &args->out);
    s.lane[OUT].convert = convert->pair[args->out.dtype][args->compute];
    for (int l = 0; l < args->n_in; l++) {
        set_lane(&s, l, &args->in[l]);
        s.lane[l].convert = convert->pair[args->compute][args->in[l].dtype];
        s.lane[l].same = is_same_everywhere(args, l);
    }
    set_tiles(&s);
    for (int l = 0; l < args->n_in; l++)
        if (s.lane[l].same)
            fill(&s, convert, l, s.tile_rows * s.tile_cols);
    run_outer(&s);
}

static int is_run(const struct stni_pointwise_args *args, const struct stni_pointwise_operand *operand)
{
    return operand->data && operand->dtype == args->compute && (args->ndim == 0 || operand->strides[0] == 1);
}

/* 1, and the operands in `block`, where everything is one dense run of the compute type. */
static int is_one_run(const struct stni_pointwise_args *args, struct stni_pointwise_block *block)
{
    if (args->ndim > 1 || !is_run(args, &args->out))
        return 0;
    block->out = args->out.data;
    for (int i = 0; i < args->n_in; i++) {
        if (!is_run(args, &args->in[i]))
            return 0;
        block->in[i] = args->in[i].data;
    }
    for (int i = args->n_in; i < STNI_POINTWISE_MAX_IN; i++)
        block->in[i] = block->in[0];
    return 1;
}

/* A run whose result the caches will not keep: written past them, so that they need not fetch what is overwritten. */
static void run_streamed(const struct stni_pointwise_args *args, stni_pointwise_block_fn function, const struct stni_pointwise_block *run)
{
    const struct stni_copy_kernels *copies = STNI_ISA_PICK(stni_copy_kernels, stni_isa_best());
    const int64_t size = (int64_t)stn_dtype_size(args->compute);
    alignas(64) char room[STNI_STREAMING_PAGE + BUFFER];
    struct stni_pointwise_block block = *run;
    block.out = stni_streaming_place(room, 1, &run->out);
    for (int64_t at = 0; at < run->n; at += block.n) {
        block.n = run->n - at < BUFFER / size ? run->n - at : BUFFER / size;
        for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++)
            block.in[i] = (const char *)run->in[i] + at * size;
        compute(args, function, &block);
        copies->stream((char *)run->out + at * size, block.out, block.n * size);
    }
    copies->fence();
}

/* What is changed in place is in the caches. */
static int is_streamed(const struct stni_pointwise_args *args, const struct stni_pointwise_block *run)
{
    for (int i = 0; i < args->n_in; i++)
        if (run->in[i] == run->out)
            return 0;
    return run->n * (int64_t)stn_dtype_size(args->compute) >= STREAM_BYTES;
}

/* The list that each op is a row of. */
enum list { ARITHMETIC, COMPARISON, EXPONENTIAL, TRIGONOMETRY, ACTIVATION };

static const uint8_t list_of[STNI_POINTWISE_COUNT] = {
#define ROW(op, ...) [STNI_POINTWISE_##op] = LIST,
#define CURVE(op, ...) [STNI_POINTWISE_##op] = LIST, [STNI_POINTWISE_##op##_backward] = LIST, [STNI_POINTWISE_##op##_curvature] = LIST,
#define LIST ARITHMETIC
    STNI_ARITHMETIC_LIST(ROW)
#undef LIST
#define LIST COMPARISON
    STNI_COMPARISON_LIST(ROW)
#undef LIST
#define LIST EXPONENTIAL
    STNI_EXPONENTIAL_LIST(CURVE)
#undef LIST
#define LIST TRIGONOMETRY
    STNI_TRIGONOMETRY_LIST(CURVE)
#undef LIST
#define LIST ACTIVATION
    STNI_ACTIVATION_LIST(CURVE)
#undef LIST
#undef ROW
#undef CURVE
};

static const struct stni_pointwise_kernels *kernels_of(enum list list, enum stni_isa isa)
{
    switch (list) {
    case ARITHMETIC: return STNI_ISA_PICK(stni_arithmetic_kernels, isa);
    case COMPARISON: return STNI_ISA_PICK(stni_comparison_kernels, isa);
    case EXPONENTIAL: return STNI_ISA_PICK(stni_exponential_kernels, isa);
    case TRIGONOMETRY: return STNI_ISA_PICK(stni_trigonometry_kernels, isa);
    case ACTIVATION: return STNI_ISA_PICK(stni_activation_kernels, isa);
    }
    return NULL;
}

stni_pointwise_block_fn stni_pointwise_block_of(enum stni_pointwise_op op, stn_dtype compute_type, enum stni_isa isa)
{
    return kernels_of((enum list)list_of[op], isa)->block[compute_type];
}

stn_status stni_pointwise_cpu(stn_queue *queue, const void *raw)
{
    (void)queue;
    const struct stni_pointwise_args *args = raw;
    enum stni_isa isa = stni_isa_best();
    stni_pointwise_block_fn block = stni_pointwise_block_of(args->op, args->compute, isa);
    struct stni_pointwise_block run;
    if (!is_one_run(args, &run)) {
        run_space(args, block, STNI_ISA_PICK(stni_convert_kernels, isa));
        return STN_OK;
    }
    run.op = args->op;
    run.n = args->ndim ? args->shape[0] : 1;
    run.a = args->a;
    run.b = args->b;
    run.c = args->c;
    if (is_streamed(args, &run))
        run_streamed(args, block, &run);
    else
        compute(args, block, &run);
    return STN_OK;
}
