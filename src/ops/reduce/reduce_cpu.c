/* The CPU's kernel of reductions. Everything is one scheme: a row of lanes, evenly spaced in the input, joins as many accumulators.
 *
 * A row has `groups` x `width` lanes. The `width` lanes of a group belong to as many outputs; the groups are elements along one reduced
 * dim, and are folded in halves when all rows have been read, which also keeps long sums exact. Reducing the innermost dim is the
 * case of width 1; reducing an outer dim whose rows are long is the case of one group. So every shape reads its input in long runs. */
#include "ops/reduce/reduce_kernel.h"

#include "ops/util/convert.h"

#include <stdalign.h>

enum {
    MAX_LANES = 1024,
    SHORT_RUN = 32 /* elements: a reduced run below that is read across, one element of many outputs at a time */
};

struct reduction {
    const struct stni_reduce_args *args;
    stn_dtype acc_dtype;
    int64_t in_size, out_size; /* bytes of an element */
    const struct stni_reduce_kernels *kernels;
    const struct stni_convert_kernels *convert;
    int lane_dim; /* the kept dim along the lanes, -1: none */
    int row_dim;  /* the reduced dim from group to group and row to row, -1: none */
    int folds;    /* its elements follow the lanes, so that a row may take several */
    int64_t lane_in, lane_out;  /* strides between lanes */
    int64_t lanes;              /* outputs along the lanes in all */
    alignas(64) char acc[MAX_LANES * sizeof(double _Complex)];
};

static stn_dtype accumulator_dtype(stn_dtype dtype)
{
    if (stni_dtype_is_complex(dtype))
        return STN_DTYPE_C128;
    return stni_dtype_is_floating(dtype) ? STN_DTYPE_F64 : STN_DTYPE_I64;
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
    r->lane_out = across ? a->kept_out[kept] : 1;
    r->row_dim = reduced;
    r->folds = 0;
    for (int d = 0; d < a->n_reduced && r->lanes <= MAX_LANES / 2; d++)
        if (a->reduced_in[d] == r->lanes * r->lane_in) {
            r->row_dim = d;
            r->folds = 1;
        }
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

/* The first row is what is accumulated, the others join it; the last may have fewer groups. `extent` elements of the row dim. */
static void read_rows(struct reduction *r, const char *in, int64_t width, int64_t groups, int64_t extent, int first)
{
    const struct stni_reduce_args *a = r->args;
    const int64_t stride = r->row_dim < 0 ? 0 : a->reduced_in[r->row_dim] * groups, lanes = groups * width;
    int64_t rows = extent / groups, rest = extent % groups;
    if (first) {
        const struct stni_tile tile = {1, lanes, lanes, 1, 0, r->lane_in};
        r->convert->pair[r->acc_dtype][a->in_dtype](r->acc, in, &tile);
        in += stride * r->in_size;
        rows--;
    }
    r->kernels->accumulate[a->in_dtype](a->op, r->acc, in, rows, stride, lanes, r->lane_in);
    if (rest > 0)
        r->kernels->accumulate[a->in_dtype](a->op, r->acc, in + rows * stride * r->in_size, 1, 0, rest * width, r->lane_in);
}

/* Reduces everything that belongs to `width` outputs whose first element is at `in`. */
static void reduce_lanes(struct reduction *r, const char *in, int64_t width)
{
    const struct stni_reduce_args *a = r->args;
    int64_t extent = r->row_dim < 0 ? 1 : a->reduced[r->row_dim];
    int64_t groups = !r->folds ? 1 : extent < MAX_LANES / width ? extent : MAX_LANES / width;
    int64_t index[STN_MAX_NDIM] = {0}, offset = 0;
    int first = 1;
    do {
        read_rows(r, in + offset * r->in_size, width, groups, extent, first);
        first = 0;
    } while (next_index(a->n_reduced, a->reduced, a->reduced_in, r->row_dim, index, &offset));
    r->kernels->fold[r->acc_dtype](a->op, r->acc, groups, width);
}

/* The identity of i64 as that of a narrower integer. */
static void narrow(struct reduction *r, int64_t width)
{
    static const struct { stn_dtype dtype; int64_t low, high; } ranges[] = {
        {STN_DTYPE_I32, INT32_MIN, INT32_MAX}, {STN_DTYPE_U8, 0, UINT8_MAX}, {STN_DTYPE_BOOL, 0, 1}};
    int64_t *acc = (int64_t *)r->acc;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; ranges[k].dtype == r->args->out_dtype && i < width; i++)
            acc[i] = acc[i] < ranges[k].low ? ranges[k].low : acc[i] > ranges[k].high ? ranges[k].high : acc[i];
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
    if (r->args->empty && r->acc_dtype == STN_DTYPE_I64)
        narrow(r, width);
}

/* Rounds to the result's dtype; a 16-bit float is reached by way of f32. */
static void store(struct reduction *r, char *out, int64_t width)
{
    const stn_dtype dtype = r->args->out_dtype;
    const struct stni_tile tile = {1, width, 0, r->lane_out, 0, 1}, dense = {1, width, 0, 1, 0, 1};
    alignas(64) float rounded[MAX_LANES];
    if (r->convert->pair[dtype][r->acc_dtype]) {
        r->convert->pair[dtype][r->acc_dtype](out, r->acc, &tile);
    } else {
        r->convert->pair[STN_DTYPE_F32][r->acc_dtype](rounded, r->acc, &dense);
        r->convert->pair[dtype][STN_DTYPE_F32](out, rounded, &tile);
    }
}

static void reduce_outputs(struct reduction *r, const char *in, char *out)
{
    for (int64_t lane = 0; lane < r->lanes; lane += MAX_LANES) {
        int64_t width = r->lanes - lane < MAX_LANES ? r->lanes - lane : MAX_LANES;
        if (r->args->empty)
            r->kernels->clear[r->acc_dtype](r->args->op, r->acc, width);
        else
            reduce_lanes(r, in + lane * r->lane_in * r->in_size, width);
        finish(r, width);
        store(r, out + lane * r->lane_out * r->out_size, width);
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
    (void)queue;
    const struct stni_reduce_args *args = raw;
    enum stni_isa isa = stni_isa_best();
    struct reduction r;
    r.args = args;
    r.acc_dtype = accumulator_dtype(args->in_dtype);
    r.in_size = (int64_t)stn_dtype_size(args->in_dtype);
    r.out_size = (int64_t)stn_dtype_size(args->out_dtype);
    r.kernels = STNI_ISA_PICK(stni_reduce_kernels, isa);
    r.convert = STNI_ISA_PICK(stni_convert_kernels, isa);
    choose_lanes(&r);
    reduce_all(&r);
    return STN_OK;
}
