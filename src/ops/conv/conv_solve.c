#include "ops/conv/conv_solve.h"

#include "core/box/box.h"
#include "ops/conv/conv_fetch.h"
#include "ops/cpu/widen.h"

#include <string.h>

struct solver {
    const stn_op_call *call;
    const struct stni_conv *conv;
    enum stni_conv_kind kind;
    stn_dtype dtype;
    struct stni_conv_images images;
    struct stni_conv_image x, y; /* this rank's chunks */
    void *weight, *bias;         /* bias NULL: none */
    stn_dtype weight_dtype;
    int windowed; /* the base is computed for the interior's rows alone, image by image */
    int started;     /* something was launched: the weight is known, its gradient is there to add to */
    void *workspace; /* of the kernels, one after the other */
    size_t workspace_bytes;
    struct stni_conv_plan plan;
    /* Of joined chunks: what the base gives while the halo is on its way, where it may go so. Else it has none. */
    struct stni_conv_plan *apart;
};

/* Of one batch entry. */
static int64_t elements(const struct solver *s, const struct stni_conv_image *image)
{
    return stni_conv_image_elements(s->conv, image);
}

static struct stni_conv_problem problem(const struct solver *s, const struct stni_conv_image *x,
                                        const struct stni_conv_image *y)
{
    const struct stni_conv *conv = s->conv;
    struct stni_conv_problem p;
    memset(&p, 0, sizeof p);
    p.kind = (int32_t)s->kind, p.dims = conv->dims;
    p.dtype = (int32_t)s->dtype, p.weight_dtype = (int32_t)s->weight_dtype,
    p.has_bias = s->bias != NULL && s->kind == STNI_CONV_FORWARD;
    p.row_major = conv->row_major;
    p.n = s->images.n, p.c = x->channels, p.o = y->channels;
    /* Of groups that are shared out, the channels here are whole ones. */
    int64_t group = conv->c / conv->groups;
    p.groups = conv->groups == 1 || group == 0 || x->channels < group ? 1 : x->channels / group;
    for (int d = 0; d < conv->dims; d++) {
        p.in[d] = stni_range_length(x->range[d]);
        p.out[d] = stni_range_length(y->range[d]);
        p.kernel[d] = conv->window[d].kernel;
        p.stride[d] = conv->window[d].stride;
        p.dilation[d] = conv->window[d].dilation;
        p.pad_low[d] = stni_conv_pad_low(conv, d, x->range[d], y->range[d]);
        p.pad_high[d] = stni_conv_pad_high(conv, d, x->range[d], y->range[d]);
    }
    return p;
}

static stn_status alloc_workspace(struct solver *s, struct stni_conv_args *a)
{
    const size_t bytes = stn_op_workspace(s->call, STNI_CONV_SOLVE, s->dtype, a);
    if (bytes > s->workspace_bytes) {
        STNI_TRY(stn_op_scratch(s->call, bytes, &s->workspace));
        s->workspace_bytes = bytes;
    }
    a->workspace = s->workspace;
    return STN_OK;
}

/* One launch: the whole batch at once, or image by image where x or y is a window of rows, with so many elements
 * from one to the next. */
enum { AT_ONCE = -1 };
static stn_status launch(struct solver *s, const struct stni_conv_image *x, const struct stni_conv_image *y,
                         int64_t x_step, int64_t y_step)
{
    struct stni_conv_args a;
    memset(&a, 0, sizeof a);
    a.problem = problem(s, x, y);
    a.data = (struct stni_conv_data){x->data, y->data, s->weight, s->bias, 1, 0, 0, s->started, s->started};
    a.adds_bias = s->bias != NULL && s->kind == STNI_CONV_GRAD_INPUT;
    if (x_step != AT_ONCE && s->images.n > 1) {
        a.problem.n = 1;
        a.data.images = s->images.n, a.data.x_step = x_step, a.data.y_step = y_step;
    }
    STNI_TRY(alloc_workspace(s, &a));
    s->started = 1;
    return stn_op_launch(s->call, STNI_CONV_SOLVE, s->dtype, &a, sizeof a);
}

/* The base */

static const struct stni_conv_image *target_of(const struct solver *s)
{
    return s->kind == STNI_CONV_GRAD_INPUT ? &s->x : &s->y;
}

