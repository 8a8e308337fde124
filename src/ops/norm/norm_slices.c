/* Passes over the chunk slice by slice, so that the L2 cache still holds a slice for the pass that follows: statistics
 * and result where no other rank has elements of the same groups, and the sums of a backward. */
#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "core/box/nontemporal.h"
#include "core/device/device.h"
#include "ops/norm/norm_kernel.h"

enum {
    WHOLE_ROW = 32 << 10,    /* bytes of a row that stays in the L1 cache, or nearly */
    SLICE = 64 << 10,        /* bytes of x */
    STREAM_ROW = 1024        /* bytes of a row that is worth non-temporal stores by itself */
};

static int64_t size_of(const struct stni_norm_args *a)
{
    return (int64_t)stn_dtype_size(a->dtype);
}

/* Elements of one index of the first dim. */
static int64_t elements(const struct stni_norm_args *a)
{
    int64_t n = 1;
    for (int d = 1; d < a->ndim; d++)
        n *= a->shape[d];
    return n;
}

int stni_norm_is_streamed(const struct stni_norm_args *a, int out)
{
    const int64_t *to = a->strides[out], cols = a->shape[a->ndim - 1];
    const int in_rows = a->ndim == 1 || to[a->ndim - 2] == cols || cols * size_of(a) >= STREAM_ROW;
    return a->shape[0] * elements(a) * size_of(a) >= STNI_STREAMING_RESULT && to[a->ndim - 1] == 1 && in_rows;
}

/* The least number of indices of the first dim in a slice, so that a slice has whole groups; all of them where the
 * groups of consecutive slices would not be consecutive. */
static int64_t unit(const struct stni_norm_args *a)
{
    const int64_t fine = a->strides[NORM_STAT][0];
    if (fine * a->shape[0] != a->rows * a->channels || a->offset != 0 || a->groups * a->per_group != a->channels)
        return a->shape[0];
    return fine % a->per_group == 0 ? 1 : a->per_group % fine == 0 ? a->per_group / fine : a->shape[0];
}

/* Whether each row is a group by itself and all of it dense, as layer and RMS norms mostly have them. */
static int has_whole_rows(const struct stni_norm_args *a)
{
    const int col = a->ndim - 1;
    if (a->ndim > 2 || a->per_group != 1 || a->offset != 0 || a->groups != a->channels ||
        a->shape[col] * size_of(a) > WHOLE_ROW)
        return 0;
    int whole = a->strides[NORM_X][col] == 1 && a->strides[NORM_Y][col] == 1 && a->strides[NORM_STAT][col] == 0;
    for (int k = NORM_WEIGHT; k <= NORM_PARAM; k++)
        if (k == NORM_WEIGHT ? a->weight != NULL : a->bias != NULL)
            whole = whole && a->strides[k][col] == 1 && (col == 0 || a->strides[k][0] == 0);
    return whole && (col == 0 || a->strides[NORM_STAT][0] == 1);
}

static const void *moved(const void *data, int64_t bytes)
{
    return data ? (const char *)data + bytes : NULL;
}

/* `n` indices of the first dim of what all passes read. */
static struct stni_norm_args part_of(const struct stni_norm_args *a, int64_t at, int64_t n)
{
    struct stni_norm_args part = *a;
    part.shape[0] = n;
    part.x = moved(a->x, at * a->strides[NORM_X][0] * size_of(a));
    part.y = (char *)a->y + at * a->strides[NORM_Y][0] * size_of(a);
    return part;
}

/* A part whose groups are whole, and those of one row. */
static struct stni_norm_args slice(const struct stni_norm_args *a, int64_t at, int64_t n)
{
    const int64_t fine = a->strides[NORM_STAT][0], size = size_of(a),
                  stat = at * fine / a->per_group * (a->dtype == STN_DTYPE_F64 ? 8 : 4);
    struct stni_norm_args s = part_of(a, at, n);
    s.rows = 1;
    s.channels = n * fine;
    s.groups = s.channels / a->per_group;
    s.weight = moved(a->weight, at * a->strides[NORM_WEIGHT][0] * size);
    s.bias = moved(a->bias, at * a->strides[NORM_PARAM][0] * size);
    s.mean = (char *)a->mean + stat;
    s.rstd = (char *)a->rstd + stat;
    s.var = a->var ? (char *)a->var + stat : NULL;
    return s;
}

static void normalise(stn_queue *queue, struct stni_norm_args *a, int streamed, int64_t ahead)
{
    stni_norm_moments_cpu(queue, a);
    a->parts = a->coarse;
    a->n_parts = 1;
    stni_norm_normalise_parts(queue, a, streamed, ahead);
}

stn_status stni_norm_normalise_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_norm_args *a = raw;
    struct stni_norm_args all = *a;
    const int streamed = !a->empty && stni_norm_is_streamed(a, NORM_Y);
    const int64_t least = a->empty || a->parts ? 1 : unit(a), bytes = a->empty ? 1 : elements(a) * size_of(a);
    const int64_t step = bytes * least < SLICE ? SLICE / (bytes * least) * least : least;
    if (a->parts)
        stni_norm_normalise_parts(queue, a, streamed, stni_queue_run_ahead(queue, STNI_NORM_AHEAD));
    else if (!a->empty && stni_norm_has_whole(queue, a->dtype) && has_whole_rows(a))
        stni_norm_normalise_whole(queue, a, streamed);
    else if (a->empty || step >= a->shape[0])
        normalise(queue, &all, streamed, stni_queue_run_ahead(queue, STNI_NORM_AHEAD));
    else
        for (int64_t at = 0; at < a->shape[0]; at += step) {
            struct stni_norm_args s = slice(a, at, a->shape[0] - at < step ? a->shape[0] - at : step);
            normalise(queue, &s, streamed, step * a->strides[NORM_X][0] * size_of(a)); /* the next slice */
        }
    return STN_OK;
}

/* A pass over such a part. */
static struct stni_norm_pass pass_over(const struct stni_norm_pass *p, const struct stni_norm_args *part, int64_t at)
{
    const struct stni_norm_args *a = p->args;
    const int64_t stat = at * a->strides[NORM_STAT][0] * (a->dtype == STN_DTYPE_F64 ? 8 : 4);
    struct stni_norm_pass pass = *p;
    pass.args = part;
    pass.weight = moved(p->weight, at * a->strides[NORM_WEIGHT][0] * p->weight_step * size_of(a));
    for (int k = 0; k < 2; k++) {
        pass.stat[k] = moved(p->stat[k], stat);
        pass.sum[k] += at * a->strides[p->target][0];
    }
    return pass;
}

void stni_norm_sum_slices(const stn_queue *queue, const struct stni_norm_pass *p)
{
    const struct stni_norm_args *a = p[0].args;
    const stni_norm_pass_fn sums = STNI_ISA_PICK(stni_norm_cpu, queue->isa)->sums[a->dtype];
    const int64_t bytes = elements(a) * size_of(a), step = bytes < SLICE ? SLICE / bytes : 1;
    for (int64_t at = 0; at < a->shape[0]; at += step) {
        const struct stni_norm_args part = part_of(a, at, a->shape[0] - at < step ? a->shape[0] - at : step);
        for (int i = 0; i < 2; i++) {
            const struct stni_norm_pass pass = pass_over(&p[i], &part, at);
            sums(&pass);
        }
    }
}
