/* Kernels of nll_loss on the CPU: one step per target. */
#include "ops/loss/nll_kernel.h"

#include "core/context/context.h"
#include "core/base/dtype.h"

#include <inttypes.h>
#include <stdio.h>

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

static void report(const struct stni_nll_args *a, const struct position *p, int64_t target)
{
    char where[24 * STN_MAX_NDIM] = "";
    int at = 0;
    for (int d = 0; d < a->ndim; d++)
        at += snprintf(where + at, sizeof where - (size_t)at, "%s%" PRId64, d ? ", " : "", a->offset[d] + p->index[d]);
    if (a->report)
        stni_value_error(a->report, "nll_loss: target %" PRId64 " at (%s) is outside 0 … %" PRId64, target, where, a->all_classes - 1);
}

/* Other values of class_at than the number of a class in this chunk. */
enum { ELSEWHERE = -1, IGNORED = -2 };

static inline int64_t class_at(const struct stni_nll_args *a, const struct position *p)
{
    const int64_t i = p->at[NLL_TARGET];
    int64_t t = a->target_dtype == STN_DTYPE_I64   ? ((const int64_t *)a->target)[i]
                : a->target_dtype == STN_DTYPE_I32 ? ((const int32_t *)a->target)[i]
                                                   : ((const uint8_t *)a->target)[i];
    if (t == a->ignore_index)
        return IGNORED;
    if (t < 0 || t >= a->all_classes) {
        report(a, p, t);
        return IGNORED;
    }
    t -= a->first;
    return t >= 0 && t < a->classes ? t : ELSEWHERE;
}

#define TEMPLATE "ops/loss/nll_lanes_tmpl.h"
#include "core/box/each_float.h"

stn_status stni_nll_cpu(stn_queue *queue, const void *raw)
{
    static void (*const forward[])(const struct stni_nll_args *) = {forward_f32, forward_f64, forward_bf16, forward_f16};
    const struct stni_nll_args *a = raw;
    (void)queue;
    forward[a->dtype](a);
    return STN_OK;
}

stn_status stni_nll_backward_cpu(stn_queue *queue, const void *raw)
{
    static void (*const backward[])(const struct stni_nll_args *) = {backward_f32, backward_f64, backward_bf16, backward_f16};
    const struct stni_nll_args *a = raw;
    (void)queue;
    backward[a->dtype](a);
    return STN_OK;
}
