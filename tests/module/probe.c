/* The test module's table and its kernels. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

_Atomic(const stn_host *) probe_host;

/* Element by element, in row-major order. */
void probe_copy_box(const stn_box *dst, const stn_box *src, size_t element_size)
{
    int64_t index[STN_MAX_BOX_NDIM] = {0};
    char *to = probe_true(dst->data);
    const char *from = probe_true(src->data);
    for (int d = 0; d < dst->ndim; d++)
        if (dst->shape[d] == 0)
            return;
    for (;;) {
        int64_t to_at = 0, from_at = 0;
        for (int d = 0; d < dst->ndim; d++) {
            to_at += index[d] * dst->strides[d];
            from_at += index[d] * src->strides[d];
        }
        memcpy(to + to_at * (int64_t)element_size, from + from_at * (int64_t)element_size, element_size);
        int d = dst->ndim - 1;
        for (; d >= 0 && ++index[d] == dst->shape[d]; d--)
            index[d] = 0;
        if (d < 0)
            return;
    }
}

static stn_status box_copy(stn_queue *queue, const void *args)
{
    const stn_box_copy_args *a = args;
    if (!probe_is_hidden(a->dst.data) || !probe_is_hidden(a->src.data))
        return probe_host->queue_fail(queue, STN_ERR_DEVICE, "probe: core.box_copy got an address of the host");
    probe_copy_box(&a->dst, &a->src, a->element_size);
    return STN_OK;
}

static stn_status fill(stn_queue *queue, const void *args)
{
    const stn_fill_args *a = args;
    char *data = probe_true(a->data);
    if (!probe_is_hidden(a->data))
        return probe_host->queue_fail(queue, STN_ERR_DEVICE, "probe: core.fill got an address of the host");
    for (int64_t i = 0; i < a->count; i++)
        memcpy(data + i * (int64_t)a->element_size, a->element, a->element_size);
    return STN_OK;
}

/* Box `i` of a reduction, or where it lies in dense memory. */
static stn_box box_of(const stn_box_reduce_args *a, int i, void *dense)
{
    stn_box box = {.data = dense ? dense : a->data[i], .ndim = a->ndim};
    int64_t stride = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        box.shape[d] = a->shape[d];
        box.strides[d] = dense ? stride : a->strides[i * a->ndim + d];
        stride *= a->shape[d];
    }
    return box;
}

/* All sources are packed, the library reduces them, and the result is unpacked. */
static stn_status reduce_packed(const stn_box_reduce_args *a, char *dense, int64_t n, size_t size)
{
    const void *sources[STN_BOX_REDUCE_BOXES];
    stn_box result = box_of(a, 0, dense);
    for (int s = 0; s < a->n_src; s++) {
        stn_box packed = box_of(a, 0, dense + s * n * (int64_t)size), from = box_of(a, a->n_dst + s, NULL);
        probe_copy_box(&packed, &from, size);
        sources[s] = packed.data;
    }
    stn_status status = probe_host->reduce(dense, sources, a->n_src, n, a->dtype, a->op);
    for (int d = 0; d < a->n_dst && status == STN_OK; d++) {
        stn_box to = box_of(a, d, NULL);
        probe_copy_box(&to, &result, size);
    }
    return status;
}

static stn_status box_reduce(stn_queue *queue, const void *args)
{
    const stn_box_reduce_args *a = args;
    size_t size = probe_host->dtype_size(a->dtype);
    int64_t n = 1;
    for (int d = 0; d < a->ndim; d++)
        n *= a->shape[d];
    for (int i = 0; i < a->n_dst + a->n_src; i++)
        if (!probe_is_hidden(a->data[i]))
            return probe_host->queue_fail(queue, STN_ERR_DEVICE, "probe: core.box_reduce got an address of the host");
    char *dense = malloc((size_t)a->n_src * (size_t)n * size + 1);
    stn_status status = dense ? reduce_packed(a, dense, n, size) : STN_ERR_MEMORY;
    free(dense);
    return status;
}

static stn_status scale(stn_queue *queue, const void *args)
{
    const struct probe_scale_args *a = args;
    double *x = probe_true(a->x);
    if (a->factor == 0)
        return probe_host->queue_fail(queue, STN_ERR_VALUE, "probe.scale: factor got 0");
    for (int64_t i = 0; i < a->n; i++)
        x[i] *= a->factor;
    return STN_OK;
}

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "core.box_copy", "probe", 0xffffffffu, sizeof(stn_box_copy_args), box_copy, NULL},
    {sizeof(stn_kernel), "core.fill", "probe", 0xffffffffu, sizeof(stn_fill_args), fill, NULL},
    {sizeof(stn_kernel), "core.box_reduce", "probe", 0xffffffffu, sizeof(stn_box_reduce_args), box_reduce, NULL},
    {sizeof(stn_kernel), "probe.scale", "probe", 1u << STN_DTYPE_F64, sizeof(struct probe_scale_args), scale, NULL},
    {sizeof(stn_kernel), "no_such_op.forward", "probe", 1u << STN_DTYPE_F64, 8, scale, NULL},
    {sizeof(stn_kernel), "add.no_such_slot", "probe", 1u << STN_DTYPE_F64, 8, scale, NULL},
};

STN_API const stn_module *stn_module_probe(const stn_host *host);

const stn_module *stn_module_probe(const stn_host *host)
{
    static const stn_module module = {
        .size = sizeof module,
        .abi = STN_MODULE_ABI,
        .name = "probe",
        .device_join = probe_device_join,
        .comm_open = probe_comm_open,
        .kernels = kernels,
        .n_kernels = sizeof kernels / sizeof *kernels,
        .device_count = probe_device_count,
    };
    if (host->abi != STN_MODULE_ABI || host->size < sizeof *host)
        return NULL;
    probe_host = host;
    return &module;
}
