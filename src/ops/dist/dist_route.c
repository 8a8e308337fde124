/* dist_route: moves ranges of local tensors between ranks along a route, and combines what meets. All collectives of
 * dist.h but all_reduce run here. */
#include "core/base/host_alloc.h"
#include "core/box/box.h"
#include "core/box/box_range.h"
#include "core/comm/collective.h"
#include "core/redistribute/identity.h"
#include "ops/common/call.h"
#include "ops/dist/all_reduction.h"
#include "ops/dist/combine.h"
#include "ops/dist/native.h"

#include <shardtensor/dist.h>
#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

/* One run. The boxes have at least one dim. */
struct walk {
    const stn_op_call *call;
    const struct stni_route_attrs *attrs;
    const struct stni_route *route;
    const struct stni_message_range *receive;
    stn_comm *comm; /* NULL: nothing leaves this rank */
    int me, dim;
    stn_box in, out;
    stn_dtype dtype;
    size_t element_size;
};

static const stn_mesh *mesh_of(const stn_context *context, const struct stni_route_attrs *attrs)
{
    return context->shard.meshes[attrs->mesh];
}

static stn_status check(stn_op_call *call)
{
    const struct stni_route_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    out->dtype = in->dtype;
    out->ndim = in->ndim;
    memcpy(out->shape, in->shape, sizeof out->shape);
    if (in->ndim > 0)
        out->shape[attrs->dim] = attrs->length;
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const struct stni_route_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM];
    memcpy(shape, in->shape, sizeof shape);
    if (stni_native_serves(attrs, in)) /* counts of elements mean row-major memory */
        STNI_TRY(stni_spec_local(call->context, in->dtype, in->ndim, in->shape, &call->want[0]));
    if (in->ndim > 0)
        shape[attrs->dim] = attrs->length;
    return stni_spec_local(call->context, in->dtype, in->ndim, shape, &call->out_spec[0]);
}

/* Tensors without dims are boxes of one element. */
static void box_of(const stn_tensor *tensor, stn_box *box)
{
    stni_tensor_box(tensor, box);
    if (box->ndim > 0)
        return;
    box->ndim = 1;
    box->shape[0] = box->strides[0] = 1;
}

static stn_status begin(struct walk *w, const stn_op_call *call)
{
    const struct stni_route_attrs *attrs = call->attrs;
    const stn_mesh *mesh = mesh_of(call->context, attrs);
    *w = (struct walk){.call = call, .attrs = attrs, .dim = (int)attrs->dim, .dtype = call->in_spec[0]->layout.dtype};
    w->route = (const struct stni_route *)stni_words_of(call->in[1]);
    w->receive = w->route->parts + w->route->n_send;
    w->element_size = stn_dtype_size(w->dtype);
    box_of(call->in[0], &w->in);
    box_of(call->out[0], &w->out);
    if (mesh->member)
        w->me = stni_mesh_position(mesh, call->context->rank);
    if (!mesh->member || mesh->size == 1 || attrs->kind == STNI_ROUTE_TAKES)
        return STN_OK;
    return stni_mesh_comm(mesh, (1u << mesh->ndim) - 1, &w->comm);
}

static stn_message message(int64_t peer, const stn_box *box)
{
    return (stn_message){(int)peer, *box};
}

/* Exchanges; the i-th received part comes to targets[i], NULL: to its place in the result. Whether messages may be
 * combined is a matter of all ranks, who follow another protocol then, and not of what this one receives. */
static stn_status exchange(const struct walk *w, const stn_box *targets)
{
    const int reduce = (w->attrs->meets & STNI_ROUTE_MEETS) != 0;
    const int64_t n = w->route->n_send + w->route->n_receive;
    stn_message *messages = stni_malloc((size_t)(n + 1) * sizeof *messages);
    if (messages == NULL)
        return stni_fail_memory(w->call->context, "a list of messages", (size_t)n * sizeof *messages);
    for (int64_t i = 0; i < n; i++) {
        const struct stni_message_range *p = &w->route->parts[i];
        stn_box box =
            stni_box_along(i < w->route->n_send ? &w->in : &w->out, w->dim, p->begin, p->length, w->element_size);
        messages[i] = message(p->peer, targets && i >= w->route->n_send ? &targets[i - w->route->n_send] : &box);
    }
    const stn_exchange all = {.dtype = w->dtype,
                              .reduce = reduce,
                              .op = (stn_reduce_op)w->attrs->op,
                              .n_send = (int)w->route->n_send,
                              .n_recv = (int)w->route->n_receive,
                              .send = messages,
                              .recv = messages + w->route->n_send};
    stn_status status = stni_comm_exchange(w->comm, w->call->context->queue, &all);
    stni_free(messages);
    return status;
}

/* Straight into the result, which is combined on the way. */
static stn_status exchange_in_place(const struct walk *w, const struct stni_cover *cover)
{
    int64_t numel = stni_box_numel(&w->out);
    if (cover->has_gaps && numel > 0)
        STNI_TRY(stni_fill_zeros(w->call->context->queue, w->out.data, numel, w->dtype));
    return exchange(w, NULL);
}

/* A dense box of the part's size in scratch memory. */
static stn_status scratch_box(const struct walk *w, const struct stni_message_range *part, stn_box *box)
{
    int64_t n = 1;
    *box = w->out;
    box->shape[w->dim] = part->length;
    for (int d = box->ndim - 1; d >= 0; d--) {
        box->strides[d] = n;
        n *= box->shape[d];
    }
    return stn_op_scratch(w->call, (size_t)n * w->element_size, &box->data);
}

