/* A solver's own stencil with its backward: upwind advection with diffusion on a periodic plane. The kernel sees a
 * chunk with margins; the library fetches these (stn_op_halo), and brings what backward computes for them home
 * (stn_op_halo_add). The program checks <A x, y> = <x, A* y> on three ranks. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 17, COLUMNS = 12 };

/* Weights of the cell itself, above, below, left, right: not symmetric, so that the adjoint is another stencil. */
static const double weights[5] = {0.35, 0.3, 0.1, 0.2, 0.05};
static const stn_halo halo = {
    .size = sizeof halo, .below = {1, 1}, .above = {1, 1}, .mode = {STN_PADDING_CIRCULAR, STN_PADDING_CIRCULAR}};

struct stencil_args {
    double *wide, *chunk;             /* (rows + 2) x (columns + 2), row-major; rows x columns, which may be a view */
    int64_t rows, columns, stride[2]; /* strides of the chunk, in elements */
};

/* Where the five neighbours of cell (r, c) lie in the wide array. */
static void neighbours(const struct stencil_args *a, int64_t r, int64_t c, double *at[5])
{
    double *centre = a->wide + (r + 1) * (a->columns + 2) + c + 1;
    at[0] = centre, at[1] = centre - (a->columns + 2), at[2] = centre + (a->columns + 2), at[3] = centre - 1,
    at[4] = centre + 1;
}

static stn_status forward_kernel(stn_queue *queue, const void *args)
{
    const struct stencil_args *a = args;
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->columns; c++) {
            double *at[5], sum = 0;
            neighbours(a, r, c, at);
            for (int k = 0; k < 5; k++)
                sum += weights[k] * *at[k];
            a->chunk[r * a->stride[0] + c * a->stride[1]] = sum;
        }
    return STN_OK;
}

static stn_status adjoint_kernel(stn_queue *queue, const void *args)
{
    const struct stencil_args *a = args;
    (void)queue;
    memset(a->wide, 0, (size_t)((a->rows + 2) * (a->columns + 2)) * sizeof *a->wide);
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->columns; c++) {
            double *at[5];
            neighbours(a, r, c, at);
            for (int k = 0; k < 5; k++)
                *at[k] += weights[k] * a->chunk[r * a->stride[0] + c * a->stride[1]];
        }
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const stn_spec *x = call->in_spec[0];
    if (stn_spec_dtype(x) != STN_DTYPE_F64 || stn_spec_ndim(x) != 2)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "input got %s of %d dims, wanted f64 of 2",
                           stn_dtype_name(stn_spec_dtype(x)), stn_spec_ndim(x));
    call->out_meta[0] = (stn_meta){STN_DTYPE_F64, 2, {stn_spec_shape(x)[0], stn_spec_shape(x)[1]}};
    return STN_OK;
}

/* Any Shards will do, in any order of memory. A pending reduction goes through the fallback. */
static stn_status place(stn_op_call *call)
{
    const stn_spec *x = call->in_spec[0];
    for (int a = 0; stn_spec_mesh(x) && a < stn_mesh_ndim(stn_spec_mesh(x)); a++)
        if (stn_spec_placement(x, a).kind == STN_PLACE_PARTIAL)
            return STN_NO_RULE;
    call->out_spec[0] = x;
    return STN_OK;
}

static struct stencil_args args_of(const stn_box *wide, stn_tensor *chunk)
{
    const int64_t *shape = stn_tensor_local_shape(chunk), *strides = stn_tensor_strides(chunk);
    return (struct stencil_args){wide->data, stn_tensor_data(chunk), shape[0], shape[1], {strides[0], strides[1]}};
}

