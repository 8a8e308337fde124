#include "autograd/captured_gradients.h"

#include "autograd/tape.h"
#include "core/base/host_alloc.h"
#include "core/device/recording.h"
#include "core/redistribute/identity.h"
#include "core/tensor/host_memory.h"

/* A leaf that the capture met. */
struct met {
    struct stni_leaf *leaf; /* retained */
    stn_tensor *found;      /* the step's own memory for the gradient that it finds; NULL: it reads none */
    stn_tensor *left;       /* the gradient that it leaves; NULL: none */
    int wants_none, wants_one, left_counted_elsewhere;
};

struct gradients {
    stn_context *context;
    uint64_t number; /* of the capture */
    struct met *met;
    int n, cap;
};

static stn_status gradients_of(stn_context *context, struct gradients **out)
{
    void **part = stni_step_part_of(context->capture);
    if (*part == NULL) {
        struct gradients *made = stni_calloc(1, sizeof *made);
        if (made == NULL)
            return stni_fail_memory(context, "gradients of a captured step", sizeof *made);
        made->context = context;
        made->number = ++context->tape->captures;
        *part = made;
    }
    *out = *part;
    return STN_OK;
}

static stn_status reserve(struct gradients *gradients)
{
    if (gradients->n < gradients->cap)
        return STN_OK;
    const int cap = gradients->cap ? 2 * gradients->cap : 16;
    struct met *met = stni_realloc(gradients->met, (size_t)cap * sizeof *met);
    if (met == NULL)
        return stni_fail_memory(gradients->context, "gradients of a captured step", (size_t)cap * sizeof *met);
    gradients->met = met;
    gradients->cap = cap;
    return STN_OK;
}

/* `to` gets the values of the leaf's gradient, zeros where it has none. */
static stn_status bring(struct stni_leaf *leaf, stn_tensor *to)
{
    if (leaf->grad == NULL)
        return stni_fill_zeros(leaf->context->queue, to->data, to->spec->local_numel, to->spec->layout.dtype);
    STNI_TRY(stni_tensor_arrive(leaf->grad));
    return stni_tensor_copy_elements(to, leaf->grad);
}

static void put(struct stni_leaf *leaf, stn_tensor *gradient)
{
    if (gradient != NULL)
        stn_tensor_retain(gradient);
    stni_tensor_drop(&leaf->grad);
    leaf->grad = gradient;
}

/* Not from the step's pool: what is brought here before a repetition would be written over by kernels that had the
 * same block before. */
static stn_status make_found(struct met *met)
{
    stn_context *context = met->leaf->context;
    struct stni_mempool *of_step = context->pool, *host_of_step = context->host_pool;
    stni_context_use_pools(context, context->own_pool, context->own_host_pool);
    const stn_status status = stni_tensor_create_beside(met->leaf->grad, met->leaf->grad->spec, &met->found);
    stni_context_use_pools(context, of_step, host_of_step);
    return status == STN_OK ? context->hold_for_step(context, met->found->storage) : status;
}

/* From now on the leaf's gradient is in the step's own memory. Not a part of what is repeated: that is done before
 * each repetition. */
static stn_status take_over(struct met *met)
{
    struct stni_leaf *leaf = met->leaf;
    stn_context *context = leaf->context;
    STNI_TRY(make_found(met));
    stni_recording_pause(context->queue);
    const stn_status status = stni_fail_queue(context, bring(leaf, met->found));
    stni_recording_resume(context->queue);
    STNI_TRY(status);
    put(leaf, met->found);
    leaf->own_sum = met->found;
    return STN_OK;
}

static stn_status refuse_pending(stn_context *context)
{
    return stni_context_not_captured(context, "a gradient that is still to be reduced over ranks",
                                     "which completes those that it begins: end "
                                     "stn_no_sync_begin, or call stn_grad_sync, before");
}

stn_status stni_captured_gradient_meet(struct stni_leaf *leaf, enum stni_gradient_use use)
{
    const int counts = use != STNI_GRADIENT_FORGOTTEN, has_one = leaf->grad != NULL;
    struct gradients *gradients = NULL;
    STNI_TRY(gradients_of(leaf->context, &gradients));
    if (leaf->capture == gradients->number)
        return STN_OK;
    if (counts && leaf->pending != NULL)
        return refuse_pending(leaf->context);
    STNI_TRY(reserve(gradients));
    struct met *met = &gradients->met[gradients->n++];
    *met = (struct met){.leaf = leaf, .wants_none = counts && !has_one};
    met->wants_one = use == STNI_GRADIENT_READ && has_one;
    stni_leaf_retain(leaf);
    leaf->capture = gradients->number;
    return counts && has_one ? take_over(met) : STN_OK;
}

