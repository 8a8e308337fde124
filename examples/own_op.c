/* An embedder's own op with its backward: y = x^3, on any layout, its gradient written with the library's ops. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

struct cube_args {
    int64_t n;
    const float *x;
    float *y;
};

static stn_status cube_kernel(stn_queue *queue, const void *args)
{
    const struct cube_args *a = args;
    (void)queue;
    for (int64_t i = 0; i < a->n; i++)
        a->y[i] = a->x[i] * a->x[i] * a->x[i];
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

static stn_status cube_run(stn_op_call *call)
{
    struct cube_args args = {stn_spec_local_numel(stn_tensor_spec(call->in[0])), stn_tensor_data(call->in[0]),
                             stn_tensor_data(call->out[0])};
    return args.n == 0 ? STN_OK : stn_op_launch(call, 0, STN_DTYPE_F32, &args, sizeof args);
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
static const stn_op_desc cube = {
    .size = sizeof cube, .name = "cube", STN_INPUTS(inputs), .n_outputs = 1, .impl = &impl};

static stn_status rank_main(stn_context *ctx, void *arg)
{
    double *slope = arg;
    const float values[] = {1, 2, 3};
    const stn_op *op;
    const stn_spec *spec;
    if (stn_op_register(ctx, &cube, &op) != STN_OK)
        return stn_context_status(ctx);
    stn_scope_begin(ctx);
    stn_spec_create(ctx, NULL, NULL, STN_DTYPE_F32, 1, (int64_t[]){3}, NULL, &spec);
    stn_tensor *x = stn_from_host(ctx, spec, values), *y, *grad = NULL;
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_op_apply(op, 1, &x, NULL, 1, &y); /* by handle; stn_call(ctx, "cube", …) does the same by name */
    stn_backward(stn_sum(y, 0, NULL, 0));
    if (stn_grad_of(x, &grad) == STN_OK)
        stn_item(stn_sum(grad, 0, NULL, 0), slope);
    return stn_scope_end(ctx);
}

int main(void)
{
    double slope = 0; /* 3 (1 + 4 + 9) = 42 */
    char why[256] = "";
    const stn_launch_options options = {.size = sizeof options,
                                        .context = {.error_text = why, .error_text_size = sizeof why}};
    stn_status status = stn_launch(&options, rank_main, &slope);
    if (status != STN_OK)
        fprintf(stderr, "own_op: %s\n", why);
    printf("sum of slopes %g\n", slope);
    return status == STN_OK && fabs(slope - 42) < 1e-4 ? 0 : 1;
}
