#include "ops/resample/solve.h"

#include "core/context.h"
#include "ops/util/halo.h"

#include <string.h>

/* Dims that are resampled take the last places of three. */
enum { DIMS = STNI_RESAMPLE_DIMS, BASE = 0, MAX_PARTS = 1 + 2 * DIMS };

struct part {
    struct stni_range target[DIMS], source[DIMS];
};

struct plan {
    int has_base; /* part 0 is computed from the chunk as it lies */
    int n;
    struct part part[MAX_PARTS];
};

struct solver {
    const stn_op_call *call;
    const struct stni_resample *geometry;
    int transposed;
    const stn_spec *source, *target;
};

static const struct stni_resample_dim unchanged = {.n_in = 1, .n_out = 1, .mode = STNI_RESAMPLE_NEAREST};

/* NULL: a dim that is not there. */
static const struct stni_resample_dim *dim_at(const struct solver *s, int place)
{
    int d = place - (DIMS - s->geometry->dims);
    return d >= 0 ? &s->geometry->dim[d] : NULL;
}

static int tensor_dim(const struct solver *s, int place)
{
    return 2 + place - (DIMS - s->geometry->dims);
}

static struct stni_range sources_of(const struct solver *s, int place, int64_t t)
{
    const struct stni_resample_dim *dim = dim_at(s, place);
    return dim ? stni_resample_sources(dim, s->transposed, t) : (struct stni_range){0, 1};
}

/* The first target of a range whose sources begin at `begin` or later, … */
static int64_t first_from(const struct solver *s, int place, struct stni_range t, int64_t begin)
{
    while (t.begin < t.end) {
        int64_t middle = t.begin + (t.end - t.begin) / 2;
        if (sources_of(s, place, middle).begin >= begin)
            t.end = middle;
        else
            t.begin = middle + 1;
    }
    return t.begin;
}

/* … and whose sources end behind `end`. */
static int64_t first_beyond(const struct solver *s, int place, struct stni_range t, int64_t end)
{
    while (t.begin < t.end) {
        int64_t middle = t.begin + (t.end - t.begin) / 2;
        if (sources_of(s, place, middle).end > end)
            t.end = middle;
        else
            t.begin = middle + 1;
    }
    return t.begin;
}

/* Targets that are made of sources in `own` alone. */
static struct stni_range inside(const struct solver *s, int place, struct stni_range target, struct stni_range own)
{
    return (struct stni_range){first_from(s, place, target, own.begin), first_beyond(s, place, target, own.end)};
}

static void add_part(const struct solver *s, const struct stni_range *target, struct plan *plan)
{
    struct part *part = &plan->part[plan->n];
    for (int p = 0; p < DIMS; p++) {
        if (stni_range_length(target[p]) == 0)
            return;
        part->target[p] = target[p];
        part->source[p].begin = sources_of(s, p, target[p].begin).begin;
        part->source[p].end = sources_of(s, p, target[p].end - 1).end;
    }
    plan->n++;
}

/* Around the interior: along each dim below and above it, with its extent in the dims before and the chunk's in those after. */
static void make_plan(const struct solver *s, const struct stni_range *source, const struct stni_range *target, struct plan *plan)
{
    struct stni_range interior[DIMS], rest[DIMS];
    plan->n = 0;
    plan->has_base = 1;
    for (int p = 0; p < DIMS; p++) {
        interior[p] = inside(s, p, target[p], source[p]);
        plan->has_base &= stni_range_length(interior[p]) > 0;
    }
    add_part(s, plan->has_base ? interior : target, plan);
    for (int p = 0; p < DIMS && plan->has_base; p++)
        for (int high = 0; high < 2; high++) {
            for (int q = 0; q < DIMS; q++)
                rest[q] = q < p ? interior[q] : target[q];
            if (high)
                rest[p].begin = interior[p].end;
            else
                rest[p].end = interior[p].begin;
            add_part(s, rest, plan);
        }
}

