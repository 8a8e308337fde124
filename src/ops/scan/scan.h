/* Scans: each element becomes what the elements up to it, along a dim, come to. Here is what there is to say of one,
 * and the functions of a descriptor that do the rest for every one: dim, placement, launch, and the ranks that share
 * lines. */
#ifndef STNI_OPS_SCAN_SCAN_H
#define STNI_OPS_SCAN_SCAN_H

#include "core/tensor/tensor.h"
#include "ops/scan/scan_kernel.h"
#include "ops/table.h"

#include <stddef.h>

enum stni_scan_kind {
    STNI_SCAN_INCLUSIVE, /* of the elements up to it */
    STNI_SCAN_EXCLUSIVE, /* of those before it */
    STNI_SCAN_LAGGED     /* of affine ones alone: with the factor of the element before */
};

/* Callers by name give the dim alone: the others are for backward functions. */
struct stni_scan_attrs {
    int64_t dim;
    int64_t reverse; /* from the last element to the first */
    int64_t kind;    /* enum stni_scan_kind */
};

struct stni_scan_rule {
    enum stni_scan_op op;
    uint32_t dtypes;    /* bit d stands for dtype d; 0: all */
    const char *wanted; /* in words, for the others */
    int promotes;       /* bool and integers give i64 */
    int linear;         /* a pending sum stays pending */
};

enum {
    STNI_SCAN_FLOATING = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16,
    STNI_SCAN_COMPLEX = 1 << STN_DTYPE_C64 | 1 << STN_DTYPE_C128
};

/* A scan of one result, by its index; `reverse` and `kind` for backward functions. */
stn_tensor *stni_scan_call(enum stni_op_index op, stn_tensor *input, int64_t dim, int64_t reverse,
                           enum stni_scan_kind kind);

/* r = x r' + y along a dim, r' that of the element before: what the gradients of scans are made of. `kind` as above. */
stn_tensor *stni_affine_scan(stn_tensor *x, stn_tensor *y, int64_t dim, int64_t reverse, enum stni_scan_kind kind);

/* Each element's successor along a dim (`by` 1) or predecessor (-1), and `fill` where there is none. */
stn_tensor *stni_scan_neighbour(stn_tensor *input, int64_t dim, int by, double fill);

/* What a descriptor is made of; `arg` is its rule. */
stn_status stni_scan_check(stn_op_call *call);
stn_status stni_scan_place(stn_op_call *call);
stn_status stni_scan_run(stn_op_call *call);

extern const stn_input_schema stni_scan_inputs[1];
extern const stn_attr_schema stni_scan_attrs_schema[1];
extern const struct stni_scan_attrs stni_scan_defaults;

enum { STNI_SCAN_SLOT, STNI_SCAN_TOTAL_SLOT, STNI_SCAN_PREFIX_SLOT, STNI_SCAN_SLOTS };
extern const stn_kernel_slot stni_scan_slots[STNI_SCAN_SLOTS];
extern const stn_kernel stni_scan_kernels[STNI_SCAN_SLOTS];

#endif
