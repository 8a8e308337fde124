/* Statistics that need more than elements joined one by one: variances, and means and variances with weights. Each rank's moments are gathered by the
 * ranks that share results, and joined. */
#ifndef STNI_OPS_REDUCE_STATISTIC_H
#define STNI_OPS_REDUCE_STATISTIC_H

#include "ops/norm/norm_kernel.h"
#include "ops/reduce/reduction.h"

enum stni_statistic { STNI_STATISTIC_MEAN, STNI_STATISTIC_VARIANCE, STNI_STATISTIC_DEVIATION };

struct stni_statistic_attrs {
    stn_ints dim; /* absent or empty: all */
    int64_t keepdim;
    double correction; /* what is taken off the number of elements */
    int64_t unbiased;  /* 0 or 1 stands for that correction; -1: absent */
};

struct stni_statistic_rule {
    enum stni_statistic what;
    /* Cotangents of the inputs by public ops; `grad` and `out` (NULL unless it is saved) are seen with the input's dims. */
    void (*backward)(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t reduced);
};

/* out = the statistic of the joined moments, or weighted sums (ops/common/moments.h), of `count` results. */
struct stni_statistic_finish_args {
    stn_dtype dtype;
    enum stni_statistic what;
    int weighted; /* which parts those are */
    int n_parts;
    const double *parts;
    int64_t count;
    double correction;
    void *out;
};

stn_status stni_statistic_finish_cpu(stn_queue *queue, const void *args);

/* The correction that the attributes mean. */
double stni_statistic_correction(const struct stni_statistic_attrs *attrs);

stn_status stni_statistic_check(stn_op_call *call);
stn_status stni_statistic_place(stn_op_call *call);
stn_status stni_statistic_run(stn_op_call *call);
uint64_t stni_statistic_saves(const stn_op_call *call, uint32_t needs);
stn_status stni_statistic_backward(stn_backward_call *call);

enum { STNI_STATISTIC_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

extern const stn_input_schema stni_statistic_inputs[2];

/* A descriptor but for its attributes' schema; `n`: inputs, 2 with weights; `moments`: the kernel. What comes after is the rule, as an
 * initialiser. */
#define STNI_STATISTIC_FIELDS(text, n, moments, ...)                                                                                 \
    .size = sizeof(stn_op_desc), .name = text, .inputs = stni_statistic_inputs, .n_inputs = n,                                       \
    .attrs_size = sizeof(struct stni_statistic_attrs), .n_outputs = 1, .check = stni_statistic_check, .place = stni_statistic_place, \
    .run = stni_statistic_run, .saves = stni_statistic_saves, .backward = stni_statistic_backward, .n_slots = 2, .n_kernels = 2,     \
    .slots = (const stn_kernel_slot[]){{text ".moments", sizeof(struct stni_norm_args)},                                             \
                                       {text ".finish", sizeof(struct stni_statistic_finish_args)}},                                 \
    .kernels = (const stn_kernel[]){                                                                                                 \
        {sizeof(stn_kernel), text ".moments", "cpu", STNI_STATISTIC_DTYPES, sizeof(struct stni_norm_args), moments},                 \
        {sizeof(stn_kernel), text ".finish", "cpu", STNI_STATISTIC_DTYPES, sizeof(struct stni_statistic_finish_args),                \
         stni_statistic_finish_cpu}},                                                                                                \
    .arg = (void *)&(const struct stni_statistic_rule){__VA_ARGS__}

#endif
