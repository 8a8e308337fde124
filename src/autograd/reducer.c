#include "autograd/reducer.h"

#include "autograd/bucket.h"
#include "autograd/captured_gradients.h"
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"

enum { FIRST_CAP = 16 };

/* Whose gradient an item is, and what the leaf is given back where it is not completed. */
struct part {
    struct stni_leaf *leaf;
    struct stni_leaf_before before; /* of a gradient that was pending */
};

/* A bucket, or one gradient that is moved. */
struct stni_grad_reduction {
    struct stni_grad_reduction *next;
    int n, cap;
    struct stni_bucket_item *items; /* `in` is retained */
    struct part *parts;
    int moves; /* one gradient, to its chunks */
    stn_comm *comm;
    stn_request *request; /* of a bucket that was begun; NULL else */
};

static stn_status whole_of(const stn_spec *pending, const stn_spec **out)
{
    struct stni_layout layout = pending->layout;
    for (int a = 0; a < layout.mesh->ndim; a++)
        if (pending->partial_axes >> a & 1)
            layout.placement[a] = stn_replicate();
    return stni_spec_intern(pending->context, &layout, out);
}

/* Buckets */

static int is_alike(const stn_spec *a, const stn_spec *b)
{
    return a->layout.mesh == b->layout.mesh && a->layout.dtype == b->layout.dtype && a->partial_axes == b->partial_axes;
}

static stn_status grow(stn_context *context, struct stni_grad_reduction *r)
{
    const int cap = r->cap ? 2 * r->cap : FIRST_CAP;
    struct stni_bucket_item *items = stni_realloc(r->items, (size_t)cap * sizeof *items);
    if (items)
        r->items = items;
    struct part *parts = stni_realloc(r->parts, (size_t)cap * sizeof *parts);
    if (parts)
        r->parts = parts;
    if (!items || !parts)
        return stni_fail_memory(context, "a bucket of gradients", (size_t)cap * (sizeof *items + sizeof *parts));
    r->cap = cap;
    return STN_OK;
}

static void append(struct stni_grad_reduction **list, struct stni_grad_reduction *r)
{
    while (*list)
        list = &(*list)->next;
    r->next = NULL;
    *list = r;
}

static void unlink_from(struct stni_grad_reduction **list, const struct stni_grad_reduction *r)
{
    while (*list != r)
        list = &(*list)->next;
    *list = r->next;
}

static struct stni_grad_reduction *find_filling(const struct stni_reducer *reducer, const stn_spec *spec)
{
    struct stni_grad_reduction *r = reducer->filling;
    while (r && !is_alike(r->items[0].in->spec, spec))
        r = r->next;
    return r;
}

/* One with space for a part, in no list. */
static stn_status create(stn_context *context, struct stni_grad_reduction **out)
{
    struct stni_grad_reduction *r = stni_calloc(1, sizeof *r);
    if (!r)
        return stni_fail_memory(context, "a bucket of gradients", sizeof *r);
    const stn_status status = grow(context, r);
    if (status == STN_OK) {
        *out = r;
        return STN_OK;
    }
    stni_free(r->items);
    stni_free(r->parts);
    stni_free(r);
    return status;
}

/* What happened to each part is over: `failed`, or its result was added. */
static void destroy(struct stni_grad_reduction *r, int failed)
{
    for (int i = 0; i < r->n; i++) {
        struct part *part = &r->parts[i];
        part->leaf->reducing--;
        if (failed && !r->moves)
            stni_leaf_give_back(part->leaf, &part->before);
        stni_tensor_drop(&part->before.pending);
        stni_tensor_drop(&r->items[i].in);
        stni_tensor_drop(&r->items[i].out);
        stni_leaf_release(part->leaf);
    }
    stni_free(r->items);
    stni_free(r->parts);
    stni_free(r);
}

static void put(struct stni_grad_reduction *r, struct stni_leaf *leaf, stn_tensor *in, struct stni_leaf_before before)
{
    r->items[r->n] = (struct stni_bucket_item){.in = in};
    r->parts[r->n++] = (struct part){leaf, before};
    leaf->reducing++;
    stni_leaf_retain(leaf);
}

/* Reducing them */

static stn_status add_result(struct stni_grad_reduction *r, int i)
{
    struct stni_leaf *leaf = r->parts[i].leaf;
    STNI_TRY(stni_tensor_arrive(r->items[i].out));
    if (r->moves)
        return stni_leaf_take(leaf, &r->items[i].out);
    leaf->counted_elsewhere = 0;
    return stni_leaf_add(leaf, r->items[i].out->spec, r->items[i].out);
}

static stn_status wait_for(stn_context *context, struct stni_grad_reduction *r)
{
    if (!r->request)
        return STN_OK;
    const stn_status status = stn_request_wait(&r->request);
    if (status == STN_OK || context->error.status != STN_OK)
        return status;
    return stni_fail_rank(context, status, "stn_backward: %s", stn_comm_error_text(r->comm));
}

