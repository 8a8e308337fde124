/* What is done to the gradients of all parameters at once: clipping by their norm, undoing the scale of a loss. What
 * is added up over them stays on the device: the host waits only if it wants to know it. */
#include "autograd/leaf.h"
#include "autograd/tape.h"
#include "core/redistribute/identity.h"
#include "core/tensor/host_memory.h"
#include "ops/redistribute/action.h"
#include "ops/reduce/exact_sum.h"
#include "train/update.h"

#include <shardtensor/train.h>

#include <float.h>
#include <math.h>

struct clip {
    stn_context *context;
    int n;
    stn_tensor *const *parameters;
    void *sum; /* f64, on the device: of squares, or of numbers that are not finite */
};

/* Of ranks that hold the same elements, one counts them: of replicas on a mesh, and of those that joining groups
 * made. */
static int counts_here(const stn_tensor *leaf)
{
    const stn_spec *spec = leaf->spec;
    const stn_mesh *mesh = spec->layout.mesh;
    if (leaf->leaf && leaf->leaf->counted_elsewhere)
        return 0;
    for (int a = 0; mesh && a < mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_REPLICATE && mesh->coordinate[a] != 0)
            return 0;
    return 1;
}

static stn_status add_to_norm(struct stni_update *update, const struct stni_update_numbers *numbers, stn_tensor *leaf)
{
    stn_tensor *grad;
    if (!counts_here(leaf))
        return STN_OK;
    STNI_TRY(stni_update_gradient(leaf, &grad));
    return grad ? stni_update_add(update, numbers, 1, &grad, 0, grad) : STN_OK;
}

static stn_status set_zero(const struct clip *clip)
{
    return stni_fail_queue(clip->context, stni_fill_zeros(clip->context->queue, clip->sum, 1, STN_DTYPE_F64));
}

static stn_status sum_over_ranks(const struct clip *clip)
{
    stn_context *context = clip->context;
    if (context->size == 1)
        return STN_OK;
    return stni_fail_queue(
        context, stni_comm_all_reduce(context->comm, context->queue, clip->sum, clip->sum, 1, STN_DTYPE_F64, STN_SUM));
}

static stn_status add_exactly(const struct clip *clip, int64_t *words, size_t n)
{
    stn_context *context = clip->context;
    STNI_TRY(stni_fail_queue(context, stni_fill_zeros(context->queue, words, (int64_t)n, STN_DTYPE_I64)));
    for (int i = 0; i < clip->n; i++) {
        stn_tensor *grad;
        if (!counts_here(clip->parameters[i]))
            continue;
        STNI_TRY(stni_update_gradient(clip->parameters[i], &grad));
        const stn_status status = grad ? stni_exact_squares_add(grad, words) : STN_OK;
        stni_tensor_drop(&grad);
        STNI_TRY(status);
    }
    if (context->size > 1)
        STNI_TRY(stni_fail_queue(context, stni_comm_all_reduce(context->comm, context->queue, words, words, (int64_t)n,
                                                               STN_DTYPE_I64, STN_SUM)));
    return stni_exact_squares_round(context, words, clip->sum);
}

/* In integers: whoever holds which elements cannot be seen in the sum. */
static stn_status sum_squares_exactly(const struct clip *clip)
{
    const size_t n = (size_t)stni_exact_words(STN_DTYPE_F64);
    struct stni_mempool *pool = clip->context->pool;
    size_t capacity;
    void *words;
    if (stni_mempool_take(pool, n * sizeof(int64_t), &words, &capacity) != STN_OK)
        return stni_fail_memory(clip->context, "a sum over gradients", n * sizeof(int64_t));
    const stn_status status = add_exactly(clip, words, n);
    stni_mempool_release(pool, words, capacity);
    return status;
}

static stn_status sum_squares(const struct clip *clip)
{
    if (clip->context->reproducible_sums)
        return sum_squares_exactly(clip);
    struct stni_update update;
    const struct stni_update_numbers numbers = {.norm_square = clip->sum};
    stn_status status = set_zero(clip);
    stni_update_begin(&update, clip->context, STNI_UPDATE_NORM);
    for (int i = 0; i < clip->n && status == STN_OK; i++)
        status = add_to_norm(&update, &numbers, clip->parameters[i]);
    STNI_TRY(stni_update_end(&update, status));
    return sum_over_ranks(clip);
}

/* A gradient may be shared, as the cotangent of two leaves is: then it is not written to, and its leaf gets a new
 * one. */
static stn_status scale_one(struct stni_update *update, const struct stni_update_numbers *numbers, stn_tensor *leaf)
{
    stn_tensor *grad, *scaled;
    STNI_TRY(stni_update_gradient(leaf, &grad));
    if (!grad)
        return STN_OK;
    stn_status status = stni_tensor_create_beside(leaf, leaf->spec, &scaled);
    if (status != STN_OK) {
        stni_tensor_drop(&grad);
        return status;
    }
    status = stni_update_add(update, numbers, 2, (stn_tensor *[]){scaled, grad}, 1, grad);
    stni_tensor_drop(&leaf->leaf->grad);
    leaf->leaf->grad = scaled;
    return status;
}

