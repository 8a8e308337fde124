/* What softmax, log_softmax and their backwards share. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_H
#define STNI_OPS_SOFTMAX_SOFTMAX_H

#include "core/tensor/tensor.h"
#include "ops/softmax/softmax_kernel.h"
#include "ops/table.h"

struct stni_softmax_attrs {
    int64_t dim; /* may be negative */
};

struct stni_softmax_rule {
    enum stni_op_index backward;
    int logarithm;
};

enum { STNI_SOFTMAX_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* The dim, counted from the front; a 0-d tensor is one line of one element. */
int stni_softmax_dim(const stn_op_call *call);

/* Checks dtype and dim of input `k`; gives output 0 its dtype and shape. */
stn_status stni_softmax_check(stn_op_call *call, int k);

/* Arguments for inputs x and (where not NULL) y, and output out. */
void stni_softmax_args_make(const stn_op_call *call, const stn_tensor *x, const stn_tensor *y, const stn_tensor *out,
                            struct stni_softmax_args *args);

/* The communicator of the ranks that share lines of a tensor of `spec`; NULL where each line lies on one rank. */
stn_status stni_softmax_comm(const stn_op_call *call, const stn_spec *spec, stn_comm **out);

/* One number per line, reduced over the ranks that share lines. */
stn_status stni_softmax_reduce_lines(const stn_op_call *call, stn_comm *comm, void *stat,
                                     const struct stni_softmax_args *args, stn_reduce_op op);

/* Memory for one number per line. */
stn_status stni_softmax_stat(const stn_op_call *call, const struct stni_softmax_args *args, void **out);

#endif
