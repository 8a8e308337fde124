/* What a layer above keeps of a tensor's elements from call to call. It belongs to the elements in their layout, so
 * that handles which are the same logical value share it, and it goes with the last of them. */
#ifndef STNI_CORE_TENSOR_KEPT_H
#define STNI_CORE_TENSOR_KEPT_H

#include "core/tensor/tensor.h"

/* Counted on the context's thread, or the one that frees handles of a closed context. */
struct stni_kept {
    int refs; /* handles */
    void (*destroy)(struct stni_kept *kept);
};

/* The tensor, which has nothing kept, takes over the caller's reference. */
void stni_tensor_keep(stn_tensor *tensor, struct stni_kept *kept);

/* `handle` is another one of the elements of `tensor`, in the same layout on every rank. */
void stni_tensor_keep_as(stn_tensor *handle, const stn_tensor *tensor);

/* As a part of freeing the handle. */
void stni_tensor_drop_kept(stn_tensor *tensor);

#endif
