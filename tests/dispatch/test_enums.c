/* Values outside an enum, in every function that takes one: an error of that call, and never a guess. */
#include "ranks.h"

#include <limits.h>
#include <stdio.h>

static stn_context *here; /* of the case's one rank */

static stn_tensor *ones(int ndim, const int64_t *shape)
{
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(here, NULL, NULL, STN_DTYPE_F32, ndim, shape, NULL, &spec), STN_OK);
    stn_tensor *out = stn_ones(here, spec);
    stn_spec_release(&spec);
    return out;
}

static void refused(const char *what, const stn_tensor *result)
{
    char text[300] = "";
    stn_status status = stn_context_take_error(here, text, sizeof text);
    if (!test_check(result && stn_tensor_is_error(result) && status == STN_ERR_ARGUMENT, __FILE__, __LINE__, what))
        fprintf(stderr, "  status %d, \"%s\"\n", status, text);
}

#define REFUSED(call) refused(#call, call)

static void try_transforms(int value)
{
    const stn_fft_norm norm = (stn_fft_norm)value;
    const int64_t four[] = {4, 4};
    stn_tensor *x = ones(2, four), *z = stn_cast(x, STN_DTYPE_C64);
    REFUSED(stn_fft(x, 0, -1, norm));
    REFUSED(stn_ifft(x, 0, -1, norm));
    REFUSED(stn_rfft(x, 0, -1, norm));
    REFUSED(stn_irfft(z, 0, -1, norm));
    REFUSED(stn_hfft(z, 0, -1, norm));
    REFUSED(stn_ihfft(x, 0, -1, norm));
    REFUSED(stn_fftn(x, 0, NULL, NULL, norm));
    REFUSED(stn_ifftn(x, 0, NULL, NULL, norm));
    REFUSED(stn_rfftn(x, 0, NULL, NULL, norm));
    REFUSED(stn_irfftn(z, 0, NULL, NULL, norm));
    REFUSED(stn_fft2(x, NULL, NULL, norm));
    REFUSED(stn_ifft2(x, NULL, NULL, norm));
    REFUSED(stn_rfft2(x, NULL, NULL, norm));
    REFUSED(stn_irfft2(z, NULL, NULL, norm));
}

static void try_losses(int value)
{
    const stn_loss_reduction r = (stn_loss_reduction)value;
    const int64_t four[] = {4, 4};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(here, NULL, NULL, STN_DTYPE_I64, 1, four, NULL, &spec), STN_OK);
    stn_tensor *x = ones(2, four), *classes = stn_zeros(here, spec);
    stn_spec_release(&spec);
    REFUSED(stn_mse_loss(x, x, NULL, r));
    REFUSED(stn_l1_loss(x, x, NULL, r));
    REFUSED(stn_huber_loss(x, x, NULL, r, 1));
    REFUSED(stn_smooth_l1_loss(x, x, r, 1));
    REFUSED(stn_binary_cross_entropy(x, x, NULL, r));
    REFUSED(stn_binary_cross_entropy_with_logits(x, x, NULL, NULL, r));
    REFUSED(stn_kl_div(x, x, r, 0));
    REFUSED(stn_gaussian_nll_loss(x, x, x, 0, 1e-6, r));
    REFUSED(stn_poisson_nll_loss(x, x, 1, 0, 1e-8, r));
    REFUSED(stn_soft_margin_loss(x, x, r));
    REFUSED(stn_hinge_embedding_loss(x, x, 1, r));
    REFUSED(stn_nll_loss(x, classes, NULL, -100, r));
    REFUSED(stn_cross_entropy(x, classes, NULL, -100, r, 0));
    REFUSED(stn_triplet_margin_loss(x, x, x, 1, 2, 1e-6, 0, r));
}

static void try_pointwise(int value)
{
    const int64_t four[] = {4, 4};
    stn_tensor *x = ones(2, four);
    REFUSED(stn_gelu(x, (stn_gelu_approximation)value));
    REFUSED(stn_gelu_(x, (stn_gelu_approximation)value));
    REFUSED(stn_div_rounded(x, x, (stn_rounding)value));
    REFUSED(stn_cast(x, (stn_dtype)value));
}

