/* Collectives on tensors without gradients, in the memory that the caller has: at once, or begun now and waited for
 * later. Storages count them as changes in place, so that a backward that has saved what they overwrite fails with a
 * text. */
#include "core/base/host_alloc.h"
#include "core/box/box.h"
#include "ops/common/dims.h"
#include "ops/dist/facts.h"

#include "core/tensor/tensor.h"

#include <shardtensor/dist.h>

#include <string.h>

struct stn_dist_request {
    stn_request *inner;
    stn_tensor *in, *out; /* held until it has ended */
    const char *verb;
    stn_comm *comm; /* lives as long as the context */
};

struct plain {
    const char *verb;
    stn_context *context;
    const stn_mesh *mesh;
    stn_tensor *in, *out; /* the same tensor where in place */
    stn_dist_request **request;
    stn_dist_request *begun;
    stn_comm *comm; /* NULL outside of the mesh */
    struct stni_facts facts;
    int64_t *counts; /* owned: two lists of one number per rank */
};

static stn_status check_tensor(const struct plain *p, const char *name, const stn_tensor *t)
{
    if (t == NULL)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s is missing", p->verb, name);
    if (stni_is_error(t) || t->context != p->context)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s is %s", p->verb, name,
                         stni_is_error(t) ? "what an earlier failure returned" : "another context's");
    if (t->spec->layout.mesh != NULL)
        return stni_fail(p->context, STN_ERR_LAYOUT, "%s: %s is on a mesh, wanted a local tensor", p->verb, name);
    if (!stni_tensor_is_dense(t))
        return stni_fail(p->context, STN_ERR_LAYOUT, "%s: the memory of %s has gaps, wanted a dense tensor", p->verb,
                         name);
    return STN_OK;
}

/* What is written here has no history that a gradient could follow, and nobody sees it through another handle. */
static stn_status check_written(const struct plain *p)
{
    const stn_tensor *t = p->out;
    if (t->flags & STNI_TENSOR_VIEW)
        return stni_fail(p->context, STN_ERR_STATE, "%s: the result is a view and cannot be changed in place", p->verb);
    if (atomic_load_explicit(&t->storage->views, memory_order_relaxed) > 0)
        return stni_fail(p->context, STN_ERR_STATE, "%s: the result has views and cannot be changed in place", p->verb);
    if (t->storage->frozen)
        return stni_fail(p->context, STN_ERR_STATE, "%s: the result is immutable and cannot be changed in place", p->verb);
    if (stn_grad_enabled(p->context) && (t->flags & STNI_TENSOR_REQUIRES_GRAD))
        return stni_fail(p->context, STN_ERR_STATE,
                         "%s: the result requires grad while grad mode is on, and this collective has no gradient",
                         p->verb);
    return STN_OK;
}

/* All but the first dim where parts are joined. In place the order of dims in memory counts too; where parts are
 * joined it is row-major. */
