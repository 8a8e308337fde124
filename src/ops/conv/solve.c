#include "ops/conv/solve.h"

#include "core/box.h"
#include "ops/util/halo.h"
#include "ops/util/onednn.h"
#include "ops/util/widen.h"

#include <string.h>

/* A dense chunk, or a buffer, of x or y: its first element, ranges of positions along the windowed dims, channels. */
struct image {
    void *data;
    int64_t channels;
    struct stni_range range[STNI_CONV_MAX_DIMS];
};

struct solver {
    const stn_op_call *call;
    const struct stni_conv *conv;
    enum stni_conv_kind kind;
    stn_dtype dtype;
    int64_t n;            /* images of the local batch */
    struct image x, y;    /* this rank's chunks */
    void *weight, *bias;  /* bias NULL: none */
    stn_dtype weight_dtype;
    struct stni_onednn *library;
    int widen;
    int windowed; /* the base is computed for the interior's rows alone, image by image */
    int64_t block;   /* rows of the target that it computes at once */
    int started;     /* something was launched: the weight is known, its gradient is there to add to */
    void *workspace; /* of the kernels, one after the other */
    size_t workspace_bytes;
    struct stni_conv_plan plan;
};

static struct image *source_of(struct solver *s)
{
    return s->kind == STNI_CONV_GRAD_INPUT ? &s->y : &s->x;
}

static int64_t row_elements(const struct solver *s, const struct image *image)
{
    int64_t n = image->channels;
    for (int d = 1; d < s->conv->dims; d++)
        n *= stni_range_length(image->range[d]);
    return n;
}

static int64_t image_elements(const struct solver *s, const struct image *image)
{
    return row_elements(s, image) * stni_range_length(image->range[0]);
}

/* The rows of an image, of its first batch entry. */
static struct image rows_of(const struct solver *s, const struct image *image, struct stni_range rows)
{
    struct image part = *image;
    int64_t skipped = (rows.begin - image->range[0].begin) * row_elements(s, image);
    part.data = (char *)image->data + skipped * (int64_t)stn_dtype_size(s->dtype);
    part.range[0] = rows;
    return part;
}

/* A dense buffer of the local batch. */
static stn_status make_image(const struct solver *s, int64_t channels, const struct stni_range *range, struct image *out)
{
    struct image image = {.channels = channels};
    memcpy(image.range, range, sizeof image.range);
    size_t bytes = (size_t)(s->n * image_elements(s, &image)) * stn_dtype_size(s->dtype);
    STNI_TRY(stn_op_scratch(s->call, bytes, &image.data));
    *out = image;
    return STN_OK;
}

/* The part of an image at `range` as a box with the dims of x and y. */
static stn_box image_box(const struct solver *s, const struct image *image, const struct stni_range *range)
{
    const struct stni_conv *conv = s->conv;
    stn_box box = {.ndim = conv->batched + 1 + conv->dims};
    int64_t step = image->channels, first = 0;
    box.shape[conv->batched] = image->channels;
    box.strides[conv->batched] = 1;
    for (int d = conv->dims; d-- > 0;) {
        int dim = stni_conv_dim(conv, d);
        box.shape[dim] = stni_range_length(range[d]);
        box.strides[dim] = step;
        first += (range[d].begin - image->range[d].begin) * step;
        step *= stni_range_length(image->range[d]);
    }
    if (conv->batched) {
        box.shape[0] = s->n;
        box.strides[0] = step;
    }
    box.data = (char *)image->data + first * (int64_t)stn_dtype_size(s->dtype);
    return box;
}

