#include "ops/conv/conv_plan.h"

#include <string.h>

/* Outputs whose reads lie in `x`, a chunk of the input, or in zeros beyond the input's ends. */
static struct stni_range inside_forward(const struct stni_window *w, struct stni_range x, struct stni_range y)
{
    int zero = w->boundary == STNI_BOUNDARY_ZERO;
    struct stni_range inner = {stni_ceil_div(x.begin + w->pad, w->stride),
                               stni_floor_div(x.end + w->pad - stni_window_extent(w), w->stride) + 1};
    if (zero && x.begin == 0)
        inner.begin = y.begin;
    if (zero && x.end == w->n_in)
        inner.end = y.end;
    return stni_range_intersect(inner, y);
}

/* Inputs that are read by outputs in `y`, a chunk of them, alone. */
static struct stni_range inside_backward(const struct stni_window *w, struct stni_range x, struct stni_range y)
{
    int64_t extent = stni_window_extent(w);
    struct stni_range inner = x;
    if (y.begin > 0)
        inner.begin = (y.begin - 1) * w->stride - w->pad + extent;
    if (y.end < w->n_out)
        inner.end = y.end * w->stride - w->pad;
    inner = stni_range_intersect(inner, x);
    /* Elements before those that the first output reads need negative pads. */
    int64_t first = stni_window_readers(w, inner).begin;
    first = first > y.begin ? first : y.begin;
    if (first * w->stride - w->pad > inner.begin)
        inner.begin = first * w->stride - w->pad;
    /* So do elements a stride or more behind those that the last output reads. */
    int64_t last = (y.end - 1) * w->stride - w->pad + extent + w->stride - 1;
    inner.end = inner.end < last ? inner.end : last;
    return inner;
}

/* Outputs that read the positions, and at least one more where pads would be negative otherwise; some of them may
 * not exist. */
static struct stni_range readers(const struct stni_window *w, struct stni_range positions)
{
    struct stni_range r = stni_window_readers(w, positions);
    if (r.begin * w->stride - w->pad > positions.begin || r.begin >= r.end)
        r.begin = stni_floor_div(positions.begin + w->pad, w->stride);
    if (r.end <= r.begin)
        r.end = r.begin + 1;
    return r;
}

static int is_equal(struct stni_range r, int64_t begin, int64_t end)
{
    return r.begin == begin && r.end == end;
}

static int fits(const struct stni_conv *conv, const struct stni_conv_plan *plan, int d)
{
    const int backward = conv->kind == STNI_CONV_GRAD_INPUT;
    const struct stni_range *x = backward ? plan->own_target : plan->own_source;
    const struct stni_range *y = backward ? plan->own_source : plan->own_target;
    return stni_conv_fits(conv, d, x[d], y[d]);
}

/* Whether a dim is whole here and zeros lie around it, so that a problem's pads are these. */
static int is_padded(const struct stni_conv *conv, const struct stni_conv_plan *plan, int d, struct stni_range target)
{
    const struct stni_window *w = &conv->window[d];
    const int64_t n_source = conv->kind == STNI_CONV_GRAD_INPUT ? w->n_out : w->n_in;
    const int64_t n_target = w->n_in + w->n_out - n_source;
    return conv->joins && w->boundary == STNI_BOUNDARY_ZERO && is_equal(plan->own_source[d], 0, n_source) &&
           is_equal(target, 0, n_target) && fits(conv, plan, d);
}

/* Zeros beyond the ends of a dim are a problem's pads; where all ranks are to have the same problem, they are elements,
 * unless most of what a window spans would be zeros. */
static int has_pads(const struct stni_conv *conv, int d)
{
    return !conv->joins || stni_window_extent(&conv->window[d]) > 2 * conv->window[d].n_in;
}

/* What the target reads. */
static struct stni_range reads(const struct stni_conv *conv, int d, struct stni_range target)
{
    const struct stni_window *w = &conv->window[d];
    const struct stni_range r = stni_window_reads(w, target);
    const int is_cut = w->boundary == STNI_BOUNDARY_ZERO && has_pads(conv, d);
    return is_cut ? stni_range_intersect(r, (struct stni_range){0, w->n_in}) : r;
}

/* The outputs that read the target, without those that do not exist, but for as many as keep pads from being
 * negative. */
static struct stni_range read_by(const struct stni_conv *conv, int d, struct stni_range target)
{
    const struct stni_window *w = &conv->window[d];
    struct stni_range r = readers(w, target);
    if (has_pads(conv, d)) {
        const int64_t least = stni_floor_div(target.end + w->pad - stni_window_extent(w), w->stride) + 1;
        r = stni_range_intersect(r, (struct stni_range){0, w->n_out > least ? w->n_out : least});
        r.end = r.end > r.begin ? r.end : r.begin + 1;
    }
    return r;
}

static struct stni_range source_of(const struct stni_conv *conv, const struct stni_conv_plan *plan, int d,
                                   struct stni_range target)
{
    if (is_padded(conv, plan, d, target))
        return plan->own_source[d];
    return (conv->kind == STNI_CONV_GRAD_INPUT ? read_by : reads)(conv, d, target);
}

static void add_part(const struct stni_conv *conv, struct stni_conv_plan *plan, const struct stni_run *place, int dim,
                     int adds)
{
    struct stni_conv_part *part = &plan->parts[plan->n_parts];
    for (int d = 0; d < conv->dims; d++) {
        if (place[d].length <= 0)
            return;
        part->place[d] = place[d];
        part->target[d] = (struct stni_range){place[d].at, place[d].at + place[d].length};
        part->source[d] = source_of(conv, plan, d, part->target[d]);
    }
    part->dim = dim;
    part->adds = adds;
    plan->n_parts++;
}