static void add_facts(struct plain *p, int from_dim)
{
    const struct stni_layout *l = &p->in->spec->layout;
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

static stn_status begin(struct plain *p, stn_tensor *in, stn_tensor *out, int from_dim)
{
    STNI_TRY(p->context->error.status);
    STNI_TRY(check_tensor(p, "input", in));
    STNI_TRY(check_tensor(p, "result", out));
    p->in = in;
    p->out = out;
    add_facts(p, from_dim);
    return check_written(p);
}

/* The context of a call, or why there is none. */
static stn_status enter(struct plain *p, const char *verb, const stn_mesh *mesh, stn_dist_request **request)
{
    if (mesh == NULL)
        return STN_ERR_ARGUMENT;
    *p = (struct plain){
        .verb = verb, .context = mesh->context, .mesh = mesh, .request = request, .facts = {.verb = verb}};
    if (request != NULL)
        *request = NULL;
    return STN_OK;
}

static stn_status make_request(struct plain *p)
{
    if (p->request == NULL)
        return STN_OK;
    p->begun = stni_calloc(1, sizeof *p->begun);
    if (p->begun == NULL)
        return stni_fail_memory(p->context, "a request", sizeof *p->begun);
    *p->begun = (stn_dist_request){
        .in = stn_tensor_retain(p->in), .out = stn_tensor_retain(p->out), .verb = p->verb, .comm = p->comm};
    return STN_OK;
}

/* Blocking, the ranks agree first. One that is begun for later is not held up by an agreement, which would wait for
 * those that are under way. */
static stn_status ready(struct plain *p, stn_status status)
{
    if (p->request == NULL)
        status = stni_dist_agree(p->mesh, status, &p->facts);
    if (status == STN_OK && p->mesh->member)
        status = stni_mesh_comm(p->mesh, (1u << p->mesh->ndim) - 1, &p->comm);
    if (status == STN_OK && p->comm != NULL)
        status = make_request(p);
    return status;
}

static stn_request **inner(const struct plain *p)
{
    return p->begun ? &p->begun->inner : NULL;
}

static void drop_request(stn_dist_request *request)
{
    stn_tensor_release(&request->in);
    stn_tensor_release(&request->out);
    stni_free(request);
}

static stn_status failed(stn_context *context, const char *verb, stn_status status, const char *text)
{
    if (context->error.status != STN_OK)
        return context->error.status;
    return stni_fail_rank(context, status, "%s: %s", verb, text[0] != '\0' ? text : stn_status_text(status));
}

/* After the communicator's call. */
static stn_status end(struct plain *p, stn_status status)
{
    p->out->storage->version++;
    stni_free(p->counts);
    if (status != STN_OK && p->begun != NULL)
        drop_request(p->begun);
    if (status != STN_OK)
        return failed(p->context, p->verb, status, stn_comm_error_text(p->comm));
    if (p->request != NULL)
        *p->request = p->begun;
    return STN_OK;
}

/* A call that moves nothing on this rank. */
static stn_status leave(struct plain *p, stn_status status)
{
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
    stn_context *context = r->out->context;
    stn_status status = stn_request_wait(&r->inner);
    if (context->closed)
        status = status != STN_OK ? status : STN_ERR_STATE;
    else if (status != STN_OK)
        status = failed(context, r->verb, status, stn_comm_error_text(r->comm));
    r->out->storage->version++; /* whoever saved it meanwhile has saved what was half written */
    drop_request(r);
    *request = NULL;
    return status;
}

static stn_status check_op(struct plain *p, stn_reduce_op op)
{
    if ((unsigned)op >= STN_REDUCE_OP_COUNT)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: op got %d, which is none", p->verb, (int)op);
    stni_fact_add(&p->facts, "op", NULL, op);
    if (!stni_box_reduces(p->in->spec->layout.dtype, op))
        return stni_fail(p->context, STN_ERR_DTYPE, "%s: input got %s, which has no order", p->verb,
                         stn_dtype_name(p->in->spec->layout.dtype));
    return STN_OK;
}

stn_status stn_dist_all_reduce_in_place(stn_tensor *tensor, const stn_mesh *mesh, stn_reduce_op op,
                                        stn_dist_request **request)
{
    struct plain p;
    STNI_TRY(enter(&p, "dist_all_reduce_in_place", mesh, request));
    stn_status status = begin(&p, tensor, tensor, 0);
    if (status == STN_OK)
        status = check_op(&p, op);
    status = ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return leave(&p, status);
    return end(&p, stn_comm_all_reduce(p.comm, tensor->data, tensor->data, tensor->spec->numel,
                                       tensor->spec->layout.dtype, op, inner(&p)));
}

stn_status stn_dist_broadcast_in_place(stn_tensor *tensor, const stn_mesh *mesh, int root, stn_dist_request **request)
{
    struct plain p;
    STNI_TRY(enter(&p, "dist_broadcast_in_place", mesh, request));
    stn_status status = begin(&p, tensor, tensor, 0);
    stni_fact_add(&p.facts, "root", NULL, root);
    if (status == STN_OK && (root < 0 || root >= mesh->size))
        status = stni_fail(p.context, STN_ERR_ARGUMENT, "%s: root got %d, wanted a rank of the mesh, 0 to %d", p.verb,
                           root, mesh->size - 1);
    status = ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return leave(&p, status);
    return end(
        &p, stn_comm_broadcast(p.comm, tensor->data, tensor->spec->numel, tensor->spec->layout.dtype, root, inner(&p)));
}

/* Forms whose parts stand one behind the other along the first dim */

/* Elements of one row: of all dims but the first. */
static int64_t row_of(const stn_tensor *t)
{
    int64_t n = 1;
    for (int d = 1; d < t->spec->layout.ndim; d++)
        n *= t->spec->layout.shape[d];
    return n;
}

static int is_row_major(const stn_tensor *t)
{
    int64_t n = 1;
    for (int d = t->spec->layout.ndim - 1; d >= 0; d--) {
        if (t->spec->layout.shape[d] > 1 && t->strides[d] != n)
            return 0;
        n *= t->spec->layout.shape[d];
    }
    return 1;
}

static stn_status check_rows(const struct plain *p)
{
    const struct stni_layout *a = &p->in->spec->layout, *b = &p->out->spec->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (a->ndim < 1 || a->ndim != b->ndim || a->dtype != b->dtype ||
        memcmp(a->shape + 1, b->shape + 1, sizeof a->shape - sizeof a->shape[0]) != 0)
        return stni_fail(p->context, STN_ERR_SHAPE,
                         "%s: the result got %s %s, wanted the dtype and all but the first dim of the input's %s %s",
                         p->verb, stn_dtype_name(b->dtype), stni_shape_text(b->ndim, b->shape, got),
                         stn_dtype_name(a->dtype), stni_shape_text(a->ndim, a->shape, wanted));
    if (p->in->storage == p->out->storage)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: input and result share memory", p->verb);
    if (!is_row_major(p->in) || !is_row_major(p->out))
        return stni_fail(p->context, STN_ERR_LAYOUT, "%s: the memory of %s is not row-major", p->verb,
                         is_row_major(p->in) ? "the result" : "input");
    return STN_OK;
}

/* Counts of elements from sizes of the first dim; absent, `rows` are cut evenly, or with `each` are every rank's.
 * `what` has `total` rows. */
static stn_status take_sizes(struct plain *p, int list, const char *name, const int64_t *sizes, int64_t rows, int each,
                             int64_t total)
{
    const int n = p->mesh->size;
    const int64_t row = row_of(p->in);
    int64_t sum = 0;
    if (p->counts == NULL)
        p->counts = stni_calloc(2 * (size_t)n, sizeof *p->counts);
    if (p->counts == NULL)
        return stni_fail_memory(p->context, "a list of sizes", 2 * (size_t)n * sizeof *p->counts);
    for (int r = 0; r < n; r++) {
        int64_t size = sizes  ? sizes[r]
                       : each ? rows
                              : stni_balanced_offset(rows, n, r + 1) - stni_balanced_offset(rows, n, r);
        if (size < 0 || __builtin_add_overflow(sum, size, &sum))
            return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s[%d] got %lld, wanted 0 or more", p->verb, name, r,
                             (long long)size);
        p->counts[list * n + r] = size * row;
    }
    if (sum == total)
        return STN_OK;
    return stni_fail(p->context, STN_ERR_SHAPE,
                     "%s: the sum of %s is %lld, wanted %lld, the rows of the tensor that they make up", p->verb, name,
                     (long long)sum, (long long)total);
}

