/* Collectives on tensors without gradients, in the memory that the caller has: at once, or begun now and waited for
 * later. Storages count them as changes in place, so that a backward that has saved what they overwrite fails with a
 * text. Here is what all forms share; forms of one tensor. */
#include "ops/dist/plain.h"

#include "core/base/host_alloc.h"
#include "core/box/box.h"
#include "core/tensor/copy_on_write.h"
#include "ops/common/dims.h"
#include "ops/dist/combine.h"

#include <string.h>

static stn_status check_tensor(const struct stni_plain *p, const char *what, const stn_tensor *t)
{
    if (t == NULL)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s is missing", p->name, what);
    if (stni_is_error(t) || t->context != p->context)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s is %s", p->name, what,
                         stni_is_error(t) ? "what an earlier failure returned" : "another context's");
    if (t->spec->layout.mesh != NULL)
        return stni_fail(p->context, STN_ERR_LAYOUT, "%s: %s is on a mesh, wanted a local tensor", p->name, what);
    if (!stni_tensor_is_dense(t))
        return stni_fail(p->context, STN_ERR_LAYOUT, "%s: the memory of %s has gaps, wanted a dense tensor", p->name,
                         what);
    return STN_OK;
}

/* What is written here has no history that a gradient could follow, and nobody sees it through another handle. */
static stn_status check_written(const struct stni_plain *p)
{
    const stn_tensor *t = p->out;
    if (t->flags & STNI_TENSOR_VIEW)
        return stni_fail(p->context, STN_ERR_STATE, "%s: the result is a view and cannot be changed in place", p->name);
    if (atomic_load_explicit(&t->storage->views, memory_order_relaxed) > 0)
        return stni_fail(p->context, STN_ERR_STATE, "%s: the result has views and cannot be changed in place", p->name);
    if (t->storage->frozen)
        return stni_fail(p->context, STN_ERR_STATE, "%s: the result is immutable and cannot be changed in place",
                         p->name);
    if (stn_grad_enabled(p->context) && (t->flags & STNI_TENSOR_REQUIRES_GRAD))
        return stni_fail(p->context, STN_ERR_STATE,
                         "%s: the result requires grad while grad mode is on, and this collective has no gradient",
                         p->name);
    return STN_OK;
}

static const struct stni_layout *layout_of(const struct stni_plain *p)
{
    return p->in != NULL ? &p->in->spec->layout : &p->out->spec->layout;
}

stn_dtype stni_plain_dtype(const struct stni_plain *p)
{
    return layout_of(p)->dtype;
}

/* All but the first dim where parts are joined. In place the order of dims in memory counts too; where parts are
 * joined it is row-major. */
static void add_facts(struct stni_plain *p, int from_dim)
{
    const struct stni_layout *l = layout_of(p);
    int64_t order = 0;
    stni_fact_add(&p->facts, "dtype", stn_dtype_name(l->dtype), l->dtype);
    stni_fact_add(&p->facts, "ndim", NULL, l->ndim);
    for (int d = from_dim; d < l->ndim; d++)
        stni_fact_add(&p->facts, stni_size_labels[d], NULL, l->shape[d]);
    for (int d = 0; d < l->ndim; d++)
        order = order * 10 + l->memory_order[d];
    if (from_dim == 0)
        stni_fact_add(&p->facts, "memory order", NULL, order);
}

stn_status stni_plain_begin(struct stni_plain *p, int gives, int gets, int from_dim)
{
    p->in = gives ? p->in : NULL;
    p->out = gets ? p->out : NULL;
    STNI_TRY(p->context->error.status);
    if (gives)
        STNI_TRY(check_tensor(p, "input", p->in));
    if (gets)
        STNI_TRY(check_tensor(p, "result", p->out));
    if (gives && p->request != NULL) /* what it shows may change before the request ends */
        STNI_TRY(stni_tensor_own_memory(p->in));
    if (gets)
        STNI_TRY(stni_tensor_before_write(p->out));
    if (gives || gets)
        add_facts(p, from_dim);
    return gets ? check_written(p) : STN_OK;
}