static struct stni_conv_problem problem(const struct solver *s, const struct image *x, const struct image *y)
{
    const struct stni_conv *conv = s->conv;
    struct stni_conv_problem p;
    memset(&p, 0, sizeof p);
    p.kind = (int32_t)s->kind, p.dims = conv->dims;
    p.dtype = (int32_t)s->dtype, p.weight_dtype = (int32_t)s->weight_dtype, p.has_bias = s->bias != NULL && s->kind == STNI_CONV_FORWARD;
    p.n = s->n, p.c = x->channels, p.o = y->channels;
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

static stn_status take_workspace(struct solver *s, struct stni_conv_args *a)
{
    size_t bytes = stni_conv_workspace(a);
    if (bytes > s->workspace_bytes) {
        STNI_TRY(stn_op_scratch(s->call, bytes, &s->workspace));
        s->workspace_bytes = bytes;
    }
    a->workspace = s->workspace;
    return STN_OK;
}

/* One launch: the whole batch at once, or image by image where x or y is a window of rows, with so many elements from one to the next. */
enum { AT_ONCE = -1 };
static stn_status launch(struct solver *s, const struct image *x, const struct image *y, int64_t x_step, int64_t y_step)
{
    struct stni_conv_args a;
    memset(&a, 0, sizeof a);
    a.problem = problem(s, x, y);
    a.data = (struct stni_conv_data){x->data, y->data, s->weight, s->bias, 1, 0, 0, s->started, s->started};
    a.adds_bias = s->bias != NULL && s->kind == STNI_CONV_GRAD_INPUT;
    if (x_step != AT_ONCE && s->n > 1) {
        a.problem.n = 1;
        a.data.images = s->n, a.data.x_step = x_step, a.data.y_step = y_step;
    }
    a.library = s->library;
    a.widen = s->widen;
    if (s->call->context->device->is_cpu)
        STNI_TRY(take_workspace(s, &a));
    s->started = 1;
    return stn_op_launch(s->call, STNI_CONV_SOLVE, s->dtype, &a, sizeof a);
}

/* The base */

static const struct image *target_of(const struct solver *s)
{
    return s->kind == STNI_CONV_GRAD_INPUT ? &s->x : &s->y;
}

/* Multiplications that a row of the target takes, of one image. */
static int64_t row_work(const struct solver *s)
{
    int64_t work = row_elements(s, &s->y) * s->x.channels / s->conv->groups;
    for (int d = 0; d < s->conv->dims; d++)
        work *= s->conv->window[d].kernel;
    return s->kind == STNI_CONV_GRAD_INPUT ? work / s->conv->window[0].stride : work;
}

/* Rows to compute at once, so that what they read and write stays in a core's cache: on 64 channels and 256 columns oneDNN's gradient by the
 * weight is 2 to 3 times as fast in blocks of 4 rows as at once where the second cache has 512 KiB, the others 1.1 times. 0: all. */
static int64_t choose_block(const struct solver *s)
{
    enum { CACHE = 1 << 19, LEAST_WORK = 5 * 1000 * 1000 }; /* bytes; multiplications, about 100 us */
    const struct stni_window *w = &s->conv->window[0];
    int backward = s->kind == STNI_CONV_GRAD_INPUT, threads = s->call->context->threads;
    int64_t x = row_elements(s, &s->x), y = row_elements(s, &s->y), work = row_work(s);
    int64_t bytes = (backward ? x + y / w->stride : y + x * w->stride) * (int64_t)stn_dtype_size(s->dtype);
    if (s->library == NULL || w->stride > stni_window_extent(w) || bytes == 0 || work == 0)
        return 0;
    int64_t rows = CACHE / bytes, least = LEAST_WORK / work;
    rows = (rows > least ? rows : least) * (threads > 1 ? threads : 1);
    rows = stni_ceil_div(rows > 0 ? rows : 1, w->stride) * w->stride; /* so that the blocks are alike */
    return 2 * rows <= stni_range_length(s->plan.interior[0]) ? rows : 0;
}

/* Rows outside the interior are computed wrongly first and again later, which costs less than one call per image where they are few. */
static int choose_windowed(const struct solver *s)
{
    enum { CHEAP = 1000 * 1000 }; /* multiplications: about 10 us */
    int64_t rows = stni_range_length(s->plan.own_target[0]) - stni_range_length(s->plan.interior[0]);
    if (s->block > 0 || !stni_conv_fits(s->conv, 0, s->x.range[0], s->y.range[0]))
        return 1;
    if (rows == 0 || s->n == 1)
        return rows != 0;
    return s->kind != STNI_CONV_GRAD_WEIGHT && rows * row_work(s) > CHEAP;
}

static stn_status solve_rows(struct solver *s, struct stni_range target)
{
    struct stni_range source = stni_conv_base_rows(s->conv, s->kind, &s->plan, target);
    int backward = s->kind == STNI_CONV_GRAD_INPUT;
    struct image x = rows_of(s, &s->x, backward ? target : source), y = rows_of(s, &s->y, backward ? source : target);
    return launch(s, &x, &y, image_elements(s, &s->x), image_elements(s, &s->y));
}

/* oneDNN adds up all positions of a batch in one f32. By image the sums are shorter and their rounding is less, and where an image is work
 * enough, adding them costs nothing. */
static int sums_by_image(const struct solver *s)
{
    enum { WORTH = 1000 * 1000 }; /* multiplications: about 10 us */
    return s->kind == STNI_CONV_GRAD_WEIGHT && row_work(s) * stni_range_length(s->y.range[0]) > WORTH;
}

static stn_status solve_base(struct solver *s)
{
    struct stni_range rows = s->plan.interior[0];
    if (!s->windowed)
        return launch(s, &s->x, &s->y, sums_by_image(s) ? image_elements(s, &s->x) : AT_ONCE, image_elements(s, &s->y));
    if (s->block == 0)
        return solve_rows(s, rows);
    for (int64_t at = rows.begin; at < rows.end; at += s->block)
        STNI_TRY(solve_rows(s, (struct stni_range){at, at + s->block < rows.end ? at + s->block : rows.end}));
    return STN_OK;
}

/* The parts */

/* Rows in full width lie dense in each image, so that a part of them needs no copy. */
static int is_rows(const struct stni_conv_part *part)
{
    return !part->adds && part->dim <= 0;
}

/* Adds an image of the boundary to the elements of x that it stands for. */
static stn_status add_part(const struct solver *s, const struct stni_conv_part *part, const struct image *from)
{
    struct stni_conv_add_args a;
    struct stni_range first[STNI_CONV_MAX_DIMS];
    memset(&a, 0, sizeof a);
    a.dtype = s->dtype;
    a.src = image_box(s, from, part->target);
    for (int d = 0; d < s->conv->dims; d++)
        first[d] = (struct stni_range){part->place[d].first, part->place[d].first + part->place[d].length};
    a.dst = image_box(s, &s->x, first);
    for (int d = 0; d < s->conv->dims; d++)
        a.dst.strides[stni_conv_dim(s->conv, d)] *= part->place[d].step;
    return stn_op_launch(s->call, STNI_CONV_ADD, s->dtype, &a, sizeof a);
}

/* Computes a part of x or y from a buffer of the other. */
static stn_status solve_part(struct solver *s, const struct stni_conv_part *part, const struct image *source)
{
    const struct image *own = target_of(s);
    struct image target;
    int backward = s->kind == STNI_CONV_GRAD_INPUT, rows = is_rows(part);
    if (rows)
        target = rows_of(s, own, part->target[0]);
    else
        STNI_TRY(make_image(s, own->channels, part->target, &target));
    const struct image *x = backward ? &target : source, *y = backward ? source : &target;
    int64_t x_step = image_elements(s, backward && rows ? own : x), y_step = image_elements(s, !backward && rows ? own : y);
    int whole = image_elements(s, own) == image_elements(s, &target);
    STNI_TRY(launch(s, x, y, rows && !whole ? x_step : AT_ONCE, y_step));
    if (rows)
        return STN_OK;
    if (part->adds)
        return add_part(s, part, &target);
    stn_box from = image_box(s, &target, part->target), to = image_box(s, own, part->target);
    return stni_box_copy(s->call->context->queue, &to, &from, stn_dtype_size(s->dtype));
}

/* Adds a part's share to the gradient by the weight. */
static stn_status sum_part(struct solver *s, const struct stni_conv_part *part, const struct image *x)
{
    struct image y = rows_of(s, &s->y, part->target[0]);
    if (!is_rows(part) || (s->n > 1 && image_elements(s, &y) != image_elements(s, &s->y))) {
        STNI_TRY(make_image(s, s->y.channels, part->target, &y));
        stn_box from = image_box(s, &s->y, part->target), to = image_box(s, &y, part->target);
        STNI_TRY(stni_box_copy(s->call->context->queue, &to, &from, stn_dtype_size(s->dtype)));
    }
    return launch(s, x, &y, AT_ONCE, 0);
}

/* Halos */

struct reader {
    const struct stni_conv *conv;
    enum stni_conv_kind kind;
    const stn_spec *x, *y;
};

/* Of the rank at a mesh's coordinates; NULL: this one. */
static void ranges_at(const struct stni_conv *conv, const stn_spec *spec, const int *coordinate, struct stni_range *ranges)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    const int64_t *s = spec->local_shape, *o = spec->local_offset;
    if (coordinate != NULL && spec->layout.mesh != NULL) {
        stni_spec_chunk_at(spec, coordinate, shape, offset);
        s = shape, o = offset;
    }
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        ranges[d] = (struct stni_range){o[dim], o[dim] + s[dim]};
    }
}