static int64_t rows_of(const stn_tensor *t)
{
    return t->spec->layout.shape[0];
}

/* This rank's own part has as many rows as its size says. */
static stn_status check_own(const struct plain *p, const char *name, const stn_tensor *t)
{
    const int me = stni_mesh_position(p->mesh, p->context->rank);
    if (me < 0 || p->counts[me] == t->spec->numel)
        return STN_OK;
    return stni_fail(p->context, STN_ERR_SHAPE, "%s: %s has %lld elements, wanted %lld, as sizes[%d] says", p->verb,
                     name, (long long)t->spec->numel, (long long)p->counts[me], me);
}

static void add_sizes(struct plain *p, const int64_t *sizes, int64_t rows)
{
    p->facts.sizes = sizes;
    p->facts.n_sizes = sizes ? p->mesh->size : 0;
    if (sizes == NULL)
        stni_fact_add(&p->facts, "rows", NULL, rows);
}

stn_status stn_dist_all_gather_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, const int64_t *sizes,
                                    stn_dist_request **request)
{
    struct plain p;
    STNI_TRY(enter(&p, "dist_all_gather_into", mesh, request));
    stn_status status = begin(&p, input, result, 1);
    if (status == STN_OK && mesh->member)
        status = check_rows(&p);
    if (status == STN_OK && mesh->member) {
        add_sizes(&p, sizes, rows_of(input));
        status = take_sizes(&p, 0, "sizes", sizes, rows_of(input), 1, rows_of(result));
    }
    if (status == STN_OK && mesh->member)
        status = check_own(&p, "input", input);
    status = ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return leave(&p, status);
    return end(&p,
               stn_comm_all_gather(p.comm, input->data, result->data, p.counts, input->spec->layout.dtype, inner(&p)));
}

