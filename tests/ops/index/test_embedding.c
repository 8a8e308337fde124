/* embedding on ranks: random layouts against one process, what travels, indices out of range, padding. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>

static stn_tensor *call_embedding(stn_tensor *const *in, const void *arg)
{
    return stn_embedding(in[0], in[1], arg);
}

static double *draw_indices(uint64_t *state, int64_t n, int64_t rows)
{
    double *values = calloc((size_t)n + 1, sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (double)world_random(state, (uint64_t)rows);
    return values;
}

static stn_status random_layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct against_one_op op = {.call = call_embedding, .n_in = 2, .tolerance = 1e-15};
        struct random_shape index,
            weight = {.ndim = 2, .shape = {1 + (int64_t)world_random(&state, 12), (int64_t)world_random(&state, 5)}};
        random_shape(&state, &index);
        double *indices = draw_indices(&state, against_one_numel(&index), weight.shape[0]);
        double *rows = against_one_draw(&state, against_one_numel(&weight));
        int64_t padding = (int64_t)world_random(&state, (uint64_t)(2 * weight.shape[0])) - weight.shape[0];
        op.in[0] = (struct against_one_input){STN_DTYPE_I64, index, indices, 0};
        op.in[1] = (struct against_one_input){STN_DTYPE_F64, weight, rows, 1u << STN_SUM};
        op.arg = world_random(&state, 2) ? &padding : NULL;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(indices);
        free(rows);
    }
    return STN_OK;
}

static void every_layout_gives_what_one_process_gives(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], random_layouts_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 23;
    struct against_one_op op = {.call = call_embedding, .n_in = 2};
    struct random_shape index = {.ndim = 1, .shape = {12}}, weight = {.ndim = 2, .shape = {5, 3}};
    double *indices = draw_indices(&state, 12, 5), *rows = against_one_draw(&state, 15);
    (void)arg;
    op.in[0] = (struct against_one_input){STN_DTYPE_I64, index, indices, 0};
    op.in[1] = (struct against_one_input){STN_DTYPE_F64, weight, rows, 0};
    against_one_differences(context, &state, &op);
    free(indices);
    free(rows);
    return STN_OK;
}

static void derivatives_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

/* An i64 or i32 tensor on one axis of ranks, cut along dim 0 or whole. */
static stn_tensor *indices_on(stn_context *context, stn_dtype dtype, int cut, int ndim, const int64_t *shape,
                              const int64_t *values)
{
    const stn_spec *spec;
    stn_placement placement[] = {cut ? stn_shard(0) : stn_replicate()};
    stn_spec_create(context, test_mesh(context, stn_context_size(context), 0), placement, dtype, ndim, shape, NULL,
                    &spec);
    int64_t n = stn_spec_local_numel(spec), first = 0;
    for (int d = 0; d < ndim && cut; d++)
        first = d == 0 ? stn_spec_local_offset(spec)[0] : first * shape[d];
    int64_t *wide = calloc((size_t)n + 1, sizeof *wide);
    int32_t *narrow = calloc((size_t)n + 1, sizeof *narrow);
    for (int64_t i = 0; i < n; i++)
        narrow[i] = (int32_t)(wide[i] = values[first + i]);
    stn_tensor *tensor = stn_from_host(context, spec, dtype == STN_DTYPE_I64 ? (const void *)wide : narrow);
    free(wide);
    free(narrow);
    stn_spec_release(&spec);
    return tensor;
}

enum { ROWS = 6, WIDTH = 3 };

static stn_tensor *table_on(stn_context *context, stn_placement placement)
{
    const int64_t shape[] = {ROWS, WIDTH};
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &placement, STN_DTYPE_F32, 2, shape,
                       NULL, test_value);
}

/* Rank 0 owns rows 0 to 2, rank 1 rows 3 to 5. Each asks the other for distinct rows, once each. */
static stn_status routing_body(stn_context *context, void *arg)
{
    static const int64_t index[] = {5, 0, 5, 4, 5, /**/ 3, 0, 0, 3};
    const int64_t shape[] = {9};
    double got[9 * WIDTH];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = indices_on(context, STN_DTYPE_I64, 1, 1, shape, index),
               *table = table_on(context, stn_shard(0));
    stn_embedding(input, table, NULL); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    stn_tensor *y = stn_embedding(input, table, NULL);
    stn_stats stats = test_stats(context);
    int64_t asks = stn_context_rank(context) == 0 ? 2 : 1, answers = 3 - asks;
    CHECK_I64(stats.collectives, 3);
    CHECK_I64(stats.messages, 3);
    CHECK_I64(stats.bytes_sent, 8 + 8 * asks + 4 * WIDTH * answers);
    CHECK_I64(stats.host_syncs, 1);
    CHECK_I64(stats.redistributions, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_SHARD);
    test_read(y, got, 9 * WIDTH);
    for (int i = 0; i < 9 * WIDTH; i++)
        CHECK_NEAR(got[i], (double)(float)test_value(index[i / WIDTH] * WIDTH + i % WIDTH), 0);
    return stn_scope_end(context);
}

