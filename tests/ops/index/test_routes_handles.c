/* Indices that keep their routes: which handles share them, how long they live, what bad indices and captured steps
 * make of them. */
#include "ops/index/routed.h"
#include "ranks.h"
#include "stats.h"

#include <shardtensor/capture.h>

/* Handles of the same elements share routes, whichever goes first; other views have none. */
static stn_status handles_body(stn_context *context, void *arg)
{
    const int64_t many = ROUTED_MANY;
    (void)arg;
    const int64_t bytes = routed_live_bytes(context);
    stn_scope_begin(context);
    stn_scope_begin(context);
    stn_tensor *index = routed_index(context, 5, 1);
    stn_tensor *detached = stn_detach(index), *viewed = stn_reshape(index, 1, &many);
    stn_tensor *half = stn_slice(index, 0, 0, 9, 1);
    CHECK_I64(stn_tensor_keeps_routes(detached), 1);
    CHECK_I64(stn_tensor_keeps_routes(viewed), 1);
    CHECK_I64(stn_tensor_keeps_routes(half), 0);
    CHECK_I64(routed_visit(context, detached, 12), 3);
    CHECK_I64(routed_visit(context, index, 12), 1);
    CHECK_I64(routed_visit(context, viewed, 12), 1);
    CHECK_STATUS(stn_tensor_keep_routes(viewed, 0), STN_OK);
    CHECK_I64(stn_tensor_keeps_routes(index), 0);
    CHECK_STATUS(stn_tensor_keep_routes(index, 1), STN_OK);
    CHECK_I64(routed_visit(context, index, 12), 3);
    CHECK_I64(routed_visit(context, detached, 12), 1);
    CHECK_STATUS(stn_scope_end_keep(context, detached, &detached), STN_OK);
    CHECK_I64(routed_visit(context, detached, 12), 1);
    CHECK(routed_live_bytes(context) > bytes);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_I64(routed_live_bytes(context), bytes);
    return STN_OK;
}

static void handles_of_the_same_elements_share_routes(void)
{
    test_ranks(2, handles_body, NULL);
}

