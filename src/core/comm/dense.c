/* The multi-reduce kernels behind one call; a dtype and op that they lack is reduced as boxes. */
#include "core/comm/dense.h"

#include "core/box/box.h"
#include "core/comm/multi_reduce.h"
#include "core/base/host_alloc.h"

static stn_box line(const void *data, int64_t count)
{
    return (stn_box){(void *)(uintptr_t)data, 1, {count}, {1}};
}

/* For a dtype and op that the multi-reduce kernels lack. */
static stn_status reduce_boxes(enum stni_isa isa, void *dst, const void *const *src, int n_src, int64_t count,
                               stn_dtype dtype, stn_reduce_op op)
{
    stn_box *boxes = stni_malloc((size_t)n_src * sizeof *boxes), to = line(dst, count);
    if (!boxes)
        return STN_ERR_MEMORY;
    for (int s = 0; s < n_src; s++)
        boxes[s] = line(src[s], count);
    stni_box_reduce_now(isa, 1, &to, n_src, boxes, dtype, op);
    stni_free(boxes);
    return STN_OK;
}

stn_status stni_dense_reduce(enum stni_isa isa, void *dst, const void *const *src, int n_src, int64_t count,
                             stn_dtype dtype, stn_reduce_op op)
{
    const stni_multi_reduce_fn fold = stni_multi_reduce_for(isa, dtype, op);
    if (count == 0)
        return STN_OK;
    if (!fold)
        return reduce_boxes(isa, dst, src, n_src, count, dtype, op);
    const struct stni_multi_reduce all = {1, n_src, &dst, src, count, op == STN_AVG ? n_src : 1};
    fold(&all);
    return STN_OK;
}