stn_status stn_dist_reduce_scatter_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                        const int64_t *sizes, stn_reduce_op op, stn_dist_request **request)
{
    struct plain p;
    STNI_TRY(enter(&p, "dist_reduce_scatter_into", mesh, request));
    stn_status status = begin(&p, input, result, 1);
    if (status == STN_OK)
        status = check_op(&p, op);
    if (status == STN_OK && mesh->member)
        status = check_rows(&p);
    if (status == STN_OK && mesh->member) {
        add_sizes(&p, sizes, rows_of(input));
        status = take_sizes(&p, 0, "sizes", sizes, rows_of(input), 0, rows_of(input));
    }
    if (status == STN_OK && mesh->member)
        status = check_own(&p, "the result", result);
    status = ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return leave(&p, status);
    return end(&p, stn_comm_reduce_scatter(p.comm, input->data, result->data, p.counts, input->spec->layout.dtype, op,
                                           inner(&p)));
}

stn_status stn_dist_all_to_all_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                    const int64_t *send_sizes, const int64_t *receive_sizes, stn_dist_request **request)
{
    struct plain p;
    STNI_TRY(enter(&p, "dist_all_to_all_into", mesh, request));
    stn_status status = begin(&p, input, result, 1);
    if (status == STN_OK && mesh->member && (send_sizes == NULL || receive_sizes == NULL))
        status = stni_fail(p.context, STN_ERR_ARGUMENT,
                           "%s: send_sizes or receive_sizes is NULL, wanted one number for each rank", p.verb);
    if (status == STN_OK && mesh->member)
        status = check_rows(&p);
    if (status == STN_OK && mesh->member)
        status = take_sizes(&p, 0, "send_sizes", send_sizes, 0, 0, rows_of(input));
    if (status == STN_OK && mesh->member)
        status = take_sizes(&p, 1, "receive_sizes", receive_sizes, 0, 0, rows_of(result));
    status = ready(&p, status);
    if (status != STN_OK || p.comm == NULL)
        return leave(&p, status);
    return end(&p, stn_comm_all_to_all(p.comm, input->data, p.counts, result->data, p.counts + mesh->size,
                                       input->spec->layout.dtype, inner(&p)));
}
