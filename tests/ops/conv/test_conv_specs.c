/* What convolutions give and take beside values: specs of results, bytes and messages, memory. */
#include "ops/conv/cases.h"
#include "ranks.h"

#include "dispatch/registry.h"
#include "ops/onednn/onednn.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

/* Specs of results */

static int same_placement(stn_placement a, stn_placement b)
{
    return a.kind == b.kind && a.dim == b.dim && a.op == b.op;
}

static stn_status specs_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 6, 9, 5}, w[] = {4, 6, 3, 3}, wg[] = {4, 3, 3, 3}, b[] = {4}, uneven[] = {1, 8},
                  uneven_o[] = {3, 1};
    const int64_t *const rows[] = {NULL, NULL, uneven, NULL}, *const outs[] = {uneven_o, NULL, NULL, NULL};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement R = stn_replicate(), P = stn_partial(STN_SUM);
    struct {
        stn_placement x, w, want;
        int grouped;
        const int64_t *const *x_sizes, *const *w_sizes;
        int64_t local[4]; /* of rank 0's chunk of y */
    } cases[] = {
        {R, R, R, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_shard(0), R, stn_shard(0), 0, NULL, NULL, {2, 4, 9, 5}},
        {stn_shard(2), R, stn_shard(2), 0, rows, NULL, {4, 4, 1, 5}},
        {stn_shard(3), R, stn_shard(3), 0, NULL, NULL, {4, 4, 9, 3}},
        {R, stn_shard(0), stn_shard(1), 0, NULL, outs, {4, 3, 9, 5}},
        {stn_shard(1), stn_shard(1), P, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_shard(1), R, P, 0, NULL, NULL, {4, 4, 9, 5}},
        {R, stn_shard(1), P, 0, NULL, NULL, {4, 4, 9, 5}},
        {P, R, P, 0, NULL, NULL, {4, 4, 9, 5}},
        {R, P, P, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_partial(STN_AVG), R, R, 0, NULL, NULL, {4, 4, 9, 5}},
        {R, stn_shard(2), R, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_shard(2), stn_shard(0), stn_shard(2), 0, NULL, NULL, {4, 4, 5, 5}},
        {stn_shard(1), R, stn_shard(1), 1, NULL, NULL, {4, 2, 9, 5}},
        {R, stn_shard(0), stn_shard(1), 1, NULL, outs, {4, 2, 9, 5}},
        {R, stn_shard(1), R, 1, NULL, NULL, {4, 4, 9, 5}},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1, .groups = cases[i].grouped ? 2 : 1};
        stn_scope_begin(context);
        stn_tensor *bias = conv_filled(context, mesh, R, 1, b, NULL);
        stn_tensor *y = stn_conv2d(
            conv_filled(context, mesh, cases[i].x, 4, x, cases[i].x_sizes),
            conv_filled(context, mesh, cases[i].w, 4, cases[i].grouped ? wg : w, cases[i].w_sizes), bias, &attrs);
        const stn_spec *spec = stn_tensor_spec(y);
        if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
            if (!CHECK(same_placement(stn_spec_placement(spec, 0), cases[i].want)))
                fprintf(stderr, "  case %zu\n", i);
            for (int d = 0; d < 4 && stn_context_rank(context) == 0; d++)
                CHECK_I64(stn_spec_local_shape(spec)[d], cases[i].local[d]);
            CHECK_I64(stn_spec_memory_order(spec)[3], 1);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void results_are_placed_as_the_header_says(void)
{
    test_ranks(2, specs_body, NULL);
}

/* A transposed convolution: dim 0 of the weight goes with the input's channels, dim 1 with the output's; groups with
 * both. 9 rows at stride 2 give 19, of which rank 0 has ceil(1 * 19 / 9) = 3 where it holds one of the nine. */
