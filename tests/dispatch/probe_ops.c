#include "probe_ops.h"

#include <string.h>

struct scale_attrs {
    double factor;
};

struct scale_args {
    int64_t n;
    double factor;
    const float *x;
    float *y;
};

static stn_status scale_times(const struct scale_args *a, double factor)
{
    for (int64_t i = 0; i < a->n; i++)
        a->y[i] = (float)(factor * a->x[i]);
    return STN_OK;
}

static stn_status scale_kernel(stn_queue *queue, const void *args)
{
    (void)queue;
    return scale_times(args, ((const struct scale_args *)args)->factor);
}

static stn_status scale_kernel_100(stn_queue *queue, const void *args)
{
    (void)queue;
    return scale_times(args, 100 * ((const struct scale_args *)args)->factor);
}

const stn_kernel probe_scale_kernel_100 = {sizeof(stn_kernel), "probe_scale.forward", "cpu", 1u << STN_DTYPE_F32,
                                           sizeof(struct scale_args), scale_kernel_100, NULL};

static stn_status like_input(stn_op_call *call)
{
    const stn_spec *in = call->in_spec[0];
    call->out_meta[0].dtype = stn_spec_dtype(in);
    call->out_meta[0].ndim = stn_spec_ndim(in);
    memcpy(call->out_meta[0].shape, stn_spec_shape(in), (size_t)stn_spec_ndim(in) * sizeof(int64_t));
    return STN_OK;
}

static stn_status scale_check(stn_op_call *call)
{
    ((struct probe_counts *)call->arg)->check++;
    if (stn_spec_dtype(call->in_spec[0]) != STN_DTYPE_F32)
        return stn_op_fail(call, STN_ERR_DTYPE, "input got %s, wanted f32",
                           stn_dtype_name(stn_spec_dtype(call->in_spec[0])));
    return like_input(call);
}

static stn_status scale_place(stn_op_call *call)
{
    ((struct probe_counts *)call->arg)->place++;
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status scale_run(stn_op_call *call)
{
    ((struct probe_counts *)call->arg)->run++;
    struct scale_args args = {stn_spec_local_numel(stn_tensor_spec(call->in[0])),
                              ((const struct scale_attrs *)call->attrs)->factor, stn_tensor_data(call->in[0]),
                              stn_tensor_data(call->out[0])};
    return args.n ? stn_op_launch(call, 0, STN_DTYPE_F32, &args, sizeof args) : STN_OK;
}

static stn_status scale_backward(stn_backward_call *call)
{
    ((struct probe_counts *)call->arg)->backward++;
    return stn_op_apply(call->op, 1, &call->grad_out[0], call->attrs, 1, &call->grad_in[0]);
}

static const stn_input_schema one_input[] = {{.name = "input"}};
static const stn_attr_schema scale_schema[] = {{"factor", STN_ATTR_FLOAT, offsetof(struct scale_attrs, factor), NULL}};
static const struct scale_attrs scale_init = {2};
static const stn_kernel_slot scale_slots[] = {{"forward", sizeof(struct scale_args)}};
static const stn_kernel scale_kernels[] = {
    {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F32, sizeof(struct scale_args), scale_kernel, NULL}};

static const stn_op_impl scale_impl = {.check = scale_check,
                                       .place = scale_place,
                                       .run = scale_run,
                                       .backward = scale_backward,
                                       STN_SLOTS(scale_slots),
                                       STN_KERNELS(scale_kernels)};

stn_op_desc probe_scale(struct probe_counts *counts)
{
    return (stn_op_desc){.size = sizeof(stn_op_desc),
                         .name = "probe_scale",
                         STN_INPUTS(one_input),
                         STN_ATTRS(scale_schema, struct scale_attrs),
                         .attrs_init = &scale_init,
                         .n_outputs = 1,
                         .impl = &scale_impl,
                         .arg = counts};
}

struct reverse_args {
    int64_t rows, row;
    const float *x;
    float *y;
};

static stn_status reverse_kernel(stn_queue *queue, const void *args)
{
    const struct reverse_args *a = args;
    (void)queue;
    for (int64_t i = 0; i < a->rows; i++)
        memcpy(a->y + i * a->row, a->x + (a->rows - 1 - i) * a->row, (size_t)a->row * sizeof *a->x);
    return STN_OK;
}

static stn_status reverse_run(stn_op_call *call)
{
    const stn_spec *spec = stn_tensor_spec(call->in[0]);
    int64_t rows = stn_spec_local_shape(spec)[0];
    struct reverse_args args = {rows, rows ? stn_spec_local_numel(spec) / rows : 0, stn_tensor_data(call->in[0]),
                                stn_tensor_data(call->out[0])};
    return stn_op_launch(call, 0, STN_DTYPE_F32, &args, sizeof args);
}

static stn_status reverse_backward(stn_backward_call *call)
{
    return stn_op_apply(call->op, 1, &call->grad_out[0], NULL, 1, &call->grad_in[0]);
}

static const stn_kernel_slot reverse_slots[] = {{"forward", sizeof(struct reverse_args)}};
static const stn_kernel reverse_kernels[] = {
    {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F32, sizeof(struct reverse_args), reverse_kernel, NULL}};

static const stn_op_impl reverse_impl = {.check = like_input,
                                         .run = reverse_run,
                                         .backward = reverse_backward,
                                         STN_SLOTS(reverse_slots),
                                         STN_KERNELS(reverse_kernels)};

stn_op_desc probe_reverse(void)
{
    return (stn_op_desc){.size = sizeof(stn_op_desc),
                         .name = "probe_reverse",
                         STN_INPUTS(one_input),
                         .n_outputs = 1,
                         .impl = &reverse_impl};
}

struct pair_args {
    int64_t n;
    float rows;
    const float *x;
    float *y, *count;
};

static stn_status pair_kernel(stn_queue *queue, const void *args)
{
    const struct pair_args *a = args;
    (void)queue;
    memcpy(a->y, a->x, (size_t)a->n * sizeof *a->x);
    *a->count = a->rows;
    return STN_OK;
}

static stn_status pair_check(stn_op_call *call)
{
    call->out_meta[1].dtype = STN_DTYPE_F32;
    return like_input(call);
}

static stn_status pair_run(stn_op_call *call)
{
    const stn_spec *spec = stn_tensor_spec(call->in[0]);
    struct pair_args args = {stn_spec_local_numel(spec), (float)stn_spec_local_shape(spec)[0],
                             stn_tensor_data(call->in[0]), stn_tensor_data(call->out[0]),
                             stn_tensor_data(call->out[1])};
    return stn_op_launch(call, 0, STN_DTYPE_F32, &args, sizeof args);
}

static const stn_kernel_slot pair_slots[] = {{"forward", sizeof(struct pair_args)}};
static const stn_kernel pair_kernels[] = {
    {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F32, sizeof(struct pair_args), pair_kernel, NULL}};

static const stn_op_impl pair_impl = {
    .check = pair_check, .run = pair_run, STN_SLOTS(pair_slots), STN_KERNELS(pair_kernels)};

stn_op_desc probe_pair(void)
{
    return (stn_op_desc){
        .size = sizeof(stn_op_desc), .name = "probe_pair", STN_INPUTS(one_input), .n_outputs = 2, .impl = &pair_impl};
}
