#include "ops/local/map_node.h"

#include "autograd/node.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "ops/dist/facts.h"
#include "ops/redistribute/action.h"

#include <string.h>

struct holder {
    const stn_mesh *mesh;
    stn_status (*backward)(stn_local_backward_call *call);
    int of_ops;
    void *arg;
    void (*destroy)(void *arg);
};

static void release_holder(void *data)
{
    struct holder *holder = data;
    if (holder->destroy)
        holder->destroy(holder->arg);
    stni_free(holder);
}

static stn_status wrap(stn_context *context, struct holder *holder, stn_tensor **out)
{
    static const int64_t bytes = sizeof *holder;
    const stn_spec *spec;
    struct stni_storage *storage;
    STNI_TRY(stni_spec_local(context, STN_DTYPE_U8, 1, &bytes, &spec));
    STNI_TRY(stni_storage_wrap(context, holder, sizeof *holder, NULL, NULL, &storage));
    stn_status status = stni_tensor_on(context, spec, storage, holder, NULL, 0, out);
    if (status == STN_OK) { /* from here on the storage gives it up */
        storage->release_arg = holder;
        storage->release = release_holder;
    }
    stni_storage_release(storage);
    return status;
}

stn_status stni_map_holder_create(stn_context *context, const stn_local_map_options *map, const stn_mesh *mesh,
                                  stn_tensor **out)
{
    struct holder *holder = stni_malloc(sizeof *holder);
    if (holder == NULL) {
        if (map->destroy)
            map->destroy(map->arg);
        return stni_fail_memory(context, "a local map", sizeof *holder);
    }
    *holder = (struct holder){mesh, map->backward, map->backward_of_ops, map->arg, map->destroy};
    const stn_status status = wrap(context, holder, out);
    if (status != STN_OK)
        release_holder(holder);
    return status;
}

stn_status stni_map_agree(const stn_mesh *mesh, stn_status status, const char *what, uint64_t histories)
{
    struct stni_facts facts = {.collective = what};
    stni_fact_add(&facts, "outputs that depend on what requires grad, as bits", NULL, (int64_t)histories);
    return stni_dist_agree(mesh, status, &facts);
}

static stn_status zero_cotangents(const stn_backward_call *call, stn_tensor **grad_out)
{
    for (int k = 0; k < call->n_out; k++) {
        grad_out[k] = call->grad_out[k];
        if (grad_out[k] || !stn_dtype_is_differentiable(call->out_spec[k]->layout.dtype))
            continue;
        STNI_TRY(stni_zeros(call->context, call->out_spec[k], &grad_out[k]));
        grad_out[k] = stni_tensor_publish(grad_out[k]);
    }
    return STN_OK;
}

static stn_status check_gradient(const stn_spec *in, int i, const stn_tensor *grad)
{
    const struct stni_layout *a = &in->layout,
                             *b = stni_is_error(grad) || grad->context != in->context ? NULL : &grad->spec->layout;
    if (b && !b->mesh && a->dtype == b->dtype && a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape) == 0)
        return STN_OK;
    return stni_fail(in->context, STN_ERR_CALLBACK,
                     "local_map: backward gave a gradient of in[%d] that is not a local tensor of its shape and "
                     "dtype",
                     i);
}

static stn_status check_gradients(const stn_backward_call *call, int n_in)
{
    for (int i = 0; i < n_in; i++)
        if ((call->needs >> i & 1) && call->grad_in[i])
            STNI_TRY(check_gradient(call->in_spec[i], i, call->grad_in[i]));
    return STN_OK;
}

static stn_status call_backward(const struct holder *holder, stn_backward_call *call, int n_in)
{
    stn_tensor *grad_out[STN_MAX_OUTPUTS];
    STNI_TRY(zero_cotangents(call, grad_out));
    stn_local_backward_call user = {.size = sizeof user,
                                    .context = call->context,
                                    .mesh = holder->mesh,
                                    .n_in = n_in,
                                    .n_out = call->n_out,
                                    .needs = call->needs,
                                    .in = call->in,
                                    .out = call->out,
                                    .grad_out = grad_out,
                                    .grad_in = call->grad_in,
                                    .arg = holder->arg};
    const int outer = stni_scope_fence(call->context);
    const stn_status status = holder->backward(&user);
    stni_scope_unfence(call->context, outer, "local_map", "backward");
    STNI_TRY(call->context->error.status);
    if (status != STN_OK)
        return stni_fail(call->context, status, "local_map: backward returned \"%s\"", stn_status_text(status));
    return check_gradients(call, n_in);
}

/* Outside of the mesh gradients have no elements. */
static stn_status give_nothing(stn_backward_call *call, int n_in)
{
    for (int i = 0; i < n_in; i++) {
        if (!(call->needs >> i & 1))
            continue;
        STNI_TRY(stni_zeros(call->context, call->in_spec[i], &call->grad_in[i]));
        call->grad_in[i] = stni_tensor_publish(call->grad_in[i]);
    }
    return STN_OK;
}

/* The holder is the last input. Every rank of the mesh comes here: the chunks before and after are those of tensors on
 * it, whose graphs agree. */
static stn_status backward(stn_backward_call *call)
{
    const int n_in = call->n_in - 1;
    const struct holder *holder = call->in[n_in]->data;
    if (!holder->mesh->member)
        return give_nothing(call, n_in);
    return stni_map_agree(holder->mesh, call_backward(holder, call, n_in), "the backward of local_map", 0);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)needs;
    return ((UINT64_C(1) << call->n_in) - 1) | ((UINT64_C(1) << call->n_out) - 1) << 32;
}

static const stn_op_impl impl = {.saves = saves, .backward = backward};
static const stn_op_desc desc = {.size = sizeof desc, .name = "local_map", .flags = STN_OP_FIRST_ORDER, .impl = &impl};
static const stn_op_desc desc_of_ops = {.size = sizeof desc_of_ops, .name = "local_map", .impl = &impl};

stn_status stni_map_record(stn_tensor *holder, int n_in, stn_tensor *const *in, int n_out, stn_tensor **out)
{
    const struct holder *held = holder->data;
    stn_tensor *all[STN_MAX_INPUTS];
    const stn_spec *in_spec[STN_MAX_INPUTS], *out_spec[STN_MAX_OUTPUTS];
    memcpy(all, in, (size_t)n_in * sizeof *all);
    all[n_in] = holder;
    const uint32_t needs = stni_needs_grad(holder->context, n_in, in);
    for (int i = 0; i <= n_in; i++)
        in_spec[i] = all[i] ? all[i]->spec : NULL;
    for (int k = 0; k < n_out; k++)
        out_spec[k] = out[k]->spec;
    const stn_op_call call = {.size = sizeof call,
                              .context = holder->context,
                              .n_in = n_in + 1,
                              .n_out = n_out,
                              .in = all,
                              .out = out,
                              .in_spec = in_spec,
                              .want = in_spec,
                              .out_spec = out_spec};
    return needs ? stni_node_record(&call, held->of_ops || !held->backward ? &desc_of_ops : &desc, needs) : STN_OK;
}