static stn_status transposed_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 6, 9, 5}, w[] = {6, 4, 3, 3}, wg[] = {6, 2, 3, 3}, b[] = {4}, uneven[] = {1, 8};
    const int64_t *const rows[] = {NULL, NULL, uneven, NULL};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement R = stn_replicate(), P = stn_partial(STN_SUM);
    struct {
        stn_placement x, w, want;
        int grouped;
        const int64_t *const *x_sizes;
        int64_t local[4]; /* of rank 0's chunk of y */
    } cases[] = {
        {R, R, R, 0, NULL, {4, 4, 19, 7}},
        {stn_shard(0), R, stn_shard(0), 0, NULL, {2, 4, 19, 7}},
        {stn_shard(2), R, stn_shard(2), 0, NULL, {4, 4, 10, 7}},
        {stn_shard(2), R, stn_shard(2), 0, rows, {4, 4, 3, 7}},
        {stn_shard(3), R, stn_shard(3), 0, NULL, {4, 4, 19, 4}},
        {R, stn_shard(1), stn_shard(1), 0, NULL, {4, 2, 19, 7}},
        {stn_shard(1), stn_shard(0), P, 0, NULL, {4, 4, 19, 7}},
        {R, stn_shard(0), P, 0, NULL, {4, 4, 19, 7}},
        {P, R, P, 0, NULL, {4, 4, 19, 7}},
        {R, P, P, 0, NULL, {4, 4, 19, 7}},
        {stn_shard(1), R, stn_shard(1), 1, NULL, {4, 2, 19, 7}},
        {R, stn_shard(0), stn_shard(1), 1, NULL, {4, 2, 19, 7}},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_conv_transpose_attrs attrs = {.size = sizeof attrs, .stride = {2, 1}, .groups = cases[i].grouped ? 2 : 1};
        stn_scope_begin(context);
        stn_tensor *bias = conv_filled(context, mesh, R, 1, b, NULL);
        stn_tensor *y = stn_conv_transpose2d(conv_filled(context, mesh, cases[i].x, 4, x, cases[i].x_sizes),
                                             conv_filled(context, mesh, cases[i].w, 4, cases[i].grouped ? wg : w, NULL),
                                             bias, &attrs);
        const stn_spec *spec = stn_tensor_spec(y);
        if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
            if (!CHECK(same_placement(stn_spec_placement(spec, 0), cases[i].want)))
                fprintf(stderr, "  case %zu\n", i);
            for (int d = 0; d < 4 && stn_context_rank(context) == 0; d++)
                CHECK_I64(stn_spec_local_shape(spec)[d], cases[i].local[d]);
            CHECK_I64(stn_spec_memory_order(spec)[3], 1);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void transposed_results_are_placed_as_the_header_says(void)
{
    test_ranks(2, transposed_body, NULL);
}

/* An uneven cut is scaled by the ratio of sizes: 9 rows at stride 2 give 5. */
static stn_status strided_body(stn_context *context, void *arg)
{
    const int64_t x[] = {1, 1, 9, 4}, w[] = {1, 1, 3, 3}, uneven[] = {2, 7};
    const int64_t *const rows[] = {NULL, NULL, uneven, NULL};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {2, 1}, .padding = {1, 1}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *y = stn_conv2d(conv_filled(context, mesh, stn_shard(2), 4, x, rows),
                               conv_filled(context, mesh, stn_replicate(), 4, w, NULL), NULL, &attrs);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK_I64(stn_spec_shape(stn_tensor_spec(y))[2], 5);
    CHECK_I64(stn_spec_local_shape(stn_tensor_spec(y))[2],
              stn_context_rank(context) == 0 ? 2 : 3); /* ceil(2 * 5 / 9) = 2 */
    return stn_scope_end(context);
}

static void uneven_cuts_are_scaled_by_the_sizes(void)
{
    test_ranks(2, strided_body, NULL);
}

/* The input moves nowhere but for two halos of one row each. */
static stn_status bytes_body(stn_context *context, void *arg)
{
    const int64_t x[] = {2, 3, 10, 7}, w[] = {2, 3, 3, 3};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = conv_filled(context, mesh, stn_shard(2), 4, x, NULL),
               *weight = conv_filled(context, mesh, stn_replicate(), 4, w, NULL);
    stn_context_stats_reset(context);
    stn_conv2d(input, weight, NULL, &attrs);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.messages, 1);
    CHECK_I64(stats.bytes_sent, 2 * 3 * 7 * 4);
    CHECK_I64(stats.fallbacks, 0);
    return stn_scope_end(context);
}

static void one_exchange_carries_the_halo_and_no_more(void)
{
    test_ranks(2, bytes_body, NULL);
}

/* Nor does anything move where each output reads the one element at its place. */
static stn_status pointwise_body(stn_context *context, void *arg)
{
    const int64_t x[] = {2, 3, 10, 7}, w[] = {2, 3, 1, 1};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = conv_filled(context, mesh, stn_shard(2), 4, x, NULL),
               *weight = conv_filled(context, mesh, stn_replicate(), 4, w, NULL);
    stn_context_stats_reset(context);
    stn_conv2d(input, weight, NULL, NULL);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 0);
    return stn_scope_end(context);
}