static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct reader *r = arg;
    struct stni_range x[STNI_CONV_MAX_DIMS], y[STNI_CONV_MAX_DIMS];
    struct stni_conv_plan plan;
    ranges_at(r->conv, r->x, coordinate, x);
    ranges_at(r->conv, r->y, coordinate, y);
    stni_conv_plan(r->conv, r->kind, x, y, &plan);
    for (int i = 0; i < plan.n_parts; i++)
        memcpy(boxes[i].range, plan.parts[i].source, sizeof boxes[i].range);
    return plan.n_parts;
}

/* Pieces of a dim of `spec` that hold elements of the range. */
static int add_pieces(const stn_spec *spec, int dim, struct stni_range elements, struct stni_range *pieces, int n)
{
    elements = stni_range_intersect(elements, (struct stni_range){0, spec->layout.shape[dim]});
    if (stni_range_length(elements) == 0 || n == STNI_HALO_MAX_RANGES)
        return n;
    const struct stni_split *split = spec->layout.split[dim];
    pieces[n] = (struct stni_range){stni_split_find(split, elements.begin), stni_split_find(split, elements.end - 1) + 1};
    return n + 1;
}

/* Over each run of the padded line: which of its positions the elements stand at, and which pieces read those; or which elements the
 * positions are that the elements read, and which pieces hold those. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct reader *r = arg;
    const struct stni_window *w = &r->conv->window[d];
    int backward = r->kind == STNI_CONV_GRAD_INPUT, dim = stni_conv_dim(r->conv, d), n = 0;
    int64_t pad_high = r->conv->pad_high[d], end = w->n_in + (pad_high > 0 ? pad_high : 0);
    if (stni_range_length(elements) == 0)
        return 0;
    struct stni_range read = stni_window_reads(w, elements);
    /* A part may take one output more than its positions need. */
    if (elements.end * w->stride - w->pad > read.end)
        read.end = elements.end * w->stride - w->pad;
    struct stni_run run;
    for (int64_t at = -w->pad; at < end; at += run.length) {
        run = stni_boundary_run(w->boundary, w->n_in, at, end);
        if (backward) {
            struct stni_range kept = stni_range_intersect(read, (struct stni_range){run.at, run.at + run.length});
            int64_t skipped = kept.begin - run.at;
            struct stni_run hit = {kept.begin, stni_range_length(kept), run.first + skipped * run.step, run.step};
            if (run.first >= 0 && hit.length > 0)
                n = add_pieces(r->x, dim, stni_run_elements(hit), pieces, n);
        } else {
            struct stni_run hit = stni_run_clip(run, elements);
            if (hit.length > 0)
                n = add_pieces(r->y, dim, stni_window_readers(w, (struct stni_range){hit.at, hit.at + hit.length}), pieces, n);
        }
    }
    return n;
}

