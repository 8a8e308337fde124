/* Tensors in memory of the host. */
#ifndef STNI_CORE_TENSOR_HOST_MEMORY_H
#define STNI_CORE_TENSOR_HOST_MEMORY_H

#include "core/tensor/tensor.h"

/* As stni_tensor_create, of what belongs to a tensor: it lies in host memory where that does, else where all that is
 * made now does. */
stn_status stni_tensor_create_beside(const stn_tensor *tensor, const stn_spec *spec, stn_tensor **out);

#endif