static void distinct_rows_are_asked_for_and_answered_once(void)
{
    test_ranks(2, routing_body, NULL);
}

static stn_status unrouted_body(stn_context *context, void *arg)
{
    static const int64_t index[] = {5, 0, 5, 4};
    const int64_t shape[] = {2, 2};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = indices_on(context, STN_DTYPE_I32, 1, 2, shape, index),
               *columns = table_on(context, stn_shard(1)), *y;
    stn_tensor *whole = table_on(context, stn_replicate());
    stn_context_stats_reset(context);
    y = stn_embedding(input, whole, NULL);
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).host_syncs, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).dim, 0);
    y = stn_embedding(indices_on(context, STN_DTYPE_I32, 0, 2, shape, index), columns, NULL);
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).dim, 2);
    y = stn_embedding(input, columns, NULL); /* four indices are less than the table: they are gathered */
    CHECK_I64(test_stats(context).redistributions, 1);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).dim, 2);
    return stn_scope_end(context);
}

static void tables_that_are_whole_by_rows_are_read_in_place(void)
{
    test_ranks(2, unrouted_body, NULL);
}

struct range_case {
    int cut_table;
};

static stn_status range_body(stn_context *context, void *arg)
{
    const struct range_case *c = arg;
    static const int64_t index[] = {1, 2, 0, 70, -1, 5};
    const int64_t shape[] = {3, 2};
    double got[6 * WIDTH];
    char text[256];
    stn_scope_begin(context);
    stn_tensor *input = indices_on(context, STN_DTYPE_I64, 1, 2, shape, index);
    stn_tensor *y = stn_embedding(input, table_on(context, c->cut_table ? stn_shard(0) : stn_replicate()), NULL);
    test_read(y, got, 6 * WIDTH);
    for (int i = 0; i < 6 * WIDTH; i++) {
        int64_t row = index[i / WIDTH];
        CHECK_NEAR(got[i], row >= 0 && row < ROWS ? (double)(float)test_value(row * WIDTH + i % WIDTH) : 0.0, 0);
    }
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_VALUE);
    CHECK_STR(text, stn_context_size(context) == 3 ? "rank 1: embedding: index 70 at (1, 1) is outside 0 … 5"
                                                  : "embedding: index 70 at (1, 1) is outside 0 … 5");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK); /* told once; the mesh is usable */
    return stn_scope_end(context);
}

static void indices_out_of_range_read_zeros_and_all_ranks_learn_of_them(void)
{
    struct range_case whole = {0}, cut = {1};
    test_ranks(1, range_body, &whole);
    test_ranks(3, range_body, &whole);
    test_ranks(3, range_body, &cut);
}

/* The gradient of a table of cut rows: sums go to the owners, nothing of the table's size travels. */
static stn_status backward_body(stn_context *context, void *arg)
{
    static const int64_t index[] = {5, 0, 5, 4, 5, /**/ 3, 0, 0, 3};
    const int64_t shape[] = {9};
    double got[ROWS * WIDTH];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = indices_on(context, STN_DTYPE_I64, 1, 1, shape, index),
               *table = table_on(context, stn_shard(0)), *grad;
    stn_set_requires_grad(table, 1);
    int64_t padding = -2;
    stn_tensor *y = stn_embedding(input, table, &padding), *ones = stn_embedding(input, table, NULL);
    const stn_spec *spec = stn_tensor_spec(y);
    float data[5 * WIDTH];
    for (int i = 0; i < 5 * WIDTH; i++)
        data[i] = 1;
    ones = stn_from_host(context, spec, data);
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &table, 0, 0, &grad), STN_OK);
    CHECK_I64(test_stats(context).redistributions, 0);
    CHECK_I64(test_stats(context).collectives, 4); /* one of them the agreement of backward */
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(table));
    test_read(grad, got, ROWS * WIDTH);
    static const double times[ROWS] = {3, 0, 0, 2, 0, 3}; /* row 4 is the padding */
    for (int i = 0; i < ROWS * WIDTH; i++)
        CHECK_NEAR(got[i], times[i / WIDTH], 0);
    return stn_scope_end(context);
}