stn_status stni_kept_gradient_used(const struct stni_node *node)
{
    stn_context *context = node->context;
    if (context->capture == NULL || node->sequence > context->tape->before_capture)
        return STN_OK;
    return stni_context_not_captured(context, "a gradient that a result of before keeps",
                                     "whose repetitions would not add to it: make the result inside, or call "
                                     "stn_grad for it");
}

/* The capture */

static void start(stn_context *context)
{
    context->tape->before_capture = context->tape->sequence;
}

static stn_status end(void *part)
{
    struct gradients *gradients = part;
    for (int i = 0; i < gradients->n; i++) {
        struct met *met = &gradients->met[i];
        struct stni_leaf *leaf = met->leaf;
        if (leaf->pending != NULL) {
            return stni_fail(leaf->context, STN_ERR_STATE,
                             "capture_end: the step leaves a gradient that is still to be reduced over ranks, wanted "
                             "all complete: end stn_no_sync_begin before its last backward");
        }
        leaf->own_sum = NULL;
        met->left = leaf->grad != NULL ? stn_tensor_retain(leaf->grad) : NULL;
        met->left_counted_elsewhere = leaf->counted_elsewhere;
    }
    return STN_OK;
}

/* Repetitions */

static stn_status check_one(const struct gradients *gradients, int i)
{
    const struct met *met = &gradients->met[i];
    const struct stni_leaf *leaf = met->leaf;
    if ((met->found || met->wants_none) && leaf->pending != NULL)
        return stni_fail(gradients->context, STN_ERR_STATE,
                         "step_run: gradient %d of %d is still to be reduced over ranks, wanted it complete: call "
                         "stn_grad_sync",
                         i, gradients->n);
    if (met->wants_none && leaf->grad != NULL)
        return stni_fail(gradients->context, STN_ERR_STATE,
                         "step_run: leaf %d of %d has a gradient and had none when the step was captured: forget "
                         "it before, or capture a step that begins with one",
                         i, gradients->n);
    if (met->wants_one && leaf->grad == NULL)
        return stni_fail(gradients->context, STN_ERR_STATE,
                         "step_run: leaf %d of %d has no gradient and had one when the step was captured, which begins "
                         "by reading it: capture a step that begins without",
                         i, gradients->n);
    if (met->found && leaf->grad && leaf->grad->spec != met->found->spec)
        return stni_fail(gradients->context, STN_ERR_LAYOUT,
                         "step_run: gradient %d of %d has another layout than when the step was captured", i,
                         gradients->n);
    return STN_OK;
}

static stn_status check(const void *part)
{
    const struct gradients *gradients = part;
    for (int i = 0; i < gradients->n; i++)
        STNI_TRY(check_one(gradients, i));
    return STN_OK;
}

static stn_status begin(const void *part)
{
    const struct gradients *gradients = part;
    for (int i = 0; i < gradients->n; i++) {
        const struct met *met = &gradients->met[i];
        if (met->found == NULL || met->leaf->grad == met->found)
            continue;
        STNI_TRY(bring(met->leaf, met->found));
        put(met->leaf, met->found);
    }
    return STN_OK;
}

static stn_status leave(const void *part)
{
    const struct gradients *gradients = part;
    for (int i = 0; i < gradients->n; i++) {
        const struct met *met = &gradients->met[i];
        if (met->leaf->pending != NULL)
            stni_leaf_drop_gradients(met->leaf);
        if (met->leaf->grad != met->left)
            put(met->leaf, met->left);
        met->leaf->counted_elsewhere = met->left_counted_elsewhere;
    }
    return STN_OK;
}

static void destroy(void *part)
{
    struct gradients *gradients = part;
    for (int i = 0; i < gradients->n; i++) {
        struct met *met = &gradients->met[i];
        met->leaf->own_sum = NULL;
        stni_tensor_drop(&met->found);
        stni_tensor_drop(&met->left);
        stni_leaf_release(met->leaf);
    }
    stni_free(gradients->met);
    stni_free(gradients);
}

const struct stni_step_part stni_captured_gradients = {
    .start = start, .end = end, .check = check, .begin = begin, .leave = leave, .destroy = destroy};
