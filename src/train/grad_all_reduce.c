/* Joining the gradients of groups that train apart: data parallelism over an axis of a mesh whose groups share nothing
 * else. Two agreements of hosts (what is called; what each rank holds), then one all-reduce per bucket. */
#include "autograd/bucket.h"
#include "autograd/captured_gradients.h"
#include "autograd/sync.h"
#include "core/base/host_alloc.h"
#include "ops/redistribute/action.h"
#include "train/joining.h"

#include <shardtensor/train.h>

/* j->words[i]: whether any rank has a gradient of parameter i. */
static stn_status find_gradients(const struct stni_joining *j)
{
    for (int i = 0; i < j->n; i++)
        j->words[i] = stni_joining_has_gradient(j, i);
    return j->same_gradients ? STN_OK : stni_joining_agree(j, j->n);
}

/* The reduction */

/* What this rank brings: its gradient, or zeros where only others have one. */
static stn_status bring(const struct stni_joining *j, int i, struct stni_bucket_item *item)
{
    struct stni_leaf *leaf = j->parameters[i]->leaf;
    STNI_TRY(stni_gradient_used(leaf, STNI_GRADIENT_READ));
    STNI_TRY(stni_gradient_spec(leaf->spec, &item->spec));
    if (!leaf->grad)
        return stni_zeros(j->context, item->spec, &item->in);
    item->in = stn_tensor_retain(leaf->grad);
    return STN_OK;
}

static int same_dtype(const struct stni_bucket_item *items, int n)
{
    int same = 1;
    while (same < n && items[same].spec->layout.dtype == items[0].spec->layout.dtype)
        same++;
    return same;
}

static stn_status reduce(const struct stni_joining *j, int n, struct stni_bucket_item *items)
{
    stn_comm *line;
    STNI_TRY(stni_mesh_comm(j->mesh, 1u << j->axis, &line));
    for (int i = 0; i < n;) {
        const int taken = stni_bucket_fill(items + i, same_dtype(items + i, n - i));
        STNI_TRY(stni_bucket_reduce(j->context, line, j->op, taken, items + i, NULL));
        i += taken;
    }
    return STN_OK;
}

/* The ranks in line hold replicas now, which no mesh of the parameter tells: norms over gradients count the first. */
static void take(const struct stni_joining *j, struct stni_leaf *leaf, struct stni_bucket_item *item)
{
    stni_tensor_drop(&leaf->grad);
    leaf->counted_elsewhere |= j->mesh->coordinate[j->axis] != 0;
    leaf->grad = item->out;
    item->out = NULL;
}

/* Every gradient is replaced, or none. */
static stn_status reduce_all(const struct stni_joining *j, struct stni_bucket_item *items)
{
    stn_status status = STN_OK;
    int n = 0;
    for (int i = 0; i < j->n && status == STN_OK; i++)
        if (j->words[i])
            status = bring(j, i, &items[n++]);
    if (status == STN_OK)
        status = reduce(j, n, items);
    n = 0;
    for (int i = 0; i < j->n && status == STN_OK; i++)
        if (j->words[i])
            status = stni_leaf_place(j->parameters[i]->leaf, &items[n++].out);
    n = 0;
    for (int i = 0; i < j->n; i++)
        if (j->words[i]) {
            if (status == STN_OK)
                take(j, j->parameters[i]->leaf, &items[n]);
            stni_tensor_drop(&items[n].in);
            stni_tensor_drop(&items[n++].out);
        }
    return status;
}

/* A gradient that has been joined is complete anew. A hook may fail on one rank alone. */
static stn_status tell_hooks(const struct stni_joining *j)
{
    const struct stni_facts facts = stni_joining_facts(j);
    for (int i = 0; i < j->n; i++)
        j->parameters[i]->leaf->due |= j->words[i] && j->parameters[i]->leaf->hooks;
    const stn_status status = stni_grad_tell(j->context, j->n, j->parameters);
    return j->has_hooks ? stni_dist_agree(j->mesh, status, &facts) : status;
}

static stn_status join(struct stni_joining *j, struct stni_bucket_item *items)
{
    if (j->mesh->size > 1)
        STNI_TRY(stni_joining_compare(j));
    STNI_TRY(stni_grad_complete(j->context, j->n, j->parameters));
    STNI_TRY(find_gradients(j));
    if (j->mesh->sizes[j->axis] > 1)
        STNI_TRY(reduce_all(j, items));
    return tell_hooks(j);
}

static stn_status run(struct stni_joining *j)
{
    const size_t n_words = STNI_JOINING_WORDS + (size_t)j->mesh->size + 2 * (size_t)j->n;
    const size_t bytes = (size_t)j->n * sizeof(struct stni_bucket_item) + n_words * sizeof *j->words;
    struct stni_bucket_item *items = stni_calloc(1, bytes);
    if (!items)
        return stni_fail_memory(j->context, "list of gradients", bytes);
    j->words = (int64_t *)(items + j->n);
    stn_status status = stni_action_begin(j->context);
    if (status == STN_OK)
        status = stni_action_end(j->context, join(j, items));
    stni_free(items);
    return status;
}

stn_status stn_grad_all_reduce(int n, stn_tensor *const *parameters, const stn_mesh *mesh, int axis, stn_reduce_op op)
{
    const stn_tensor *any = n > 0 && parameters ? parameters[0] : NULL;
    if (!mesh)
        return any ? stni_dist_no_mesh(any->context, "grad_all_reduce", NULL) : STN_ERR_ARGUMENT;
    struct stni_joining j = {.context = mesh->context,
                             .mesh = mesh,
                             .axis = axis,
                             .n = n,
                             .op = op,
                             .parameters = parameters,
                             .same_gradients = 1};
    if (!mesh->member)
        return mesh->context->error.status;
    const stn_status mine = stni_joining_check(&j);
    const struct stni_facts facts = stni_joining_facts(&j);
    STNI_TRY(stni_dist_agree(mesh, mine, &facts));
    return run(&j);
}
