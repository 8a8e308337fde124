/* Ops that an embedder would register, for the dispatcher's tests. All take f32 tensors. */
#ifndef SHARDTENSOR_TESTS_PROBE_OPS_H
#define SHARDTENSOR_TESTS_PROBE_OPS_H

#include <shardtensor/op.h>

/* How often the functions of probe_scale were called; the descriptor's arg. */
struct probe_counts {
    int check, place, run, backward;
};

/* y = factor x (attribute `factor`, default 2), any layout, with a backward. */
stn_op_desc probe_scale(struct probe_counts *counts);

/* y = x reversed along dim 0; no rule: the fallback serves. With a backward. */
stn_op_desc probe_reverse(void);

/* (x, x's rows counted as a scalar): two outputs with specs of their own; no rule and no backward. */
stn_op_desc probe_pair(void);

/* An added kernel for slot "probe_scale.forward" that multiplies by 100 factor. */
extern const stn_kernel probe_scale_kernel_100;

#endif
