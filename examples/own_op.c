/* An embedder's own op with its backward: y = x^3, on any layout, its gradient written with the library's ops. Here of
 * every second element of a tensor, a view whose elements do not lie side by side. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One dim of the chunk: the strides tell how far apart neighbours lie in memory, in elements. */
struct dim {
    int64_t size, x_stride, y_stride;
};

struct cube_args {
    int ndim;
    struct dim dim[STN_MAX_NDIM];
    const float *x;
    float *y;
};

/* Dim by dim, from the first. */
static void cube(int ndim, const struct dim *dim, const float *x, float *y)
{
    if (ndim == 0)
        *y = *x * *x * *x;
    for (int64_t i = 0; ndim > 0 && i < dim->size; i++)
        cube(ndim - 1, dim + 1, x + i * dim->x_stride, y + i * dim->y_stride);
}

static stn_status cube_kernel(stn_queue *queue, const void *args)
{
    const struct cube_args *a = args;
    (void)queue;
    cube(a->ndim, a->dim, a->x, a->y);
    return STN_OK;
}

static stn_status cube_check(stn_op_call *call)
{
    const stn_spec *x = call->in_spec[0];
    if (stn_spec_dtype(x) != STN_DTYPE_F32)
        return stn_op_fail(call, STN_ERR_DTYPE, "x got %s, wanted f32", stn_dtype_name(stn_spec_dtype(x)));
    call->out_meta[0].dtype = STN_DTYPE_F32;
    call->out_meta[0].ndim = stn_spec_ndim(x);
    memcpy(call->out_meta[0].shape, stn_spec_shape(x), (size_t)stn_spec_ndim(x) * sizeof(int64_t));
    return STN_OK;
}

/* Pointwise, so any Shard is fine as it is. A pending reduction is not: no rule, and the fallback reduces. */
static stn_status cube_place(stn_op_call *call)
{
    const stn_spec *x = call->in_spec[0];
    for (int a = 0; stn_spec_mesh(x) && a < stn_mesh_ndim(stn_spec_mesh(x)); a++)
        if (stn_spec_placement(x, a).kind == STN_PLACE_PARTIAL)
            return STN_NO_RULE;
    call->out_spec[0] = x;
    return STN_OK;
}

/* An input may be a view, so that its strides are its own. */
static stn_status cube_run(stn_op_call *call)
{
    stn_tensor *x = call->in[0], *y = call->out[0];
    struct cube_args args = {.ndim = stn_tensor_ndim(x), .x = stn_tensor_data(x), .y = stn_tensor_data(y)};
    for (int d = 0; d < args.ndim; d++)
        args.dim[d] = (struct dim){stn_tensor_local_shape(x)[d], stn_tensor_strides(x)[d], stn_tensor_strides(y)[d]};
    const int64_t n = stn_spec_local_numel(stn_tensor_spec(x));
    return n == 0 ? STN_OK : stn_op_launch(call, 0, STN_DTYPE_F32, &args, sizeof args);
}

static uint64_t cube_saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs; /* input 0 */
}

static stn_status cube_backward(stn_backward_call *call)
{
    stn_tensor *x = call->in[0];
    call->grad_in[0] = stn_mul(call->grad_out[0], stn_mul_number(stn_mul(x, x), 3));
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "x"}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct cube_args)}};
static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F32, sizeof(struct cube_args), cube_kernel, NULL}};
static const stn_op_impl impl = {.check = cube_check, .place = cube_place, .run = cube_run, .saves = cube_saves,
                                 .backward = cube_backward, STN_SLOTS(slots), STN_KERNELS(kernels)};
static const stn_op_desc cube_op = {
    .size = sizeof cube_op, .name = "cube", STN_INPUTS(inputs), .n_outputs = 1, .impl = &impl};

static stn_status rank_main(stn_context *ctx, void *arg)
{
    double *sums = arg; /* of cubes, and of slopes */
    const float values[] = {1, 2, 3, 4};
    const stn_op *op;
    const stn_spec *spec;
    if (stn_op_register(ctx, &cube_op, &op) != STN_OK)
        return stn_context_status(ctx);
    stn_scope_begin(ctx);
    stn_spec_create(ctx, NULL, NULL, STN_DTYPE_F32, 1, (int64_t[]){4}, NULL, &spec);
    stn_tensor *x = stn_from_host(ctx, spec, values), *y, *grad = NULL;
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_tensor *odd = stn_slice(x, 0, 0, INT64_MAX, 2);
    stn_op_apply(op, 1, &odd, NULL, 1, &y); /* by handle; stn_call(ctx, "cube", …) does the same by name */
    stn_tensor *sum = stn_sum(y, 0, NULL, 0);
    stn_item(sum, &sums[0]);
    stn_backward(sum);
    if (stn_grad_of(x, &grad) == STN_OK)
        stn_item(stn_sum(grad, 0, NULL, 0), &sums[1]);
    return stn_scope_end(ctx);
}

int main(void)
{
    double sums[2] = {0}; /* 1 + 27 = 28, and 3 (1 + 9) = 30 */
    char why[256] = "";
    const stn_launch_options options = {.size = sizeof options,
                                        .context = {.error_text = why, .error_text_size = sizeof why}};
    stn_status status = stn_launch(&options, rank_main, sums);
    if (status != STN_OK)
        fprintf(stderr, "own_op: %s\n", why);
    printf("sum of cubes %g, of slopes %g\n", sums[0], sums[1]);
    return status == STN_OK && fabs(sums[0] - 28) < 1e-4 && fabs(sums[1] - 30) < 1e-4 ? 0 : 1;
}
