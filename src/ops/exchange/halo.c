#include "ops/exchange/halo.h"

#include "core/base/host_alloc.h"
#include "core/box/box_add.h"
#include "core/redistribute/identity.h"
#include "ops/exchange/halo_overlap.h"
#include "ops/exchange/messages.h"

#include <stdlib.h>
#include <string.h>

/* What a peer sent of its buffers, and where in this rank's chunk it is added. */
struct addition {
    stn_box to, from;
};

struct addition_list {
    int n, cap;
    struct addition *entries;
};

struct fetch {
    const stn_op_call *call;
    const struct stni_halo *halo;
    const stn_spec *spec;
    uint64_t own; /* boxes that include this rank's elements too */
    int n_axes[STNI_HALO_MAX_DIMS], axis[STNI_HALO_MAX_DIMS][STN_MAX_MESH_NDIM];
    void *zero; /* one element, in device memory */
    struct stni_messages messages; /* its axes are those that cut the windowed dims */
    int adjoint;                   /* the elements of the buffers go back to the ranks that own them, and are added there */
    struct addition_list additions; /* of the adjoint, for what is received */
};

/* A box of positions cut into pieces that lie on one rank, and are consecutive there. Filled in dim by dim. */
struct cut {
    const struct stni_halo_box *box;
    int own_too;
    struct stni_run run[STNI_HALO_MAX_DIMS];
    int coordinate[STN_MAX_MESH_NDIM]; /* the owner's */
    int is_zero;
};

/* Sets the coordinates of the rank that holds piece `piece` along windowed dim `d`. */
static void set_piece(const struct fetch *f, int d, int piece, int *coordinate)
{
    const struct stni_split *split = f->spec->layout.split[f->halo->dims[d].dim];
    for (int level = 0; level < f->n_axes[d]; level++)
        coordinate[f->axis[d][level]] = stni_split_part(split, level, piece);
}

/* Where the piece lies in the chunk of its owner, whose memory and strides are the tensor's where that is this rank. */
static stn_box source_box(const struct fetch *f, const struct cut *c)
{
    const stn_tensor *t = f->halo->source;
    const stn_spec *spec = f->spec;
    stn_box box = {.ndim = spec->layout.ndim};
    int64_t first = 0;
    memcpy(box.shape, spec->local_shape, (size_t)box.ndim * sizeof *box.shape);
    memcpy(box.strides, t->strides, (size_t)box.ndim * sizeof *box.strides);
    for (int d = 0; d < f->halo->n_dims; d++) {
        int dim = f->halo->dims[d].dim;
        first += (c->run[d].first - spec->local_offset[dim]) * t->strides[dim];
        box.shape[dim] = c->run[d].length;
        box.strides[dim] *= c->run[d].step;
    }
    box.data = (char *)t->data + first * (int64_t)stn_dtype_size(spec->layout.dtype);
    return box;
}

/* Where the piece goes in the buffer of its box. */
static stn_box buffer_box(const struct fetch *f, const struct cut *c, const stn_box *buffer)
{
    stn_box box = *buffer;
    int64_t first = 0;
    for (int d = 0; d < f->halo->n_dims; d++) {
        int dim = f->halo->dims[d].dim;
        first += (c->run[d].at - c->box->range[d].begin) * buffer->strides[dim];
        box.shape[dim] = c->run[d].length;
    }
    box.data = (char *)buffer->data + first * (int64_t)stn_dtype_size(f->spec->layout.dtype);
    return box;
}

static int is_empty(const stn_box *box)
{
    for (int d = 0; d < box->ndim; d++)
        if (box->shape[d] == 0)
            return 1;
    return 0;
}

/* What is recorded is not there for what runs before: it has its own. */
static stn_status find_zero(struct fetch *f)
{
    stn_context *context = f->call->context;
    if (f->zero != NULL)
        return STN_OK;
    if (context->queue->capture == NULL || context->zero != NULL)
        return stni_zero_take(context, &f->zero);
    STNI_TRY(stn_op_scratch(f->call, STNI_ZERO_BYTES, &f->zero));
    return stni_fill_zeros(context->queue, f->zero, STNI_ZERO_BYTES, STN_DTYPE_U8);
}

/* One element, again and again. */
static stn_status zeros_like(struct fetch *f, const stn_box *to, stn_box *from)
{
    STNI_TRY(find_zero(f));
    *from = *to;
    from->data = f->zero;
    memset(from->strides, 0, sizeof from->strides);
    return STN_OK;
}

