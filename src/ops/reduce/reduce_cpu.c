/* The CPU's kernel of reductions. Everything is one scheme: a row of lanes, evenly spaced in the input, joins as many
 * accumulators.
 *
 * A row has `groups` x `width` lanes. The `width` lanes of a group belong to as many outputs; the groups are elements
 * along one reduced dim, and are combined pairwise, half with half, when all rows have been read, which also keeps long
 * sums exact. Reducing the innermost dim is the case of width 1; reducing an outer dim whose rows are long is the case
 * of one group. So every shape reads its input in long runs.
 *
 * A long line of elements that belong to one output is read in another way: each slice of it joins a few accumulators
 * that stay in registers, one set of accumulators after the other.
 *
 * Where there are several groups, an accumulator combines LONG_LANE of n elements, or n / MAX_GROUPED if that is
 * more. So many roundings, and ten more for combining the groups, bound the error of a sum, which is f64 for every
 * floating dtype; of a line of bf16 four elements at a time are added in f32 before. */
#include "ops/reduce/reduce_bands.h"

#include "core/device/device.h"
#include "ops/cpu/convert.h"

#include <stdalign.h>

enum {
    MAX_LANES = STNI_REDUCE_LANES,
    MAX_GROUPED = 1024,  /* lanes where there are several groups, */
    FEW_LANES = 64,      /* but no more than these where more */
    LONG_LANE = 128,     /* would combine fewer elements each */
    SHORT_RUN = 32,      /* elements: a reduced run below that is read across, one element of many outputs at a time */
    STREAMS = 4,
    LONG_STREAM = 16384, /* elements of a stream: longer ones are no faster, */
    SHORT_STREAM = 4096, /* and of fewer the streams take turns, so that memory is read in order, as its prefetchers want it, */
    TURN = 32,           /* bytes of a turn, at least */
    LONG_ROW = 256,      /* lanes: shorter ones are left to the processor's prefetchers */
    SHORT_LINE = 8,      /* runs: a line below that is read in rows */
    MAX_LINES = 512      /* accumulators of lines that are read together */
};

struct reduction {
    const struct stni_reduce_args *args;
    stn_dtype acc_dtype;
    int64_t in_size, acc_size, out_size; /* bytes of an element */
    const struct stni_reduction_kernels *kernels;
    const struct stni_convert_kernels *convert;
    int lane_dim; /* the kept dim along the lanes, or from line to line, -1: none */
    int row_dim;  /* the reduced dim from group to group and row to row, -1: none */
    int folds;    /* its elements follow the lanes in memory, so that a row may have several groups */
    int64_t lane_in;            /* stride between lanes */
    int64_t next_in, next_out;  /* strides between outputs along lane_dim: of lanes the same as theirs */
    int64_t lanes;              /* these outputs */
    int64_t groups;             /* of lanes in a row */
    int64_t run;                /* of a line: accumulators in registers; 0: there are no lines */
    int64_t set;                /* those of the next slice */
    int bands;                  /* rows come from memory, and are worth joining in bands, */
    int followed;               /* which the processor follows by itself, so that none is prefetched */
    char *at;                   /* the accumulators that are joined now */
    alignas(64) char acc[MAX_LANES * sizeof(double _Complex)];
    alignas(64) char side_by_side[MAX_LINES * sizeof(double)]; /* those of several lines, one line after the other */
};

enum { OWN, WIDE };

/* Those without loops of their own, which are read into their compute type first: i64. */
static int is_narrow(stn_dtype dtype)
{
    return dtype == STN_DTYPE_I8 || dtype == STN_DTYPE_I16;
}

static stn_dtype accumulator_dtype(enum stni_reduction op, stn_dtype dtype)
{
#define ACCUMULATOR(name, accumulator, floating, integer, element, real, complex) [STNI_REDUCTION_##name] = accumulator,
    static const uint8_t accumulators[] = {STNI_REDUCTION_LIST(ACCUMULATOR)};
    if (stni_dtype_is_complex(dtype))
        return STN_DTYPE_C128;
    if (accumulators[op] == WIDE)
        return stni_dtype_is_floating(dtype) ? STN_DTYPE_F64 : STN_DTYPE_I64;
    if (stni_dtype_is_floating(dtype) || is_narrow(dtype))
        return stni_compute_dtype(dtype);
    return dtype == STN_DTYPE_BOOL ? STN_DTYPE_U8 : dtype;
}

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Lanes run along whichever dim lies closest in memory, unless that is a reduced one with too few elements. */
static void choose_lanes(struct reduction *r)
{
    const struct stni_reduce_args *a = r->args;
    int kept = a->n_kept - 1, reduced = a->n_reduced - 1;
    int across = kept >= 0 && (reduced < 0 || magnitude(a->kept_in[kept]) < magnitude(a->reduced_in[reduced]) ||
                               a->reduced[reduced] < SHORT_RUN);
    r->lane_dim = across ? kept : -1;
    r->lanes = across ? a->kept[kept] : 1;
    r->lane_in = across ? a->kept_in[kept] : reduced >= 0 ? a->reduced_in[reduced] : 1;
    r->next_in = r->lane_in;
    r->next_out = across ? a->kept_out[kept] : 1;
    r->row_dim = reduced;
    r->folds = 0;
    for (int d = 0; d < a->n_reduced && r->lanes <= MAX_GROUPED / 2; d++)
        if (a->reduced_in[d] == r->lanes * r->lane_in) {
            r->row_dim = d;
            r->folds = 1;
        }
}

