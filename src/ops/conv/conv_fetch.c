#include "ops/conv/conv_fetch.h"

#include <string.h>

static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct stni_conv_reader *r = arg;
    struct stni_range x[STNI_CONV_MAX_DIMS], y[STNI_CONV_MAX_DIMS];
    struct stni_conv_plan plan;
    stni_conv_ranges(r->conv, r->x, coordinate, x);
    stni_conv_ranges(r->conv, r->y, coordinate, y);
    stni_conv_plan(r->conv, x, y, &plan);
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
    pieces[n] =
        (struct stni_range){stni_split_find(split, elements.begin), stni_split_find(split, elements.end - 1) + 1};
    return n + 1;
}

/* The outputs that read the positions; where these lie between the reads of two, which a piece with both reads over,
 * those two. */
static struct stni_range outputs_over(const struct stni_window *w, struct stni_range positions)
{
    struct stni_range by = stni_window_readers(w, positions);
    return by.begin < by.end ? by : (struct stni_range){by.end - 1, by.begin + 1};
}

/* Over each run of the padded line: which of its positions the elements stand at, and which pieces read those; or
 * which elements the positions are that the elements read, and which pieces hold those. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct stni_conv_reader *r = arg;
    const struct stni_window *w = &r->conv->window[d];
    int backward = r->conv->kind == STNI_CONV_GRAD_INPUT, dim = stni_conv_dim(r->conv, d), n = 0;
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
                n = add_pieces(r->y, dim, outputs_over(w, (struct stni_range){hit.at, hit.at + hit.length}), pieces, n);
        }
    }
    return n;
}

int stni_conv_exchanges(const struct stni_conv_reader *reader)
{
    const struct stni_conv *conv = reader->conv;
    int cut = 0, plain = 1;
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        const struct stni_window *w = &conv->window[d];
        const struct stni_split *x = reader->x->layout.split[dim], *y = reader->y->layout.split[dim];
        cut |= (conv->kind == STNI_CONV_GRAD_INPUT ? y : x) != NULL;
        plain &= stni_window_extent(w) == 1 && w->stride == 1 && w->pad == 0 && conv->pad_high[d] == 0 && x == y;
    }
    return cut && !plain;
}

stn_status stni_conv_fetch(const struct stni_conv_images *images, const struct stni_conv_reader *reader,
                           const struct stni_conv_plan *plan, const stn_tensor *source, uint64_t own, int64_t work,
                           struct stni_conv_image *buffers, struct stni_halo_way *way)
{
    const struct stni_conv *conv = reader->conv;
    int64_t channels = source->spec->local_shape[stni_conv_channel_dim(conv)];
    stn_box boxes[STNI_CONV_MAX_PARTS];
    struct stni_halo halo = {
        .source = source, .n_dims = conv->dims, .arg = reader, .boxes = boxes_at, .readers = readers_of};
    for (int d = 0; d < conv->dims; d++) {
        halo.dims[d].dim = stni_conv_dim(conv, d);
        halo.dims[d].boundary = conv->kind == STNI_CONV_GRAD_INPUT ? STNI_BOUNDARY_ZERO : conv->window[d].boundary;
    }
    for (int i = 0; i < plan->n_parts; i++) {
        STNI_TRY(stni_conv_image_make(images, channels, plan->parts[i].source, &buffers[i]));
        boxes[i] = stni_conv_image_box(images, &buffers[i], plan->parts[i].source);
    }
    return stni_halo_begin(images->call, &halo, boxes, own, work, way);
}
