/* Tables of 16-bit floats in f32, in which is computed, on the CPU. */
#include "ops/cpu/widen.h"
#include "ops/index/access_kernel.h"

stn_status stni_access_convert_cpu(stn_queue *queue, const void *args)
{
    const struct stni_access_convert_args *a = args;
    (void)queue;
    stni_convert_box_now(&a->dst, a->to, &a->src, a->from);
    return STN_OK;
}
