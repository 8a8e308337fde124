/* amax, amin, any, all: empty chunks of every dtype, ties, NaN, refusals. (The conformance cases run every layout.) */
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>

/* Rank 1 of 3 has no rows: its part of the pending result changes nothing, whatever the dtype's range. */
static stn_status empty_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F16, STN_DTYPE_I64,
                                       STN_DTYPE_I32, STN_DTYPE_U8,  STN_DTYPE_BOOL};
    const int64_t sizes[] = {3, 0, 1}, *const uneven[] = {sizes, NULL};
    const stn_spec_options cut = {.size = sizeof cut, .sizes = uneven};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    for (int k = 0; k < 6; k++)
        for (int low = 0; low < 2; low++) {
            const stn_spec *spec;
            struct elements e = {.dtype = dtypes[k], .ndim = 2, .shape = {4, 2}, .n = 8},
                            want = {.dtype = dtypes[k], .ndim = 1, .shape = {2}, .n = 2};
            int is_signed = dtypes[k] != STN_DTYPE_U8 && dtypes[k] != STN_DTYPE_BOOL;
            for (int i = 0; i < 8; i++)
                e.v[i] = is_signed ? (low ? 20 + i : -20 - i) : low;
            stn_scope_begin(context);
            CHECK_STATUS(stn_spec_create(context, mesh, &rows, e.dtype, 2, e.shape, &cut, &spec), STN_OK);
            stn_tensor *x = layout_tensor(context, spec, &e),
                       *y = low ? stn_amin(x, 1, (int[]){0}, 0) : stn_amax(x, 1, (int[]){0}, 0);
            CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
            want.v[0] = e.v[0], want.v[1] = e.v[1];
            layout_check(y, &want, stn_dtype_name(e.dtype));
            want.dtype = STN_DTYPE_BOOL;
            want.v[0] = want.v[1] = is_signed || low;
            layout_check(stn_any(x, 1, (int[]){0}, 0), &want, "any");
            layout_check(stn_all(x, 1, (int[]){0}, 0), &want, "all");
            stn_spec_release(&spec);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void an_empty_chunk_changes_no_result(void)
{
    test_ranks(3, empty_body, NULL);
}

static stn_status ties_body(stn_context *context, void *arg)
{
    const double values[] = {3, 1, 3, 2};
    const stn_placement cut = stn_shard(0);
    double got[4];
    (void)arg;
    stn_scope_begin(context);
    struct elements e = {.dtype = STN_DTYPE_F64, .ndim = 1, .shape = {4}, .n = 4};
    for (int i = 0; i < 4; i++)
        e.v[i] = values[i];
    stn_tensor *x = layout_tensor_placed(context, test_mesh(context, 2, 0), &e, &cut), *grad;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_amax(x, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &x, 0, 0, &grad), STN_OK);
    test_read(grad, got, 4);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(got[i], values[i] == 3 ? 0.5 : 0, 0);
    e.v[1] = NAN;
    stn_tensor *nan = layout_tensor_placed(context, NULL, &e, NULL);
    test_read(stn_amax(nan, 0, NULL, 0), got, 1);
    CHECK(isnan(got[0]));
    test_read(stn_amin(nan, 0, NULL, 0), got, 1);
    CHECK(isnan(got[0]));
    return stn_scope_end(context);
}

static void the_cotangent_is_shared_by_ties_and_nan_wins(void)
{
    test_ranks(2, ties_body, NULL);
}

/* Of a gradient: the agreement, the extremum, the number of ties. No rank sends anything of the input's size. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { ROWS = 600, COLUMNS = 4 };
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    for (int k = 0; k < 3; k++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, shape, NULL, test_value), *grad;
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = k == 0   ? stn_amax(x, 1, (int[]){0}, 0)
                        : k == 1 ? stn_vector_norm(x, INFINITY, 1, (int[]){0}, 0)
                                 : stn_max(x);
        const stn_placement whole = stn_replicate();
        stn_tensor *cotangent = stn_redistribute_to(stn_ones(context, stn_tensor_spec(y)), &whole);
        test_stats_reset(context);
        CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
        const stn_stats stats = test_stats(context);
        CHECK_I64(stats.collectives, 3);
        CHECK(stats.bytes_sent < ROWS * COLUMNS);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_gradient_moves_no_more_than_results(void)
{
    test_ranks(2, moves_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    char text[512];
    struct elements e = {.dtype = STN_DTYPE_C64, .ndim = 1, .shape = {2}, .n = 2},
                    none = {.dtype = STN_DTYPE_F32, .ndim = 2, .shape = {2, 0}};
    (void)arg;
    stn_scope_begin(context);
    CHECK(stn_tensor_is_error(stn_amax(layout_tensor_placed(context, NULL, &e, NULL), 0, NULL, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "amax: 'input' got c64, wanted a dtype with an order");
    CHECK(stn_tensor_is_error(stn_amin(layout_tensor_placed(context, NULL, &none, NULL), 1, (int[]){1}, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "amin: 'input' got shape (2, 0), wanted at least one element to reduce");
    return stn_scope_end(context);
}

static void what_has_no_extremum_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_empty_chunk_changes_no_result", an_empty_chunk_changes_no_result},
        {"the_cotangent_is_shared_by_ties_and_nan_wins", the_cotangent_is_shared_by_ties_and_nan_wins},
        {"a_gradient_moves_no_more_than_results", a_gradient_moves_no_more_than_results},
        {"what_has_no_extremum_is_refused", what_has_no_extremum_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
