#include "ops/dist/collective.h"

#include "core/base/dtype.h"
#include "core/base/host_alloc.h"
#include "dispatch/registry.h"
#include "ops/common/dims.h"

#include <shardtensor/op.h>

#include <string.h>

const char *const stni_dist_op_names[] = {"sum", "avg", "prod", "min", "max", NULL};
const char *const stni_dist_convention_names[] = {"per_rank", "replicated", NULL};

/* Lists */

static stn_status own(struct stni_dist *d, int64_t n, int64_t **out)
{
    int64_t *list = stni_malloc((size_t)(n + 1) * sizeof *list);
    if (list == NULL)
        return stni_fail_memory(d->context, "a list of sizes", (size_t)n * sizeof *list);
    *out = d->owned[d->n_owned++] = list;
    return STN_OK;
}

/* An ordinary tensor, of a call by name, is read: the host waits for it. */
static stn_status read_list(struct stni_dist *d, const char *name, stn_tensor *tensor, const int64_t **out, int64_t n)
{
    int64_t *list = NULL;
    if (tensor->spec->layout.dtype != STN_DTYPE_I64 || tensor->spec->layout.mesh != NULL)
        return stn_op_fail(d->call, STN_ERR_DTYPE, "'%s' got %s, wanted a local tensor of i64", name,
                           stn_dtype_name(tensor->spec->layout.dtype));
    STNI_TRY(own(d, n, &list));
    *out = list;
    return stn_to_host(tensor, list, (size_t)n * sizeof *list);
}

stn_status stni_dist_list(struct stni_dist *d, int i, const int64_t **out, int64_t *n)
{
    const struct stni_dist_page *page = d->call->arg;
    stn_tensor *tensor = i + 1 < d->call->n_in ? d->call->in[i + 1] : NULL;
    if (!d->lists[i].is_read && tensor != NULL) {
        d->lists[i].n = tensor->spec->numel;
        d->lists[i].words = stni_words_of(tensor);
        if (d->lists[i].words == NULL)
            STNI_TRY(read_list(d, page->lists[i], tensor, &d->lists[i].words, d->lists[i].n));
    }
    d->lists[i].is_read = 1;
    *out = d->lists[i].words;
    *n = d->lists[i].n;
    return STN_OK;
}

/* offsets[r + 1] = offsets[r] + sizes[r]. */
static stn_status add_up(struct stni_dist *d, const char *name, const int64_t *sizes, int64_t *offsets)
{
    offsets[0] = 0;
    for (int r = 0; r < d->p; r++)
        if (sizes[r] < 0 || __builtin_add_overflow(offsets[r], sizes[r], &offsets[r + 1]))
            return stn_op_fail(d->call, STN_ERR_ARGUMENT, "%s[%d] got %lld, wanted 0 or more, and a sum below 2^63",
                               name, r, (long long)sizes[r]);
    return STN_OK;
}

static stn_status alike(struct stni_dist *d, const char *name, int cut, int64_t *offsets)
{
    int64_t all;
    if (!cut && __builtin_mul_overflow(d->n, (int64_t)d->p, &all))
        return stn_op_fail(d->call, STN_ERR_SHAPE, "%s is absent, and %d times %lld elements are no size", name, d->p,
                           (long long)d->n);
    for (int r = 0; r <= d->p; r++)
        offsets[r] = cut ? stni_balanced_offset(d->n, d->p, r) : r * d->n;
    return STN_OK;
}

stn_status stni_dist_sizes(struct stni_dist *d, int i, int cut, const int64_t **out)
{
    const char *name = ((const struct stni_dist_page *)d->call->arg)->lists[i];
    const int64_t *sizes;
    int64_t n, *offsets = NULL;
    STNI_TRY(stni_dist_list(d, i, &sizes, &n));
    STNI_TRY(own(d, d->p, &offsets));
    *out = offsets;
    if (sizes == NULL)
        return alike(d, name, cut, offsets);
    if (n != d->p)
        return stn_op_fail(d->call, STN_ERR_ARGUMENT, "%s got %lld numbers, wanted one for each of the mesh's %d ranks",
                           name, (long long)n, d->p);
    return add_up(d, name, sizes, offsets);
}

stn_status stni_dist_same_sizes(struct stni_dist *d, int i, int cut, const int64_t **offsets)
{
    int64_t n;
    STNI_TRY(stni_dist_list(d, i, &d->facts.sizes, &n));
    if (d->facts.sizes != NULL)
        d->facts.n_sizes = (int)(n < d->p ? n : d->p);
    else
        stni_fact_add(&d->facts, "elements", NULL, d->n);
    return stni_dist_sizes(d, i, cut, offsets);
}