/* Whether the piece stands at its own place in every dim, and not where a boundary repeats it. */
static int in_place(const struct fetch *f, const struct cut *c)
{
    for (int d = 0; d < f->halo->n_dims; d++)
        if (c->run[d].at != c->run[d].first)
            return 0;
    return 1;
}

/* to += from, of which many elements may go to one. */
static stn_status add_box(const struct fetch *f, const stn_box *to, const stn_box *from)
{
    stn_queue *queue = f->call->context->queue;
    const stn_dtype dtype = f->spec->layout.dtype;
    const size_t bytes = stni_box_add_scratch(queue, to, from, dtype);
    void *scratch = NULL;
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(f->call, bytes, &scratch));
    return stni_box_add(queue, to, from, dtype, scratch);
}

/* The adjoint of one piece: where zeros were read nothing happens, this rank's own elements are added locally, and
 * the rest is sent to the ranks that own the elements. */
static stn_status put(struct fetch *f, const struct cut *c, const stn_box *from)
{
    if (c->is_zero)
        return STN_OK;
    if (!stni_mesh_is_self(f->spec->layout.mesh, c->coordinate))
        return stni_messages_add(&f->messages, &f->messages.send, c->coordinate, from);
    const stn_box to = source_box(f, c);
    return add_box(f, &to, from);
}

/* Handles one piece of what this rank reads: it is zeros, elements of this rank, or a message from another. */
static stn_status take(struct fetch *f, const struct cut *c, const stn_box *buffer)
{
    stn_box to = buffer_box(f, c, buffer);
    if (is_empty(&to))
        return STN_OK;
    if (f->adjoint)
        return put(f, c, &to);
    const int own = stni_mesh_is_self(f->spec->layout.mesh, c->coordinate);
    if (!c->is_zero && !own)
        return stni_messages_add(&f->messages, &f->messages.recv, c->coordinate, &to);
    stn_box from;
    if (c->is_zero || (!c->own_too && in_place(f, c)))
        STNI_TRY(zeros_like(f, &to, &from));
    else
        from = source_box(f, c);
    return stni_messages_add_own(&f->messages, &to, &from);
}

/* Splits a box along windowed dims d, d + 1, … and handles each piece. */
static stn_status take_box(struct fetch *f, struct cut *c, int d, const stn_box *buffer)
{
    if (d == STNI_HALO_MAX_DIMS || d == f->halo->n_dims)
        return take(f, c, buffer);
    int dim = f->halo->dims[d].dim, was_zero = c->is_zero;
    const struct stni_split *split = f->spec->layout.split[dim];
    for (int64_t at = c->box->range[d].begin; at < c->box->range[d].end; at += c->run[d].length) {
        struct stni_run *run = &c->run[d];
        *run = stni_boundary_run(f->halo->dims[d].boundary, f->spec->layout.shape[dim], at, c->box->range[d].end);
        c->is_zero = was_zero || run->first < 0;
        if (run->first >= 0 && split != NULL) {
            int piece = stni_split_find(split, run->first);
            *run = stni_run_clip(*run, (struct stni_range){stni_split_offset(split, piece), stni_split_offset(split, piece + 1)});
            set_piece(f, d, piece, c->coordinate);
        }
        STNI_TRY(take_box(f, c, d + 1, buffer));
    }
    c->is_zero = was_zero;
    return STN_OK;
}

/* Dense scratch memory of the piece's shape, and a note of where its elements are to be added. */
static stn_status expect(struct fetch *f, const stn_box *to, const int *coordinate)
{
    struct addition_list *list = &f->additions;
    if (list->n == list->cap) {
        int cap = list->cap > 0 ? 2 * list->cap : 16;
        struct addition *entries = stni_realloc(list->entries, (size_t)cap * sizeof *entries);
        if (entries == NULL)
            return stni_fail_memory(f->call->context, "list of additions", (size_t)cap * sizeof *entries);
        list->entries = entries;
        list->cap = cap;
    }
    stn_box from = *to;
    int64_t n = 1;
    for (int d = to->ndim - 1; d >= 0; d--) {
        from.strides[d] = n;
        n *= to->shape[d];
    }
    STNI_TRY(stn_op_scratch(f->call, (size_t)n * stn_dtype_size(f->spec->layout.dtype), &from.data));
    list->entries[list->n++] = (struct addition){*to, from};
    return stni_messages_add(&f->messages, &f->messages.recv, coordinate, &from);
}

