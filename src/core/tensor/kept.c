#include "core/tensor/kept.h"

void stni_tensor_keep(stn_tensor *tensor, struct stni_kept *kept)
{
    tensor->kept = kept;
    tensor->flags |= STNI_TENSOR_KEEPS;
}

void stni_tensor_keep_as(stn_tensor *handle, const stn_tensor *tensor)
{
    if (!(tensor->flags & STNI_TENSOR_KEEPS) || (handle->flags & STNI_TENSOR_KEEPS) || handle->spec != tensor->spec)
        return;
    tensor->kept->refs++;
    stni_tensor_keep(handle, tensor->kept);
}

void stni_tensor_drop_kept(stn_tensor *tensor)
{
    struct stni_kept *kept = tensor->kept;
    tensor->flags &= ~(uint32_t)STNI_TENSOR_KEEPS;
    if (--kept->refs == 0)
        kept->destroy(kept);
}