/* Arguments */

stn_status stni_dist_root(struct stni_dist *d, int *out)
{
    const int64_t root = d->attrs->root;
    stni_fact_add(&d->facts, "root", NULL, root);
    if (root < 0 || root >= d->p)
        return stn_op_fail(d->call, STN_ERR_ARGUMENT, "root got %lld, wanted a rank of the mesh, 0 to %d",
                           (long long)root, d->p - 1);
    *out = (int)root;
    return STN_OK;
}

static int can_combine(stn_dtype dtype, stn_reduce_op op)
{
    if (stni_dtype_is_complex(dtype))
        return op == STN_SUM || op == STN_AVG;
    return op != STN_AVG || stni_dtype_is_floating(dtype);
}

stn_status stni_dist_op(struct stni_dist *d)
{
    d->op = (stn_reduce_op)d->attrs->op;
    stni_fact_add(&d->facts, "op", stni_dist_op_names[d->op], d->op);
    if (!can_combine(d->in->dtype, d->op))
        return stn_op_fail(d->call, STN_ERR_DTYPE, "input got %s, which op %s does not combine",
                           stn_dtype_name(d->in->dtype), stni_dist_op_names[d->op]);
    return STN_OK;
}

void stni_dist_set_kind(struct stni_dist *d, enum stni_route_kind kind)
{
    d->kind = d->attrs->convention == STN_GRAD_REPLICATED ? kind : STNI_ROUTE_PLAIN;
}

/* From call to route */

/* What every collective's ranks have alike: all but the size of a dim that is joined or cut. */
static void add_facts(struct stni_dist *d, int along_dim)
{
    stni_fact_add(&d->facts, "dtype", stn_dtype_name(d->in->dtype), d->in->dtype);
    stni_fact_add(&d->facts, "ndim", NULL, d->in->ndim);
    for (int k = 0; k < d->in->ndim; k++)
        if (!along_dim || k != d->dim)
            stni_fact_add(&d->facts, stni_size_labels[k], NULL, d->in->shape[k]);
    if (along_dim)
        stni_fact_add(&d->facts, "dim", NULL, d->dim);
    stni_fact_add(&d->facts, "convention", stni_dist_convention_names[d->attrs->convention], d->attrs->convention);
}

static stn_status begin(struct stni_dist *d)
{
    const struct stni_dist_page *page = d->call->arg;
    if (d->in->mesh)
        return stn_op_fail(d->call, STN_ERR_LAYOUT,
                           "input is on a mesh, wanted a local tensor; a sharded one has its placements");
    if (page->along_dim && d->in->ndim == 0)
        return stn_op_fail(d->call, STN_ERR_SHAPE, "input has no dims, wanted one to join or to cut");
    STNI_TRY(stni_dim_wrap(d->call, "dim", d->attrs->dim, d->in->ndim, &d->dim));
    d->n = d->in->ndim > 0 ? d->in->shape[d->dim] : 1;
    d->length = d->n;
    add_facts(d, page->along_dim);
    return STN_OK;
}

/* The result is a tensor that can be. Its length along the dim may be this rank's alone. */
static stn_status check_result(const struct stni_dist *d)
{
    const stn_spec *spec;
    int64_t shape[STN_MAX_NDIM];
    if (d->length == d->n)
        return STN_OK;
    memcpy(shape, d->in->shape, sizeof shape);
    shape[d->dim] = d->length;
    return stni_spec_local(d->context, d->in->dtype, d->in->ndim, shape, &spec);
}

/* Outside of the mesh a rank gets its input back. */
static stn_status plan(struct stni_dist *d)
{
    STNI_TRY(begin(d));
    if (d->mesh->member) {
        STNI_TRY(((const struct stni_dist_page *)d->call->arg)->plan(d));
        return check_result(d);
    }
    STNI_TRY(stni_dist_send(d, 0, 0, d->n));
    return stni_dist_receive(d, 0, 0, d->n);
}

static stn_status apply(struct stni_dist *d)
{
    const struct stni_dist_page *page = d->call->arg;
    const struct stni_route_attrs attrs = {
        .mesh = d->mesh->id,
        .dim = d->dim,
        .length = d->length,
        .op = d->op,
        .kind = d->kind,
        .meets = page->meets,
        .native = page->native,
        .root = d->attrs->root,
    };
    stn_tensor *route;
    STNI_TRY(stni_route_create(d->context, &d->send, &d->receive, &route));
    d->call->out[0] = stni_call(STNI_OP_dist_route, 2, (stn_tensor *[]){d->call->in[0], route}, &attrs);
    stni_tensor_drop(&route);
    return stn_context_status(d->context);
}