static stn_status complete(stn_context *context, struct stni_grad_reduction *r)
{
    STNI_TRY(wait_for(context, r));
    for (int i = 0; i < r->n; i++)
        STNI_TRY(add_result(r, i));
    return STN_OK;
}

/* One gradient on its own: redistribution knows the better ways for a large one. */
static stn_status reduce_one(const struct stni_reducer *reducer, struct stni_bucket_item *item)
{
    return reducer->beside ? stni_redistribute_begin(item->in, item->spec, &item->out)
                           : stni_redistribute(item->in, item->spec, &item->out);
}

static stn_status reduce(const struct stni_reducer *reducer, struct stni_grad_reduction *r)
{
    const stn_spec *spec = r->items[0].in->spec;
    for (int i = 0; i < r->n; i++)
        STNI_TRY(whole_of(r->items[i].in->spec, &r->items[i].spec));
    if (r->n == 1)
        return reduce_one(reducer, &r->items[0]);
    STNI_TRY(stni_mesh_comm(spec->layout.mesh, spec->partial_axes, &r->comm));
    return stni_bucket_reduce(reducer->context, r->comm, STN_SUM, r->n, r->items, reducer->beside ? &r->request : NULL);
}

/* A bucket that was filling. Without a caller beside whom to go on it is completed, and its memory free for the
 * next. */
static stn_status begin(struct stni_reducer *reducer, struct stni_grad_reduction *r)
{
    unlink_from(&reducer->filling, r);
    append(&reducer->begun, r);
    STNI_TRY(reduce(reducer, r));
    if (reducer->beside)
        return STN_OK;
    STNI_TRY(complete(reducer->context, r));
    unlink_from(&reducer->begun, r);
    destroy(r, 0);
    return STN_OK;
}

/* A rank outside of the mesh takes part in nothing, and has no chunks to count. */
static int is_full(const struct stni_grad_reduction *r)
{
    return !r->items[0].in->spec->layout.mesh->member || stni_bucket_is_full(r->items, r->n);
}

/* The bucket that a gradient of `spec` goes to, with space for it. */
static stn_status bucket_for(struct stni_reducer *reducer, const stn_tensor *in, struct stni_grad_reduction **out)
{
    struct stni_grad_reduction *r = find_filling(reducer, in->spec);
    if (r && !stni_bucket_takes(r->items, r->n, in)) {
        STNI_TRY(begin(reducer, r));
        r = NULL;
    }
    if (r && r->n == r->cap)
        STNI_TRY(grow(reducer->context, r));
    if (!r) {
        STNI_TRY(create(reducer->context, &r));
        append(&reducer->filling, r);
    }
    *out = r;
    return STN_OK;
}

stn_status stni_reducer_add(struct stni_reducer *reducer, struct stni_leaf *leaf, const struct stni_leaf_before *before)
{
    struct stni_grad_reduction *r = NULL;
    struct stni_leaf_before own = *before;
    STNI_TRY(stni_gradient_used(leaf, STNI_GRADIENT_ADDED_TO));
    STNI_TRY(bucket_for(reducer, leaf->pending, &r));
    own.pending = stn_tensor_retain(own.pending);
    put(r, leaf, leaf->pending, own);
    leaf->pending = NULL;
    return is_full(r) ? begin(reducer, r) : STN_OK;
}

stn_status stni_reducer_move(struct stni_reducer *reducer, struct stni_leaf *leaf, stn_tensor *gradient,
                             const stn_spec *whole)
{
    struct stni_grad_reduction *r = NULL;
    STNI_TRY(create(reducer->context, &r));
    r->moves = 1;
    put(r, leaf, stn_tensor_retain(gradient), (struct stni_leaf_before){0});
    r->items[0].spec = whole;
    append(&reducer->begun, r);
    return stni_redistribute_begin(gradient, whole, &r->items[0].out);
}

/* After a failure nothing is added, but all that was begun has ended before its memory goes. */
static stn_status end_one(stn_context *context, struct stni_grad_reduction *r, stn_status status)
{
    const stn_status own = status == STN_OK ? complete(context, r) : wait_for(context, r);
    return status == STN_OK ? own : status;
}

stn_status stni_reducer_end(struct stni_reducer *reducer, stn_status status)
{
    while (status == STN_OK && reducer->filling)
        status = begin(reducer, reducer->filling);
    while (reducer->begun || reducer->filling) {
        struct stni_grad_reduction **list = reducer->begun ? &reducer->begun : &reducer->filling, *r = *list;
        status = end_one(reducer->context, r, status);
        *list = r->next;
        destroy(r, status != STN_OK);
    }
    return status;
}
