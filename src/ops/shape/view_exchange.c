/* Exchanges of views.
 *
 * A chunk of the new shape is a range of the flat index of each group of dims, a chunk of the old one a box of its
 * dims. What a pair of ranks has in common is, group by group, a few boxes of the old dims (a first row's end, whole
 * rows, a last row's beginning, and so on inwards); each combination of them over the groups is one message. Both
 * ends enumerate them alike. */
#include "ops/shape/view_exchange.h"

#include "core/box/box.h"
#include "core/base/host_alloc.h"

#include <string.h>

struct splitter {
    int n_dims;
    const int64_t *size;
    const struct stni_view_box *within;
    struct stni_view_boxes *out;
    int64_t prefix[STN_MAX_NDIM];
};

/* Keeps the box: prefix before dim d, [begin, end) along d, everything along later dims. */
static void keep_box(struct splitter *s, int d, int64_t begin, int64_t end)
{
    struct stni_view_box *box = &s->out->box[s->out->n];
    for (int e = 0; e < s->n_dims; e++) {
        int64_t low = e < d ? s->prefix[e] : e == d ? begin : 0;
        int64_t high = e < d ? s->prefix[e] + 1 : e == d ? end : s->size[e];
        int64_t from = s->within->offset[e], to = from + s->within->shape[e];
        low = low > from ? low : from;
        high = high < to ? high : to;
        if (low >= high)
            return;
        box->offset[e] = low;
        box->shape[e] = high - low;
    }
    s->out->n++;
}

/* [begin, end) of the flat index of dims d, d + 1, …, under the prefix. */
static void split_range(struct splitter *s, int d, int64_t begin, int64_t end)
{
    if (begin >= end)
        return;
    int64_t row = stni_view_after(s->size, d, s->n_dims), first = begin / row, last = end / row;
    if (row == 1) {
        keep_box(s, d, begin, end);
        return;
    }
    if (begin % row != 0) {
        s->prefix[d] = first;
        split_range(s, d + 1, begin % row, first == last ? end % row : row);
        if (first++ == last)
            return;
    }
    if (first < last)
        keep_box(s, d, first, last);
    s->prefix[d] = last;
    split_range(s, d + 1, 0, end % row);
}

void stni_view_boxes_make(int n_dims, const int64_t *size, int64_t begin, int64_t end,
                          const struct stni_view_box *within, struct stni_view_boxes *out)
{
    struct splitter s = {n_dims, size, within, out, {0}};
    out->n = 0;
    if (n_dims > 0)
        split_range(&s, 0, begin, end);
    else
        out->n = begin < end;
}

/* A view of data: both tensors, and where each group lies in the new chunk. */
struct view {
    const stn_tensor *in;
    stn_tensor *out;
    const struct stni_view_groups *groups;
    int64_t stride[STN_MAX_NDIM]; /* of the flat index of each group in out's memory, elements */
};

static void view_init(struct view *v, const stn_tensor *in, stn_tensor *out, const struct stni_view_groups *groups)
{
    *v = (struct view){.in = in, .out = out, .groups = groups};
    for (int i = 0; i < groups->n; i++) {
        const struct stni_view_group *g = &groups->group[i];
        v->stride[i] = 1;
        for (int d = g->new_first; d < g->new_first + g->new_n; d++)
            if (out->spec->layout.shape[d] != 1)
                v->stride[i] = out->strides[d];
    }
}

/* Where chunks begin: of the old shape in its dims, of the new one in the flat index of each group. */
struct chunk {
    struct stni_view_box old[STN_MAX_NDIM];
    int64_t begin[STN_MAX_NDIM], end[STN_MAX_NDIM];
};

static void find_old_chunk(const struct view *v, const int *coordinate, struct chunk *out)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    stni_spec_chunk_at(v->in->spec, coordinate, shape, offset);
    for (int i = 0; i < v->groups->n; i++) {
        const struct stni_view_group *g = &v->groups->group[i];
        memcpy(out->old[i].shape, shape + g->old_first, (size_t)g->old_n * sizeof *shape);
        memcpy(out->old[i].offset, offset + g->old_first, (size_t)g->old_n * sizeof *offset);
    }
}

static void find_new_chunk(const struct view *v, const int *coordinate, struct chunk *out)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    stni_spec_chunk_at(v->out->spec, coordinate, shape, offset);
    for (int i = 0; i < v->groups->n; i++) {
        const struct stni_view_group *g = &v->groups->group[i];
        out->begin[i] = g->cut < 0 ? 0 : offset[g->cut] * g->after;
        out->end[i] = g->cut < 0 ? 1 : out->begin[i] + shape[g->cut] * g->after;
    }
}

enum { SENT, RECEIVED };

/* One end of a message as a box in memory: the old chunk `from` where it is sent, the new one `to` where it is
 * received. `picked[i]` is the message's box of group i. */
static void locate(const struct view *v, int way, const struct chunk *from, const struct chunk *to,
                   const struct stni_view_box *const *picked, stn_box *box)
{
    const struct stni_layout *layout = &v->in->spec->layout;
    const stn_tensor *tensor = way == SENT ? v->in : v->out;
    int64_t at = 0;
    box->ndim = layout->ndim;
    for (int i = 0; i < v->groups->n; i++) {
        const struct stni_view_group *g = &v->groups->group[i];
        int64_t row = v->stride[i];
        for (int e = g->old_n - 1; e >= 0; e--) {
            int d = g->old_first + e;
            box->shape[d] = picked[i]->shape[e];
            box->strides[d] = way == SENT ? v->in->strides[d] : row;
            at += (picked[i]->offset[e] - (way == SENT ? from->old[i].offset[e] : 0)) * box->strides[d];
            row *= layout->shape[d];
        }
        at -= way == SENT ? 0 : to->begin[i] * v->stride[i];
    }
    box->data = (char *)tensor->data + at * (int64_t)stn_dtype_size(layout->dtype);
}

