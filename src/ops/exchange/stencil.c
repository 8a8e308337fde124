#include "ops/exchange/stencil.h"

#include "core/context/context.h"
#include "ops/exchange/halo.h"

#include <string.h>

enum { DIMS = STNI_STENCIL_DIMS, BASE = 0, MAX_PARTS = 1 + 2 * DIMS };

struct plan {
    int has_base; /* part 0 is computed from the chunk as it lies */
    int n;
    struct stni_stencil_part part[MAX_PARTS];
};

static struct stni_range sources_of(const struct stni_stencil *s, int d, int64_t t)
{
    return s->sources(s->arg, d, t);
}

/* The first target of a range whose sources begin at `begin` or later, … */
static int64_t first_from(const struct stni_stencil *s, int d, struct stni_range t, int64_t begin)
{
    while (t.begin < t.end) {
        int64_t middle = t.begin + (t.end - t.begin) / 2;
        if (sources_of(s, d, middle).begin >= begin)
            t.end = middle;
        else
            t.begin = middle + 1;
    }
    return t.begin;
}

/* … and whose sources end behind `end`. */
static int64_t first_beyond(const struct stni_stencil *s, int d, struct stni_range t, int64_t end)
{
    while (t.begin < t.end) {
        int64_t middle = t.begin + (t.end - t.begin) / 2;
        if (sources_of(s, d, middle).end > end)
            t.end = middle;
        else
            t.begin = middle + 1;
    }
    return t.begin;
}

/* Targets that are made of sources in `own` alone. */
static struct stni_range inside(const struct stni_stencil *s, int d, struct stni_range target, struct stni_range own)
{
    return (struct stni_range){first_from(s, d, target, own.begin), first_beyond(s, d, target, own.end)};
}

static void add_part(const struct stni_stencil *s, const struct stni_range *target, struct plan *plan)
{
    struct stni_stencil_part *part = &plan->part[plan->n];
    for (int d = 0; d < s->dims; d++) {
        if (stni_range_length(target[d]) == 0)
            return;
        part->target[d] = target[d];
        part->source[d].begin = sources_of(s, d, target[d].begin).begin;
        part->source[d].end = sources_of(s, d, target[d].end - 1).end;
    }
    plan->n++;
}

/* Around the interior: along each dim below and above it, with its extent in the dims before and the chunk's in
 * those after. */
static void make_plan(const struct stni_stencil *s, const struct stni_range *source, const struct stni_range *target,
                      struct plan *plan)
{
    struct stni_range interior[DIMS], rest[DIMS];
    plan->n = 0;
    plan->has_base = 1;
    for (int d = 0; d < s->dims; d++) {
        interior[d] = inside(s, d, target[d], source[d]);
        plan->has_base &= stni_range_length(interior[d]) > 0;
    }
    add_part(s, plan->has_base ? interior : target, plan);
    for (int d = 0; d < s->dims && plan->has_base; d++)
        for (int high = 0; high < 2; high++) {
            for (int e = 0; e < s->dims; e++)
                rest[e] = e < d ? interior[e] : target[e];
            if (high)
                rest[d].begin = interior[d].end;
            else
                rest[d].end = interior[d].begin;
            add_part(s, rest, plan);
        }
}

/* Ranges of a chunk; `coordinate` NULL: this rank's. */
static void ranges_at(const struct stni_stencil *s, const stn_spec *spec, const int *coordinate, struct stni_range *out)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    memcpy(shape, spec->local_shape, sizeof shape);
    memcpy(offset, spec->local_offset, sizeof offset);
    if (coordinate != NULL && spec->layout.mesh != NULL)
        stni_spec_chunk_at(spec, coordinate, shape, offset);
    for (int d = 0; d < s->dims; d++)
        out[d] = (struct stni_range){offset[s->first + d], offset[s->first + d] + shape[s->first + d]};
}

static void plan_at(const struct stni_stencil *s, const int *coordinate, struct plan *plan)
{
    struct stni_range source[DIMS], target[DIMS];
    ranges_at(s, s->source, coordinate, source);
    ranges_at(s, s->target, coordinate, target);
    make_plan(s, source, target, plan);
}

static struct stni_range piece_of(const struct stni_split *split, int piece)
{
    return (struct stni_range){stni_split_offset(split, piece), stni_split_offset(split, piece + 1)};
}

int stni_stencil_exchanges(const struct stni_stencil *s)
{
    for (int d = 0; d < s->dims; d++) {
        const struct stni_split *from = s->source->layout.split[s->first + d],
                                *to = s->target->layout.split[s->first + d];
        for (int i = 0; to != NULL && i < to->n_parts; i++) {
            struct stni_range own = piece_of(to, i);
            if (stni_range_length(inside(s, d, own, piece_of(from, i))) < stni_range_length(own))
                return 1;
        }
    }
    return 0;
}

