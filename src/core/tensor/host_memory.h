/* Tensors in memory of the host. */
#ifndef STNI_CORE_TENSOR_HOST_MEMORY_H
#define STNI_CORE_TENSOR_HOST_MEMORY_H

#include "core/tensor/tensor.h"

/* As stni_tensor_create, of a gradient: it lies where the tensor does, wherever else what is made now lies. */
stn_status stni_tensor_create_beside(const stn_tensor *tensor, const stn_spec *spec, stn_tensor **out);

/* The same of what is kept for a parameter; for one in the device's memory it is made as all that is made now. */
stn_status stni_tensor_create_for(const stn_tensor *parameter, const stn_spec *spec, stn_tensor **out);

#endif