/* A collective that one rank does not record has a backward for which its peers would wait. */
static void add_grad_mode(struct stni_dist *d)
{
    if (!stn_grad_enabled(d->context))
        stni_fact_add(&d->facts, "grad mode", "off", 0);
}

static void fini(struct stni_dist *d)
{
    for (int i = 0; i < d->n_owned; i++)
        stni_free(d->owned[i]);
    stni_ranges_fini(&d->send);
    stni_ranges_fini(&d->receive);
}

stn_status stni_dist_compose(stn_op_call *call)
{
    const struct stni_dist_page *page = call->arg;
    const struct stni_dist_attrs *attrs = call->attrs;
    stn_context *context = call->context;
    if (attrs->mesh < 0 || attrs->mesh >= context->shard.n_meshes)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "mesh got %lld, wanted the number of a mesh of this context",
                           (long long)attrs->mesh);
    struct stni_dist d = {.call = call,
                          .attrs = attrs,
                          .context = context,
                          .mesh = context->shard.meshes[attrs->mesh],
                          .in = &call->in_spec[0]->layout,
                          .facts = {.collective = stn_op_descriptor(call->op)->name}};
    d.p = d.mesh->size;
    d.me = d.mesh->member ? stni_mesh_position(d.mesh, context->rank) : 0;
    if (page->pairs) {
        d.facts.send = &d.send;
        d.facts.receive = &d.receive;
    }
    stn_status status = plan(&d);
    add_grad_mode(&d);
    status = stni_dist_agree(d.mesh, status, &d.facts);
    context->registry->has_told = 1;
    if (status == STN_OK)
        status = page->apply ? page->apply(&d) : apply(&d);
    fini(&d);
    return status;
}

/* From a typed function to the op */

/* What this rank can tell before the op is called. */
static stn_status look(stn_context *context, const char *collective, const stn_tensor *input,
                       const struct stni_dist_attrs *attrs)
{
    STNI_TRY(context->error.status);
    if (input == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: input is missing", collective);
    if (stni_is_error(input))
        return stni_fail(context, STN_ERR_STATE, "%s: input is what an earlier failure returned", collective);
    if (attrs->op < 0 || attrs->op >= STN_REDUCE_OP_COUNT)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: op got %lld, which is none", collective, (long long)attrs->op);
    if (attrs->convention != STN_GRAD_PER_RANK && attrs->convention != STN_GRAD_REPLICATED)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "%s: convention got %lld, wanted STN_GRAD_PER_RANK or STN_GRAD_REPLICATED", collective,
                         (long long)attrs->convention);
    if (attrs->mode < 0 || attrs->mode > STN_PADDING_CIRCULAR)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: mode got %lld, wanted an stn_padding_mode", collective,
                         (long long)attrs->mode);
    return STN_OK;
}

enum { INPUTS = 3 }; /* the tensor, and lists */

static stn_status make_lists(stn_context *context, int n, const struct stni_dist_list *lists, stn_tensor **in)
{
    for (int i = 0; i < n; i++)
        if (lists[i].words != NULL)
            STNI_TRY(stni_words_create(context, lists[i].words, lists[i].n, &in[i]));
    return STN_OK;
}

stn_tensor *stni_dist_call(enum stni_op_index index, stn_tensor *input, const stn_mesh *mesh,
                           const struct stni_dist_attrs *given, int n_lists, const struct stni_dist_list *lists)
{
    const char *collective = stni_op_table[index]->name;
    stn_context *context = input != NULL ? stn_tensor_context(input) : mesh != NULL ? mesh->context : NULL;
    if (context == NULL)
        return NULL;
    if (mesh == NULL || context != mesh->context) {
        stni_dist_no_mesh(context, collective, mesh);
        return context->error_tensor;
    }
    struct stni_dist_attrs attrs = *given;
    attrs.mesh = mesh->id;
    stn_tensor *in[INPUTS] = {input}, *out = context->error_tensor;
    stn_status status = look(context, collective, input, &attrs);
    for (int i = 0; i < n_lists && status == STN_OK; i++)
        if (lists[i].n < 0)
            status = stni_fail(context, STN_ERR_ARGUMENT,
                               "%s: list %d of messages got a bad size, a number below 0, or NULL", collective, i);
    if (status != STN_OK) {
        stni_dist_agree(mesh, status, NULL);
        return out;
    }
    if (make_lists(context, n_lists, lists, in + 1) == STN_OK)
        out = stni_call(index, 1 + n_lists, in, &attrs);
    for (int i = 0; i < n_lists; i++)
        stni_tensor_drop(&in[1 + i]);
    return out;
}
