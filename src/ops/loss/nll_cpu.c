/* Kernels of nll_loss on the CPU: one step per target. */
#include "ops/loss/nll_kernel.h"

#include "core/base/dtype.h"
#include "ops/common/bad_value.h"


/* Where the walk over the targets stands. */
struct position {
    int64_t at[NLL_OPERANDS], index[STN_MAX_NDIM];
};

static inline void advance(const struct stni_nll_args *a, struct position *p)
{
    for (int d = a->ndim - 1; d >= 0; d--) {
        const int wraps = ++p->index[d] == a->shape[d];
        for (int k = 0; k < NLL_OPERANDS; k++)
            p->at[k] += a->strides[k][d] * (wraps ? 1 - a->shape[d] : 1);
        if (!wraps)
            return;
        p->index[d] = 0;
    }
}

static void report(const struct stni_nll_args *a, stn_queue *queue, const struct position *p, int64_t target)
{
    int64_t numbers[3 + STN_MAX_NDIM] = {target, a->all_classes - 1, a->ndim};
    if (!a->reports)
        return;
    for (int d = 0; d < a->ndim; d++)
        numbers[3 + d] = a->offset[d] + p->index[d];
    stn_queue_value_error(queue, a->op, STNI_BAD_CLASS, 3 + a->ndim, numbers);
}

/* What is no class is ignored, once it is reported. */
static inline int64_t class_at(const struct stni_nll_args *a, stn_queue *queue, const struct position *p)
{
    const int64_t target = stni_nll_target(a, p->at[NLL_TARGET]), t = stni_nll_class(a, target);
    if (t != STNI_NLL_NO_CLASS)
        return t;
    report(a, queue, p, target);
    return STNI_NLL_IGNORED;
}

#define TEMPLATE "ops/loss/nll_lanes_tmpl.h"
#include "core/box/each_float.h"

stn_status stni_nll_cpu(stn_queue *queue, const void *raw)
{
    static void (*const forward[])(const struct stni_nll_args *, stn_queue *) = {forward_f32, forward_f64, forward_bf16, forward_f16};
    const struct stni_nll_args *a = raw;
    forward[a->dtype](a, queue);
    return STN_OK;
}

stn_status stni_nll_backward_cpu(stn_queue *queue, const void *raw)
{
    static void (*const backward[])(const struct stni_nll_args *, stn_queue *) = {backward_f32, backward_f64, backward_bf16, backward_f16};
    const struct stni_nll_args *a = raw;
    backward[a->dtype](a, queue);
    return STN_OK;
}