static stn_status combine(const struct walk *w, int64_t n, const struct stni_message_range *parts,
                          const stn_box *sources)
{
    if (stni_box_numel(&w->out) == 0)
        return STN_OK;
    return stni_ranges_combine(w->call->context, &w->out, w->dim, parts, n, sources, w->dtype,
                               (stn_reduce_op)w->attrs->op);
}

/* By way of scratch memory, for parts that overlap. */
static stn_status exchange_beside(const struct walk *w, stn_box *boxes)
{
    for (int64_t i = 0; i < w->route->n_receive; i++)
        STNI_TRY(scratch_box(w, &w->receive[i], &boxes[i]));
    STNI_TRY(exchange(w, boxes));
    return combine(w, w->route->n_receive, w->receive, boxes);
}

/* Only what this rank sends itself: the k-th part that it sends is the k-th that it receives. */
static stn_status keep_own(const struct walk *w, stn_box *boxes)
{
    int64_t n = 0, sent = 0;
    const struct stni_message_range *first = NULL;
    for (int64_t i = 0; i < w->route->n_receive; i++) {
        if (w->receive[i].peer != w->me)
            continue;
        while (w->route->parts[sent].peer != w->me)
            sent++;
        const struct stni_message_range *from = &w->route->parts[sent++];
        first = first ? first : &w->receive[i]; /* lists are sorted by peer, so that this rank's parts stand together */
        boxes[n++] = stni_box_along(&w->in, w->dim, from->begin, from->length, w->element_size);
    }
    return combine(w, n, first, boxes);
}

static stn_status run_with(const struct walk *w, stn_box *boxes)
{
    struct stni_cover cover;
    if (w->comm == NULL)
        return keep_own(w, boxes);
    STNI_TRY(stni_ranges_cover(w->call->context, w->receive, w->route->n_receive, w->attrs->length, &cover));
    return cover.has_overlap ? exchange_beside(w, boxes) : exchange_in_place(w, &cover);
}

static stn_status run(stn_op_call *call)
{
    struct walk w;
    STNI_TRY(begin(&w, call));
    if (w.comm != NULL && stni_native_serves(w.attrs, &call->in_spec[0]->layout))
        return stni_native_run(call, w.comm);
    stn_box *boxes = stni_malloc((size_t)(w.route->n_receive + 1) * sizeof *boxes);
    if (boxes == NULL)
        return stni_fail_memory(call->context, "a list of messages", (size_t)w.route->n_receive * sizeof *boxes);
    stn_status status = run_with(&w, boxes);
    stni_free(boxes);
    return status;
}

/* Backward runs on every rank, whatever is needed there, and needs the route. */
static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)needs;
    return stni_reduction_is_linear(((const struct stni_route_attrs *)call->attrs)->op) ? 2 : 3;
}

/* What the ranks' cotangents give: the adjoint of the route. */
static stn_tensor *arriving(const stn_backward_call *call)
{
    static const int64_t adjoint[STNI_ROUTE_KINDS] = {
        [STNI_ROUTE_PLAIN] = STNI_ROUTE_PLAIN,
        [STNI_ROUTE_SPREADS] = STNI_ROUTE_TAKES,
        [STNI_ROUTE_TAKES] = STNI_ROUTE_SPREADS,
        [STNI_ROUTE_SUMS] = STNI_ROUTE_SPREADS,
    };
    const struct stni_route_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const struct stni_route_attrs back = {.mesh = attrs->mesh,
                                          .dim = attrs->dim,
                                          .length = in->ndim > 0 ? in->shape[attrs->dim] : 1,
                                          .op = STN_SUM,
                                          .kind = adjoint[attrs->kind],
                                          .meets = attrs->meets >> 1 | (attrs->meets << 1 & STNI_ROUTE_MEETS_BACK),
                                          .native = stni_native_reverse((enum stni_native)attrs->native),
                                          .root = attrs->root};
    stn_tensor *reversed;
    if (stni_route_reverse(call->context, (const struct stni_route *)stni_words_of(call->in[1]), &reversed) != STN_OK)
        return call->context->error_tensor;
    stn_tensor *g = stni_call(STNI_OP_dist_route, 2, (stn_tensor *[]){call->grad_out[0], reversed}, &back);
    stni_tensor_drop(&reversed);
    return g;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_route_attrs *attrs = call->attrs;
    return stni_all_reduction_backward(call, attrs->mesh, attrs->op, arriving);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "route"}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_route_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_route_attrs, dim), NULL},
    {"length", STN_ATTR_INT, offsetof(struct stni_route_attrs, length), NULL},
    {"op", STN_ATTR_INT, offsetof(struct stni_route_attrs, op), NULL},
    {"kind", STN_ATTR_INT, offsetof(struct stni_route_attrs, kind), NULL},
    {"meets", STN_ATTR_INT, offsetof(struct stni_route_attrs, meets), NULL},
    {"native", STN_ATTR_INT, offsetof(struct stni_route_attrs, native), NULL},
    {"root", STN_ATTR_INT, offsetof(struct stni_route_attrs, root), NULL},
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, .saves = saves, .backward = backward};

const stn_op_desc stni_op_dist_route = {
    .size = sizeof(stn_op_desc),
    .name = "dist_route",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_route_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK | STN_OP_INTERNAL,
    .impl = &impl,
};