/* Says what the next agreement says of a call by an index that is bad at one place. */
static void refuse(stn_tensor *table, stn_tensor *index, stn_tensor *source, char *text, size_t size)
{
    stn_context *context = stn_tensor_context(table);
    stn_scope_begin(context);
    CHECK(!stn_tensor_is_error(source ? stn_index_add(table, 0, index, source, 1) : stn_index_select(table, 0, index)));
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STATUS(stn_context_take_error(context, text, size), STN_ERR_VALUE);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* The same is said by an index that keeps its routes, each time. */
static void check_refused(stn_tensor *table, stn_tensor *source, const struct elements *e, const stn_spec *spec)
{
    stn_context *context = stn_tensor_context(table);
    char wanted[256], got[256];
    stn_tensor *plain = layout_tensor(context, spec, e), *kept = layout_tensor(context, spec, e);
    CHECK_STATUS(stn_tensor_keep_routes(kept, 1), STN_OK);
    for (int call = 0; call < 3; call++)
        for (int writes = 0; writes < 2; writes++) {
            refuse(table, plain, writes ? source : NULL, wanted, sizeof wanted);
            refuse(table, kept, writes ? source : NULL, got, sizeof got);
            CHECK_STR(got, wanted);
        }
}

/* Of a table of some columns: of none, and of one that is not on every rank of the grid. */
static stn_status bad_body(stn_context *context, void *arg)
{
    static _Thread_local struct elements table, source, index;
    const int n = stn_context_size(context);
    const stn_mesh *mesh = n == 4 ? test_mesh(context, 2, 2) : test_mesh(context, n, 0);
    const stn_placement both[] = {stn_shard(0), stn_shard(1)}, rows[] = {stn_shard(0), stn_replicate()};
    const stn_spec *spec;
    const int64_t many = ROUTED_MANY;
    uint64_t seed = 1;
    (void)arg;
    CHECK_STATUS(stn_spec_create(context, mesh, rows, STN_DTYPE_I64, 1, &many, NULL, &spec), STN_OK);
    for (int k = 0; k < 4; k++) {
        const int64_t shape[] = {ROUTED_ROWS, k}, slices[] = {ROUTED_MANY, k};
        stn_scope_begin(context);
        routed_draw(&index, 5);
        index.v[7 * k + 2] = k % 2 ? ROUTED_ROWS : -1; /* on one rank or another */
        elements_draw(&table, STN_DTYPE_F64, 2, shape, &seed);
        elements_draw(&source, STN_DTYPE_F64, 2, slices, &seed);
        check_refused(layout_tensor_placed(context, mesh, &table, both),
                      layout_tensor_placed(context, mesh, &source, both), &index, spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    stn_spec_release(&spec);
    return STN_OK;
}

static void an_index_out_of_range_is_found_by_each_call(void)
{
    test_ranks(2, bad_body, NULL);
    test_ranks(3, bad_body, NULL);
    test_ranks(4, bad_body, NULL);
}

/* Reads by the index and adds to the same rows. */
static stn_tensor *read_and_add(stn_tensor *table, stn_tensor *index)
{
    return stn_index_add(table, 0, index, stn_mul_number(stn_index_select(table, 0, index), 0.5), 1);
}

/* A step that may not have the index in it: ranks agree, and can go on. */
static void check_not_captured(stn_context *context, stn_tensor *table, stn_tensor *index)
{
    stn_step *step = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    read_and_add(table, index);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
    CHECK(step == NULL);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "indexing along a sharded dim: not in a captured step");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status captured_body(stn_context *context, void *arg)
{
    double want[ROUTED_ROWS], got[ROUTED_ROWS];
    stn_step *step = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0), *plain = routed_index(context, 5, 0);
    stn_tensor *index = routed_index(context, 5, 1), *out;
    read_and_add(table, index);
    check_not_captured(context, table, index); /* it may be changed until the step is repeated */
    stn_tensor *cold = routed_index(context, 5, 1);
    CHECK_STATUS(stn_tensor_freeze(cold), STN_OK);
    check_not_captured(context, table, cold); /* it has no routes yet */
    CHECK_STATUS(stn_tensor_freeze(index), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    out = read_and_add(table, index);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK_STATUS(stn_tensor_keep_routes(index, 0), STN_OK); /* the step has them */
    for (int round = 0; round < 3; round++) {
        stn_copy_(table, stn_add_number(stn_mul_number(table, -1.5), 0.25));
        CHECK_STATUS(stn_step_run(step), STN_OK);
        test_read(read_and_add(table, plain), want, ROUTED_ROWS);
        test_read(out, got, ROUTED_ROWS);
        CHECK_BYTES(got, want, sizeof got);
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void a_captured_step_on_two_ranks_has_the_kept_routes_of_a_frozen_index(void)
{
    test_ranks(2, captured_body, NULL);
}

static void a_captured_step_on_three_ranks_has_the_kept_routes_of_a_frozen_index(void)
{
    test_ranks(3, captured_body, NULL);
}

/* An index that a step makes is another one after each repetition, also on a rank that has nothing of it. */
static stn_status made_body(stn_context *context, void *arg)
{
    static _Thread_local struct elements e;
    static const int64_t two[] = {2};
    uint64_t seed = 1;
    stn_step *step = NULL;
    (void)arg;
    stn_scope_begin(context);
    elements_draw(&e, STN_DTYPE_I64, 1, two, &seed);
    e.v[0] = 7;
    e.v[1] = 2;
    stn_tensor *first = routed_tensor(context, &e), *index;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    index = stn_add_number(first, 1);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK_STATUS(stn_tensor_keep_routes(index, 1), STN_OK);
    for (int round = 0; round < 3; round++) {
        CHECK_I64(routed_visit(context, index, ROUTED_ROWS), 3);
        CHECK_I64(routed_visit(context, index, ROUTED_ROWS), 1);
        CHECK_STATUS(stn_step_run(step), STN_OK);
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void an_index_that_a_step_makes_is_routed_anew_on_all_ranks(void)
{
    test_ranks(3, made_body, NULL);
}

/* One rank alone says that the index was changed: the ranks would meet in different exchanges. */
static stn_status alone_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0), *index = routed_index(context, 5, 1);
    stn_index_select(table, 0, index);
    if (stn_context_rank(context) == 1)
        stn_tensor_changed(index);
    CHECK(stn_tensor_is_error(stn_index_select(table, 0, index)));
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_MISMATCH);
    stn_scope_end(context);
    return STN_OK;
}

static void a_change_that_one_rank_alone_knows_of_is_a_mismatch_on_all(void)
{
    const stn_launch_options options = {.size = sizeof options, .ranks = 2};
    CHECK_STATUS(stn_launch(&options, alone_body, NULL), STN_OK);
}

static stn_tensor *left[2];

static stn_status outlive_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *index = routed_index(context, 5, 1);
    routed_visit(context, index, ROUTED_ROWS);
    left[stn_context_rank(context)] = stn_tensor_retain(index);
    return stn_scope_end(context);
}

static void routes_outlive_their_context(void)
{
    const stn_launch_options options = {.size = sizeof options, .ranks = 2};
    CHECK_STATUS(stn_launch(&options, outlive_body, NULL), STN_OK);
    for (int rank = 0; rank < 2; rank++) {
        CHECK_I64(stn_tensor_keeps_routes(left[rank]), 1);
        stn_tensor_release(&left[rank]);
    }
}

static stn_status arguments_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0);
    CHECK_STATUS(stn_tensor_keep_routes(NULL, 1), STN_ERR_ARGUMENT);
    CHECK_I64(stn_tensor_keeps_routes(NULL), 0);
    CHECK_STATUS(stn_tensor_keep_routes(table, 1), STN_ERR_DTYPE);
    CHECK_ERROR(context, STN_ERR_DTYPE, "stn_tensor_keep_routes: index got f64, wanted i64 or i32");
    CHECK_I64(stn_tensor_keeps_routes(table), 0);
    return stn_scope_end(context);
}

static void what_is_no_index_is_refused(void)
{
    test_ranks(2, arguments_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"handles_of_the_same_elements_share_routes", handles_of_the_same_elements_share_routes},
        {"an_index_out_of_range_is_found_by_each_call", an_index_out_of_range_is_found_by_each_call},
        {"a_captured_step_on_two_ranks_has_the_kept_routes_of_a_frozen_index",
         a_captured_step_on_two_ranks_has_the_kept_routes_of_a_frozen_index},
        {"a_captured_step_on_three_ranks_has_the_kept_routes_of_a_frozen_index",
         a_captured_step_on_three_ranks_has_the_kept_routes_of_a_frozen_index},
        {"an_index_that_a_step_makes_is_routed_anew_on_all_ranks",
         an_index_that_a_step_makes_is_routed_anew_on_all_ranks},
        {"a_change_that_one_rank_alone_knows_of_is_a_mismatch_on_all",
         a_change_that_one_rank_alone_knows_of_is_a_mismatch_on_all},
        {"routes_outlive_their_context", routes_outlive_their_context},
        {"what_is_no_index_is_refused", what_is_no_index_is_refused},
    };
    return TEST_MAIN(argc, argv, tests);
}
