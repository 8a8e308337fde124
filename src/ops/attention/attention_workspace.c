/* The workspace of attention's kernels on the CPU. */
#include "ops/attention/attention_kernel.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/widen.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

size_t stni_attention_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct stni_attention_args *p = args;
    const stn_dtype dtype = stni_wide_dtype(p->dtype);
    const int64_t rows = least(STNI_ATTENTION_ROWS, p->l), keys = least(STNI_ATTENTION_KEYS, p->s);
    const int64_t elements[] = {rows * p->e,   keys * p->e, keys * p->v, rows * STNI_ATTENTION_KEYS, rows * STNI_ATTENTION_KEYS,
                                rows * STNI_ATTENTION_STATISTICS, rows * p->v, rows * p->v};
    const int64_t sizes[][3] = {{rows, keys, p->e}, {rows, p->v, keys}, {keys, p->v, rows},
                                {rows, keys, p->v}, {rows, p->e, keys}, {keys, p->e, rows}};
    size_t total = 0, product = 0;
    for (int i = 0; i < 8; i++)
        total += stni_attention_space(elements[i], stn_dtype_size(dtype));
    for (int i = 0; i < 6; i++) {
        size_t bytes = stni_gemm_workspace(dtype, sizes[i][0], sizes[i][1], sizes[i][2]);
        product = bytes > product ? bytes : product;
    }
    return total + product;
}