static void try_windows(int value)
{
    const int64_t image[] = {1, 1, 4, 4}, points[] = {1, 2, 2, 2}, pad[] = {1, 1};
    stn_tensor *x = ones(4, image), *grid = ones(4, points);
    const stn_interpolate_attrs attrs = {
        .size = sizeof attrs, .mode = (stn_interpolate_mode)value, .output_size = {2, 2}};
    const stn_conv_attrs conv = {.size = sizeof conv, .mode = {(stn_padding_mode)value}};
    REFUSED(stn_interpolate(x, &attrs));
    REFUSED(stn_pad(x, 2, pad, (stn_pad_mode)value, 0));
    REFUSED(stn_pad_sphere(x, 1, 1, 2, 3, (stn_poles)value));
    REFUSED(stn_conv2d(x, x, NULL, &conv));
    REFUSED(stn_grid_sample(x, grid, (stn_sample_mode)value, (stn_sample_padding)0, 0));
    REFUSED(stn_grid_sample(x, grid, (stn_sample_mode)0, (stn_sample_padding)value, 0));
}

static void try_indices(int value)
{
    const int64_t four[] = {4, 4};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(here, NULL, NULL, STN_DTYPE_I64, 2, four, NULL, &spec), STN_OK);
    stn_tensor *x = ones(2, four), *index = stn_zeros(here, spec);
    stn_spec_release(&spec);
    REFUSED(stn_scatter_reduce(x, 0, index, x, (stn_scatter_reduction)value, 1));
}

static void try_factories(int value)
{
    const int64_t four[] = {4, 4};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(here, NULL, NULL, STN_DTYPE_F32, 2, four, NULL, &spec), STN_OK);
    REFUSED(stn_kaiming_uniform(here, spec, 1, (stn_fan)value));
    REFUSED(stn_kaiming_normal(here, spec, 1, (stn_fan)value));
    stn_spec_release(&spec);
    CHECK(stn_gain((stn_nonlinearity)value, 0) != stn_gain((stn_nonlinearity)value, 0)); /* pure: NaN */
}

static void try_layouts(int value)
{
    const int64_t four[] = {4, 4};
    float memory[4] = {0};
    const stn_placement whole = stn_replicate();
    const stn_mesh *mesh = test_mesh(here, 1, 0);
    const stn_spec *spec, *bad;
    CHECK_STATUS(stn_spec_create(here, mesh, &whole, STN_DTYPE_F32, 2, four, NULL, &spec), STN_OK);
    stn_tensor *local = ones(2, four), *x = stn_ones(here, spec);
    REFUSED(stn_to_local(x, (stn_grad_convention)value));
    REFUSED(stn_from_local(local, spec, (stn_grad_convention)value));
    REFUSED(stn_from_local_gather_shapes(local, mesh, &whole, (stn_grad_convention)value));
    REFUSED(stn_dist_all_reduce(local, mesh, STN_SUM, (stn_grad_convention)value));
    REFUSED(stn_dist_all_reduce(local, mesh, (stn_reduce_op)value, STN_GRAD_PER_RANK));
    REFUSED(stn_wrap(here, (stn_dtype)value, 1, four, NULL, memory, NULL, NULL));
    CHECK_STATUS(stn_spec_create(here, NULL, NULL, (stn_dtype)value, 2, four, NULL, &bad), STN_ERR_ARGUMENT);
    stn_context_take_error(here, NULL, 0);
    const stn_placement unknown = {.kind = (uint8_t)99}, pending = stn_partial((stn_reduce_op)99);
    CHECK_STATUS(stn_spec_create(here, mesh, &unknown, STN_DTYPE_F32, 2, four, NULL, &bad), STN_ERR_ARGUMENT);
    stn_context_take_error(here, NULL, 0);
    CHECK_STATUS(stn_spec_create(here, mesh, &pending, STN_DTYPE_F32, 2, four, NULL, &bad), STN_ERR_ARGUMENT);
    stn_context_take_error(here, NULL, 0);
    stn_spec_release(&spec);
}

