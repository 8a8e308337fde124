/* Plans of a context. */
#include "ops/fft/transform.h"

#include "core/base/host_alloc.h"
#include "ops/onednn/onednn.h"

#include <pthread.h>

enum { MAX_PLANS = 128 };

/* The context's thread alone changes the list, and kernels on other threads look into it: the lock is for those two. */
struct plans {
    pthread_mutex_t lock;
    int n, cap;
    struct stni_transform **plan;
};

static void clear(struct plans *plans)
{
    pthread_mutex_lock(&plans->lock);
    for (int i = 0; i < plans->n; i++) {
        plans->plan[i]->destroy(plans->plan[i]);
        stni_free(plans->plan[i]);
    }
    plans->n = 0;
    pthread_mutex_unlock(&plans->lock);
}

static void destroy(void *state)
{
    clear(state);
    pthread_mutex_destroy(&((struct plans *)state)->lock);
    stni_free(((struct plans *)state)->plan);
    stni_free(state);
}

static stn_status plans_of(stn_context *context, struct plans **out)
{
    struct stni_op_cache *cache = &context->op_cache[STNI_OP_CACHE_TRANSFORMS];
    if (!cache->state) {
        cache->state = stni_calloc(1, sizeof(struct plans));
        if (!cache->state)
            return stni_fail_memory(context, "plans of Fourier transforms", sizeof(struct plans));
        pthread_mutex_init(&((struct plans *)cache->state)->lock, NULL);
        cache->destroy = destroy;
    }
    *out = cache->state;
    return STN_OK;
}

static stn_status make(stn_context *context, struct stni_transform *transform)
{
    struct stni_foreign *foreign = &context->foreign;
    const int asks =
        stni_foreign_has(foreign, STNI_LIBRARY_FFTW) && !stni_refuses(&foreign->refusals[STNI_LIBRARY_FFTW].question);
    stn_status status = asks ? stni_transform_fftw(transform) : STN_ERR_UNSUPPORTED;
    if (status == STN_ERR_UNSUPPORTED)
        status = stni_transform_own(transform);
    return status == STN_OK
               ? STN_OK
               : stni_fail_memory(context, "plan of a Fourier transform", (size_t)transform->n * sizeof(double));
}

static stn_status grow(stn_context *context, struct plans *plans)
{
    const int cap = plans->cap ? 2 * plans->cap : MAX_PLANS;
    pthread_mutex_lock(&plans->lock);
    struct stni_transform **plan = stni_realloc(plans->plan, (size_t)cap * sizeof *plan);
    if (plan) {
        plans->plan = plan;
        plans->cap = cap;
    }
    pthread_mutex_unlock(&plans->lock);
    return plan ? STN_OK : stni_fail_memory(context, "plans of Fourier transforms", (size_t)cap * sizeof *plan);
}

/* Kernels under way may still use the plans: they end first. Those of captured steps will look for them again: then
 * there are more. */
static stn_status make_room(stn_context *context, struct plans *plans)
{
    const int is_kept = context->capture != NULL || context->steps != NULL;
    if (plans->n >= MAX_PLANS && !is_kept) {
        STNI_TRY(stni_queue_sync_for(context->queue, STN_SYNC_MEMORY));
        clear(plans);
    }
    return plans->n < plans->cap ? STN_OK : grow(context, plans);
}

static const struct stni_transform *find(const struct plans *plans, enum stni_transform_kind kind, stn_dtype dtype,
                                         int64_t n)
{
    for (int i = 0; i < plans->n; i++) {
        const struct stni_transform *p = plans->plan[i];
        if (p->kind == kind && p->dtype == dtype && p->n == n)
            return p;
    }
    return NULL;
}

const struct stni_transform *stni_transform_find(stn_context *context, enum stni_transform_kind kind, stn_dtype dtype,
                                                 int64_t n)
{
    struct plans *plans = context->op_cache[STNI_OP_CACHE_TRANSFORMS].state;
    if (!plans)
        return NULL;
    pthread_mutex_lock(&plans->lock);
    const struct stni_transform *found = find(plans, kind, dtype, n);
    pthread_mutex_unlock(&plans->lock);
    return found;
}

stn_status stni_transform_get(stn_context *context, enum stni_transform_kind kind, stn_dtype dtype, int64_t n,
                              const struct stni_transform **out)
{
    struct plans *plans = NULL;
    STNI_TRY(plans_of(context, &plans));
    *out = find(plans, kind, dtype, n);
    if (*out)
        return STN_OK;
    STNI_TRY(make_room(context, plans));
    struct stni_transform *made = stni_calloc(1, sizeof *made);
    if (!made)
        return stni_fail_memory(context, "plan of a Fourier transform", sizeof *made);
    made->kind = kind;
    made->dtype = dtype;
    made->n = n;
    stn_status status = make(context, made);
    if (status != STN_OK) {
        stni_free(made);
        return status;
    }
    pthread_mutex_lock(&plans->lock);
    *out = plans->plan[plans->n++] = made;
    pthread_mutex_unlock(&plans->lock);
    return STN_OK;
}