/* Multiplications for a row of the target of one image. */
static int64_t row_work(const struct solver *s)
{
    int64_t work = stni_conv_row_elements(s->conv, &s->y) * s->x.channels / s->conv->groups;
    for (int d = 0; d < s->conv->dims; d++)
        work *= s->conv->window[d].kernel;
    return s->kind == STNI_CONV_GRAD_INPUT ? work / s->conv->window[0].stride : work;
}

static struct stni_conv_image *source_of(struct solver *s)
{
    return s->kind == STNI_CONV_GRAD_INPUT ? &s->y : &s->x;
}

/* Rows outside the interior are computed wrongly first and again later, which costs less than one call per image
 * where they are few. */
static int choose_windowed(const struct solver *s)
{
    enum { CHEAP = 1000 * 1000 }; /* multiplications: about 10 us */
    int64_t rows = stni_range_length(s->plan.own_target[0]) - stni_range_length(s->plan.interior[0]);
    if (!stni_conv_fits(s->conv, 0, s->x.range[0], s->y.range[0]))
        return 1;
    if (rows == 0 || s->images.n == 1)
        return rows != 0;
    return rows * row_work(s) > CHEAP;
}

static stn_status solve_rows(struct solver *s, struct stni_range target)
{
    struct stni_range source = stni_conv_base_rows(s->conv, &s->plan, target);
    int backward = s->kind == STNI_CONV_GRAD_INPUT;
    struct stni_conv_image x = stni_conv_image_rows(&s->images, &s->x, backward ? target : source);
    struct stni_conv_image y = stni_conv_image_rows(&s->images, &s->y, backward ? source : target);
    return launch(s, &x, &y, elements(s, &s->x), elements(s, &s->y));
}

static stn_status solve_base(struct solver *s)
{
    return s->windowed ? solve_rows(s, s->plan.interior[0]) : launch(s, &s->x, &s->y, AT_ONCE, 0);
}

/* The parts */

/* Rows in full width lie dense in each channels-last image, so that a part of them needs no copy; all rows in any. */
static int is_rows(const struct solver *s, const struct stni_conv_part *part)
{
    return !part->adds && part->dim <= (s->conv->joins ? -1 : 0);
}

/* Adds an image of the boundary to the elements of x that it stands for. */
static stn_status add_part(const struct solver *s, const struct stni_conv_part *part,
                           const struct stni_conv_image *from)
{
    struct stni_conv_add_args a;
    struct stni_range first[STNI_CONV_MAX_DIMS];
    memset(&a, 0, sizeof a);
    a.dtype = s->dtype;
    a.src = stni_conv_image_box(&s->images, from, part->target);
    for (int d = 0; d < s->conv->dims; d++)
        first[d] = (struct stni_range){part->place[d].first, part->place[d].first + part->place[d].length};
    a.dst = stni_conv_image_box(&s->images, &s->x, first);
    for (int d = 0; d < s->conv->dims; d++)
        a.dst.strides[stni_conv_dim(s->conv, d)] *= part->place[d].step;
    return stn_op_launch(s->call, STNI_CONV_ADD, s->dtype, &a, sizeof a);
}

/* Computes a part of x or y from a buffer of the other. */
static stn_status solve_part(struct solver *s, const struct stni_conv_part *part, const struct stni_conv_image *source)
{
    const struct stni_conv_image *own = target_of(s);
    struct stni_conv_image target;
    int backward = s->kind == STNI_CONV_GRAD_INPUT, rows = is_rows(s, part);
    if (rows)
        target = stni_conv_image_rows(&s->images, own, part->target[0]);
    else
        STNI_TRY(stni_conv_image_make(&s->images, own->channels, part->target, &target));
    const struct stni_conv_image *x = backward ? &target : source, *y = backward ? source : &target;
    int64_t x_step = elements(s, backward && rows ? own : x), y_step = elements(s, !backward && rows ? own : y);
    int whole = elements(s, own) == elements(s, &target);
    STNI_TRY(launch(s, x, y, rows && !whole ? x_step : AT_ONCE, y_step));
    if (rows)
        return STN_OK;
    if (part->adds)
        return add_part(s, part, &target);
    stn_box from = stni_conv_image_box(&s->images, &target, part->target),
            to = stni_conv_image_box(&s->images, own, part->target);
    return stni_box_copy(s->call->context->queue, &to, &from, stn_dtype_size(s->dtype));
}