stn_status stni_view_copy(const stn_tensor *in, stn_tensor *out, const struct stni_view_groups *groups)
{
    struct view v;
    struct chunk chunk;
    const struct stni_view_box *picked[STN_MAX_NDIM];
    stn_box source, target;
    if (out->spec->local_numel == 0)
        return STN_OK;
    const stn_mesh *mesh = in->spec->layout.mesh;
    view_init(&v, in, out, groups);
    find_old_chunk(&v, mesh ? mesh->coordinate : NULL, &chunk);
    find_new_chunk(&v, mesh ? mesh->coordinate : NULL, &chunk);
    for (int i = 0; i < groups->n; i++)
        picked[i] = &chunk.old[i];
    locate(&v, SENT, &chunk, &chunk, picked, &source);
    locate(&v, RECEIVED, &chunk, &chunk, picked, &target);
    return stni_box_copy(in->context->queue, &target, &source, stn_dtype_size(in->spec->layout.dtype));
}

/* The messages of one rank, both ways. */
struct messages {
    stn_message *list[2];
    int n[2], cap[2];
};

static stn_message *append(struct messages *m, int way)
{
    if (m->n[way] == m->cap[way]) {
        int cap = m->cap[way] ? 2 * m->cap[way] : 16;
        stn_message *list = stni_realloc(m->list[way], (size_t)cap * sizeof *list);
        if (!list)
            return NULL;
        m->list[way] = list;
        m->cap[way] = cap;
    }
    return &m->list[way][m->n[way]++];
}

/* Steps to the next combination of boxes; 0 after the last. */
static int next_combination(int n, const struct stni_view_boxes *boxes, int *index)
{
    for (int i = n - 1; i >= 0; i--) {
        if (++index[i] < boxes[i].n)
            return 1;
        index[i] = 0;
    }
    return 0;
}

/* All messages between two chunks; `way` tells whether this rank has `from` or `to`. A group along whose axes
 * nothing moves has the same part on both ends. */
static stn_status list_between(const struct view *v, const struct chunk *from, const struct chunk *to, int peer,
                               int way, struct messages *m)
{
    struct stni_view_boxes boxes[STN_MAX_NDIM];
    const struct stni_view_box *picked[STN_MAX_NDIM];
    int index[STN_MAX_NDIM] = {0}, n = v->groups->n;
    for (int i = 0; i < n; i++) {
        const struct stni_view_group *g = &v->groups->group[i];
        stni_view_boxes_make(g->old_n, v->in->spec->layout.shape + g->old_first, to->begin[i], to->end[i],
                             &from->old[i], &boxes[i]);
        if (boxes[i].n == 0)
            return STN_OK;
    }
    do {
        stn_message *message = append(m, way);
        if (!message)
            return stni_fail_memory(v->in->context, "messages of a view", sizeof *message);
        for (int i = 0; i < n; i++)
            picked[i] = &boxes[i].box[index[i]];
        message->peer = peer;
        locate(v, way, from, to, picked, &message->box);
    } while (next_combination(n, boxes, index));
    return STN_OK;
}

/* Coordinates of rank `peer` of the communicator over `axes`. */
static void peer_coordinate(const stn_mesh *mesh, uint32_t axes, int peer, int *coordinate)
{
    memcpy(coordinate, mesh->coordinate, sizeof mesh->coordinate);
    for (int a = mesh->ndim - 1; a >= 0; a--) {
        if (!(axes >> a & 1))
            continue;
        coordinate[a] = peer % mesh->sizes[a];
        peer /= mesh->sizes[a];
    }
}

static stn_status list_all(const struct view *v, uint32_t axes, int n_peers, struct messages *m)
{
    const stn_mesh *mesh = v->in->spec->layout.mesh;
    int coordinate[STN_MAX_MESH_NDIM];
    struct chunk own, other;
    find_old_chunk(v, mesh->coordinate, &own);
    find_new_chunk(v, mesh->coordinate, &own);
    for (int peer = 0; peer < n_peers; peer++) {
        peer_coordinate(mesh, axes, peer, coordinate);
        find_old_chunk(v, coordinate, &other);
        find_new_chunk(v, coordinate, &other);
        STNI_TRY(list_between(v, &own, &other, peer, SENT, m));
        STNI_TRY(list_between(v, &other, &own, peer, RECEIVED, m));
    }
    return STN_OK;
}

stn_status stni_view_exchange(const stn_tensor *in, stn_tensor *out, const struct stni_view_groups *groups,
                              uint32_t axes)
{
    struct view v;
    struct messages m = {0};
    stn_comm *comm;
    stn_status status = stni_mesh_comm(in->spec->layout.mesh, axes, &comm);
    if (status != STN_OK)
        return status;
    view_init(&v, in, out, groups);
    STNI_TRY_GOTO(list_all(&v, axes, stn_comm_size(comm), &m), out);
    stn_exchange exchange = {
        .dtype = in->spec->layout.dtype,
        .n_send = m.n[SENT],
        .n_recv = m.n[RECEIVED],
        .send = m.list[SENT],
        .recv = m.list[RECEIVED],
    };
    status = stni_comm_exchange(comm, in->context->queue, &exchange);
out:
    stni_free(m.list[SENT]);
    stni_free(m.list[RECEIVED]);
    return status;
}
