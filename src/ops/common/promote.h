/* Promotion: the dtype in which an op on several operands is done, as PyTorch's users expect it.
 *
 * Operands count by kind: tensors with dims, tensors without, numbers. A later kind changes the dtype only where it
 * is of a higher category (bool < integer < floating < complex): f32 (3) + f64 () is f32, i64 (3) + 2.5 is f32, f64
 * (3) + c64 () is c128. Within a kind stn_dtype_promote decides. */
#ifndef STNI_OPS_COMMON_PROMOTE_H
#define STNI_OPS_COMMON_PROMOTE_H

#include <shardtensor/op.h>

/* `specs` NULL where an operand is absent: then `numbers[i]` stands for it, unless it is of kind NONE. `numbers` may
 * be NULL. At least one operand is there. */
stn_dtype stni_promote(int n, const stn_spec *const *specs, const stn_number *numbers);

/* Whether both are bool, integer, floating or complex: then a result of one may be kept in the other, narrower or
 * wider. */
int stni_same_category(stn_dtype a, stn_dtype b);

/* The number that a caller's double means: whole ones are integers, so that they keep integers integers. */
stn_number stni_number(double value);

/* The number as an integer, cut towards 0; 0 where i64 has it not. */
int64_t stni_number_whole(const stn_number *number);

/* Whether an element of a dtype of integers, which cuts a number towards 0, has it; of other dtypes always. Unsigned
 * ones take negative numbers for those above their middle, as PyTorch does. */
int stni_number_fits(const stn_number *number, stn_dtype dtype);

#endif
