/* What products share. */
#ifndef STNI_OPS_MATMUL_MATMUL_H
#define STNI_OPS_MATMUL_MATMUL_H

#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/matmul/matmul_kernel.h"

enum {
    STNI_MATMUL_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 |
                         1 << STN_DTYPE_I64 | 1 << STN_DTYPE_I32 | 1 << STN_DTYPE_C64 | 1 << STN_DTYPE_C128
};

/* C = A B of the chunks, or A B^T where `b_turned` is set (B is transposed); launches slot 0 of the op, which takes
 * struct stni_matmul_args. */
stn_status stni_matmul_solve(stn_op_call *call, const stn_tensor *a, const stn_tensor *b, int b_transposed,
                             const stn_tensor *c);

/* The same for products that are described already; collapses their dims. */
stn_status stni_matmul_launch(stn_op_call *call, struct stni_matmul_args *args);

/* y += number t, where t broadcasts to y, and y *= number, on the chunks; launch a slot that takes struct
 * stni_pointwise_args. */
stn_status stni_matmul_add(stn_op_call *call, int slot, const stn_tensor *y, const stn_tensor *t,
                           struct stni_pointwise_number number);
stn_status stni_matmul_scale(stn_op_call *call, int slot, const stn_tensor *y, struct stni_pointwise_number number);

/* Checks that the `n` inputs from `first` on have one dtype, for which there are products. */
stn_status stni_matmul_check_dtypes(const stn_op_call *call, int first, int n);

/* Conjugated and transposed. */
stn_tensor *stni_matmul_adjoint(stn_tensor *t);

/* With a dim of size 1 put in at `dim`. */
stn_tensor *stni_matmul_unsqueeze(stn_tensor *t, int dim);

#endif