/* One piece of this rank's chunk that a peer reads. */
static stn_status give(struct fetch *f, const struct cut *c)
{
    stn_box from = source_box(f, c);
    if (is_empty(&from))
        return STN_OK;
    return f->adjoint ? expect(f, &from, c->coordinate)
                      : stni_messages_add(&f->messages, &f->messages.send, c->coordinate, &from);
}

/* Splits a reader's box in the same way, and handles the pieces that lie in this rank's chunk. */
static stn_status give_box(struct fetch *f, struct cut *c, int d)
{
    if (d == STNI_HALO_MAX_DIMS || d == f->halo->n_dims)
        return give(f, c);
    int dim = f->halo->dims[d].dim;
    struct stni_range own = {f->spec->local_offset[dim], f->spec->local_offset[dim] + f->spec->local_shape[dim]};
    struct stni_run run;
    for (int64_t at = c->box->range[d].begin; at < c->box->range[d].end; at += run.length) {
        run = stni_boundary_run(f->halo->dims[d].boundary, f->spec->layout.shape[dim], at, c->box->range[d].end);
        c->run[d] = stni_run_clip(run, own);
        if (c->run[d].length > 0)
            STNI_TRY(give_box(f, c, d + 1));
    }
    return STN_OK;
}

static stn_status give_reader(struct fetch *f, const int *coordinate)
{
    struct stni_halo_box boxes[STNI_HALO_MAX_BOXES];
    struct cut c = {0};
    if (stni_mesh_is_self(f->spec->layout.mesh, coordinate))
        return STN_OK;
    memcpy(c.coordinate, coordinate, sizeof c.coordinate);
    int n = f->halo->boxes(f->halo->arg, coordinate, boxes);
    for (int b = 0; b < n; b++) {
        c.box = &boxes[b];
        STNI_TRY(give_box(f, &c, 0));
    }
    return STN_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct stni_range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Visits each rank that may read from this rank's chunk once, along windowed dims d, d + 1, …. */
static stn_status give_readers(struct fetch *f, int d, int *coordinate)
{
    struct stni_range ranges[STNI_HALO_MAX_RANGES];
    if (d == STNI_HALO_MAX_DIMS || d == f->halo->n_dims)
        return give_reader(f, coordinate);
    if (f->n_axes[d] == 0)
        return give_readers(f, d + 1, coordinate);
    int dim = f->halo->dims[d].dim;
    struct stni_range own = {f->spec->local_offset[dim], f->spec->local_offset[dim] + f->spec->local_shape[dim]};
    int n = f->halo->readers(f->halo->arg, d, own, ranges);
    qsort(ranges, (size_t)n, sizeof *ranges, compare_ranges);
    int64_t next = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t piece = ranges[i].begin > next ? ranges[i].begin : next; piece < ranges[i].end; piece++) {
            set_piece(f, d, (int)piece, coordinate);
            STNI_TRY(give_readers(f, d + 1, coordinate));
        }
        next = ranges[i].end > next ? ranges[i].end : next;
    }
    return STN_OK;
}

/* The axes that cut the windowed dims. */
static void find_axes(struct fetch *f)
{
    for (int d = 0; f->spec->layout.mesh != NULL && d < f->halo->n_dims; d++) {
        f->n_axes[d] = stni_layout_dim_axes(&f->spec->layout, f->halo->dims[d].dim, f->axis[d]);
        for (int i = 0; i < f->n_axes[d]; i++)
            f->messages.axes |= 1u << f->axis[d][i];
    }
}

static stn_status take_own(struct fetch *f, const int *coordinate, const stn_box *buffers)
{
    struct stni_halo_box boxes[STNI_HALO_MAX_BOXES];
    struct cut c = {0};
    memcpy(c.coordinate, coordinate, sizeof c.coordinate);
    int n = f->halo->boxes(f->halo->arg, coordinate, boxes);
    for (int b = 0; b < n; b++) {
        c.box = &boxes[b];
        c.own_too = (int)(f->own >> b & 1);
        STNI_TRY(take_box(f, &c, 0, &buffers[b]));
    }
    return STN_OK;
}