stn_status stni_plain_enter(struct stni_plain *p)
{
    const stn_tensor *any = p->in != NULL ? p->in : p->out;
    if (p->request != NULL)
        *p->request = NULL;
    if (p->mesh == NULL)
        return any != NULL ? stni_dist_no_mesh(any->context, p->name, NULL) : STN_ERR_ARGUMENT;
    p->context = p->mesh->context;
    p->me = p->mesh->member ? stni_mesh_position(p->mesh, p->context->rank) : -1;
    p->facts.collective = p->name;
    p->had_failed = p->context->error.status != STN_OK;
    if (p->request == NULL)
        return STN_OK;
    return stni_context_not_captured(p->context, p->name,
                                     "where nothing goes beside the caller: pass NULL for the request");
}

static void drop_overlap(struct stni_plain_overlap *overlap)
{
    stni_ranges_fini(&overlap->parts);
    stni_free(overlap->boxes);
    stn_tensor_release(&overlap->memory);
    overlap->boxes = NULL;
}

static stn_status make_request(struct stni_plain *p)
{
    if (p->request == NULL)
        return STN_OK;
    p->begun = stni_calloc(1, sizeof *p->begun);
    if (p->begun == NULL)
        return stni_fail_memory(p->context, "a request", sizeof *p->begun);
    *p->begun = (stn_dist_request){.context = p->context, .name = p->name, .comm = p->comm};
    p->begun->in = p->in != NULL ? stn_tensor_retain(p->in) : NULL;
    p->begun->out = p->out != NULL ? stn_tensor_retain(p->out) : NULL;
    return STN_OK;
}

/* Blocking, the ranks agree first. One that is begun for later is not held up by an agreement, which would wait for
 * those that are under way. */
static stn_status agree(const struct stni_plain *p, stn_status status)
{
    if (p->request == NULL)
        return stni_dist_agree(p->mesh, status, &p->facts);
    return status == STN_OK || !p->mesh->member ? status : stni_dist_count_refusal(p->context, !p->had_failed);
}

stn_status stni_plain_ready(struct stni_plain *p, stn_status status)
{
    status = agree(p, status);
    if (status == STN_OK && p->mesh->member)
        status = stni_mesh_comm(p->mesh, (1u << p->mesh->ndim) - 1, &p->comm);
    if (status == STN_OK && p->comm != NULL)
        status = make_request(p);
    return status;
}

stn_request **stni_plain_inner(const struct stni_plain *p)
{
    return p->begun ? &p->begun->inner : NULL;
}

static void drop_request(stn_dist_request *request)
{
    drop_overlap(&request->overlap);
    stn_tensor_release(&request->in);
    stn_tensor_release(&request->out);
    stni_free(request);
}

static stn_status failed(stn_context *context, const char *name, stn_status status, const char *text)
{
    if (context->error.status != STN_OK)
        return context->error.status;
    return stni_fail_rank(context, status, "%s: %s", name, text[0] != '\0' ? text : stn_status_text(status));
}

/* What came beside the result is added into it. */
static stn_status add_up(const struct stni_plain_overlap *overlap, const stn_tensor *out)
{
    stn_box to;
    if (overlap->memory == NULL || out->spec->numel == 0)
        return STN_OK;
    stni_tensor_box(out, &to);
    return stni_fail_queue(out->context,
                           stni_ranges_combine(out->context, &to, 0, overlap->parts.list, overlap->parts.n,
                                               overlap->boxes, out->spec->layout.dtype, STN_SUM));
}

static void count_change(stn_tensor *out)
{
    if (out != NULL)
        out->storage->version++;
}

