#include "ops/exchange/window.h"

struct stni_range stni_window_reads(const struct stni_window *w, struct stni_range outputs)
{
    if (stni_range_length(outputs) == 0)
        return (struct stni_range){0, 0};
    return (struct stni_range){outputs.begin * w->stride - w->pad,
                               (outputs.end - 1) * w->stride - w->pad + stni_window_extent(w)};
}

/* Output o spans o * stride - pad … o * stride - pad + extent - 1. */
struct stni_range stni_window_readers(const struct stni_window *w, struct stni_range positions)
{
    if (stni_range_length(positions) == 0)
        return (struct stni_range){0, 0};
    return (struct stni_range){stni_ceil_div(positions.begin + w->pad - (stni_window_extent(w) - 1), w->stride),
                               stni_floor_div(positions.end - 1 + w->pad, w->stride) + 1};
}

/* Elements 0 1 … n-1 n-2 … 1 come again and again. The way down takes both ends, so that a pad below n is one run. */
static struct stni_run reflected(int64_t n, int64_t at)
{
    int64_t period = 2 * (n - 1), m = n > 1 ? at - stni_floor_div(at, period) * period : 0;
    if (n == 1)
        return (struct stni_run){at, INT64_MAX, 0, 0};
    return m < n - 1 ? (struct stni_run){at, n - 1 - m, m, 1} : (struct stni_run){at, period - m + 1, period - m, -1};
}

struct stni_run stni_boundary_run(enum stni_boundary boundary, int64_t n, int64_t at, int64_t end)
{
    struct stni_run run = {at, at < 0 ? -at : INT64_MAX, -1, 0};
    if (at >= 0 && at < n)
        run = (struct stni_run){at, n - at, at, 1};
    else if (n > 0 && boundary == STNI_BOUNDARY_REPLICATE)
        run.first = at < 0 ? 0 : n - 1;
    else if (n > 0 && boundary == STNI_BOUNDARY_REFLECT)
        run = reflected(n, at);
    else if (n > 0 && boundary == STNI_BOUNDARY_CIRCULAR) {
        int64_t m = at - stni_floor_div(at, n) * n;
        run = (struct stni_run){at, n - m, m, 1};
    }
    if (at < 0 && end > 0)
        end = 0; /* what stands at its own place begins a run of its own */
    if (run.length > end - at)
        run.length = end - at;
    return run;
}

struct stni_range stni_run_elements(struct stni_run run)
{
    if (run.step > 0)
        return (struct stni_range){run.first, run.first + run.length};
    if (run.step < 0)
        return (struct stni_range){run.first - run.length + 1, run.first + 1};
    return (struct stni_range){run.first, run.first + (run.length > 0)};
}

struct stni_run stni_run_clip(struct stni_run run, struct stni_range elements)
{
    struct stni_range kept = stni_range_intersect(stni_run_elements(run), elements);
    if (run.first < 0 || stni_range_length(kept) == 0)
        return (struct stni_run){run.at, 0, run.first, run.step};
    if (run.step == 0)
        return run;
    int64_t first = run.step > 0 ? kept.begin : kept.end - 1;
    return (struct stni_run){run.at + (first - run.first) * run.step, stni_range_length(kept), first, run.step};
}
