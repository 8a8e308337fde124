/* Clipping by the norm of all gradients. The norm stays on the device: the host waits only if it wants to know it. */
#include "autograd/leaf.h"
#include "core/shard/identity.h"
#include "ops/redistribute/action.h"
#include "train/update.h"

#include <shardtensor/train.h>

#include <math.h>

struct clip {
    stn_context *context;
    int n;
    stn_tensor *const *parameters;
    void *sum; /* f64, on the device */
};

/* Of those that hold the same elements, one counts them. */
static int counts_here(const stn_spec *spec)
{
    const stn_mesh *mesh = spec->layout.mesh;
    for (int a = 0; mesh && a < mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_REPLICATE && mesh->coordinate[a] != 0)
            return 0;
    return 1;
}

static stn_status add_to_norm(struct stni_update *update, const struct stni_update_numbers *numbers, stn_tensor *leaf)
{
    stn_tensor *grad;
    if (!counts_here(leaf->spec))
        return STN_OK;
    STNI_TRY(stni_update_gradient(leaf, &grad));
    return grad ? stni_update_add(update, numbers, 1, &grad, 0, grad) : STN_OK;
}

static stn_status sum_squares(const struct clip *clip)
{
    struct stni_update update;
    const struct stni_update_numbers numbers = {.norm_square = clip->sum};
    stn_context *context = clip->context;
    stn_status status = stni_fail_queue(context, stni_fill_identity(context->queue, clip->sum, 1, STN_DTYPE_F64, STN_SUM));
    stni_update_begin(&update, context, STNI_UPDATE_NORM);
    for (int i = 0; i < clip->n && status == STN_OK; i++)
        status = add_to_norm(&update, &numbers, clip->parameters[i]);
    STNI_TRY(stni_update_end(&update, status));
    return stni_fail_queue(context, stni_comm_all_reduce(context->comm, context->queue, clip->sum, clip->sum, 1, STN_DTYPE_F64, STN_SUM));
}

/* A gradient may be what others read too, as the cotangent of two leaves: it is not written to, its leaf gets a new one. */
static stn_status scale_one(struct stni_update *update, const struct stni_update_numbers *numbers, stn_tensor *leaf)
{
    stn_tensor *grad, *scaled;
    STNI_TRY(stni_update_gradient(leaf, &grad));
    if (!grad)
        return STN_OK;
    stn_status status = stni_tensor_create(leaf->context, leaf->spec, &scaled);
    if (status != STN_OK) {
        stni_tensor_drop(&grad);
        return status;
    }
    status = stni_update_add(update, numbers, 2, (stn_tensor *[]){scaled, grad}, 1, grad);
    stni_tensor_drop(&leaf->leaf->grad);
    leaf->leaf->grad = scaled;
    return status;
}

static stn_status scale(const struct clip *clip, double most)
{
    struct stni_update update;
    stn_status status = STN_OK;
    const struct stni_update_numbers numbers = {.most = most, .norm_square = clip->sum};
    stni_update_begin(&update, clip->context, STNI_UPDATE_SCALE);
    for (int i = 0; i < clip->n && status == STN_OK; i++)
        status = scale_one(&update, &numbers, clip->parameters[i]);
    return stni_update_end(&update, status);
}

static stn_status read_norm(const struct clip *clip, double *norm)
{
    double square = 0;
    stn_queue *queue = clip->context->queue;
    STNI_TRY(stni_fail_queue(clip->context, stni_queue_copy(queue, &square, clip->sum, sizeof square, STNI_COPY_TO_HOST)));
    STNI_TRY(stni_context_sync(clip->context));
    *norm = sqrt(square);
    return STN_OK;
}

static stn_status check(stn_context *context, int n, stn_tensor *const *parameters, double most)
{
    if (!(most > 0))
        return stni_fail(context, STN_ERR_ARGUMENT, "clip_grad_norm: most got %g, wanted more than 0", most);
    if (n < 0 || (n > 0 && !parameters))
        return stni_fail(context, STN_ERR_ARGUMENT, "clip_grad_norm: parameters got %d at %p, wanted a list", n, (const void *)parameters);
    for (int i = 0; i < n; i++) {
        stn_tensor *grad;
        STNI_TRY(stni_update_check(context, "clip_grad_norm", "parameter", parameters[i]));
        STNI_TRY(stn_grad_of(parameters[i], &grad));
    }
    return STN_OK;
}

static stn_status clip_all(stn_context *context, int n, stn_tensor *const *parameters, double most, double *norm)
{
    struct clip clip = {context, n, parameters, NULL};
    size_t capacity;
    STNI_TRY(check(context, n, parameters, most));
    if (stni_pool_take(context->pool, sizeof(double), &clip.sum, &capacity) != STN_OK)
        return stni_fail_memory(context, "a norm", sizeof(double));
    stn_status status = sum_squares(&clip);
    if (status == STN_OK)
        status = scale(&clip, most);
    if (status == STN_OK && norm)
        status = read_norm(&clip, norm);
    stni_pool_release(context->pool, clip.sum, capacity);
    return status;
}

stn_status stn_clip_grad_norm(stn_context *context, int n, stn_tensor *const *parameters, double most, double *norm)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(context));
    return stni_action_end(context, clip_all(context, n, parameters, most, norm));
}
