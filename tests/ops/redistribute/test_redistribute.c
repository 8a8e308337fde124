/* redistribute, scatter, full_tensor, item: values in every layout, gradients, what travels, who is told of an
 * error. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* To a drawn layout on the same mesh; the values of one process do not change. */
static stn_tensor *call_redistribute(stn_tensor *const *in, const void *arg)
{
    uint64_t state = *(const uint64_t *)arg;
    const stn_spec *from = stn_tensor_spec(in[0]), *to;
    if (!stn_spec_mesh(from))
        return stn_mul_number(in[0], 1);
    struct random_shape shape = {.ndim = stn_spec_ndim(from)};
    memcpy(shape.shape, stn_spec_shape(from), (size_t)shape.ndim * sizeof shape.shape[0]);
    to = random_spec(&state, stn_tensor_context(in[0]), stn_spec_mesh(from), &shape, STN_DTYPE_F64, 1u << STN_SUM);
    stn_tensor *out = stn_redistribute(in[0], to);
    CHECK(stn_tensor_spec(out) == to);
    stn_spec_release(&to);
    return out;
}

static stn_status random_layouts_body(stn_context *context, void *arg)
{
    (void)arg;
    against_one_check_drawn(context, 41, 40, call_redistribute);
    return STN_OK;
}

static void layouts_change_and_values_and_gradients_stay(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], random_layouts_body, NULL);
}

enum { ROWS = 7, COLUMNS = 3, N = ROWS * COLUMNS };

static const int64_t shape_2d[] = {ROWS, COLUMNS};

static const stn_spec *spec_on(stn_context *context, const stn_mesh *mesh, stn_placement placement,
                               const int64_t *sizes)
{
    const int64_t *const cut[] = {sizes, NULL};
    stn_spec_options options = {.size = sizeof options, .sizes = sizes ? cut : NULL};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, &placement, STN_DTYPE_F64, 2, shape_2d, &options, &spec), STN_OK);
    return spec;
}

static void check_values(stn_tensor *tensor, double factor)
{
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = factor * test_value(i);
    against_one_compare(tensor, want, 1e-14);
}

/* From ranks 0, 1 to ranks 2, 1 of three: the cotangent travels back to the mesh that its tensor lives on. */
static stn_status other_mesh_body(stn_context *context, void *arg)
{
    static const int first[] = {0, 1}, second[] = {2, 1}, size = 2;
    const stn_mesh *from, *to;
    double data[N], two[N];
    (void)arg;
    stn_scope_begin(context);
    stn_mesh_create(context, 1, &size, NULL, first, &from);
    stn_mesh_create(context, 1, &size, NULL, second, &to);
    const stn_spec *there = spec_on(context, to, stn_shard(1), NULL),
                   *here = spec_on(context, from, stn_shard(0), NULL);
    for (int i = 0; i < N; i++)
        data[i] = test_value(i), two[i] = 2;
    stn_tensor *x = against_one_tensor(context, here, data), *w = against_one_tensor(context, there, data), *grad;
    stn_set_requires_grad(x, 1);
    stn_tensor *twos = against_one_tensor(context, here, two), *y = stn_redistribute(stn_mul(x, twos), there);
    CHECK(!stn_is_leaf(y));
    check_values(y, 2);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(stn_mul(y, w), 3), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == here);
    check_values(grad, 6);
    stn_spec_release(&there);
    stn_spec_release(&here);
    return stn_scope_end(context);
}

static void gradients_cross_meshes(void)
{
    test_ranks(3, other_mesh_body, NULL);
}

static stn_status unchanged_body(stn_context *context, void *arg)
{
    stn_placement rows[] = {stn_shard(0)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_redistribute(x, stn_tensor_spec(x)), *z = stn_redistribute_to(x, rows);
    CHECK(stn_tensor_data(y) == stn_tensor_data(x) && stn_tensor_data(z) == stn_tensor_data(x));
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).allocations, 0);
    stn_placement columns[] = {stn_shard(1)};
    z = stn_redistribute_to(x, columns);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(z), 0).dim, 1);
    check_values(z, 1);
    /* Until one of them is changed. */
    stn_context_stats_reset(context);
    CHECK(stn_mul_number_(y, 2) == y);
    CHECK_I64(test_stats(context).allocations, 1);
    check_values(x, 1);
    check_values(y, 2);
    return stn_scope_end(context);
}

static void an_unchanged_layout_shares_memory(void)
{
    test_ranks(2, unchanged_body, NULL);
}