/* Whether outputs are those of long lines. */
static void choose_run(struct reduction *r)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t run = STNI_REDUCE_RUN / r->acc_size;
    const int line = r->kernels->along[a->in_dtype] && r->lanes == 1 && r->lane_in == 1 && r->folds &&
                     a->reduced[r->row_dim] >= SHORT_LINE * run;
    r->run = line ? run : 0;
}

/* Each group costs a combination at the end, and makes the sums of the others shorter. */
static void choose_groups(struct reduction *r)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t extent = r->folds ? a->reduced[r->row_dim] : 1, space = r->folds ? MAX_GROUPED / r->lanes : 1;
    const int64_t most = extent < space ? extent : space, few = r->run > 0 ? r->run : FEW_LANES / r->lanes;
    int64_t groups = 1;
    for (int d = 0; d < a->n_reduced; d++)
        groups *= a->reduced[d];
    groups /= LONG_LANE;
    groups = groups > few ? groups : few > 0 ? few : 1;
    groups = groups < most ? groups : most;
    r->groups = r->run > 0 ? groups / r->run * r->run : groups;
}

/* Lines of one output each take the place of lanes, now that it is known how a line is read: what comes before and
 * after it is done for several. */
static void choose_lines(struct reduction *r)
{
    const struct stni_reduce_args *a = r->args;
    const int kept = a->n_kept - 1;
    if (r->run == 0 || kept < 0)
        return;
    r->lane_dim = kept;
    r->lanes = a->kept[kept];
    r->next_in = a->kept_in[kept];
    r->next_out = a->kept_out[kept];
}

static void choose_bands(struct reduction *r)
{
    const struct stni_reduce_args *a = r->args;
    int64_t bytes = r->in_size;
    for (int d = 0; d < a->n_kept; d++)
        bytes *= a->kept[d];
    for (int d = 0; d < a->n_reduced; d++)
        bytes *= a->reduced[d];
    r->bands = r->lane_in == 1 && r->run == 0 && !is_narrow(a->in_dtype) &&
               stni_reduce_wants_bands(a->op, a->in_dtype, r->acc_dtype, bytes);
}

/* Steps through all indices of some dims but one; returns 0 after the last. */
static int next_index(int ndim, const int64_t *shape, const int64_t *strides, int skip, int64_t *index, int64_t *offset)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (d == skip)
            continue;
        *offset += strides[d];
        if (++index[d] < shape[d])
            return 1;
        *offset -= strides[d] * shape[d];
        index[d] = 0;
    }
    return 0;
}

/* What nothing gives: in i64 the ends of a narrow dtype are other than its own. */
static void clear(struct reduction *r, int64_t lanes)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t above = (int64_t)1 << (8 * r->in_size - 1) % 64;
    int64_t *acc = (int64_t *)r->at;
    r->kernels->clear[r->acc_dtype](a->op, r->at, lanes);
    if (is_narrow(a->in_dtype) && (a->op == STNI_REDUCTION_amax || a->op == STNI_REDUCTION_amin))
        for (int64_t i = 0; i < lanes; i++)
            acc[i] = a->op == STNI_REDUCTION_amax ? -above : above - 1;
}

/* Sums and products of rows are the first row, which the others join: so the sign of a zero stays. Of others nothing
 * has begun. */
static int begin_rows(struct reduction *r, const char *in, int64_t lanes)
{
    const struct stni_tile tile = {1, lanes, lanes, 1, 0, r->lane_in, 0, 0};
    const enum stni_reduction op = r->args->op;
    if (op == STNI_REDUCTION_sum || op == STNI_REDUCTION_prod) {
        r->convert->pair[r->acc_dtype][r->args->in_dtype](r->at, in, &tile);
        return 1;
    }
    clear(r, lanes);
    return 0;
}

/* Those of lines, whose accumulators are few, begin with what changes nothing, of floating sums -0, so that what is
 * read divides as the line does. */
