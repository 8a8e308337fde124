/* Plans of a context. */
#include "ops/fft/transform.h"

#include "core/base/host_alloc.h"
#include "ops/onednn/onednn.h"

enum { MAX_PLANS = 128 };

struct plans {
    int n;
    struct stni_transform *plan[MAX_PLANS];
};

static void clear(struct plans *plans)
{
    for (int i = 0; i < plans->n; i++) {
        plans->plan[i]->destroy(plans->plan[i]);
        stni_free(plans->plan[i]);
    }
    plans->n = 0;
}

static void destroy(void *state)
{
    clear(state);
    stni_free(state);
}

static stn_status plans_of(stn_context *context, struct plans **out)
{
    struct stni_op_cache *cache = &context->op_cache[STNI_OP_CACHE_TRANSFORMS];
    if (!cache->state) {
        cache->state = stni_calloc(1, sizeof(struct plans));
        if (!cache->state)
            return stni_fail_memory(context, "plans of Fourier transforms", sizeof(struct plans));
        cache->destroy = destroy;
    }
    *out = cache->state;
    return STN_OK;
}

static stn_status make(stn_context *context, struct stni_transform *transform)
{
    struct stni_foreign *foreign = &context->foreign;
    const int asks = stni_foreign_has(foreign, STNI_LIBRARY_FFTW) && !stni_refuses(&foreign->refusals[STNI_LIBRARY_FFTW].question);
    stn_status status = asks ? stni_transform_fftw(transform) : STN_ERR_UNSUPPORTED;
    if (status == STN_ERR_UNSUPPORTED)
        status = stni_transform_own(transform);
    return status == STN_OK ? STN_OK : stni_fail_memory(context, "plan of a Fourier transform", (size_t)transform->n * sizeof(double));
}

/* Kernels under way may still use the plans: they end first. */
static stn_status make_room(stn_context *context, struct plans *plans)
{
    if (plans->n < MAX_PLANS)
        return STN_OK;
    STNI_TRY(stni_queue_sync_for(context->queue, STN_SYNC_MEMORY));
    clear(plans);
    return STN_OK;
}

stn_status stni_transform_get(stn_context *context, enum stni_transform_kind kind, stn_dtype dtype, int64_t n,
                              const struct stni_transform **out)
{
    struct plans *plans = NULL;
    STNI_TRY(plans_of(context, &plans));
    for (int i = 0; i < plans->n; i++) {
        const struct stni_transform *p = plans->plan[i];
        if (p->kind == kind && p->dtype == dtype && p->n == n) {
            *out = p;
            return STN_OK;
        }
    }
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
    *out = plans->plan[plans->n++] = made;
    return STN_OK;
}
