/* Graphs of cuDNN's operations, as problems describe themselves. Calls after one that failed do nothing, so that it is
 * enough to look at `status` in the end. */
#ifndef STNI_OPS_CUDA_CUDNN_GRAPH_H
#define STNI_OPS_CUDA_CUDNN_GRAPH_H

#include "ops/cuda/cudnn_plan.h"

STN_BEGIN_DECLS

struct stni_cudnn_graph {
    const struct stni_cudnn_functions *call;
    struct stni_cudnn_plan *plan; /* parts are added to it */
    cudnnBackendDescriptor_t operation[STNI_CUDNN_OPERATIONS];
    int n;                        /* operations */
    int64_t n_virtual;            /* tensors that the caller has not named */
    stn_status status;
};

enum { STNI_CUDNN_NDIM = 5 };

struct stni_cudnn_tensor {
    int64_t name;
    cudnnDataType_t type;
    int ndim;
    int64_t shape[STNI_CUDNN_NDIM], stride[STNI_CUDNN_NDIM];
    int is_virtual, is_by_value; /* of no memory but the engine's; a number in the host's memory */
};

static inline stn_status stni_cudnn_status_of(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? STN_OK : STN_ERR_UNSUPPORTED; /* whatever it fails for, it refuses */
}

cudnnDataType_t stni_cudnn_type_of(int64_t dtype);

/* A part of the plan that is to be described, NULL where that failed. */
cudnnBackendDescriptor_t stni_cudnn_part(struct stni_cudnn_graph *graph, cudnnBackendDescriptorType_t type);
void stni_cudnn_set(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t part, int name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *values);
void stni_cudnn_set_part(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t part, int name,
                         cudnnBackendDescriptor_t value);
void stni_cudnn_finish(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t part);

cudnnBackendDescriptor_t stni_cudnn_make_tensor(struct stni_cudnn_graph *graph, const struct stni_cudnn_tensor *tensor);

/* Finishes an operation, which runs after those before. */
void stni_cudnn_add_operation(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t operation);

/* Operations of each kind of problem. */
void stni_cudnn_describe_conv(struct stni_cudnn_graph *graph, const struct stni_cudnn_conv *conv);
void stni_cudnn_describe_attention(struct stni_cudnn_graph *graph, const struct stni_cudnn_attention *attention);

/* A problem's operations as cuDNN has them: the graph. */
cudnnBackendDescriptor_t stni_cudnn_describe(struct stni_cudnn_graph *graph, const struct stni_cudnn_problem *problem);

STN_END_DECLS
#endif