/* Ranges of a chunk; `coordinate` NULL: this rank's. */
static void ranges_at(const struct solver *s, const stn_spec *spec, const int *coordinate, struct stni_range *out)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    memcpy(shape, spec->local_shape, sizeof shape);
    memcpy(offset, spec->local_offset, sizeof offset);
    if (coordinate != NULL && spec->layout.mesh != NULL)
        stni_spec_chunk_at(spec, coordinate, shape, offset);
    for (int p = 0; p < DIMS; p++) {
        int dim = tensor_dim(s, p);
        out[p] = dim < 2 ? (struct stni_range){0, 1} : (struct stni_range){offset[dim], offset[dim] + shape[dim]};
    }
}

static void plan_at(const struct solver *s, const int *coordinate, struct plan *plan)
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

int stni_resample_exchanges(const struct stni_resample *geometry, int transposed, const stn_spec *source, const stn_spec *target)
{
    struct solver s = {.geometry = geometry, .transposed = transposed};
    for (int p = DIMS - geometry->dims; p < DIMS; p++) {
        const struct stni_split *from = source->layout.split[tensor_dim(&s, p)], *to = target->layout.split[tensor_dim(&s, p)];
        for (int i = 0; to != NULL && i < to->n_parts; i++) {
            struct stni_range own = piece_of(to, i);
            if (stni_range_length(inside(&s, p, own, piece_of(from, i))) < stni_range_length(own))
                return 1;
        }
    }
    return 0;
}

/* Halos */

static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct solver *s = arg;
    struct plan plan;
    plan_at(s, coordinate, &plan);
    for (int i = plan.has_base; i < plan.n; i++)
        for (int d = 0; d < s->geometry->dims; d++)
            boxes[i - plan.has_base].range[d] = plan.part[i].source[DIMS - s->geometry->dims + d];
    return plan.n > plan.has_base ? plan.n - plan.has_base : 0;
}

/* Pieces whose targets may be made of the elements: a buffer holds all from the first to the last source of its part, also those between
 * which no target reads. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct solver *s = arg;
    int place = DIMS - s->geometry->dims + d;
    const struct stni_split *split = s->target->layout.split[tensor_dim(s, place)];
    struct stni_range all = {0, s->target->layout.shape[tensor_dim(s, place)]};
    struct stni_range t = {first_beyond(s, place, all, elements.begin) - 1, first_from(s, place, all, elements.end)};
    t = stni_range_intersect(t, all);
    if (stni_range_length(elements) == 0 || stni_range_length(t) == 0)
        return 0;
    pieces[0] = (struct stni_range){stni_split_find(split, t.begin), stni_split_find(split, t.end - 1) + 1};
    return 1;
}

/* A dense buffer for the sources of a part, in the source's memory order. */
static stn_status make_buffer(const struct solver *s, const struct part *part, stn_box *box)
{
    const struct stni_layout *layout = &s->source->layout;
    int64_t n = 1;
    *box = (stn_box){.ndim = layout->ndim};
    for (int d = 0; d < layout->ndim; d++)
        box->shape[d] = s->source->local_shape[d];
    for (int p = DIMS - s->geometry->dims; p < DIMS; p++)
        box->shape[tensor_dim(s, p)] = stni_range_length(part->source[p]);
    for (int k = layout->ndim - 1; k >= 0; k--) {
        int d = layout->memory_order[k];
        box->strides[d] = n;
        n *= box->shape[d];
    }
    return stn_op_scratch(s->call, (size_t)n * stn_dtype_size(layout->dtype), &box->data);
}

