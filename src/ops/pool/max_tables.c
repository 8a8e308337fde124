/* What the kernel of max pools needs and looks up. */
#include "ops/pool/max_kernel.h"

static int64_t rows_of(const struct stni_resample_args *a)
{
    return stni_range_length(a->source[0]) * stni_range_length(a->source[1]);
}

size_t stni_max_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct stni_resample_args *a = &((const struct stni_max_args *)args)->at;
    size_t line = (size_t)(stni_range_length(a->source[2]) * a->width), targets = (size_t)stni_range_length(a->target[2]);
    return targets * sizeof(struct stni_max_run) + (size_t)rows_of(a) * sizeof(int64_t) + line * (sizeof(double) + sizeof(int32_t)) + 64;
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

void stni_max_fill_tables(const struct stni_max_args *args, struct stni_max_tables *out)
{
    const struct stni_resample_args *a = &args->at;
    int64_t ny = stni_range_length(a->source[1]);
    out->run = a->work;
    out->n_runs = fill_runs(a, out->run);
    out->row = (int64_t *)(void *)(out->run + stni_range_length(a->target[2]));
    for (int64_t r = 0; r < rows_of(a); r++)
        out->row[r] = ((a->source[0].begin + r / ny) * a->dim[1].n_in + a->source[1].begin + r % ny) * a->dim[2].n_in;
    out->memory = out->row + rows_of(a);
    out->index = args->index;
}
