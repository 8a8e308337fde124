/* Values that lie in other tensors' memory until one of them changes. */
#ifndef STNI_CORE_TENSOR_COPY_ON_WRITE_H
#define STNI_CORE_TENSOR_COPY_ON_WRITE_H

#include "core/tensor/tensor.h"

/* As stni_tensor_show, of what would be no view had it been moved: a value of its own, copied on write. Handles and
 * views of it are views apart of what it shows, as it is itself where `base` is one or it is under way. */
void stni_tensor_show_as_value(stn_tensor *tensor, const stn_tensor *base);

/* Before a tensor's elements are changed: it, if it is copied on write, else those that show it and are, get memory
 * of their own. Not where there are views apart besides, which would not follow: the change is refused. */
stn_status stni_tensor_before_write(stn_tensor *tensor);

/* One that is copied on write gets memory of its own now, unless views apart are in the way: before its address goes
 * where nobody asks again. */
stn_status stni_tensor_own_memory(stn_tensor *tensor);

/* So do all of a context: before a captured step and at its end, for repetitions go to the memory that was. */
stn_status stni_copies_own_memory(stn_context *context);

/* A part of stni_tensor_show_nothing. */
void stni_tensor_leave_copies(stn_tensor *tensor);

#endif