/* Adds a part's share to the gradient by the weight. */
static stn_status sum_part(struct solver *s, const struct stni_conv_part *part, const struct stni_conv_image *x)
{
    struct stni_conv_image y = stni_conv_image_rows(&s->images, &s->y, part->target[0]);
    if (s->windowed && is_rows(s, part))
        return launch(s, x, &y, elements(s, x), elements(s, &s->y));
    if (!is_rows(s, part) || (s->images.n > 1 && elements(s, &y) != elements(s, &s->y)))
        STNI_TRY(stni_conv_image_crop(&s->images, &s->y, part->target, &y));
    return launch(s, x, &y, AT_ONCE, 0);
}

/* Set-up */

/* Parts that read this rank's own elements too: for the gradient by the weight the base has read what lies in the
 * chunk, except for rows that it left out. */
static uint64_t take_own(const struct solver *s)
{
    uint64_t own = 0;
    for (int i = 0; i < s->plan.n_parts; i++) {
        const struct stni_conv_part *part = &s->plan.parts[i];
        if (s->kind != STNI_CONV_GRAD_WEIGHT || part->dim < 0 || (part->dim == 0 && s->windowed))
            own |= UINT64_C(1) << i;
    }
    return own;
}

/* Multiplications that need no halo. */
static int64_t inside_work(const struct solver *s)
{
    const struct stni_conv_plan *plan = s->plan.has_base ? &s->plan : s->apart;
    return plan->has_base ? s->images.n * stni_range_length(plan->interior[0]) * row_work(s) : 0;
}

/* What reads no other rank's elements, and then, whatever became of it, the end of the halo's way: until then peers
 * read this rank's chunk, and what they send is written to the buffers. */
static stn_status solve_inside(struct solver *s, struct stni_halo_way *halo, int has_base)
{
    const stn_status solved = has_base ? solve_base(s) : STN_OK;
    const stn_status arrived = stni_halo_finish(halo);
    return solved != STN_OK ? solved : arrived;
}

/* A joined chunk may be solved apart where its memory is in order and no row would have to be cropped. Gradients by the
 * weight would be other sums then. */
static void plan_apart(struct solver *s)
{
    s->apart->has_base = 0;
    if (!s->conv->joins || s->plan.has_base || s->kind == STNI_CONV_GRAD_WEIGHT || source_of(s)->data == NULL)
        return;
    stni_conv_plan_apart(s->conv, s->x.range, s->y.range, s->apart);
    s->apart->has_base = s->apart->has_base && stni_conv_fits(s->conv, 0, s->x.range[0], s->y.range[0]);
}

static stn_status plan(struct solver *s, const stn_tensor *source)
{
    stni_conv_plan(s->conv, s->x.range, s->y.range, &s->plan);
    s->windowed = s->plan.has_base && choose_windowed(s);
    plan_apart(s);
    if (s->plan.has_base && source_of(s)->data == NULL)
        STNI_TRY(stni_conv_image_order(&s->images, source, source_of(s)));
    return STN_OK;
}

/* What the base of a joined chunk has left, from parts of the buffer. */
static stn_status solve_strips(struct solver *s, const struct stni_conv_image *joined)
{
    struct stni_conv_image source;
    for (int i = 0; i < s->apart->n_parts; i++) {
        const struct stni_conv_part *part = &s->apart->parts[i];
        if (part->adds)
            continue;
        STNI_TRY(stni_conv_image_crop(&s->images, joined, part->source, &source));
        STNI_TRY(solve_part(s, part, &source));
    }
    return STN_OK;
}

/* No pixel of y reads x, whose memory need not be in order. */
static stn_status sum_nothing(struct solver *s)
{
    s->x.range[0].end = s->x.range[0].begin;
    return launch(s, &s->x, &s->y, AT_ONCE, 0);
}

