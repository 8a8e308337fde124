#include "ops/cuda/cudnn_graph.h"

#include <stdbool.h>

cudnnDataType_t stni_cudnn_type_of(int64_t dtype)
{
    static const cudnnDataType_t types[] = {[STN_DTYPE_F64] = CUDNN_DATA_DOUBLE, [STN_DTYPE_F32] = CUDNN_DATA_FLOAT,
                                            [STN_DTYPE_F16] = CUDNN_DATA_HALF, [STN_DTYPE_BF16] = CUDNN_DATA_BFLOAT16};
    return types[dtype];
}

cudnnBackendDescriptor_t stni_cudnn_part(struct stni_cudnn_graph *graph, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t part = NULL;
    if (graph->status == STN_OK && graph->plan->n == STNI_CUDNN_PARTS)
        graph->status = STN_ERR_UNSUPPORTED;
    if (graph->status == STN_OK)
        graph->status = stni_cudnn_status_of(graph->call->descriptor_create(type, &part));
    if (graph->status != STN_OK)
        return NULL;
    graph->plan->part[graph->plan->n++] = part;
    return part;
}

void stni_cudnn_set(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t part, int name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (graph->status == STN_OK)
        graph->status =
            stni_cudnn_status_of(graph->call->set(part, (cudnnBackendAttributeName_t)name, type, n, values));
}

void stni_cudnn_set_part(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t part, int name,
                         cudnnBackendDescriptor_t value)
{
    stni_cudnn_set(graph, part, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void stni_cudnn_finish(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t part)
{
    if (graph->status == STN_OK)
        graph->status = stni_cudnn_status_of(graph->call->finalize(part));
}

/* The distance of its last element from the first. */
static int64_t reach(const struct stni_cudnn_tensor *t)
{
    int64_t at = 0;
    for (int d = 0; d < t->ndim; d++)
        at += (t->shape[d] - 1) * t->stride[d];
    return at;
}

/* Before 9.3 engines were proposed for any size, some of which count elements in 32 bits and write elsewhere. */
static int counts_so_far(const struct stni_cudnn_graph *graph, const struct stni_cudnn_tensor *t)
{
    enum { COUNTS_IN_64_BITS = 90300 };
    return t->is_virtual || reach(t) < INT32_MAX || graph->call->version() >= COUNTS_IN_64_BITS;
}

cudnnBackendDescriptor_t stni_cudnn_make_tensor(struct stni_cudnn_graph *graph, const struct stni_cudnn_tensor *t)
{
    const int64_t alignment = STNI_CUDNN_ALIGNMENT;
    const bool yes = true;
    if (!counts_so_far(graph, t))
        graph->status = STN_ERR_UNSUPPORTED;
    cudnnBackendDescriptor_t tensor = stni_cudnn_part(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
    stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->ndim, t->shape);
    stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->ndim, t->stride);
    stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->name);
    stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (t->is_virtual)
        stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (t->is_by_value)
        stni_cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    stni_cudnn_finish(graph, tensor);
    return tensor;
}

void stni_cudnn_add_operation(struct stni_cudnn_graph *graph, cudnnBackendDescriptor_t operation)
{
    stni_cudnn_finish(graph, operation);
    if (graph->status == STN_OK && graph->n == STNI_CUDNN_OPERATIONS)
        graph->status = STN_ERR_UNSUPPORTED;
    if (graph->status == STN_OK)
        graph->operation[graph->n++] = operation;
}

cudnnBackendDescriptor_t stni_cudnn_describe(struct stni_cudnn_graph *graph, const struct stni_cudnn_problem *problem)
{
    if (problem->kind == STNI_CUDNN_CONV)
        stni_cudnn_describe_conv(graph, &problem->of.conv);
    else
        stni_cudnn_describe_attention(graph, &problem->of.attention);
    cudnnBackendDescriptor_t all = stni_cudnn_part(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    stni_cudnn_set(graph, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->n,
                   graph->operation);
    stni_cudnn_finish(graph, all);
    return all;
}