static stn_status bad_targets_body(stn_context *context, void *arg)
{
    stn_placement rows[] = {stn_shard(0)};
    const int64_t other_shape[] = {COLUMNS, ROWS};
    const stn_spec *spec, *local;
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_tensor *x = test_tensor(context, mesh, rows, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    stn_spec_create(context, mesh, rows, STN_DTYPE_F64, 2, other_shape, NULL, &spec);
    stn_redistribute(x, spec);
    CHECK_ERROR(context, STN_ERR_SHAPE, "redistribute: spec got shape (3, 7), wanted the tensor's (7, 3)");
    stn_spec_release(&spec);
    stn_spec_create(context, mesh, rows, STN_DTYPE_F32, 2, shape_2d, NULL, &spec);
    stn_redistribute(x, spec);
    CHECK_ERROR(context, STN_ERR_DTYPE, "redistribute: spec got f32, wanted the tensor's f64");
    stn_spec_release(&spec);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape_2d, NULL, &local);
    stn_redistribute(x, local);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "redistribute: spec has no mesh, wanted one: stn_from_local and stn_to_local cross over");
    stn_spec_release(&local);
    stn_redistribute(x, NULL);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "redistribute: spec got NULL");
    stn_tensor_release(&x);
    return STN_OK;
}

static void layouts_that_do_not_fit_are_refused(void)
{
    test_ranks(2, bad_targets_body, NULL);
}

/* Scatter */

static stn_tensor *whole_on(stn_context *context, int root, const int64_t *shape)
{
    if (stn_context_rank(context) != root)
        return NULL;
    return test_tensor(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, test_value);
}

static stn_status scatter_body(stn_context *context, void *arg)
{
    static const int64_t sizes[] = {2, 0, 5};
    int root = *(const int *)arg, rank = stn_context_rank(context);
    stn_scope_begin(context);
    stn_tensor *whole = whole_on(context, root, shape_2d);
    const stn_spec *spec = spec_on(context, test_mesh(context, 3, 0), stn_shard(0), sizes);
    stn_context_stats_reset(context);
    stn_tensor *x = stn_scatter(context, whole, root, spec, 1);
    stn_stats stats = test_stats(context);
    int64_t agreement = 8 + 8 * (rank == 0); /* an all-reduce of one number among three */
    CHECK_I64(stats.bytes_sent - agreement, rank == root ? (ROWS - sizes[rank]) * COLUMNS * 8 : 0);
    CHECK(stn_tensor_spec(x) == spec && stn_requires_grad(x) && stn_is_leaf(x));
    int64_t own = rank == root ? N * 8 : 0;
    CHECK(stats.peak_bytes <= own + sizes[rank] * COLUMNS * 8 + 64);
    check_values(x, 1);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void scatter_sends_each_rank_its_chunk_alone(void)
{
    for (int root = 0; root < 3; root++)
        test_ranks(3, scatter_body, &root);
}

static stn_status scatter_layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct random_shape shape;
        stn_scope_begin(context);
        random_shape(&state, &shape);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        const stn_spec *spec = random_spec(&state, context, random_mesh(&state, context), &shape, STN_DTYPE_F64,
                                           1u << STN_SUM | 1u << STN_AVG | 1u << STN_MAX);
        int root = (int)world_random(&state, (uint64_t)stn_context_size(context));
        stn_tensor *local =
            stn_context_rank(context) == root ? against_one_local(context, STN_DTYPE_F64, &shape, values) : NULL;
        stn_tensor *x = stn_scatter(context, local, root, spec, 0);
        CHECK(!stn_requires_grad(x));
        against_one_compare(x, values, 1e-15);
        stn_spec_release(&spec);
        free(values);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void scatter_serves_every_layout(void)
{
    static const int worlds[] = {1, 2, 5, 6};
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], scatter_layouts_body, NULL);
}

static stn_status bad_root_body(stn_context *context, void *arg)
{
    const int64_t other_shape[] = {COLUMNS, ROWS};
    (void)arg;
    const stn_spec *spec = spec_on(context, test_mesh(context, 3, 0), stn_shard(0), NULL);
    stn_tensor *wrong = whole_on(context, 1, other_shape), *right = whole_on(context, 1, shape_2d);
    CHECK(stn_tensor_is_error(stn_scatter(context, wrong, 1, spec, 0)));
    CHECK_ERROR(context, STN_ERR_SHAPE, "rank 1: scatter: local got shape (3, 7), wanted (7, 3)");
    stn_scatter(context, NULL, 1, spec, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "rank 1: scatter: local is missing or on a mesh, wanted a local tensor on the root");
    stn_scatter(context, right, 3, spec, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "scatter: root got 3, wanted a rank of the world, 0 to 2");
    const stn_spec *whole_numbers, *here;
    stn_placement rows[] = {stn_shard(0)};
    stn_spec_create(context, test_mesh(context, 3, 0), rows, STN_DTYPE_I64, 2, shape_2d, NULL, &whole_numbers);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 2, shape_2d, NULL, &here);
    stn_tensor *counts = stn_context_rank(context) == 1 ? stn_zeros(context, here) : NULL;
    stn_spec_release(&here);
    CHECK(stn_tensor_is_error(stn_scatter(context, counts, 1, whole_numbers, 1)));
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_DTYPE); /* integers have no gradients */
    stn_tensor_release(&counts);
    stn_spec_release(&whole_numbers);
    stn_tensor *x = stn_scatter(context, right, 1, spec, 0);
    stn_scope_begin(context);
    check_values(x, 1); /* the mesh is usable */
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_tensor_release(&x);
    stn_tensor_release(&wrong);
    stn_tensor_release(&right);
    stn_spec_release(&spec);
    return STN_OK;
}

