/* Values that lie in other tensors' memory until one of them changes. */
#ifndef STNI_CORE_TENSOR_COPY_ON_WRITE_H
#define STNI_CORE_TENSOR_COPY_ON_WRITE_H

#include "core/tensor/tensor.h"

/* Takes a tensor from the context's list, and its flag. */
void stni_tensor_leave_copies(stn_tensor *tensor);

#endif
