/* A stencil in C on chunks of a grid of latitudes and longitudes, with its backward: upwind advection with diffusion,
 * over the poles and around the date line. stn_local_map fetches the margins, calls the two functions, and brings what
 * backward computes for the margins home. The program checks <A x, y> = <x, A* y> on three ranks. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>

static const double weights[5] = {0.35, 0.3, 0.1, 0.2, 0.05}; /* of the cell, those above, below, left, right */
static const stn_halo halo = {.size = sizeof halo, .below = {1, 1}, .above = {1, 1}, .mode = {0, STN_PADDING_CIRCULAR},
                              .poles = STN_POLES_BETWEEN_ROWS, .latitude = 0, .longitude = 1};

/* Adds weight times `from` to `to`, cell by cell: from the wide array (with margins) to the chunk, or the other way. */
static void apply(int64_t rows, int64_t columns, double *wide, double *chunk, int adjoint)
{
    const int64_t stride = columns + 2, shift[5] = {0, -stride, stride, -1, 1};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            for (int k = 0; k < 5; k++) {
                double *w = &wide[(r + 1) * stride + c + 1 + shift[k]], *y = &chunk[r * columns + c];
                *(adjoint ? w : y) += weights[k] * *(adjoint ? y : w);
            }
}

/* A new local tensor, written by the host. The other one may have any strides, its copy has none. */
static stn_tensor *run(stn_context *ctx, stn_tensor *in, int64_t rows, int64_t columns, int adjoint)
{
    const int64_t wide[] = {rows + 2, columns + 2}, chunk[] = {rows, columns};
    const stn_spec *spec = NULL;
    stn_spec_create(ctx, NULL, NULL, STN_DTYPE_F64, 2, adjoint ? wide : chunk, NULL, &spec);
    stn_tensor *out = stn_zeros(ctx, spec), *dense = stn_add_number(in, 0);
    stn_spec_release(&spec);
    if (stn_queue_sync(stn_context_queue(ctx)) == STN_OK && !stn_tensor_is_error(dense))
        apply(rows, columns, stn_tensor_data(adjoint ? out : dense), stn_tensor_data(adjoint ? dense : out), adjoint);
    return out;
}

static stn_status forward(stn_local_call *call)
{
    const int64_t *wide = stn_tensor_shape(call->in[0]);
    call->out[0] = run(call->context, call->in[0], wide[0] - 2, wide[1] - 2, 0);
    return stn_context_status(call->context);
}

static stn_status backward(stn_local_backward_call *call)
{
    const int64_t *chunk = stn_tensor_shape(call->grad_out[0]);
    call->grad_in[0] = run(call->context, call->grad_out[0], chunk[0], chunk[1], 1);
    return stn_context_status(call->context);
}

static stn_status rank_main(stn_context *ctx, void *arg)
{
    (void)arg;
    double product[2] = {NAN, 0};
    const int ranks = stn_context_size(ctx);
    const stn_mesh *mesh = NULL;
    stn_scope_begin(ctx);
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh);
    const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F64, "S1", 2, (int64_t[]){7, 16});
    const stn_local_map_options advect = {.size = sizeof advect, .function = forward, .backward = backward,
                                          .in_halos = (const stn_halo *[]){&halo}, .out_specs = &spec};
    stn_tensor *x = stn_randn(ctx, spec), *other = stn_randn(ctx, spec), *y, *grad = NULL;
    stn_set_requires_grad(x, 1);
    stn_local_map(&advect, 1, &x, 1, &y);
    stn_tensor *loss = stn_sum(stn_mul(y, other), 0, NULL, 0);
    stn_item(loss, &product[0]);
    stn_backward(loss);
    stn_grad_of(x, &grad);
    stn_item(stn_sum(stn_mul(stn_detach(x), grad), 0, NULL, 0), &product[1]);
    if (stn_context_rank(ctx) == 0)
        printf("<A x, y> %.12f, <x, A* y> %.12f\n", product[0], product[1]);
    stn_agree(ctx, fabs(product[0] - product[1]) <= 1e-12 * fabs(product[0]) ? STN_OK : STN_ERR_VALUE,
              "the products differ");
    return stn_scope_end(ctx);
}

int main(void)
{
    char why[256] = "";
    const stn_launch_options options = {
        .size = sizeof options, .ranks = 3, .context = {.error_text = why, .error_text_size = sizeof why}};
    const stn_status status = stn_launch(&options, rank_main, NULL);
    if (status == STN_OK)
        return 0;
    fprintf(stderr, "local_stencil: %s: %s\n", stn_status_text(status), why);
    return 1;
}