/* All pieces, of this rank's boxes and of those who read its chunk. */
static stn_status collect(struct fetch *f, const stn_box *buffers)
{
    int coordinate[STN_MAX_MESH_NDIM] = {0};
    if (f->spec->layout.mesh != NULL)
        memcpy(coordinate, f->spec->layout.mesh->coordinate, sizeof coordinate);
    find_axes(f);
    STNI_TRY(take_own(f, coordinate, buffers));
    return f->messages.axes == 0 ? STN_OK : give_readers(f, 0, coordinate);
}

static int goes_beside(const struct fetch *f, const stn_comm *comm, int64_t work)
{
    const stn_context *context = f->call->context;
    if (context->queue->capture || work == 0 || context->halo_overlap == STN_HALO_OVERLAP_NEVER)
        return 0;
    const stn_dtype dtype = f->spec->layout.dtype;
    const struct stni_halo_terms terms = {.beside = stni_comm_goes_beside(comm, context->queue),
                                          .on_device = !context->queue->device->is_cpu,
                                          .dtype = dtype,
                                          .bytes = stni_messages_bytes(&f->messages, dtype),
                                          .work = work};
    return context->halo_overlap == STN_HALO_OVERLAP_ALWAYS || stni_halo_pays(&terms);
}

/* Collective over the axes that cut the windowed dims, if any do. */
static stn_status exchange(struct fetch *f, int64_t work, struct stni_halo_way *way)
{
    const stn_dtype dtype = f->spec->layout.dtype;
    if (f->messages.axes == 0)
        return stni_messages_exchange(&f->messages, dtype);
    STNI_TRY(stni_mesh_comm(f->spec->layout.mesh, f->messages.axes, &way->comm));
    if (!goes_beside(f, way->comm, work))
        return stni_messages_exchange(&f->messages, dtype);
    return stni_messages_begin(&f->messages, dtype, &way->request);
}

static struct fetch set_out(const stn_op_call *call, const struct stni_halo *halo, uint64_t own)
{
    return (struct fetch){.call = call, .halo = halo, .spec = halo->source->spec, .own = own,
                          .messages = {.context = call->context, .mesh = halo->source->spec->layout.mesh}};
}

stn_status stni_halo_begin(const stn_op_call *call, const struct stni_halo *halo, const stn_box *buffers, uint64_t own,
                           int64_t work, struct stni_halo_way *way)
{
    struct fetch f = set_out(call, halo, own);
    *way = (struct stni_halo_way){.context = call->context};
    stn_status status = collect(&f, buffers);
    if (status == STN_OK)
        status = exchange(&f, work, way);
    stni_messages_fini(&f.messages);
    return status;
}

/* What failed beside the queue is the queue's failure, as it would be on it. */
stn_status stni_halo_finish(struct stni_halo_way *way)
{
    const stn_status status = way->request == NULL ? STN_OK : stn_request_wait(&way->request);
    return status == STN_OK ? STN_OK
                            : stn_queue_fail(way->context->queue, status, "%s", stn_comm_error_text(way->comm));
}

stn_status stni_halo_fetch(const stn_op_call *call, const struct stni_halo *halo, const stn_box *buffers, uint64_t own)
{
    struct stni_halo_way at_once;
    return stni_halo_begin(call, halo, buffers, own, 0, &at_once);
}

stn_status stni_halo_add(const stn_op_call *call, const struct stni_halo *halo, const stn_box *buffers)
{
    struct fetch f = set_out(call, halo, ~UINT64_C(0));
    struct stni_halo_way at_once;
    stn_box chunk, zeros;
    stn_status status = STN_OK;
    f.adjoint = 1;
    stni_tensor_box(halo->source, &chunk);
    STNI_TRY_GOTO(zeros_like(&f, &chunk, &zeros), out);
    if (!is_empty(&chunk))
        STNI_TRY_GOTO(stni_box_copy(call->context->queue, &chunk, &zeros, stn_dtype_size(f.spec->layout.dtype)), out);
    STNI_TRY_GOTO(collect(&f, buffers), out);
    STNI_TRY_GOTO(exchange(&f, 0, &at_once), out);
    for (int i = 0; i < f.additions.n; i++)
        STNI_TRY_GOTO(add_box(&f, &f.additions.entries[i].to, &f.additions.entries[i].from), out);
out:
    stni_messages_fini(&f.messages);
    stni_free(f.additions.entries);
    return status;
}