static void what_the_root_finds_wrong_all_ranks_are_told(void)
{
    test_ranks(3, bad_root_body, NULL);
}

/* Item */

static stn_status item_body(stn_context *context, void *arg)
{
    static const int64_t one[] = {1, 1};
    static const int pair[] = {1, 2}, size = 2;
    stn_placement kinds[] = {stn_replicate(), stn_shard(1), stn_partial(STN_SUM)};
    const stn_mesh *mesh = test_mesh(context, 3, 0), *part;
    double value = 0;
    (void)arg;
    stn_scope_begin(context);
    for (int k = 0; k < 3; k++) {
        value = 0;
        stn_tensor *x = test_tensor(context, mesh, &kinds[k], STN_DTYPE_F32, 2, one, NULL, test_value);
        CHECK_STATUS(stn_item(x, &value), STN_OK);
        CHECK_NEAR(value, (double)(float)test_value(0), 0);
    }
    stn_mesh_create(context, 1, &size, NULL, pair, &part);
    stn_tensor *x = test_tensor(context, part, kinds, STN_DTYPE_F64, 2, one, NULL, test_value);
    CHECK_STATUS(stn_item(x, &value), STN_OK);
    CHECK_NEAR(value, stn_context_rank(context) == 0 ? NAN : test_value(0), 0);
    return stn_scope_end(context);
}

static void item_reads_one_element_of_any_layout(void)
{
    test_ranks(3, item_body, NULL);
}

static void item_of(stn_context *context, stn_dtype dtype, const void *data, double want)
{
    const stn_spec *spec;
    double value = 0;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, 0, NULL, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, data);
    CHECK_STATUS(stn_item(x, &value), STN_OK);
    CHECK_NEAR(value, want, 0);
    stn_tensor_release(&x);
    stn_spec_release(&spec);
}

static stn_status item_dtypes_body(stn_context *context, void *arg)
{
    double f64[] = {2.5, 9}, value = 17;
    float f32[] = {-3.25f, 9};
    uint16_t bf16 = 0x3fc0, f16 = 0x3e00;
    int64_t i64 = -5;
    int32_t i32 = 7;
    uint8_t u8 = 200, flag = 1;
    (void)arg;
    item_of(context, STN_DTYPE_F64, f64, 2.5);
    item_of(context, STN_DTYPE_F32, f32, -3.25);
    item_of(context, STN_DTYPE_BF16, &bf16, 1.5);
    item_of(context, STN_DTYPE_F16, &f16, 1.5);
    item_of(context, STN_DTYPE_I64, &i64, -5);
    item_of(context, STN_DTYPE_I32, &i32, 7);
    item_of(context, STN_DTYPE_U8, &u8, 200);
    item_of(context, STN_DTYPE_BOOL, &flag, 1);
    item_of(context, STN_DTYPE_C64, f32, -3.25);
    item_of(context, STN_DTYPE_C128, f64, 2.5);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    CHECK_STATUS(stn_item(x, &value), STN_ERR_SHAPE);
    CHECK_ERROR(context, STN_ERR_SHAPE, "item: tensor has 21 elements, wanted 1");
    CHECK(isnan(value)); /* loops that wait for less than something end */
    stn_tensor_release(&x);
    return STN_OK;
}

static void item_reads_every_dtype_and_refuses_more_than_one_element(void)
{
    test_ranks(1, item_dtypes_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"layouts_change_and_values_and_gradients_stay", layouts_change_and_values_and_gradients_stay},
        {"gradients_cross_meshes", gradients_cross_meshes},
        {"an_unchanged_layout_shares_memory", an_unchanged_layout_shares_memory},
        {"layouts_that_do_not_fit_are_refused", layouts_that_do_not_fit_are_refused},
        {"scatter_sends_each_rank_its_chunk_alone", scatter_sends_each_rank_its_chunk_alone},
        {"scatter_serves_every_layout", scatter_serves_every_layout},
        {"what_the_root_finds_wrong_all_ranks_are_told", what_the_root_finds_wrong_all_ranks_are_told},
        {"item_reads_one_element_of_any_layout", item_reads_one_element_of_any_layout},
        {"item_reads_every_dtype_and_refuses_more_than_one_element",
         item_reads_every_dtype_and_refuses_more_than_one_element},
    };
    return TEST_MAIN(argc, argv, cases);
}