/* Whether ranks exchange: the same on each. Not where each output reads the one element that stands at its place. */
static int exchanges(const struct stni_conv *conv, const stn_spec *x, const stn_spec *y, const stn_spec *source)
{
    int cut = 0, plain = 1;
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        const struct stni_window *w = &conv->window[d];
        cut |= source->layout.split[dim] != NULL;
        plain &= stni_window_extent(w) == 1 && w->stride == 1 && w->pad == 0 && conv->pad_high[d] == 0 &&
                 x->layout.split[dim] == y->layout.split[dim];
    }
    return cut && !plain;
}

/* Buffers for the parts, filled with what the source holds at their positions. */
static stn_status fetch(struct solver *s, const stn_tensor *source, const struct reader *reader, struct image *buffers)
{
    stn_box boxes[STNI_CONV_MAX_PARTS];
    struct stni_halo halo = {.source = source, .n_dims = s->conv->dims, .arg = reader, .boxes = boxes_at, .readers = readers_of};
    uint64_t own = 0;
    for (int d = 0; d < s->conv->dims; d++) {
        halo.dims[d].dim = stni_conv_dim(s->conv, d);
        halo.dims[d].boundary = s->kind == STNI_CONV_GRAD_INPUT ? STNI_BOUNDARY_ZERO : s->conv->window[d].boundary;
    }
    for (int i = 0; i < s->plan.n_parts; i++) {
        const struct stni_conv_part *part = &s->plan.parts[i];
        STNI_TRY(make_image(s, source_of(s)->channels, part->source, &buffers[i]));
        boxes[i] = image_box(s, &buffers[i], part->source);
        /* Of the gradient by the weight the base has taken what lies in the chunk, but for rows that it left out. */
        if (s->kind != STNI_CONV_GRAD_WEIGHT || part->dim < 0 || (part->dim == 0 && s->windowed))
            own |= UINT64_C(1) << i;
    }
    return stni_halo_fetch(s->call, &halo, boxes, own);
}

/* Set-up */