static stn_status run_forward(stn_op_call *call)
{
    stn_box wide;
    stn_status status = stn_op_halo(call, call->in[0], &halo, &wide);
    struct stencil_args args = args_of(&wide, call->out[0]);
    return status != STN_OK || !wide.data ? status : stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static stn_status run_adjoint(stn_op_call *call)
{
    stn_box wide;
    stn_status status = stn_op_halo_box(call, call->in[0], &halo, &wide);
    struct stencil_args args = args_of(&wide, call->in[0]);
    if (status == STN_OK && wide.data)
        status = stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
    return status == STN_OK ? stn_op_halo_add(call, &wide, &halo, call->out[0]) : status;
}

/* Each op is the adjoint of the other, so derivatives of any order exist. */
static stn_status backward(stn_backward_call *call)
{
    return stn_call(call->context, call->arg, 1, call->grad_out, 0, NULL, 1, call->grad_in);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_kernel_slot slots[] = {{"run", sizeof(struct stencil_args)}};
static const stn_kernel forward_kernels[] = {
    {sizeof(stn_kernel), "run", "cpu", 1u << STN_DTYPE_F64, sizeof(struct stencil_args), forward_kernel, NULL}};
static const stn_kernel adjoint_kernels[] = {
    {sizeof(stn_kernel), "run", "cpu", 1u << STN_DTYPE_F64, sizeof(struct stencil_args), adjoint_kernel, NULL}};
static const stn_op_impl forward = {.check = check,
                                    .place = place,
                                    .run = run_forward,
                                    .backward = backward,
                                    STN_SLOTS(slots),
                                    STN_KERNELS(forward_kernels)};
static const stn_op_impl adjoint = {.check = check,
                                    .place = place,
                                    .run = run_adjoint,
                                    .backward = backward,
                                    STN_SLOTS(slots),
                                    STN_KERNELS(adjoint_kernels)};
static const stn_op_desc advect = {.size = sizeof advect,
                                   .name = "advect",
                                   STN_INPUTS(inputs),
                                   .n_outputs = 1,
                                   .impl = &forward,
                                   .arg = "advect_adjoint"};
static const stn_op_desc advect_adjoint = {.size = sizeof advect_adjoint,
                                           .name = "advect_adjoint",
                                           STN_INPUTS(inputs),
                                           .n_outputs = 1,
                                           .impl = &adjoint,
                                           .arg = "advect"};

static stn_tensor *advance(stn_tensor *u)
{
    stn_tensor *next = NULL;
    stn_call(stn_tensor_context(u), "advect", 1, &u, 0, NULL, 1, &next);
    return next;
}

/* both[0] = <A^3 x, y> + <A x, 1>, both[1] = <x, gradient of that by x>: equal, since A is linear. The cotangent of the
 * second product is one number that stands for all elements, a view whose strides are 0. */
static stn_status rank_main(stn_context *ctx, void *arg)
{
    (void)arg;
    int ranks = stn_context_size(ctx);
    const stn_op *op;
    const stn_mesh *mesh;
    const stn_spec *spec;
    const stn_placement rows = stn_shard(0);
    if (stn_op_register(ctx, &advect, &op) != STN_OK || stn_op_register(ctx, &advect_adjoint, &op) != STN_OK ||
        stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh) != STN_OK ||
        stn_spec_create(ctx, mesh, &rows, STN_DTYPE_F64, 2, (int64_t[]){ROWS, COLUMNS}, NULL, &spec) != STN_OK)
        return stn_context_status(ctx);
    stn_scope_begin(ctx);
    stn_tensor *x = stn_randn(ctx, spec), *y = stn_randn(ctx, spec), *grad = NULL;
    double both[2] = {NAN, NAN};
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_tensor *product =
        stn_add(stn_sum(stn_mul(advance(advance(advance(x))), y), 0, NULL, 0), stn_sum(advance(x), 0, NULL, 0));
    stn_item(product, &both[0]);
    stn_backward(product);
    if (stn_grad_of(x, &grad) == STN_OK)
        stn_item(stn_sum(stn_mul(stn_detach(x), grad), 0, NULL, 0), &both[1]);
    if (stn_context_rank(ctx) == 0)
        printf("<A x, y> %.12f, <x, A* y> %.12f\n", both[0], both[1]);
    stn_agree(ctx, fabs(both[0] - both[1]) <= 1e-12 * fabs(both[0]) ? STN_OK : STN_ERR_VALUE, "the products differ");
    return stn_scope_end(ctx);
}

int main(void)
{
    char error[512] = "";
    stn_launch_options options = {
        .size = sizeof options,
        .ranks = 3,
        .context = {.size = sizeof options.context, .error_text = error, .error_text_size = sizeof error}};
    const stn_status status = stn_launch(&options, rank_main, NULL);
    if (status == STN_OK)
        return 0;
    fprintf(stderr, "own_stencil: %s: %s\n", stn_status_text(status), error);
    return 1;
}