static stn_status end_blocking(struct stni_plain *p, stn_status status)
{
    if (status != STN_OK)
        status = failed(p->context, p->name, status, stn_comm_error_text(p->comm));
    else
        status = add_up(&p->overlap, p->out);
    return stni_plain_leave(p, status);
}

stn_status stni_plain_end(struct stni_plain *p, stn_status status)
{
    count_change(p->out);
    if (p->begun == NULL || status != STN_OK)
        return end_blocking(p, status);
    p->begun->overlap = p->overlap;
    p->overlap = (struct stni_plain_overlap){{0}, NULL, NULL};
    *p->request = p->begun;
    p->begun = NULL;
    return stni_plain_leave(p, STN_OK);
}

stn_status stni_plain_leave(struct stni_plain *p, stn_status status)
{
    if (p->begun != NULL)
        drop_request(p->begun);
    drop_overlap(&p->overlap);
    stni_free(p->counts);
    return status;
}

stn_status stn_dist_wait(stn_dist_request **request)
{
    if (request == NULL)
        return STN_ERR_ARGUMENT;
    if (*request == NULL) /* outside of the mesh */
        return STN_OK;
    stn_dist_request *r = *request;
    stn_context *context = r->context;
    stn_status status = stn_request_wait(&r->inner);
    if (context->closed)
        status = status != STN_OK ? status : STN_ERR_STATE;
    else if (status != STN_OK)
        status = failed(context, r->name, status, stn_comm_error_text(r->comm));
    else
        status =
            stni_context_not_captured(context, "dist_wait", "whose repetitions would not wait: wait before it begins");
    if (status == STN_OK)
        status = add_up(&r->overlap, r->out);
    count_change(r->out); /* whoever saved it meanwhile has saved what was half written */
    drop_request(r);
    *request = NULL;
    return status;
}

stn_status stni_plain_check_op(struct stni_plain *p, stn_reduce_op op)
{
    const stn_dtype dtype = stni_plain_dtype(p);
    if ((unsigned)op >= STN_REDUCE_OP_COUNT)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: op got %d, which is none", p->name, (int)op);
    stni_fact_add(&p->facts, "op", NULL, op);
    if (!stni_box_reduces(dtype, op))
        return stni_fail(p->context, STN_ERR_DTYPE, "%s: input got %s, which has no order", p->name,
                         stn_dtype_name(dtype));
    return STN_OK;
}

stn_status stni_plain_check_root(struct stni_plain *p, int root)
{
    stni_fact_add(&p->facts, "root", NULL, root);
    if (root < 0 || root >= p->mesh->size)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: root got %d, wanted a rank of the mesh, 0 to %d", p->name,
                         root, p->mesh->size - 1);
    return STN_OK;
}

stn_status stn_dist_all_reduce_in_place(stn_tensor *tensor, const stn_mesh *mesh, stn_reduce_op op,
                                        stn_dist_request **request)
{
    struct stni_plain p = {
        .name = "dist_all_reduce_in_place", .mesh = mesh, .in = tensor, .out = tensor, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    stn_status status = stni_plain_begin(&p, 1, 1, 0);
    if (status == STN_OK)
        status = stni_plain_check_op(&p, op);
    status = stni_plain_ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_all_reduce(p.comm, tensor->data, tensor->data, tensor->spec->numel,
                                                  tensor->spec->layout.dtype, op, stni_plain_inner(&p)));
}

stn_status stn_dist_broadcast_in_place(stn_tensor *tensor, const stn_mesh *mesh, int root, stn_dist_request **request)
{
    struct stni_plain p = {
        .name = "dist_broadcast_in_place", .mesh = mesh, .in = tensor, .out = tensor, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    stn_status status = stni_plain_begin(&p, 1, 1, 0);
    if (status == STN_OK)
        status = stni_plain_check_root(&p, root);
    status = stni_plain_ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_broadcast(p.comm, tensor->data, tensor->spec->numel, tensor->spec->layout.dtype,
                                                 root, stni_plain_inner(&p)));
}
