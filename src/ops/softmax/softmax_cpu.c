/* Softmax kernels of the CPU, compiled once per instruction set (core/base/isa.h). */
#include "core/device/device.h"
#include "ops/softmax/softmax_strip.h"

#define TEMPLATE "ops/softmax/softmax_lanes_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/softmax/softmax_short_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/softmax/softmax_transposed_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/softmax/softmax_columns_tmpl.h"
#include "core/box/each_float.h"

/* Whether lanes run along a line: where that reads memory in order or fills more lanes. */
static int goes_along(const struct stni_lines *lines)
{
    int64_t beside = lines->shape[lines->ndim - 1];
    if (lines->step[SOFTMAX_X] == 1 && lines->n >= LANES)
        return 1;
    return beside < LANES / 2 && beside < lines->n;
}

/* Whether the result is contiguous and too large to stay in the caches: then non-temporal stores write it. */
static int is_streamed(const struct stni_softmax_args *a)
{
    const struct stni_lines *lines = &a->lines;
    const int last = lines->ndim - 1;
    int in_order = a->out != a->x;
    for (int t = SOFTMAX_X; t < SOFTMAX_TENSORS; t += SOFTMAX_OUT - SOFTMAX_X)
        in_order = in_order && lines->step[t] == 1 && lines->strides[t][last] == lines->n;
    return in_order && stni_lines_count(lines) * lines->n * (int64_t)stn_dtype_size(a->dtype) >= STNI_STREAMING_RESULT;
}

/* Whether lines are so short that a horizontal sum of each would cost more than everything else: then LANES of them
 * are transposed. */
static int can_transpose(const struct stni_lines *lines)
{
    return lines->step[SOFTMAX_X] == 1 && lines->step[SOFTMAX_OUT] == 1 && lines->n <= TRANSPOSED &&
           lines->shape[lines->ndim - 1] >= LANES;
}

/* Whether the elements of a line are neighbours in all tensors of a gradient, and more than the lanes of a vector. */
static int are_neighbours(const struct stni_lines *lines)
{
    const int64_t *step = lines->step;
    return goes_along(lines) && step[SOFTMAX_X] == 1 && step[SOFTMAX_Y] == 1 && step[SOFTMAX_OUT] == 1;
}

/* Whether more lines than LANES lie side by side, each an element from the next. */
static int has_columns(const struct stni_lines *lines)
{
    const int last = lines->ndim - 1;
    return !goes_along(lines) && lines->shape[last] > LANES && lines->strides[SOFTMAX_X][last] == 1 &&
           lines->strides[SOFTMAX_OUT][last] == 1;
}

/* How many lines are worked on in the buffer at once; 0: one line is too long for it. Short lines are worked on
 * together, so that the sum of one does not wait for that of another. */
static int64_t lines_together(const struct stni_lines *lines)
{
    const int64_t padded = (lines->n + LANES - 1) / LANES * LANES;
    if (padded > FEW)
        return padded <= SHORT;
    return FEW / padded < TOGETHER ? FEW / padded : TOGETHER;
}

static void strip_init(struct strip *s, const stn_queue *queue, const struct stni_lines *lines, int streamed)
{
    *s = (struct strip){.along = goes_along(lines), .streamed = streamed};
    s->ahead = streamed ? (size_t)stni_queue_run_ahead(queue, STNI_BLOCK_AHEAD) : 0;
    s->blocks = s->along ? (lines->n + LANES - 1) / LANES : lines->n;
    s->full = LANES;
    s->last = lines->n - (s->blocks - 1) * LANES;
    for (int t = 0; t < SOFTMAX_TENSORS; t++) {
        s->step[t] = s->along ? LANES * lines->step[t] : lines->step[t];
        s->c[t] = s->along ? lines->step[t] : lines->strides[t][lines->ndim - 1];
    }
}

