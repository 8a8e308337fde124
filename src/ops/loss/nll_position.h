/* The walk over the targets of nll_loss on the CPU. A part of nll_cpu.c. */
#ifndef STNI_OPS_LOSS_NLL_POSITION_H
#define STNI_OPS_LOSS_NLL_POSITION_H

#include "core/base/dtype.h"
#include "ops/common/bad_value.h"
#include "ops/loss/nll_kernel.h"

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

#endif