static struct stni_run plainly(struct stni_range r)
{
    return (struct stni_run){r.begin, stni_range_length(r), r.begin, 1};
}

/* What is left of the target around the interior: along dim d, below and above it, with the interior's extent in the
 * dims before and the target's in those after. So rows come in full width. */
static void add_strips(const struct stni_conv *conv, struct stni_conv_plan *plan)
{
    for (int d = 0; d < conv->dims; d++)
        for (int high = 0; high < 2; high++) {
            struct stni_run place[STNI_CONV_MAX_DIMS];
            for (int e = 0; e < conv->dims; e++)
                place[e] = plainly(e < d ? plan->interior[e] : plan->own_target[e]);
            struct stni_range rest = plan->own_target[d];
            if (high)
                rest.begin = plan->interior[d].end;
            else
                rest.end = plan->interior[d].begin;
            place[d] = plainly(rest);
            add_part(conv, plan, place, d, 0);
        }
}

/* Where the chunk's elements stand once more beyond the ends of dim d; at most two runs. */
static int images(const struct stni_conv *conv, int d, struct stni_range x, struct stni_run *runs)
{
    const struct stni_window *w = &conv->window[d];
    struct stni_range sides[] = {{-w->pad, 0}, {w->n_in, w->n_in + conv->pad_high[d]}};
    int n = 0;
    for (int s = 0; s < 2; s++)
        for (int64_t at = sides[s].begin; at < sides[s].end;) {
            struct stni_run run = stni_boundary_run(w->boundary, w->n_in, at, sides[s].end);
            at += run.length;
            run = stni_run_clip(run, x);
            if (run.length > 0)
                runs[n++] = run;
        }
    return n;
}

/* Every combination of images and, in the other dims, the chunk itself. Pads are not larger than the input, so that
 * there are two images of a dim at most. */
static void add_images(const struct stni_conv *conv, struct stni_conv_plan *plan)
{
    struct stni_run runs[STNI_CONV_MAX_DIMS][3], place[STNI_CONV_MAX_DIMS];
    int n[STNI_CONV_MAX_DIMS], count = 1;
    for (int d = 0; d < conv->dims; d++) {
        runs[d][0] = plainly(plan->own_target[d]);
        n[d] = 1 + images(conv, d, plan->own_target[d], runs[d] + 1);
        count *= n[d];
    }
    for (int i = 1; i < count; i++) {
        for (int d = conv->dims - 1, rest = i; d >= 0; rest /= n[d], d--)
            place[d] = runs[d][rest % n[d]];
        add_part(conv, plan, place, -1, 1);
    }
}

struct stni_range stni_conv_base_rows(const struct stni_conv *conv, const struct stni_conv_plan *plan,
                                      struct stni_range target)
{
    const struct stni_window *w = &conv->window[0];
    struct stni_range read =
        conv->kind == STNI_CONV_GRAD_INPUT ? stni_window_readers(w, target) : stni_window_reads(w, target);
    return stni_range_intersect(read, plan->own_source[0]);
}

/* A base is worth while if it computes at least half of the target, and possible if only rows (dim 0) would have to
 * be cropped. */
static int has_base(const struct stni_conv *conv, const struct stni_conv_plan *plan)
{
    int64_t inner = 1, all = 1;
    for (int d = 0; d < conv->dims; d++) {
        inner *= stni_range_length(plan->interior[d]);
        all *= stni_range_length(plan->own_target[d]);
        if (d > 0 && !fits(conv, plan, d))
            return 0;
    }
    return inner > 0 && 2 * inner >= all && stni_range_length(stni_conv_base_rows(conv, plan, plan->interior[0])) > 0;
}

/* All of the target, from a buffer of what that reads. */
static void add_whole(const struct stni_conv *conv, struct stni_conv_plan *plan)
{
    struct stni_run place[STNI_CONV_MAX_DIMS];
    for (int d = 0; d < conv->dims; d++)
        place[d] = plainly(plan->own_target[d]);
    add_part(conv, plan, place, -1, 0);
}

/* Whether the chunk alone gives all of the target. */
static int is_alone(const struct stni_conv *conv, const struct stni_conv_plan *plan)
{
    return plan->has_base && plan->n_parts == 0 && fits(conv, plan, 0);
}

static void make_plan(const struct stni_conv *conv, const struct stni_range *x, const struct stni_range *y, int joins,
                      struct stni_conv_plan *plan)
{
    int backward = conv->kind == STNI_CONV_GRAD_INPUT;
    plan->n_parts = 0;
    for (int d = 0; d < conv->dims; d++) {
        plan->own_source[d] = backward ? y[d] : x[d];
        plan->own_target[d] = backward ? x[d] : y[d];
        plan->interior[d] = (backward ? inside_backward : inside_forward)(&conv->window[d], x[d], y[d]);
    }
    plan->has_base = has_base(conv, plan);
    if (plan->has_base)
        add_strips(conv, plan);
    if (joins && !is_alone(conv, plan))
        plan->has_base = plan->n_parts = 0;
    if (!plan->has_base)
        add_whole(conv, plan);
    if (backward)
        add_images(conv, plan);
}

void stni_conv_plan(const struct stni_conv *conv, const struct stni_range *x, const struct stni_range *y,
                    struct stni_conv_plan *plan)
{
    make_plan(conv, x, y, conv->joins, plan);
}

void stni_conv_plan_apart(const struct stni_conv *conv, const struct stni_range *x, const struct stni_range *y,
                          struct stni_conv_plan *plan)
{
    make_plan(conv, x, y, 0, plan);
}