/* All strips of the fastest of the other dims, `base` being its first line's elements. */
static void run_row(const struct stni_softmax_args *args, struct strip *s, strip_fn run, int64_t together,
                    const int64_t *base)
{
    const struct stni_lines *lines = &args->lines;
    const int64_t count = lines->shape[lines->ndim - 1];
    for (int64_t i = 0; i < count; i += s->lines) {
        s->lines = count - i < together ? count - i : together;
        for (int t = 0; t < SOFTMAX_TENSORS; t++)
            s->at[t] = base[t] + i * lines->strides[t][lines->ndim - 1];
        if (!s->along)
            s->full = s->last = s->lines;
        run(args, s);
        s->line += s->lines;
    }
}

/* `together`: lines that are worked on at once; of those side by side at least LANES are. */
static void run_lines(const stn_queue *queue, const struct stni_softmax_args *args, strip_fn run, int64_t together,
                      int streamed)
{
    const struct stni_lines *lines = &args->lines;
    int64_t index[STN_MAX_NDIM] = {0}, base[SOFTMAX_TENSORS] = {0};
    struct strip strip;
    if (stni_lines_count(lines) == 0)
        return;
    strip_init(&strip, queue, lines, streamed);
    for (;;) {
        run_row(args, &strip, run, strip.along || together > LANES ? together : LANES, base);
        int d = lines->ndim - 2;
        for (; d >= 0; d--) {
            int64_t moved = ++index[d] < lines->shape[d] ? 1 : 1 - lines->shape[d];
            for (int t = 0; t < SOFTMAX_TENSORS; t++)
                base[t] += moved * lines->strides[t][d];
            if (moved == 1)
                break;
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

stn_status STNI_ISA_NAME(stni_softmax_forward)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {forward_f32, forward_f64, forward_bf16, forward_f16};
    static const strip_fn of_short[] = {forward_short_f32, forward_short_f64, forward_short_bf16, forward_short_f16};
    static const strip_fn of_transposed[] = {forward_transposed_f32, forward_transposed_f64, forward_transposed_bf16,
                                             forward_transposed_f16};
    static const strip_fn of_columns[] = {forward_columns_f32, forward_columns_f64, forward_columns_bf16,
                                          forward_columns_f16};
    const int transposed = can_transpose(&args->lines);
    const int64_t together = transposed ? LANES : goes_along(&args->lines) ? lines_together(&args->lines) : 0;
    const int streamed = together && is_streamed(args);
    if (together)
        run_lines(queue, args, (transposed ? of_transposed : of_short)[args->dtype], together, streamed);
    else if (has_columns(&args->lines))
        run_lines(queue, args, of_columns[args->dtype], COLUMNS, 0);
    else
        run_lines(queue, args, of[args->dtype], 1, 0);
    if (streamed)
        stni_stream_fence();
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_softmax_max)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {max_f32, max_f64, max_bf16, max_f16};
    run_lines(queue, args, of[args->dtype], 1, 0);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_softmax_sum)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {sum_f32, sum_f64, sum_bf16, sum_f16};
    run_lines(queue, args, of[args->dtype], 1, 0);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_softmax_scale)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {scale_f32, scale_f64, scale_bf16, scale_f16};
    run_lines(queue, args, of[args->dtype], 1, 0);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_softmax_backward)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {backward_f32, backward_f64, backward_bf16, backward_f16};
    static const strip_fn of_short[] = {backward_short_f32, backward_short_f64, backward_short_bf16,
                                        backward_short_f16};
    const int64_t together = are_neighbours(&args->lines) ? lines_together(&args->lines) : 0;
    const int streamed = together && is_streamed(args);
    if (together)
        run_lines(queue, args, of_short[args->dtype], together, streamed);
    else
        run_lines(queue, args, of[args->dtype], 1, 0);
    if (streamed)
        stni_stream_fence();
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_softmax_dot)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {dot_f32, dot_f64, dot_bf16, dot_f16};
    run_lines(queue, args, of[args->dtype], 1, 0);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_softmax_apply)(stn_queue *queue, const void *raw)
{
    const struct stni_softmax_args *args = raw;
    static const strip_fn of[] = {apply_f32, apply_f64, apply_bf16, apply_f16};
    run_lines(queue, args, of[args->dtype], 1, 0);
    return STN_OK;
}
