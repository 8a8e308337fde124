#include "ops/common/call.h"

#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"

#include <stdarg.h>
#include <stdio.h>

stn_tensor *stni_call(enum stni_op_index index, int n_in, stn_tensor *const *in, const void *attrs)
{
    for (int i = 0; i < n_in; i++) {
        if (!in[i])
            continue;
        stn_tensor *out;
        stni_dispatch(in[i]->context->registry->ops[index], n_in, in, attrs, 1, &out);
        return out;
    }
    return NULL;
}

stn_tensor *stni_call_complete(stn_tensor *tensor)
{
    const stn_spec *complete;
    if (stn_tensor_is_error(tensor))
        return tensor;
    struct stni_layout layout = tensor->spec->layout;
    if (!stni_layout_reduce(&layout, 0))
        return tensor;
    if (stni_spec_intern(tensor->context, &layout, &complete) != STN_OK)
        return tensor->context->error_tensor;
    return stn_redistribute(tensor, complete);
}

stn_tensor *stni_call_error(stn_tensor *any)
{
    stn_context *context = stn_tensor_context(any);
    return context ? context->error_tensor : NULL;
}

stn_tensor *stni_call_fail(stn_tensor *any, stn_status status, const char *format, ...)
{
    stn_context *context = stn_tensor_context(any);
    if (!context)
        return NULL;
    char text[STNI_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stni_fail(context, status, "%s", text);
    return context->error_tensor;
}