static void try_communicators(int value)
{
    stn_comm *comm = stn_context_comm(here);
    float x[4] = {1, 2, 3, 4}, y[4];
    const int64_t counts[] = {4};
    const stn_dtype dtype = (stn_dtype)value;
    const stn_reduce_op op = (stn_reduce_op)value;
    CHECK_STATUS(stn_comm_all_reduce(comm, x, y, 4, dtype, STN_SUM, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_all_reduce(comm, x, y, 4, STN_DTYPE_F32, op, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_reduce(comm, x, y, 4, dtype, STN_SUM, 0, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_reduce(comm, x, y, 4, STN_DTYPE_F32, op, 0, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_all_gather(comm, x, y, counts, dtype, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_gather(comm, x, y, counts, dtype, 0, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_reduce_scatter(comm, x, y, counts, STN_DTYPE_F32, op, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_reduce_scatter(comm, x, y, counts, dtype, STN_SUM, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_scatter(comm, x, y, counts, dtype, 0, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_broadcast(comm, x, 4, dtype, 0, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_all_to_all(comm, x, counts, y, counts, dtype, NULL), STN_ERR_DTYPE);
    stn_context_take_error(here, NULL, 0);
}

static void try_types(int value)
{
    const stn_dtype dtype = (stn_dtype)value;
    CHECK(stn_dtype_size(dtype) == 0);
    CHECK_STR(stn_dtype_name(dtype), "?");
    CHECK_I64(stn_dtype_is_differentiable(dtype), 0);
    CHECK_I64(stn_dtype_promote(dtype, STN_DTYPE_F32), STN_DTYPE_COUNT);
    CHECK_I64(stn_dtype_promote(STN_DTYPE_F32, dtype), STN_DTYPE_COUNT);
}

static void try_contexts(int value)
{
    char text[200] = "";
    stn_context *made = NULL;
    stn_context_options options = {.size = sizeof options,
                                   .queue = {.size = sizeof options.queue, .kind = (stn_queue_kind)value},
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    CHECK_STATUS(stn_context_create(&options, &made), STN_ERR_ARGUMENT);
    CHECK(made == NULL);
    stn_context_destroy(&made);
}

static stn_status body(stn_context *context, void *arg)
{
    static const int values[] = {99, -1, INT_MAX, INT_MIN};
    void (*const *tries)(int) = arg;
    here = context;
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        stn_scope_begin(context);
        (*tries)(values[k]);
        stn_context_take_error(context, NULL, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void run(void (*tries)(int))
{
    test_ranks(1, body, &tries);
}

static void norms_of_transforms(void) { run(try_transforms); }
static void reductions_of_losses(void) { run(try_losses); }
static void choices_of_pointwise_ops(void) { run(try_pointwise); }
static void modes_of_windows(void) { run(try_windows); }
static void ways_to_scatter(void) { run(try_indices); }
static void fans_and_gains(void) { run(try_factories); }
static void conventions_placements_and_dtypes_of_layouts(void) { run(try_layouts); }
static void dtypes_and_operations_of_collectives(void) { run(try_communicators); }
static void element_types(void) { run(try_types); }
static void queues_of_contexts(void) { run(try_contexts); }

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"norms_of_transforms", norms_of_transforms},
        {"reductions_of_losses", reductions_of_losses},
        {"choices_of_pointwise_ops", choices_of_pointwise_ops},
        {"modes_of_windows", modes_of_windows},
        {"ways_to_scatter", ways_to_scatter},
        {"fans_and_gains", fans_and_gains},
        {"conventions_placements_and_dtypes_of_layouts", conventions_placements_and_dtypes_of_layouts},
        {"dtypes_and_operations_of_collectives", dtypes_and_operations_of_collectives},
        {"element_types", element_types},
        {"queues_of_contexts", queues_of_contexts},
    };
    return TEST_MAIN(argc, argv, cases);
}