static stn_status scale(const struct clip *clip, enum stni_update_kind kind, double most)
{
    struct stni_update update;
    stn_status status = STN_OK;
    const struct stni_update_numbers numbers = {.most = most, .norm_square = clip->sum};
    stni_update_begin(&update, clip->context, kind);
    for (int i = 0; i < clip->n && status == STN_OK; i++)
        status = scale_one(&update, &numbers, clip->parameters[i]);
    return stni_update_end(&update, status);
}

static stn_status read_sum(const struct clip *clip, double *sum)
{
    stn_queue *queue = clip->context->queue;
    STNI_TRY(stni_fail_queue(clip->context, stni_queue_copy(queue, sum, clip->sum, sizeof *sum, STNI_COPY_TO_HOST)));
    return stni_context_sync(clip->context, STN_SYNC_VALUES);
}

/* Before gradients are changed. */
static stn_status check_reader(stn_context *context, const void *out)
{
    if (!out)
        return STN_OK;
    return stni_context_not_captured(context, "a norm or count of gradients for the host",
                                     "where the host reads no values: pass NULL for it");
}

/* One that is named twice would be counted and scaled twice. */
static stn_status check(stn_context *context, const char *what, int n, stn_tensor *const *parameters)
{
    const uint64_t mark = context->tape->mark += 2;
    if (n < 0 || (n > 0 && !parameters))
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: parameters got %d at %p, wanted a list", what, n,
                         (const void *)parameters);
    for (int i = 0; i < n; i++) {
        stn_tensor *grad;
        STNI_TRY(stni_update_check(context, what, "parameter", parameters[i]));
        if (!stn_is_leaf(parameters[i])) /* also one that keeps its gradient */
            return stni_fail(context, STN_ERR_STATE, "%s: parameters[%d] is the result of an op, wanted a leaf", what,
                             i);
        STNI_TRY(stn_grad_of(parameters[i], &grad));
        struct stni_leaf *leaf = parameters[i]->leaf;
        if (leaf && leaf->named == mark)
            return stni_fail(context, STN_ERR_ARGUMENT, "%s: parameters[%d] stands in the list before", what, i);
        if (leaf)
            leaf->named = mark;
    }
    return STN_OK;
}

static stn_status clip_all(const struct clip *clip, double most, double *norm)
{
    double square = 0;
    STNI_TRY(sum_squares(clip));
    STNI_TRY(scale(clip, STNI_UPDATE_SCALE, most));
    if (norm) {
        STNI_TRY(read_sum(clip, &square));
        *norm = sqrt(square);
    }
    return STN_OK;
}

static stn_status unscale_all(const struct clip *clip, double divisor, double *bad)
{
    STNI_TRY(set_zero(clip));
    STNI_TRY(scale(clip, STNI_UPDATE_UNSCALE, divisor));
    STNI_TRY(sum_over_ranks(clip));
    return bad ? read_sum(clip, bad) : STN_OK;
}

/* With a number on the device, which `work` uses. */
static stn_status with_sum(struct clip *clip, stn_status (*work)(const struct clip *clip, double number, double *out),
                           double number, double *out)
{
    size_t capacity;
    struct stni_mempool *pool = clip->context->pool;
    if (stni_mempool_take(pool, sizeof(double), &clip->sum, &capacity) != STN_OK)
        return stni_fail_memory(clip->context, "a sum over gradients", sizeof(double));
    const stn_status status = work(clip, number, out);
    stni_mempool_release(pool, clip->sum, capacity);
    return status;
}

stn_status stn_clip_grad_norm(stn_context *context, int n, stn_tensor *const *parameters, double most, double *norm)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    struct clip clip = {context, n, parameters, NULL};
    STNI_TRY(stni_action_begin(context));
    stn_status status = check(context, "clip_grad_norm", n, parameters);
    if (status == STN_OK && !(most > 0))
        status = stni_fail(context, STN_ERR_ARGUMENT, "clip_grad_norm: most got %g, wanted more than 0", most);
    if (status == STN_OK)
        status = check_reader(context, norm);
    if (status == STN_OK)
        status = with_sum(&clip, clip_all, most, norm);
    return stni_action_end(context, status);
}

stn_status stn_grad_unscale(stn_context *context, int n, stn_tensor *const *parameters, double scale_of_loss,
                            int *finite)
{
    double bad = 0;
    if (!context)
        return STN_ERR_ARGUMENT;
    struct clip clip = {context, n, parameters, NULL};
    STNI_TRY(stni_action_begin(context));
    stn_status status = check(context, "grad_unscale", n, parameters);
    if (status == STN_OK && !(scale_of_loss >= FLT_MIN && scale_of_loss <= FLT_MAX)) /* gradients may be f32 */
        status = stni_fail(context, STN_ERR_ARGUMENT, "grad_unscale: scale got %g, wanted %g to %g", scale_of_loss,
                           FLT_MIN, FLT_MAX);
    if (status == STN_OK)
        status = check_reader(context, finite);
    if (status == STN_OK)
        status = with_sum(&clip, unscale_all, scale_of_loss, finite ? &bad : NULL);
    status = stni_action_end(context, status);
    if (status == STN_OK && finite)
        *finite = bad == 0;
    return status;
}
