/* Geometry of the softmax kernels, and their entries on the CPU. */
#include "core/isa.h"
#include "ops/softmax/softmax_kernel.h"

/* 1 where dim b follows a in every tensor as if they were one dim. */
static int merges(const struct stni_softmax_lines *lines, int a, const int64_t *next, int64_t next_size)
{
    for (int t = 0; t < SOFTMAX_TENSORS; t++)
        if (lines->strides[t][a] != next[t] * next_size)
            return 0;
    return 1;
}

static void append(struct stni_softmax_lines *lines, int64_t size, const int64_t *step)
{
    int d = lines->ndim - 1;
    if (size == 1)
        return;
    if (d >= 0 && merges(lines, d, step, size))
        lines->shape[d] *= size;
    else
        lines->shape[d = lines->ndim++] = size;
    for (int t = 0; t < SOFTMAX_TENSORS; t++)
        lines->strides[t][d] = step[t];
}

void stni_softmax_lines_make(struct stni_softmax_lines *lines, int dim, int ndim, const int64_t *shape, const uint8_t *order,
                             const int64_t *const strides[SOFTMAX_TENSORS])
{
    int64_t step[SOFTMAX_TENSORS];
    *lines = (struct stni_softmax_lines){.n = ndim > 0 ? shape[dim] : 1};
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        for (int t = 0; t < SOFTMAX_TENSORS; t++)
            step[t] = strides[t] ? strides[t][d] : 0;
        if (d != dim)
            append(lines, shape[d], step);
        else
            for (int t = 0; t < SOFTMAX_TENSORS; t++)
                lines->step[t] = step[t];
    }
    if (lines->ndim == 0)
        lines->shape[lines->ndim++] = 1;
}

int64_t stni_softmax_lines_count(const struct stni_softmax_lines *lines)
{
    int64_t count = 1;
    for (int d = 0; d < lines->ndim; d++)
        count *= lines->shape[d];
    return count;
}

static const struct stni_softmax_cpu *kernels(void)
{
    return STNI_ISA_PICK(stni_softmax_cpu, stni_isa_best());
}

stn_status stni_softmax_forward_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->forward(args);
    return STN_OK;
}

stn_status stni_softmax_max_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->max(args);
    return STN_OK;
}

stn_status stni_softmax_sum_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->sum(args);
    return STN_OK;
}

stn_status stni_softmax_scale_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->scale(args);
    return STN_OK;
}

stn_status stni_softmax_backward_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->backward(args);
    return STN_OK;
}

stn_status stni_softmax_dot_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->dot(args);
    return STN_OK;
}

stn_status stni_softmax_apply_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->apply(args);
    return STN_OK;
}