static void begin_lines(struct reduction *r, int64_t lanes)
{
    double *acc = (double *)r->at;
    clear(r, lanes);
    for (int64_t i = 0; i < lanes && r->args->op == STNI_REDUCTION_sum && r->acc_dtype == STN_DTYPE_F64; i++)
        acc[i] = -0.0;
}

/* Rows of `lanes` elements, `stride` apart from each other, join what is accumulated. */
static void join_rows(struct reduction *r, const char *in, int64_t rows, int64_t stride, int64_t lanes)
{
    enum { SOME = 512 };
    const struct stni_reduce_args *a = r->args;
    alignas(64) int64_t wide[SOME];
    if (r->bands && lanes >= LONG_ROW) {
        stni_reduce_bands(&(struct stni_reduce_rows){r->kernels, a->op, a->in_dtype, r->in_size, r->acc_size, r->at, in,
                                                     rows, stride, lanes, r->followed});
        return;
    }
    if (!is_narrow(a->in_dtype)) {
        r->kernels->accumulate[a->in_dtype](a->op, r->at, in, rows, stride, lanes, r->lane_in);
        return;
    }
    for (int64_t row = 0; row < rows; row++)
        for (int64_t l = 0; l < lanes; l += SOME) {
            const int64_t n = lanes - l < SOME ? lanes - l : SOME;
            r->convert->pair[STN_DTYPE_I64][a->in_dtype](wide, in + (row * stride + l * r->lane_in) * r->in_size,
                                                         &(struct stni_tile){1, n, 0, 1, 0, r->lane_in, 0, 0});
            r->kernels->accumulate[STN_DTYPE_I64](a->op, r->at + l * r->acc_size, wide, 1, 0, n, 1);
        }
}

/* Rows join what is accumulated, but for the first `begun`; the last may have fewer groups. `extent` elements of the
 * row dim. */
static void read_rows(struct reduction *r, const char *in, int64_t width, int64_t groups, int64_t extent, int begun)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t stride = r->row_dim < 0 ? 0 : a->reduced_in[r->row_dim] * groups, lanes = groups * width;
    int64_t rows = extent / groups, rest = extent % groups;
    if (rows > begun)
        join_rows(r, in + begun * stride * r->in_size, rows - begun, stride, lanes);
    if (rest > 0)
        join_rows(r, in + rows * stride * r->in_size, 1, 0, rest * width);
}

/* Four streams of `stream` elements join one set of accumulators after the other. */
static void read_streams(struct reduction *r, const char *in, int64_t groups, int64_t stream)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t slice = LONG_LANE * r->run / STREAMS,
                  turns = stream < SHORT_STREAM && r->run * r->in_size >= TURN ? STREAMS : 1;
    for (int64_t i = 0; i < stream; i += slice, r->set = (r->set + r->run) % groups)
        r->kernels->along[a->in_dtype](a->op, r->at + r->set * r->acc_size, in + turns * i * r->in_size,
                                       turns > 1 ? r->run : stream, turns * r->run,
                                       stream - i < slice ? stream - i : slice);
}

/* The same of a line. */
static void read_line(struct reduction *r, const char *in, int64_t groups, int64_t extent)
{
    int64_t left = extent, stream;
    for (; left >= STREAMS * r->run; in += STREAMS * stream * r->in_size, left -= STREAMS * stream) {
        stream = (left / STREAMS < LONG_STREAM ? left / STREAMS : LONG_STREAM) / r->run * r->run;
        read_streams(r, in, groups, stream);
    }
    read_rows(r, in, 1, r->run, left, 0);
}

/* Reduces everything that belongs to `width` outputs whose first element is at `in`. */
static void reduce_lanes(struct reduction *r, const char *in, int64_t width)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t extent = r->row_dim < 0 ? 1 : a->reduced[r->row_dim], groups = r->groups;
    int64_t index[STN_MAX_NDIM] = {0}, offset = 0;
    r->at = r->acc;
    int begun = begin_rows(r, in, groups * width);
    do {
        read_rows(r, in + offset * r->in_size, width, groups, extent, begun);
        begun = 0;
    } while (next_index(a->n_reduced, a->reduced, a->reduced_in, r->row_dim, index, &offset));
    r->kernels->fold[r->acc_dtype](a->op, r->acc, groups, width);
}

/* The accumulators of `lines` lines, one line after the other, as those of as many lanes. */
static void interleave(struct reduction *r, int64_t lines)
{
#define INTERLEAVE(type)                                      \
    for (int64_t g = 0; g < r->groups; g++)                   \
        for (int64_t l = 0; l < lines; l++)                   \
            ((type *)r->acc)[g * lines + l] = ((const type *)r->side_by_side)[l * r->groups + g];
    if (r->acc_size == 8)
        INTERLEAVE(uint64_t)
    else if (r->acc_size == 4)
        INTERLEAVE(uint32_t)
    else
        INTERLEAVE(uint8_t)
#undef INTERLEAVE
}