/* <v, gradient of the table> depends on the cotangent by v[index], but at the padding, which got no gradient. */
static stn_status padding_body(stn_context *context, void *arg)
{
    static const int64_t index[] = {2, 0, 2, 4, 1};
    const int64_t shape[] = {5}, cotangent_shape[] = {5, WIDTH};
    int64_t padding = 2;
    double got[5 * WIDTH];
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_placement cut[] = {stn_shard(0)};
    stn_tensor *input = indices_on(context, STN_DTYPE_I64, 1, 1, shape, index),
               *table = table_on(context, stn_shard(0)), *first, *second;
    stn_tensor *cotangent = test_tensor(context, mesh, cut, STN_DTYPE_F32, 2, cotangent_shape, NULL, test_value);
    stn_set_requires_grad(table, 1);
    stn_set_requires_grad(cotangent, 1);
    stn_tensor *y = stn_embedding(input, table, &padding), *v = stn_detach(table);
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &table, 1, 1, &first), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &first, &v, 1, &cotangent, 0, 0, &second), STN_OK);
    test_read(second, got, 5 * WIDTH);
    for (int i = 0; i < 5 * WIDTH; i++) {
        int64_t row = index[i / WIDTH];
        CHECK_NEAR(got[i], row == padding ? 0 : (double)(float)test_value(row * WIDTH + i % WIDTH), 0);
    }
    return stn_scope_end(context);
}

static void the_padding_row_is_left_out_of_second_derivatives(void)
{
    test_ranks(1, padding_body, NULL);
    test_ranks(3, padding_body, NULL);
}

static void gradients_of_cut_rows_go_to_their_owners(void)
{
    test_ranks(2, backward_body, NULL);
}

/* 300 times 1/256 into one row: exact when summed in f32, far off when each sum is rounded to bf16. */
static stn_status accumulation_body(stn_context *context, void *arg)
{
    enum { N = 300 };
    const int64_t shape[] = {N}, table_shape[] = {2, 1};
    int64_t index[N] = {0};
    uint16_t zeros[2] = {0, 0}, cotangent[N], got[2] = {0, 0};
    const stn_spec *spec;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_placement cut[] = {stn_shard(0)};
    (void)arg;
    stn_scope_begin(context);
    for (int i = 0; i < N; i++)
        cotangent[i] = 0x3b80; /* 2^-8 */
    stn_spec_create(context, mesh, cut, STN_DTYPE_BF16, 2, table_shape, NULL, &spec);
    stn_tensor *table = stn_from_host(context, spec, zeros), *grad;
    stn_spec_release(&spec);
    stn_set_requires_grad(table, 1);
    stn_tensor *y = stn_embedding(indices_on(context, STN_DTYPE_I64, 1, 1, shape, index), table, NULL);
    stn_tensor *g = stn_from_host(context, stn_tensor_spec(y), cotangent);
    CHECK_STATUS(stn_grad(context, 1, &y, &g, 1, &table, 0, 0, &grad), STN_OK);
    CHECK_STATUS(stn_to_host(stn_full_tensor(grad), got, sizeof got), STN_OK);
    CHECK_I64(got[0], 0x3f96); /* 300 / 256 = 1.171875, exact in bf16 */
    CHECK_I64(got[1], 0);
    return stn_scope_end(context);
}

static void rows_of_16_bit_are_summed_in_f32(void)
{
    test_ranks(1, accumulation_body, NULL);
    test_ranks(2, accumulation_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const int64_t index[] = {0, 1};
    const int64_t shape[] = {2};
    int64_t padding = ROWS;
    (void)arg;
    stn_tensor *input = indices_on(context, STN_DTYPE_I64, 0, 1, shape, index),
               *table = table_on(context, stn_replicate());
    stn_embedding(input, table, &padding);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "embedding: 'padding_idx' got 6, wanted -6 <= padding_idx < 6");
    stn_embedding(table, table, NULL);
    CHECK_ERROR(context, STN_ERR_DTYPE, "embedding: 'input' got f32, wanted i64 or i32");
    stn_embedding(input, input, NULL);
    CHECK_ERROR(context, STN_ERR_SHAPE, "embedding: 'weight' got 1 dims, wanted 2");
    stn_tensor_release(&input);
    stn_tensor_release(&table);
    return STN_OK;
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_layout_gives_what_one_process_gives", every_layout_gives_what_one_process_gives},
        {"derivatives_are_those_of_differences", derivatives_are_those_of_differences},
        {"the_padding_row_is_left_out_of_second_derivatives", the_padding_row_is_left_out_of_second_derivatives},
        {"distinct_rows_are_asked_for_and_answered_once", distinct_rows_are_asked_for_and_answered_once},
        {"tables_that_are_whole_by_rows_are_read_in_place", tables_that_are_whole_by_rows_are_read_in_place},
        {"indices_out_of_range_read_zeros_and_all_ranks_learn_of_them",
         indices_out_of_range_read_zeros_and_all_ranks_learn_of_them},
        {"gradients_of_cut_rows_go_to_their_owners", gradients_of_cut_rows_go_to_their_owners},
        {"rows_of_16_bit_are_summed_in_f32", rows_of_16_bit_are_summed_in_f32},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