static stn_status solve(struct solver *s, const stn_tensor *source, const struct stni_conv_reader *reader)
{
    struct stni_conv_image buffers[STNI_CONV_MAX_PARTS];
    struct stni_halo_way halo = {0};
    if (s->plan.n_parts > 0 || stni_conv_exchanges(reader))
        STNI_TRY(stni_conv_fetch(&s->images, reader, &s->plan, source, take_own(s), inside_work(s), buffers, &halo));
    const int apart = halo.request != NULL && s->apart->has_base;
    STNI_TRY(solve_inside(s, &halo, s->plan.has_base || apart));
    if (apart)
        STNI_TRY(solve_strips(s, &buffers[0]));
    for (int i = apart; i < s->plan.n_parts; i++) {
        if (s->kind == STNI_CONV_GRAD_WEIGHT)
            STNI_TRY(sum_part(s, &s->plan.parts[i], &buffers[i]));
        else
            STNI_TRY(solve_part(s, &s->plan.parts[i], &buffers[i]));
    }
    return s->kind == STNI_CONV_GRAD_WEIGHT && !s->started ? sum_nothing(s) : STN_OK;
}

/* The gradient of a 16-bit weight is summed in f32 and rounded at the end. Of joined chunks it is one problem, whose
 * kernel does that. */
static stn_status solve_weight(struct solver *s, const stn_tensor *source, const struct stni_conv_reader *reader,
                               const stn_tensor *weight)
{
    int64_t n = weight->spec->local_numel;
    if (stni_wide_dtype(s->dtype) == s->dtype || s->conv->joins)
        return solve(s, source, reader);
    s->weight_dtype = STN_DTYPE_F32;
    STNI_TRY(stn_op_scratch(s->call, (size_t)n * sizeof(float), &s->weight));
    STNI_TRY(solve(s, source, reader));
    struct stni_conv_narrow_args a;
    memset(&a, 0, sizeof a);
    a.dtype = s->dtype, a.n = n, a.dst = weight->data, a.src = s->weight;
    return stn_op_launch(s->call, STNI_CONV_NARROW, s->dtype, &a, sizeof a);
}

/* A source that is copied may lie in memory as it does. */
static stn_status take(struct solver *s, stn_tensor *t, int is_source, stn_tensor **held, struct stni_conv_image *image)
{
    if (!is_source || !s->conv->joins)
        return stni_conv_image_take(s->conv, t, held, image);
    *held = stn_tensor_retain(t);
    stni_conv_image_find(&s->images, t, image);
    return STN_OK;
}

/* On all ranks: an image without channels has no elements, but may have a halo of any size. */
static int gives_nothing(enum stni_conv_kind kind, const stn_tensor *x, const stn_tensor *y)
{
    return kind != STNI_CONV_GRAD_WEIGHT && (kind == STNI_CONV_FORWARD ? y : x)->spec->numel == 0;
}

stn_status stni_conv_solve(const stn_op_call *call, const struct stni_conv *conv, stn_tensor *x, stn_tensor *y,
                           stn_tensor *weight, stn_tensor *bias)
{
    const enum stni_conv_kind kind = conv->kind;
    const stn_dtype dtype = x->spec->layout.dtype;
    const int64_t n = conv->batched ? x->spec->local_shape[0] : 1;
    struct stni_conv_plan apart;
    struct solver s = {.call = call, .conv = conv, .kind = kind, .dtype = dtype, .weight_dtype = dtype,
                       .images = {call, conv, dtype, n}, .apart = &apart};
    const struct stni_conv_reader reader = {conv, x->spec, y->spec};
    stn_tensor *held[4] = {NULL};
    stn_status status;
    if ((x->spec->layout.mesh != NULL && !x->spec->layout.mesh->member) || gives_nothing(kind, x, y))
        return STN_OK;
    stn_tensor *source = kind == STNI_CONV_GRAD_INPUT ? y : x;
    STNI_TRY_GOTO(take(&s, x, x == source, &held[0], &s.x), out);
    STNI_TRY_GOTO(take(&s, y, y == source, &held[1], &s.y), out);
    STNI_TRY_GOTO(stni_tensor_dense(weight, &held[2]), out);
    s.weight = held[2]->data;
    if (bias != NULL) {
        STNI_TRY_GOTO(stni_tensor_dense(bias, &held[3]), out);
        s.bias = held[3]->data;
    }
    source = held[kind == STNI_CONV_GRAD_INPUT];
    STNI_TRY_GOTO(plan(&s, source), out);
    status = kind == STNI_CONV_GRAD_WEIGHT ? solve_weight(&s, source, &reader, weight) : solve(&s, source, &reader);
out:
    for (int i = 0; i < 4; i++)
        if (held[i] != NULL)
            stni_tensor_release_here(held[i]);
    return status;
}