/* Halos */

static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct stni_stencil *s = arg;
    struct plan plan;
    plan_at(s, coordinate, &plan);
    for (int i = plan.has_base; i < plan.n; i++)
        for (int d = 0; d < s->dims; d++)
            boxes[i - plan.has_base].range[d] = plan.part[i].source[d];
    return plan.n > plan.has_base ? plan.n - plan.has_base : 0;
}

/* Pieces whose targets may be made of the elements: a buffer holds all from the first to the last source of its
 * part, also those between which no target reads. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct stni_stencil *s = arg;
    const struct stni_split *split = s->target->layout.split[s->first + d];
    struct stni_range all = {0, s->target->layout.shape[s->first + d]};
    struct stni_range t = {first_beyond(s, d, all, elements.begin) - 1, first_from(s, d, all, elements.end)};
    t = stni_range_intersect(t, all);
    if (stni_range_length(elements) == 0 || stni_range_length(t) == 0)
        return 0;
    pieces[0] = (struct stni_range){stni_split_find(split, t.begin), stni_split_find(split, t.end - 1) + 1};
    return 1;
}

/* A dense buffer for a tensor's sources of a part, in the tensor's memory order. */
static stn_status make_buffer(const stn_op_call *call, const struct stni_stencil *s, const stn_spec *source,
                              const struct stni_stencil_part *part, stn_box *box)
{
    const struct stni_layout *layout = &source->layout;
    int64_t n = 1;
    *box = (stn_box){.ndim = layout->ndim};
    memcpy(box->shape, source->local_shape, sizeof source->local_shape);
    for (int d = 0; d < s->dims; d++)
        box->shape[s->first + d] = stni_range_length(part->source[d]);
    for (int k = layout->ndim - 1; k >= 0; k--) {
        int d = layout->memory_order[k];
        box->strides[d] = n;
        n *= box->shape[d];
    }
    return stn_op_scratch(call, (size_t)n * stn_dtype_size(layout->dtype), &box->data);
}

static stn_status fetch(const stn_op_call *call, const struct stni_stencil *s, const stn_tensor *source,
                        const struct plan *plan, stn_box *buffers)
{
    struct stni_halo halo = {.source = source, .n_dims = s->dims, .arg = s, .boxes = boxes_at, .readers = readers_of};
    for (int d = 0; d < s->dims; d++) {
        halo.dims[d].dim = s->first + d;
        halo.dims[d].boundary = STNI_BOUNDARY_ZERO;
    }
    for (int i = plan->has_base; i < plan->n; i++)
        STNI_TRY(make_buffer(call, s, source->spec, &plan->part[i], &buffers[i]));
    return stni_halo_fetch(call, &halo, buffers + plan->has_base, ~UINT64_C(0));
}

/* This rank's chunk from the first source of the interior on. */
static stn_box chunk_from(const struct stni_stencil *s, const stn_tensor *source, const struct stni_stencil_part *part)
{
    stn_box box = {.ndim = source->spec->layout.ndim};
    int64_t at = 0;
    memcpy(box.shape, source->spec->local_shape, sizeof box.shape);
    memcpy(box.strides, source->strides, sizeof box.strides);
    for (int d = 0; d < s->dims; d++) {
        int dim = s->first + d;
        box.shape[dim] = stni_range_length(part->source[d]);
        if (box.shape[dim] > 0)
            at += (part->source[d].begin - source->spec->local_offset[dim]) * box.strides[dim];
    }
    box.data = source->data ? (char *)source->data + at * (int64_t)stn_dtype_size(source->spec->layout.dtype) : NULL;
    return box;
}

stn_status stni_stencil_solve(const stn_op_call *call, const struct stni_stencil *s, int n_sources,
                              stn_tensor *const *sources, int exchanges, stni_stencil_fn compute, void *arg)
{
    stn_box boxes[STNI_STENCIL_SOURCES][MAX_PARTS], from[STNI_STENCIL_SOURCES];
    struct plan plan;
    if (s->target->layout.mesh != NULL && !s->target->layout.mesh->member)
        return STN_OK;
    plan_at(s, NULL, &plan);
    for (int k = 0; k < n_sources; k++) {
        if (plan.has_base)
            boxes[k][BASE] = chunk_from(s, sources[k], &plan.part[BASE]);
        if (exchanges)
            STNI_TRY(fetch(call, s, sources[k], &plan, boxes[k]));
    }
    for (int i = 0; i < plan.n && s->target->local_numel > 0; i++) {
        for (int k = 0; k < n_sources; k++)
            from[k] = boxes[k][i];
        STNI_TRY(compute(arg, &plan.part[i], from));
    }
    return STN_OK;
}
