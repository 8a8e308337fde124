/* Histograms on the CPU, in f64. */
#include "ops/common/bad_value.h"
#include "ops/sort/sort_line.h"

#include <math.h>
#include <string.h>

#define TEMPLATE "ops/sort/histogram_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"

/* The next elements of the line as f64; returns how many. */
static int64_t next(const struct stni_sort_histogram_args *a, struct order_walk *walk, double *out)
{
    static void (*const widen[STN_DTYPE_COUNT])(const void *, int64_t, int64_t, double *) = {
        [STN_DTYPE_F32] = widen_f32, [STN_DTYPE_F64] = widen_f64, [STN_DTYPE_BF16] = widen_bf16,
        [STN_DTYPE_F16] = widen_f16, [STN_DTYPE_I64] = widen_i64, [STN_DTYPE_I32] = widen_i32,
        [STN_DTYPE_U8] = widen_u8,
    };
    struct order_block b;
    if (!order_walk_next(walk, &b))
        return 0;
    widen[a->dtype]((const char *)a->in + b.at * (int64_t)stn_dtype_size(a->dtype), b.step, b.n, out);
    return b.n;
}

stn_status stni_sort_range_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_histogram_args *a = args;
    struct order_walk walk = {&a->lines, 0, 0};
    double x[ORDER_BLOCK], low = INFINITY, high = -INFINITY;
    (void)queue;
    for (int64_t n; (n = next(a, &walk, x)) > 0;)
        for (int64_t i = 0; i < n; i++) { /* NaN stays */
            low = x[i] < low || x[i] != x[i] ? x[i] : low;
            high = x[i] > high || x[i] != x[i] ? x[i] : high;
        }
    a->range[0] = -low;
    a->range[1] = high;
    return STN_OK;
}

static void report_range(stn_queue *queue, int op, double low, double high)
{
    const double ends[] = {low, high};
    int64_t numbers[2];
    memcpy(numbers, ends, sizeof numbers);
    stn_queue_value_error(queue, op, STNI_BAD_RANGE, 2, numbers);
}

stn_status stni_sort_histogram_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_histogram_args *a = args;
    struct order_walk walk = {&a->lines, 0, 0};
    double x[ORDER_BLOCK], low, high;
    stni_sort_histogram_ends(a, &low, &high);
    memset(a->counts, 0, (size_t)a->bins * sizeof *a->counts);
    if (!isfinite(low) || !isfinite(high)) {
        report_range(queue, a->op, low, high);
        return STN_OK;
    }
    for (int64_t n; (n = next(a, &walk, x)) > 0;)
        for (int64_t i = 0; i < n; i++) {
            const int64_t bin = stni_sort_histogram_bin(x[i], low, high, a->bins);
            if (bin >= 0)
                a->counts[bin]++;
        }
    return STN_OK;
}

stn_status stni_sort_histogram_store_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_histogram_args *a = args;
    (void)queue;
    for (int64_t i = 0; i < a->bins; i++) {
        int64_t n = a->counts[i];
        if (a->dtype == STN_DTYPE_F32)
            ((float *)a->out)[i] = (float)n;
        else if (a->dtype == STN_DTYPE_F64)
            ((double *)a->out)[i] = (double)n;
        else if (a->dtype == STN_DTYPE_BF16)
            ((uint16_t *)a->out)[i] = stni_f32_to_bf16((float)n);
        else if (a->dtype == STN_DTYPE_F16)
            ((uint16_t *)a->out)[i] = stni_f32_to_f16((float)n);
        else
            stni_sort_store(a->out, i, stn_dtype_size(a->dtype), (uint64_t)n);
    }
    return STN_OK;
}
