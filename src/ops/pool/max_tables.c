/* What the kernel of max pools needs and looks up. */
#include "core/box/nontemporal_line.h"
#include "ops/pool/max_kernel.h"

static int64_t rows_of(const struct stni_resample_args *a)
{
    return stni_range_length(a->source[0]) * stni_range_length(a->source[1]);
}

/* Elements of lines that lie in the L1 cache together. */
enum { TOGETHER = 2048 };

static int64_t lines_of(const struct stni_resample_args *a)
{
    const int64_t row = stni_range_length(a->source[2]) * a->width, fit = row > 0 ? TOGETHER / row : 1,
                  wanted = stni_range_length(a->target[1]);
    const int64_t most = wanted < STNI_MAX_LINES ? wanted : STNI_MAX_LINES;
    return fit < 1 || most < 1 ? 1 : fit < most ? fit : most;
}

/* Blocks of two vectors that are parted into one of even and one of odd columns end at whole ones. */
static int64_t length_of(const struct stni_resample_args *a)
{
    const int64_t row = stni_range_length(a->source[2]) * a->width, whole = 2 * STNI_MAX_LANES;
    return (row + whole - 1) / whole * whole;
}

/* Of an element of the types that are compared, and of a row's number. */
static size_t element_size(stn_dtype dtype)
{
    return stn_dtype_size(dtype) > sizeof(int32_t) ? stn_dtype_size(dtype) : sizeof(int32_t);
}

size_t stni_max_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct stni_resample_args *a = &((const struct stni_max_args *)args)->at;
    const size_t elements = (size_t)(lines_of(a) * length_of(a)), targets = (size_t)stni_range_length(a->target[2]);
    return targets * sizeof(struct stni_max_run) + (size_t)rows_of(a) * sizeof(int64_t) +
           2 * elements * element_size(a->dtype) + STNI_LINE;
}

static int64_t fill_runs(const struct stni_resample_args *a, struct stni_max_run *runs)
{
    const struct stni_resample_dim *dim = &a->dim[2];
    int64_t n = 0, columns = a->source[2].begin;
    for (int64_t t = a->target[2].begin; t < a->target[2].end; t++) {
        struct stni_resample_taps taps = stni_resample_taps(dim, t);
        struct stni_max_run *last = n > 0 ? &runs[n - 1] : NULL;
        int64_t apart = last ? taps.first - columns - (last->first + (last->n - 1) * last->apart) : 0;
        if (last && last->taps == taps.n && (last->n == 1 || apart == last->apart)) {
            last->apart = apart;
            last->n++;
            continue;
        }
        runs[n++] = (struct stni_max_run){t - a->target[2].begin, 1, taps.first - columns, 0, taps.n};
    }
    return n;
}

/* A run of one target has no distance. */
static int are_two_apart(const struct stni_max_tables *tables)
{
    int found = 0;
    for (int64_t r = 0; r < tables->n_runs; r++) {
        if (tables->run[r].n > 1 && tables->run[r].apart != 2)
            return 0;
        found = found || tables->run[r].n > 1;
    }
    return found;
}

static char *align(void *memory)
{
    return (char *)(((uintptr_t)memory + STNI_LINE - 1) / STNI_LINE * STNI_LINE);
}

void stni_max_fill_tables(const struct stni_max_args *args, struct stni_max_tables *out)
{
    const struct stni_resample_args *a = &args->at;
    int64_t ny = stni_range_length(a->source[1]);
    out->run = a->work;
    out->n_runs = fill_runs(a, out->run);
    out->row = (int64_t *)(void *)(out->run + stni_range_length(a->target[2]));
    for (int64_t r = 0; r < rows_of(a); r++)
        out->row[r] = ((a->source[0].begin + r / ny) * a->dim[1].n_in + a->source[1].begin + r % ny) * a->dim[2].n_in;
    out->index = args->index;
    out->lines = lines_of(a);
    out->length = length_of(a);
    out->apart_by_two = args->index == NULL && a->width == 1 && are_two_apart(out);
    out->maxima = align(out->row + rows_of(a));
    out->parted = (char *)out->maxima + out->lines * out->length * (int64_t)element_size(a->dtype);
    out->ahead = stni_resample_ahead(a);
    out->rows = args->index ? out->parted : NULL;
}
