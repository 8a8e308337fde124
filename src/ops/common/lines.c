#include "ops/common/lines.h"

#include "ops/cpu/strided.h"

void stni_lines_make(struct stni_lines *lines, int dim, int ndim, const int64_t *shape, const uint8_t *order,
                     const int64_t *const strides[STNI_LINES_TENSORS])
{
    int64_t *own[STNI_LINES_TENSORS];
    *lines = (struct stni_lines){.n = ndim > 0 ? shape[dim] : 1};
    for (int k = 0; k < ndim; k++) {
        const int d = order[k];
        if (d != dim)
            lines->shape[lines->ndim] = shape[d];
        for (int t = 0; t < STNI_LINES_TENSORS; t++)
            *(d == dim ? &lines->step[t] : &lines->strides[t][lines->ndim]) = strides[t] ? strides[t][d] : 0;
        lines->ndim += d != dim;
    }
    for (int t = 0; t < STNI_LINES_TENSORS; t++)
        own[t] = lines->strides[t];
    lines->ndim = stni_join_dims(lines->ndim, lines->shape, STNI_LINES_TENSORS, own);
    if (lines->ndim == 0)
        lines->shape[lines->ndim++] = 1;
}

int64_t stni_lines_count(const struct stni_lines *lines)
{
    int64_t count = 1;
    for (int d = 0; d < lines->ndim; d++)
        count *= lines->shape[d];
    return count;
}