static void kernels_of_one_element_exchange_nothing(void)
{
    test_ranks(2, pointwise_body, NULL);
}

/* In the gradient by the weight the cotangent goes to the cut that follows from the input's, though it is the larger
 * one: 5 of 9 rows at stride 2, input rows 2 and 7, so output rows 2 and 3; the cotangent comes with rows 3 and 2
 * and gives one up. */
static stn_status leading_body(stn_context *context, void *arg)
{
    const int64_t x[] = {1, 1, 9, 4}, y[] = {1, 8, 5, 4}, uneven_x[] = {2, 7}, uneven_y[] = {3, 2};
    const int64_t *const x_rows[] = {NULL, NULL, uneven_x, NULL}, *const y_rows[] = {NULL, NULL, uneven_y, NULL};
    const stn_attr attrs[] = {{"stride", STN_ATTR_INTS, {.ints = {2, {2, 1}}}},
                              {"padding", STN_ATTR_INT, {.i = 1}},
                              {"kernel_size", STN_ATTR_INTS, {.ints = {2, {3, 3}}}}};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {conv_filled(context, mesh, stn_shard(2), 4, x, x_rows),
                        conv_filled(context, mesh, stn_shard(2), 4, y, y_rows)},
               *out;
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_op_invoke(stni_registry_find(context, "conv2d_grad_weight"), 2, in, 3, attrs, 1, &out), STN_OK);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK(same_placement(stn_spec_placement(stn_tensor_spec(out), 0), stn_partial(STN_SUM)));
    /* Rank 0: a row of the cotangent; rank 1: input rows 2 and 3, which output 1 reads beyond row 1. */
    CHECK_I64(stats.bytes_sent, stn_context_rank(context) == 0 ? 8 * 4 * 4 : 2 * 4 * 4);
    return stn_scope_end(context);
}

static void the_input_leads_in_the_gradient_by_the_weight(void)
{
    test_ranks(2, leading_body, NULL);
}

/* Beside the output the op takes memory for strips alone: rows beside the cut and columns beside the edges. */
static stn_status memory_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 16, 256, 128}, w[] = {16, 16, 3, 3};
    const int order[] = {0, 2, 3, 1};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement rows = stn_shard(2);
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *spec;
    (void)arg;
    for (int mode = 0; mode < 4; mode++) {
        stn_conv_attrs attrs = {
            .size = sizeof attrs, .padding = {1, 1}, .mode = {(stn_padding_mode)mode, (stn_padding_mode)mode}};
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        CHECK_STATUS(stn_spec_create(context, mesh, &rows, STN_DTYPE_F32, 4, x, &options, &spec), STN_OK);
        int64_t chunk = stn_spec_local_numel(spec) * 4;
        stn_tensor *input = stn_mul_number(stn_empty(context, spec), 0),
                   *weight = conv_filled(context, mesh, stn_replicate(), 4, w, NULL);
        stn_tensor *in[] = {input, weight}, *grad[2];
        CHECK_STATUS(stn_set_requires_grad(weight, 1), STN_OK);
        stn_context_stats(context, &stats);
        int64_t before = stats.live_bytes;
        stn_context_stats_reset(context);
        stn_tensor *y = stn_conv2d(input, weight, NULL, &attrs);
        stn_context_stats(context, &stats);
        CHECK(stats.peak_bytes - before - chunk < chunk / 4);
        before = stats.live_bytes;
        stn_context_stats_reset(context);
        CHECK_STATUS(stn_grad(context, 1, &y, &input, 1, in + 1, 0, 0, grad), STN_OK);
        stn_context_stats(context, &stats);
        CHECK(stats.peak_bytes - before < chunk / 4);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_spec_release(&spec);
    }
    return STN_OK;
}

static void the_input_is_never_copied_to_make_room(void)
{
    test_ranks(2, memory_body, NULL);
}

/* A transposed one of kernel 4 at stride 2 reads, above and below the cut, one row each; the bias takes no second
 * copy of the output. */
