/* Plans of cuDNN, made through its graph API; cudnn.c keeps and runs them. A problem becomes a graph of operations on
 * tensors (cudnn_conv.c, cudnn_attention.c), for which cuDNN proposes engines (cudnn_plan.c). */
#ifndef STNI_OPS_CUDA_CUDNN_PLAN_H
#define STNI_OPS_CUDA_CUDNN_PLAN_H

#include "ops/cuda/cudnn.h"

#include <cudnn.h>

STN_BEGIN_DECLS

/* The functions that are used; 0 where the library is not there. */
struct stni_cudnn_functions {
    __typeof__(cudnnGetVersion) *version;
    __typeof__(cudnnCreate) *create;
    __typeof__(cudnnDestroy) *destroy;
    __typeof__(cudnnSetStream) *set_stream;
    __typeof__(cudnnBackendCreateDescriptor) *descriptor_create;
    __typeof__(cudnnBackendDestroyDescriptor) *descriptor_destroy;
    __typeof__(cudnnBackendSetAttribute) *set;
    __typeof__(cudnnBackendGetAttribute) *get;
    __typeof__(cudnnBackendFinalize) *finalize;
    __typeof__(cudnnBackendExecute) *execute;
};

int stni_cudnn_load(struct stni_cudnn_functions *call);

/* What a plan is for. Compared by its bytes: set whole from {0}. */
enum { STNI_CUDNN_CONV, STNI_CUDNN_ATTENTION };

struct stni_cudnn_problem {
    int64_t kind;
    union {
        struct stni_cudnn_conv conv;
        struct stni_cudnn_attention attention;
    } of;
};

/* Names of a convolution's tensors in a plan and in what it is run on. */
enum { STNI_CUDNN_X = 'x', STNI_CUDNN_WEIGHT = 'w', STNI_CUDNN_Y = 'y' };

/* Those of attention: its operands, counted from the first, and numbers, which are given when it runs. */
enum {
    STNI_CUDNN_FIRST_OPERAND = 1,
    STNI_CUDNN_SCALE = STNI_CUDNN_FIRST_OPERAND + STNI_CUDNN_ATTENTION_OPERANDS,
    STNI_CUDNN_ONE,
    STNI_CUDNN_NOTHING, /* -infinity */
    STNI_CUDNN_KEYS,
    STNI_CUDNN_ROWS,
    STNI_CUDNN_FIRST_VIRTUAL
};

enum { STNI_CUDNN_PARTS = 112, STNI_CUDNN_OPERATIONS = 32 };

struct stni_cudnn_plan {
    cudnnBackendDescriptor_t part[STNI_CUDNN_PARTS]; /* what it was made of, which lives as long as it does */
    cudnnBackendDescriptor_t config, plan;
    int n;            /* parts */
    size_t workspace; /* bytes of scratch */
};

/* Makes a plan for a device that is described by `device`, a descriptor. The device need not be there.
 * STN_ERR_UNSUPPORTED where cuDNN has none that keeps to the library's numbers (see cudnn.h); what was made of it is
 * the caller's to destroy in any case. */
stn_status stni_cudnn_plan_make(const struct stni_cudnn_functions *call, cudnnBackendDescriptor_t device,
                                const struct stni_cudnn_problem *problem, struct stni_cudnn_plan *plan);

void stni_cudnn_plan_destroy(const struct stni_cudnn_functions *call, struct stni_cudnn_plan *plan); /* sets it to zeros */

STN_END_DECLS
#endif
