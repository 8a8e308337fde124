/* Redistributions beside the caller. */
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/under_way.h"

/* While work is recorded to be repeated, nothing goes beside it. */
static int goes_beside(const stn_context *context)
{
    return context->size > 1 && !context->queue->capture;
}

stn_status stni_redistribute_begin(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out)
{
    stn_context *context = tensor->context;
    STNI_TRY(stni_tensor_arrive(tensor));
    struct stni_under_way *way = stni_calloc(1, sizeof *way);
    if (way == NULL)
        return stni_fail_memory(context, "a redistribution", sizeof *way);
    stn_tensor *to = NULL;
    stn_status status = stni_redistribute_by(tensor, spec, goes_beside(context) ? way : NULL, &to);
    if (status != STN_OK) {
        stni_under_way_drop(context, way);
        return status;
    }
    stni_tensor_set_under_way(to, tensor, way);
    *out = to;
    return STN_OK;
}
