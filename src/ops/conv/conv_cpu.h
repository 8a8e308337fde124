/* What the sources of the CPU's convolutions share: oneDNN (`library`, NULL: our own kernels) solves what it is
 * given. */
#ifndef STNI_OPS_CONV_CONV_CPU_H
#define STNI_OPS_CONV_CONV_CPU_H

#include "ops/conv/conv_kernel.h"
#include "ops/onednn/onednn.h"

/* Elements of x, y or weight. */
int64_t stni_conv_elements(const struct stni_conv_problem *p, enum stni_conv_role role);

/* Real problems on the calling thread: `workspace` has stni_conv_reference_workspace bytes where `library` is NULL. */
stn_status stni_conv_real(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_problem *p,
                          const struct stni_conv_data *data, void *workspace);

/* Complex ones, but for a bias; and the bytes that they need. */
stn_status stni_conv_complex(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_args *args);
size_t stni_conv_complex_workspace(struct stni_onednn *library, const struct stni_conv_args *args);

#endif
