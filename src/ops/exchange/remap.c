#include "ops/exchange/remap.h"

#include "core/box/box.h"
#include "core/base/host_alloc.h"
#include "ops/exchange/messages.h"

#include <stdlib.h>
#include <string.h>

void stni_remap_init(struct stni_remap *map, int ndim, const int64_t *shape)
{
    memset(map, 0, sizeof *map);
    map->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        map->n[d] = 1;
        map->segment[d][0] = (struct stni_segment){.length = shape[d], .dst_step = 1, .src_step = 1};
    }
}

void stni_remap_transpose(struct stni_remap *map, int kept)
{
    for (int d = 0; d < map->ndim; d++)
        for (int i = 0; i < map->n[d]; i++) {
            struct stni_segment *s = &map->segment[d][i], was = *s;
            *s = (struct stni_segment){was.src, was.dst, was.length, was.src_step, was.dst_step, map->n[d] > 1 && i != kept};
        }
}

/* begin <= i < end */
struct range {
    int64_t begin, end;
};

static struct range intersect(struct range a, struct range b)
{
    return (struct range){a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* The k for which first + k step lies in `within`; step 0: all or none. */
static struct range steps_within(int64_t first, int64_t step, struct range within)
{
    if (step == 0)
        return first >= within.begin && first < within.end ? (struct range){0, INT64_MAX} : (struct range){0, 0};
    if (step > 0)
        return (struct range){ceil_div(within.begin - first, step), ceil_div(within.end - first, step)};
    return (struct range){ceil_div(first - within.end + 1, -step), ceil_div(first - within.begin + 1, -step)};
}

static struct range piece_range(const struct stni_split *split, int64_t n, int piece)
{
    if (split == NULL)
        return (struct range){0, n};
    return (struct range){stni_split_offset(split, piece), stni_split_offset(split, piece + 1)};
}

/* Metadata */

/* Whether the elements of every piece of the target lie in the same piece of the source, along one dim. */
static int stays(const struct stni_remap *map, int d, const struct stni_split *src, const struct stni_split *dst)
{
    for (int i = 0; i < map->n[d]; i++) {
        const struct stni_segment *s = &map->segment[d][i];
        if (src == dst && s->dst == s->src && s->dst_step == s->src_step)
            continue;
        for (int piece = 0; piece < dst->n_parts; piece++) {
            struct range k =
                intersect((struct range){0, s->length}, steps_within(s->dst, s->dst_step, piece_range(dst, 0, piece)));
            struct range held = steps_within(s->src, s->src_step, piece_range(src, 0, piece));
            if (k.begin < k.end && (held.begin > k.begin || held.end < k.end))
                return 0;
        }
    }
    return 1;
}

uint32_t stni_remap_moves(const struct stni_remap *map, const stn_spec *src, const stn_spec *dst)
{
    uint32_t moves = 0;
    for (int d = 0; d < map->ndim; d++) {
        int axes[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(&dst->layout, d, axes);
        if (n == 0 || stays(map, d, src->layout.split[d], dst->layout.split[d]))
            continue;
        for (int i = 0; i < n; i++)
            moves |= 1u << axes[i];
    }
    return moves;
}

/* Data */

/* Additions wait until everything has come. */
struct additions {
    int n, cap;
    struct stni_remap_add_args *args;
};

struct work {
    const stn_op_call *call;
    const struct stni_remap *map;
    const stn_tensor *src, *dst;
    const stn_mesh *mesh;
    size_t size; /* bytes of an element */
    struct stni_messages messages;
    struct additions adds;
};

/* A product of runs: elements begin … begin + length - 1 of one segment per dim. */
struct run {
    const struct stni_segment *segment;
    int64_t begin, length;
};

struct cut {
    struct run run[STN_MAX_NDIM];
    int coordinate[STN_MAX_MESH_NDIM]; /* the other end's */
    int adds;
};

/* The runs as they lie in this rank's chunk of the target, or of the source. */
static stn_box box_in(const struct work *w, const struct cut *c, int of_target)
{
    const stn_tensor *t = of_target ? w->dst : w->src;
    stn_box box = {.ndim = w->map->ndim};
    int64_t at = 0;
    for (int d = 0; d < box.ndim; d++) {
        const struct run *r = &c->run[d];
        int64_t first = of_target ? r->segment->dst : r->segment->src,
                step = of_target ? r->segment->dst_step : r->segment->src_step;
        at += (first + r->begin * step - t->spec->local_offset[d]) * t->strides[d];
        box.shape[d] = r->length;
        box.strides[d] = step * t->strides[d];
    }
    box.data = (char *)t->data + at * (int64_t)w->size;
    return box;
}

/* A dense buffer of a box's shape. */
static stn_status make_buffer(const struct work *w, stn_box *box)
{
    int64_t n = 1;
    for (int d = box->ndim - 1; d >= 0; d--) {
        box->strides[d] = n;
        n *= box->shape[d];
    }
    return stn_op_scratch(w->call, (size_t)n * w->size, &box->data);
}

static stn_status add_later(struct work *w, const stn_box *dst, const stn_box *src)
{
    struct additions *adds = &w->adds;
    if (adds->n == adds->cap) {
        int cap = adds->cap > 0 ? 2 * adds->cap : 16;
        struct stni_remap_add_args *args = stni_realloc(adds->args, (size_t)cap * sizeof *args);
        if (args == NULL)
            return stni_fail_memory(w->call->context, "list of additions", (size_t)cap * sizeof *args);
        adds->args = args;
        adds->cap = cap;
    }
    struct stni_remap_add_args *a = &adds->args[adds->n++];
    memset(a, 0, sizeof *a);
    a->dst = *dst, a->src = *src, a->dtype = w->dst->spec->layout.dtype;
    return STN_OK;
}

/* One piece of the target: this rank's own elements, or a message. */
static stn_status take(struct work *w, const struct cut *c)
{
    stn_box to = box_in(w, c, 1);
    if (stni_mesh_is_self(w->mesh, c->coordinate)) {
        stn_box from = box_in(w, c, 0);
        return c->adds ? add_later(w, &to, &from) : stni_box_copy(w->call->context->queue, &to, &from, w->size);
    }
    if (!c->adds)
        return stni_messages_add(&w->messages, &w->messages.recv, c->coordinate, &to);
    stn_box buffer = to;
    STNI_TRY(make_buffer(w, &buffer));
    STNI_TRY(stni_messages_add(&w->messages, &w->messages.recv, c->coordinate, &buffer));
    return add_later(w, &to, &buffer);
}

static stn_status give(struct work *w, const struct cut *c)
{
    if (stni_mesh_is_self(w->mesh, c->coordinate))
        return STN_OK;
    stn_box from = box_in(w, c, 0);
    return stni_messages_add(&w->messages, &w->messages.send, c->coordinate, &from);
}

/* Splits the product along dims d, d + 1, … into parts that lie in one chunk at this end and in one at the other,
 * and receives or sends each part. Between two ranks both ends meet the same parts in the same order: at most one
 * per combination of segments. */
static stn_status walk(struct work *w, struct cut *c, int d, int taking)
{
    if (d == w->map->ndim)
        return taking ? take(w, c) : give(w, c);
    const stn_spec *own = taking ? w->dst->spec : w->src->spec, *other = taking ? w->src->spec : w->dst->spec;
    const struct stni_split *split = other->layout.split[d];
    int axes[STN_MAX_MESH_NDIM], levels = stni_layout_dim_axes(&other->layout, d, axes), added = c->adds;
    struct range chunk = {own->local_offset[d], own->local_offset[d] + own->local_shape[d]};
    for (int i = 0; i < w->map->n[d]; i++) {
        const struct stni_segment *s = &w->map->segment[d][i];
        int64_t first = taking ? s->src : s->dst, step = taking ? s->src_step : s->dst_step;
        struct range k = steps_within(taking ? s->dst : s->src, taking ? s->dst_step : s->src_step, chunk);
        k = intersect(k, (struct range){0, s->length});
        c->adds = added || s->adds;
        while (k.begin < k.end) {
            int piece = split == NULL ? 0 : stni_split_find(split, first + k.begin * step);
            struct range there = steps_within(first, step, piece_range(split, other->layout.shape[d], piece));
            int64_t end = there.end < k.end ? there.end : k.end;
            for (int level = 0; level < levels; level++)
                c->coordinate[axes[level]] = stni_split_part(split, level, piece);
            c->run[d] = (struct run){s, k.begin, end - k.begin};
            STNI_TRY(walk(w, c, d + 1, taking));
            k.begin = end;
        }
    }
    c->adds = added;
    return STN_OK;
}

static stn_status walk_all(struct work *w, int taking)
{
    struct cut c = {0};
    if (w->mesh != NULL)
        memcpy(c.coordinate, w->mesh->coordinate, sizeof c.coordinate);
    return walk(w, &c, 0, taking);
}

static stn_status fill_box(const struct work *w, const struct range *part, const void *value)
{
    const stn_tensor *t = w->dst;
    struct stni_remap_fill_args a;
    int64_t at = 0;
    memset(&a, 0, sizeof a);
    a.box.ndim = t->spec->layout.ndim;
    for (int d = 0; d < a.box.ndim; d++) {
        if (part[d].begin >= part[d].end)
            return STN_OK;
        a.box.shape[d] = part[d].end - part[d].begin;
        a.box.strides[d] = t->strides[d];
        at += (part[d].begin - t->spec->local_offset[d]) * t->strides[d];
    }
    a.box.data = (char *)t->data + at * (int64_t)w->size;
    memcpy(a.value, value, w->size);
    a.element_size = w->size;
    return stn_op_launch(w->call, STNI_REMAP_FILL, t->spec->layout.dtype, &a, sizeof a);
}

/* The part of a dim's chunk from the first to the last position that a dense segment writes; empty where a segment
 * has gaps, so that all of it is filled. */
static struct range covered(const struct stni_remap *map, int d, struct range chunk)
{
    struct range hull = {INT64_MAX, INT64_MIN};
    int64_t n = 0;
    for (int i = 0; i < map->n[d]; i++) {
        const struct stni_segment *s = &map->segment[d][i];
        if (s->adds || s->length == 0)
            continue;
        const int64_t last = s->dst + (s->length - 1) * s->dst_step;
        const struct range own = s->dst < last ? (struct range){s->dst, last + 1} : (struct range){last, s->dst + 1};
        hull.begin = hull.begin < own.begin ? hull.begin : own.begin;
        hull.end = hull.end > own.end ? hull.end : own.end;
        n += s->length;
    }
    if (n == 0 || hull.end - hull.begin != n)
        return (struct range){chunk.begin, chunk.begin};
    hull = intersect(hull, chunk);
    return hull.begin < hull.end ? hull : (struct range){chunk.begin, chunk.begin};
}

/* Around what is covered: along dim d below and above it, with its extent in the dims before and the chunk's in
 * those after. */
static stn_status fill_rest(const struct work *w, const void *value)
{
    const stn_spec *spec = w->dst->spec;
    struct range part[STN_MAX_NDIM];
    for (int d = 0; d < spec->layout.ndim; d++)
        part[d] = (struct range){spec->local_offset[d], spec->local_offset[d] + spec->local_shape[d]};
    for (int d = 0; d < spec->layout.ndim; d++) {
        struct range chunk = part[d], inner = covered(w->map, d, chunk);
        part[d] = (struct range){chunk.begin, inner.begin};
        STNI_TRY(fill_box(w, part, value));
        part[d] = (struct range){inner.end, chunk.end};
        STNI_TRY(fill_box(w, part, value));
        part[d] = inner;
    }
    return STN_OK;
}

static stn_status add_all(const struct work *w)
{
    for (int i = 0; i < w->adds.n; i++)
        STNI_TRY(
            stn_op_launch(w->call, STNI_REMAP_ADD, w->adds.args[i].dtype, &w->adds.args[i], sizeof w->adds.args[i]));
    return STN_OK;
}

stn_status stni_remap_run(const stn_op_call *call, int n, const struct stni_remap *maps, stn_tensor *const *sources,
                          stn_tensor *target, uint32_t moves, const void *fill)
{
    struct work w = {.call = call,
                     .map = maps,
                     .dst = target,
                     .mesh = target->spec->layout.mesh,
                     .messages = {.context = call->context, .mesh = target->spec->layout.mesh, .axes = moves},
                     .size = stn_dtype_size(target->spec->layout.dtype)};
    stn_status status = STN_OK;
    if (w.mesh != NULL && !w.mesh->member)
        return STN_OK;
    if (fill != NULL && target->spec->local_numel > 0)
        STNI_TRY_GOTO(fill_rest(&w, fill), out);
    for (int i = 0; i < n; i++) {
        w.map = &maps[i];
        w.src = sources[i];
        STNI_TRY_GOTO(walk_all(&w, 1), out);
        if (moves != 0)
            STNI_TRY_GOTO(walk_all(&w, 0), out);
    }
    if (moves != 0)
        STNI_TRY_GOTO(stni_messages_exchange(&w.messages, w.dst->spec->layout.dtype), out);
    status = add_all(&w);
out:
    stni_messages_fini(&w.messages);
    stni_free(w.adds.args);
    return status;
}

const stn_kernel_slot stni_remap_slots[] = {
    [STNI_REMAP_FILL] = {"fill", sizeof(struct stni_remap_fill_args)},
    [STNI_REMAP_ADD] = {"add", sizeof(struct stni_remap_add_args)},
};
const stn_kernel stni_remap_kernels[] = {
    STNI_CPU_ROW("fill", (1u << STN_DTYPE_COUNT) - 1, struct stni_remap_fill_args, stni_remap_fill_cpu, NULL),
    STNI_CPU_ROW("add", (1u << STN_DTYPE_COUNT) - 1, struct stni_remap_add_args, stni_remap_add_cpu, NULL),
};