static stn_status transposed_bytes_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 16, 128, 64}, w[] = {16, 16, 4, 4}, b[] = {16};
    const int order[] = {0, 2, 3, 1};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement rows = stn_shard(2);
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *spec;
    stn_conv_transpose_attrs attrs = {.size = sizeof attrs, .stride = {2, 2}, .padding = {1, 1}};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, mesh, &rows, STN_DTYPE_F32, 4, x, &options, &spec), STN_OK);
    stn_tensor *input = stn_mul_number(stn_empty(context, spec), 0),
               *weight = conv_filled(context, mesh, stn_replicate(), 4, w, NULL);
    stn_tensor *bias = conv_filled(context, mesh, stn_replicate(), 1, b, NULL);
    stn_context_stats(context, &stats);
    int64_t before = stats.live_bytes, out = 4 * stn_spec_local_numel(spec) * (int64_t)sizeof(float);
    stn_context_stats_reset(context);
    stn_conv_transpose2d(input, weight, bias, &attrs);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.messages, 1);
    CHECK_I64(stats.bytes_sent, 4 * 16 * 64 * 4);
    CHECK(stats.peak_bytes - before - out < out / 4);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    return STN_OK;
}

static void a_transposed_one_carries_its_halo_and_makes_one_output(void)
{
    test_ranks(2, transposed_bytes_body, NULL);
}

/* The halo of a wide kernel would be of all its positions. */
static stn_status nothing_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 1, 5, 2}, w[] = {1, 0, 5, 2}, shape[] = {4, 0, 262140, 65534};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_conv_transpose_attrs attrs = {
        .size = sizeof attrs, .padding = {5, 2}, .dilation = {65536, 65536}, .output_padding = {1, 0}};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = conv_filled(context, mesh, stn_shard(3), 4, x, NULL), *grad[2];
    stn_tensor *in[] = {input, conv_filled(context, mesh, stn_replicate(), 4, w, NULL)};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_conv_transpose2d(in[0], in[1], NULL, &attrs);
    for (int d = 0; d < 4; d++)
        CHECK_I64(stn_tensor_shape(y)[d], shape[d]);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.messages, 0);
    CHECK(stats.peak_bytes < 1 << 20);
    stn_tensor *loss = stn_sum(y, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 2, in, 0, 0, grad), STN_OK);
    const double zeros[40] = {0};
    against_one_compare(grad[0], zeros, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return STN_OK;
}

static void an_output_without_channels_fetches_nothing(void)
{
    test_ranks(3, nothing_body, NULL);
}

static void wait_for(void *arg)
{
    while (!atomic_load((atomic_int *)arg))
        sched_yield();
}

/* What a kernel of our own asks of oneDNN is there before it runs, since the next call asks meanwhile. */
static stn_status library_body(stn_context *context, void *arg)
{
    const int64_t x[] = {1, 2, 5, 5}, w[] = {2, 2, 3, 3};
    void *const *library = &context->op_cache[STNI_OP_CACHE_ONEDNN].state;
    atomic_int may_run = context->queue->immediate;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 1, 0);
    stn_tensor *input = stn_cast(conv_filled(context, mesh, stn_replicate(), 4, x, NULL), STN_DTYPE_F64),
               *weight = stn_cast(conv_filled(context, mesh, stn_replicate(), 4, w, NULL), STN_DTYPE_F64);
    CHECK_STATUS(stn_queue_call(context->queue, wait_for, &may_run), STN_OK);
    CHECK(!stn_tensor_is_error(stn_conv2d(input, weight, NULL, NULL)));
    const void *before = *library;
    atomic_store(&may_run, 1);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK(*library == before);
    return stn_scope_end(context);
}

static void the_library_is_made_before_a_kernel_runs(void)
{
    test_ranks(1, library_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_output_without_channels_fetches_nothing", an_output_without_channels_fetches_nothing},
        {"results_are_placed_as_the_header_says", results_are_placed_as_the_header_says},
        {"transposed_results_are_placed_as_the_header_says", transposed_results_are_placed_as_the_header_says},
        {"uneven_cuts_are_scaled_by_the_sizes", uneven_cuts_are_scaled_by_the_sizes},
        {"one_exchange_carries_the_halo_and_no_more", one_exchange_carries_the_halo_and_no_more},
        {"kernels_of_one_element_exchange_nothing", kernels_of_one_element_exchange_nothing},
        {"the_input_leads_in_the_gradient_by_the_weight", the_input_leads_in_the_gradient_by_the_weight},
        {"the_library_is_made_before_a_kernel_runs", the_library_is_made_before_a_kernel_runs},
        {"the_input_is_never_copied_to_make_room", the_input_is_never_copied_to_make_room},
        {"a_transposed_one_carries_its_halo_and_makes_one_output",
         a_transposed_one_carries_its_halo_and_makes_one_output},
    };
    return TEST_MAIN(argc, argv, cases);
}