static stn_status fetch(const struct solver *s, const stn_tensor *source, const struct plan *plan, stn_box *buffers)
{
    struct stni_halo halo = {.source = source, .n_dims = s->geometry->dims, .arg = s, .boxes = boxes_at, .readers = readers_of};
    for (int d = 0; d < s->geometry->dims; d++) {
        halo.dims[d].dim = 2 + d;
        halo.dims[d].boundary = STNI_BOUNDARY_ZERO;
    }
    for (int i = plan->has_base; i < plan->n; i++)
        STNI_TRY(make_buffer(s, &plan->part[i], &buffers[i]));
    return stni_halo_fetch(s->call, &halo, buffers + plan->has_base, ~UINT64_C(0));
}

/* Kernels */

static void set_images(const struct solver *s, const stn_box *from, const stn_tensor *to, struct stni_resample_args *a)
{
    const int64_t *shape = s->target->local_shape;
    int wide = shape[1] > 1 && from->strides[1] == 1 && to->strides[1] == 1;
    a->width = wide ? shape[1] : 1;
    a->n_outer[0] = shape[0];
    a->n_outer[1] = wide ? 1 : shape[1];
    for (int d = 0; d < 2; d++) {
        a->outer_source[d] = from->strides[d];
        a->outer_target[d] = to->strides[d];
    }
}

/* One part from a box whose first element is that of part->source. */
static stn_status launch(const struct solver *s, const struct part *part, const stn_box *from, const stn_tensor *to)
{
    struct stni_resample_args a;
    int64_t at = 0;
    memset(&a, 0, sizeof a);
    a.dtype = s->target->layout.dtype;
    a.transposed = s->transposed;
    for (int p = 0; p < DIMS; p++) {
        const struct stni_resample_dim *dim = dim_at(s, p);
        a.dim[p] = dim ? *dim : unchanged;
        a.target[p] = part->target[p];
        a.source[p] = part->source[p];
        if (!dim)
            continue;
        a.target_stride[p] = to->strides[tensor_dim(s, p)];
        a.source_stride[p] = from->strides[tensor_dim(s, p)];
        at += (part->target[p].begin - s->target->local_offset[tensor_dim(s, p)]) * a.target_stride[p];
    }
    set_images(s, from, to, &a);
    a.from = from->data;
    a.to = (char *)to->data + at * (int64_t)stn_dtype_size(a.dtype);
    STNI_TRY(stn_op_scratch(s->call, stni_resample_work(&a), &a.work));
    return stn_op_launch(s->call, STNI_RESAMPLE_SLOT, a.dtype, &a, sizeof a);
}

/* This rank's chunk from the first source of the interior on. */
static stn_box chunk_from(const struct solver *s, const stn_tensor *source, const struct part *part)
{
    stn_box box = {.ndim = s->source->layout.ndim};
    int64_t at = 0;
    memcpy(box.strides, source->strides, sizeof source->strides);
    for (int p = DIMS - s->geometry->dims; p < DIMS; p++) {
        int dim = tensor_dim(s, p);
        if (stni_range_length(part->source[p]) > 0)
            at += (part->source[p].begin - s->source->local_offset[dim]) * box.strides[dim];
    }
    box.data = source->data ? (char *)source->data + at * (int64_t)stn_dtype_size(s->source->layout.dtype) : NULL;
    return box;
}

stn_status stni_resample_solve(const stn_op_call *call, const struct stni_resample *geometry, int transposed, stn_tensor *source,
                               stn_tensor *target, int exchanges)
{
    struct solver s = {call, geometry, transposed, source->spec, target->spec};
    stn_box boxes[MAX_PARTS];
    struct plan plan;
    if (target->spec->layout.mesh != NULL && !target->spec->layout.mesh->member)
        return STN_OK;
    plan_at(&s, NULL, &plan);
    if (plan.has_base)
        boxes[BASE] = chunk_from(&s, source, &plan.part[BASE]);
    if (exchanges)
        STNI_TRY(fetch(&s, source, &plan, boxes));
    for (int i = 0; i < plan.n && target->spec->local_numel > 0; i++)
        STNI_TRY(launch(&s, &plan.part[i], &boxes[i], target));
    return STN_OK;
}
