/* Resampling on the CPU, compiled once per instruction set. Sums are taken in the same order whatever the cuts:
 * those of a dim's terms in ascending order, of many terms in runs of a fixed length, planes before rows before
 * elements. */
#include "ops/resample/resample_table.h"

/* Whether target t has the terms of t - period, `apart` further. */
static int continues(const struct table *x, int64_t t, int64_t period, int64_t apart)
{
    int64_t a = x->begin[t - period], b = x->begin[t], n = x->begin[t - period + 1] - a;
    if (x->begin[t + 1] - b != n || x->first[t] - x->first[t - period] != apart)
        return 0;
    for (int64_t k = 0; k < n; k++)
        if (x->weight[a + k] != x->weight[b + k])
            return 0;
    return 1;
}

/* The longest run whose weights repeat every `period` targets. */
static void find_periodic(struct table *x, int64_t period)
{
    for (int64_t t = 0, end; t + period < x->n; t = end - period + 1) {
        const int64_t apart = x->first[t + period] - x->first[t];
        for (end = t + period; end < x->n && continues(x, end, period, apart); end++)
            ;
        const int64_t length = (end - t) / period * period;
        if (length > period && length > stni_range_length(x->even))
            x->even = (struct stni_range){t, t + length}, x->period = period, x->apart = apart;
    }
}

static void find_even(struct table *x)
{
    x->even = (struct stni_range){0, 0};
    x->period = x->apart = 0;
    for (int64_t period = 1; period <= PERIODS; period++)
        find_periodic(x, period);
}

/* The totals of all outputs, which are targets or, of the adjoint, sources. */
static void fill_totals(const struct stni_resample_args *a, int d, double *totals)
{
    const struct stni_range outputs = a->transposed ? a->source[d] : a->target[d];
    for (int64_t o = outputs.begin; o < outputs.end; o++)
        totals[o - outputs.begin] = stni_resample_total(&a->dim[d], o);
}

/* Writes the table of dim d at `memory`; returns what is behind it. */
static double *fill_table(const struct stni_resample_args *a, int d, double *memory, struct table *out)
{
    const struct stni_resample_dim *dim = &a->dim[d];
    out->n = stni_range_length(a->target[d]);
    out->begin = (int64_t *)(void *)memory;
    out->first = out->begin + out->n + 1;
    out->weight = memory + 2 * (out->n + 1);
    double *totals = out->weight + stni_resample_terms(a, d);
    int64_t at = 0;
    fill_totals(a, d, totals);
    for (int64_t t = 0; t < out->n; t++) {
        int64_t target = a->target[d].begin + t;
        struct stni_range sources = stni_resample_sources(dim, a->transposed, target);
        out->begin[t] = at;
        out->first[t] = stni_range_length(sources) > 0 ? sources.begin - a->source[d].begin : 0;
        for (int64_t s = sources.begin; s < sources.end; s++)
            out->weight[at++] =
                a->transposed ? stni_resample_part(dim, s, target) / totals[s - a->source[d].begin]
                              : stni_resample_part(dim, target, s) / totals[t];
    }
    out->begin[out->n] = at;
    find_even(out);
    return totals; /* which are needed no more */
}

#define TEMPLATE "ops/resample/resample_sums_tmpl.h"
#include "core/box/each_compute.h"
#undef TEMPLATE

#define OF_ACC(f) _Generic((ACC)0, float: f##_f32, double: f##_f64)
#define TEMPLATE "ops/resample/resample_rows_tmpl.h"
#include "core/box/each_float.h"

static void run(const struct stni_resample_args *a)
{
    static void (*const images[])(const struct stni_resample_args *, const struct table *, void *, int64_t, int64_t) = {
        image_f32, image_f64, image_bf16, image_f16};
    struct table table[STNI_RESAMPLE_DIMS];
    double *memory = a->work;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        memory = fill_table(a, d, memory, &table[d]);
    for (int64_t i = 0; i < a->n_outer[0]; i++)
        for (int64_t j = 0; j < a->n_outer[1]; j++)
            images[a->dtype](a, table, memory, i * a->outer_source[0] + j * a->outer_source[1],
                             i * a->outer_target[0] + j * a->outer_target[1]);
}

stn_status STNI_ISA_NAME(stni_resample)(stn_queue *queue, const void *args)
{
    (void)queue;
    run(args);
    return STN_OK;
}