/* A tensor's chunk in dense channels-last memory: `*held` is a reference to it. */
static stn_status take_image(const struct stni_conv *conv, stn_tensor *t, stn_tensor **held, struct image *out)
{
    STNI_TRY(stni_tensor_dense(t, held));
    out->data = (*held)->data;
    out->channels = t->spec->local_shape[stni_conv_channel_dim(conv)];
    ranges_at(conv, t->spec, NULL, out->range);
    return STN_OK;
}

static stn_status find_library(struct solver *s)
{
    if (!s->call->context->device->is_cpu)
        return STN_OK;
    s->widen = stni_wide_dtype(s->dtype) != s->dtype;
    if (s->dtype != STN_DTYPE_F64)
        STNI_TRY(stni_onednn_get(s->call->context, &s->library));
    if (s->dtype == STN_DTYPE_BF16 && s->library != NULL && stni_onednn_has_bf16(s->library))
        s->widen = 0;
    return STN_OK;
}

static stn_status solve(struct solver *s, const stn_tensor *source, const struct reader *reader)
{
    struct image buffers[STNI_CONV_MAX_PARTS];
    stni_conv_plan(s->conv, s->kind, s->x.range, s->y.range, &s->plan);
    s->block = s->plan.has_base ? choose_block(s) : 0;
    s->windowed = s->plan.has_base && choose_windowed(s);
    if (s->plan.n_parts > 0 || exchanges(s->conv, reader->x, reader->y, source->spec))
        STNI_TRY(fetch(s, source, reader, buffers));
    if (s->plan.has_base)
        STNI_TRY(solve_base(s));
    for (int i = 0; i < s->plan.n_parts; i++) {
        if (s->kind == STNI_CONV_GRAD_WEIGHT)
            STNI_TRY(sum_part(s, &s->plan.parts[i], &buffers[i]));
        else
            STNI_TRY(solve_part(s, &s->plan.parts[i], &buffers[i]));
    }
    /* The sum over nothing. */
    if (s->kind == STNI_CONV_GRAD_WEIGHT && !s->started)
        STNI_TRY(launch(s, &s->x, &s->y, AT_ONCE, 0));
    return STN_OK;
}

/* The gradient of a 16-bit weight is summed in f32 and rounded at the end. */
static stn_status solve_weight(struct solver *s, const stn_tensor *source, const struct reader *reader, const stn_tensor *weight)
{
    int64_t n = weight->spec->local_numel;
    if (stni_wide_dtype(s->dtype) == s->dtype)
        return solve(s, source, reader);
    s->weight_dtype = STN_DTYPE_F32;
    STNI_TRY(stn_op_scratch(s->call, (size_t)n * sizeof(float), &s->weight));
    STNI_TRY(solve(s, source, reader));
    struct stni_conv_narrow_args a;
    memset(&a, 0, sizeof a);
    a.dtype = s->dtype, a.n = n, a.dst = weight->data, a.src = s->weight;
    return stn_op_launch(s->call, STNI_CONV_NARROW, s->dtype, &a, sizeof a);
}

stn_status stni_conv_solve(const stn_op_call *call, const struct stni_conv *conv, stn_tensor *x, stn_tensor *y, stn_tensor *weight,
                           stn_tensor *bias)
{
    const enum stni_conv_kind kind = conv->kind;
    struct solver s = {.call = call, .conv = conv, .kind = kind, .dtype = x->spec->layout.dtype};
    struct reader reader = {conv, kind, x->spec, y->spec};
    stn_tensor *held[4] = {NULL};
    stn_status status;
    if (x->spec->layout.mesh != NULL && !x->spec->layout.mesh->member)
        return STN_OK;
    s.weight_dtype = s.dtype;
    s.n = conv->batched ? x->spec->local_shape[0] : 1;
    STNI_TRY_GOTO(take_image(conv, x, &held[0], &s.x), out);
    STNI_TRY_GOTO(take_image(conv, y, &held[1], &s.y), out);
    STNI_TRY_GOTO(stni_tensor_dense(weight, &held[2]), out);
    s.weight = held[2]->data;
    if (bias != NULL) {
        STNI_TRY_GOTO(stni_tensor_dense(bias, &held[3]), out);
        s.bias = held[3]->data;
    }
    STNI_TRY_GOTO(find_library(&s), out);
    stn_tensor *source = held[kind == STNI_CONV_GRAD_INPUT];
    status = kind == STNI_CONV_GRAD_WEIGHT ? solve_weight(&s, source, &reader, weight) : solve(&s, source, &reader);
out:
    for (int i = 0; i < 4; i++)
        if (held[i] != NULL)
            stni_tensor_release_here(held[i]);
    return status;
}