/* The same of `lines` outputs whose elements are lines. */
static void reduce_lines(struct reduction *r, const char *in, int64_t lines)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t extent = a->reduced[r->row_dim], groups = r->groups;
    char *const first = lines > 1 ? r->side_by_side : r->acc;
    r->at = first;
    begin_lines(r, lines * groups);
    for (int64_t l = 0; l < lines; l++) {
        int64_t index[STN_MAX_NDIM] = {0}, offset = 0;
        r->at = first + l * groups * r->acc_size;
        r->set = 0;
        do
            read_line(r, in + (l * r->next_in + offset) * r->in_size, groups, extent);
        while (next_index(a->n_reduced, a->reduced, a->reduced_in, r->row_dim, index, &offset));
    }
    if (lines > 1)
        interleave(r, lines);
    r->kernels->fold[r->acc_dtype](a->op, r->acc, groups, lines);
}

/* The last step before results are rounded. */
static void finish(struct reduction *r, int64_t width)
{
    double *acc = (double *)r->acc;
    const double divisor = (double)r->args->divisor;
    int64_t n = r->acc_dtype == STN_DTYPE_C128 ? 2 * width : width;
    if (r->args->divides)
        for (int64_t i = 0; i < n; i++)
            acc[i] /= divisor;
    if (r->args->roots)
        for (int64_t i = 0; i < n; i++)
            acc[i] = sqrt(acc[i]);
}

/* Rounds to the result's dtype; a narrow one is reached by way of that in which it computes. */
static void store(struct reduction *r, char *out, int64_t width)
{
    const stn_dtype dtype = r->args->out_dtype, compute = stni_compute_dtype(dtype);
    const struct stni_tile tile = {1, width, 0, r->next_out, 0, 1, 0, 0}, dense = {1, width, 0, 1, 0, 1, 0, 0};
    alignas(64) char rounded[MAX_LANES * sizeof(int64_t)];
    if (r->convert->pair[dtype][r->acc_dtype]) {
        r->convert->pair[dtype][r->acc_dtype](out, r->acc, &tile);
    } else {
        r->convert->pair[compute][r->acc_dtype](rounded, r->acc, &dense);
        r->convert->pair[dtype][compute](out, rounded, &tile);
    }
}

/* How many outputs along lane_dim are reduced at once. */
static int64_t outputs_together(const struct reduction *r)
{
    if (r->run == 0)
        return MAX_LANES;
    return 2 * r->groups <= MAX_LINES ? MAX_LINES / r->groups : 1;
}

static void reduce_outputs(struct reduction *r, const char *in, char *out)
{
    const int64_t most = outputs_together(r);
    for (int64_t lane = 0; lane < r->lanes; lane += most) {
        int64_t width = r->lanes - lane < most ? r->lanes - lane : most;
        r->at = r->acc;
        if (r->args->empty)
            clear(r, width);
        else if (r->run > 0)
            reduce_lines(r, in + lane * r->next_in * r->in_size, width);
        else
            reduce_lanes(r, in + lane * r->next_in * r->in_size, width);
        finish(r, width);
        store(r, out + lane * r->next_out * r->out_size, width);
    }
}

static void reduce_all(struct reduction *r)
{
    const struct stni_reduce_args *a = r->args;
    int64_t in_index[STN_MAX_NDIM] = {0}, in_offset = 0, out_index[STN_MAX_NDIM] = {0}, out_offset = 0;
    do {
        reduce_outputs(r, (const char *)a->in + in_offset * r->in_size, (char *)a->out + out_offset * r->out_size);
        next_index(a->n_kept, a->kept, a->kept_out, r->lane_dim, out_index, &out_offset);
    } while (next_index(a->n_kept, a->kept, a->kept_in, r->lane_dim, in_index, &in_offset));
}

stn_status stni_reduce_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_reduce_args *args = raw;
    const enum stni_isa isa = queue->isa;
    struct reduction r;
    r.args = args;
    r.followed = queue->follows_runs;
    r.acc_dtype = accumulator_dtype(args->op, args->in_dtype);
    r.in_size = (int64_t)stn_dtype_size(args->in_dtype);
    r.acc_size = (int64_t)stn_dtype_size(r.acc_dtype);
    r.out_size = (int64_t)stn_dtype_size(args->out_dtype);
    r.kernels = STNI_ISA_PICK(stni_reduction_kernels, isa);
    r.convert = STNI_ISA_PICK(stni_convert_kernels, isa);
    choose_lanes(&r);
    choose_run(&r);
    choose_groups(&r);
    choose_lines(&r);
    choose_bands(&r);
    reduce_all(&r);
    return STN_OK;
}
