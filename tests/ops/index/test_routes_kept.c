/* Indices that keep their routes: what a call by them sends and waits for, what they serve, when they are made anew,
 * and how many there are. */
#include "ops/index/routed.h"
#include "ranks.h"
#include "stats.h"

/* Distinct rows of the other rank that this one's indices name, of two. */
static int64_t foreign_rows(int rank)
{
    static _Thread_local struct elements e;
    int is_named[ROUTED_ROWS] = {0};
    int64_t n = 0;
    routed_draw(&e, 5);
    for (int64_t i = rank * ROUTED_MANY / 2; i < (rank + 1) * ROUTED_MANY / 2; i++) {
        const int64_t row = (int64_t)creal(e.v[i]);
        n += row / (ROUTED_ROWS / 2) != rank && !is_named[row]++;
    }
    return n;
}

/* Of the gradient of a read. */
static stn_stats gradient_stats(stn_context *context, stn_tensor *table, stn_tensor *y, stn_tensor *weight)
{
    stn_tensor *grad;
    test_stats_reset(context);
    CHECK_STATUS(stn_grad(context, 1, &y, &weight, 1, &table, 0, 0, &grad), STN_OK);
    return test_stats_reset(context);
}

static stn_status traffic_body(stn_context *context, void *arg)
{
    const int rank = stn_context_rank(context);
    const int64_t asked = foreign_rows(rank), given = foreign_rows(1 - rank), word = sizeof(double);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0);
    stn_tensor *weight = routed_numbers(context, STN_DTYPE_F64, ROUTED_MANY, 0);
    stn_tensor *plain = routed_index(context, 5, 0), *kept = routed_index(context, 5, 1);
    CHECK_STATUS(stn_set_requires_grad(table, 1), STN_OK);
    for (int call = 0; call < 3; call++) {
        const stn_stats wanted = gradient_stats(context, table, stn_index_select(table, 0, plain), weight);
        stn_tensor *y = stn_index_select(table, 0, kept);
        stn_stats stats = test_stats_reset(context);
        CHECK_I64(stats.collectives, call ? 1 : 3);
        CHECK_I64(stats.messages, call ? 1 : 3);
        CHECK_I64(stats.bytes_sent, given * word + (call ? 0 : word + asked * word));
        CHECK_I64(stats.host_syncs, call ? 0 : 1);
        stats = gradient_stats(context, table, y, weight); /* which takes the same way back, from the first call on */
        CHECK_I64(stats.collectives, wanted.collectives - 2);
        CHECK_I64(stats.bytes_sent, wanted.bytes_sent - word - asked * word);
        CHECK_I64(stats.host_syncs, wanted.host_syncs - 1);
    }
    return stn_scope_end(context);
}

static void a_call_by_kept_routes_sends_values_alone_and_waits_for_nothing(void)
{
    test_ranks(2, traffic_body, NULL);
}

/* Slices: a route for each way in which the dim is cut. Elements: one for each shape and dim. */
static stn_status shared_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *index = routed_index(context, 5, 1), *other = routed_index(context, 6, 1);
    stn_tensor *wide = routed_numbers(context, STN_DTYPE_F32, ROUTED_ROWS, 7);
    stn_tensor *more = routed_numbers(context, STN_DTYPE_F32, ROUTED_MANY, 7);
    stn_tensor *line = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0);
    stn_tensor *values = routed_numbers(context, STN_DTYPE_F64, ROUTED_MANY, 0);
    const int dim = 0;
    test_stats_reset(context);
    CHECK_I64(routed_exchanges(context, stn_index_select(wide, 0, index)), 3);
    CHECK_I64(routed_exchanges(context, stn_index_select(line, 0, index)), 1);
    CHECK_I64(routed_exchanges(context, stn_index_add(wide, 0, index, more, 1)), 1);
    CHECK_I64(routed_exchanges(context, stn_index_put(line, 1, &index, values, 1)), 3); /* negative ones count, too */
    CHECK_I64(routed_exchanges(context, stn_index_put(line, 1, &index, values, 0)), 1);
    CHECK_I64(routed_exchanges(context, stn_gather(line, 0, index)), 3);
    CHECK_I64(routed_exchanges(context, stn_scatter_add(line, 0, index, values)), 1);
    CHECK_I64(routed_exchanges(context, stn_take_along_dim(line, index, &dim)), 3);
    CHECK_I64(routed_exchanges(context, stn_take_along_dim(line, index, &dim)), 1);
    CHECK_I64(routed_exchanges(context, stn_index_select(line, 0, other)), 3);
    CHECK_I64(routed_exchanges(context, stn_index_select(line, 0, index)), 1);
    return stn_scope_end(context);
}

static void tables_that_are_cut_alike_share_a_route(void)
{
    test_ranks(2, shared_body, NULL);
}

/* Elements by an index of two dims, and by one that keeps no routes. */
static void check_gather(stn_tensor *table, int dim, stn_tensor *kept, stn_tensor *plain, int exchanges)
{
    stn_context *context = stn_tensor_context(table);
    double got[ROUTED_MANY * ROUTED_ROWS], want[ROUTED_MANY * ROUTED_ROWS];
    const int64_t n = stn_spec_numel(stn_tensor_spec(kept));
    test_stats_reset(context);
    stn_tensor *y = stn_gather(table, dim, kept);
    CHECK_I64(routed_exchanges(context, y), exchanges);
    test_read(y, got, n);
    test_read(stn_gather(table, dim, plain), want, n);
    CHECK_BYTES(got, want, (size_t)n * sizeof *got);
}

/* An element's number counts the other dims, which no axis has to cut; and what two axes cut is routed along one. */
static stn_status elements_body(stn_context *context, void *arg)
{
    static _Thread_local struct elements e;
    static const int64_t square[] = {6, 6}, narrow[] = {ROUTED_MANY, 2};
    const stn_mesh *mesh = test_mesh(context, 2, 2);
    const stn_placement both[] = {stn_shard(0), stn_shard(1)};
    stn_tensor *kept[2], *plain[2];
    uint64_t seed = 9;
    (void)arg;
    stn_scope_begin(context);
    for (int k = 0; k < 2; k++) {
        elements_draw(&e, STN_DTYPE_I64, 2, k ? narrow : square, &seed);
        for (int64_t i = 0; i < e.n; i++)
            e.v[i] = (double)draw_below(&seed, 6);
        kept[k] = k ? routed_tensor(context, &e) : layout_tensor_placed(context, mesh, &e, both);
        plain[k] = k ? routed_tensor(context, &e) : layout_tensor_placed(context, mesh, &e, both);
        CHECK_STATUS(stn_tensor_keep_routes(kept[k], 1), STN_OK);
    }
    elements_draw(&e, STN_DTYPE_F64, 2, square, &seed);
    stn_tensor *table = layout_tensor_placed(context, mesh, &e, both);
    stn_tensor *three = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 3);
    stn_tensor *five = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 5);
    for (int exchanges = 3; exchanges > 0; exchanges -= 2) {
        check_gather(table, 0, kept[0], plain[0], exchanges);
        check_gather(table, 1, kept[0], plain[0], exchanges);
        check_gather(three, 0, kept[1], plain[1], exchanges);
        check_gather(five, 0, kept[1], plain[1], exchanges);
    }
    return stn_scope_end(context);
}

static void elements_of_another_shape_or_dim_have_a_route_of_their_own(void)
{
    test_ranks(4, elements_body, NULL);
}

static void check_rows(stn_tensor *index, uint64_t seed)
{
    static _Thread_local struct elements want, table;
    static const int64_t rows[] = {ROUTED_ROWS};
    uint64_t drawn = 3;
    elements_draw(&table, STN_DTYPE_F64, 1, rows, &drawn);
    routed_draw(&want, seed);
    want.dtype = STN_DTYPE_F64;
    for (int64_t i = 0; i < want.n; i++)
        want.v[i] = table.v[(int64_t)creal(want.v[i])];
    layout_check(stn_index_select(routed_tensor(stn_tensor_context(index), &table), 0, index), &want, "rows");
}

static stn_status changed_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0), *index = routed_index(context, 5, 1);
    check_rows(index, 5);
    for (uint64_t seed = 6; seed < 9; seed++) {
        const int64_t bytes = routed_live_bytes(context);
        stn_scope_begin(context);
        stn_copy_(index, routed_index(context, seed, 0));
        test_stats_reset(context);
        CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 3);
        CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 1);
        check_rows(index, seed);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        CHECK(routed_live_bytes(context) - bytes < 2 * ROUTED_MANY * 8); /* routes of what it was are gone */
    }
    stn_tensor_changed(index);
    test_stats_reset(context);
    CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 3);
    CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 1);
    return stn_scope_end(context);
}

static void an_index_that_is_changed_is_routed_anew(void)
{
    test_ranks(2, changed_body, NULL);
    test_ranks(3, changed_body, NULL);
}

/* Row 0 of a tensor of edges is an index; the tensor is changed, and on some ranks its chunk is empty. */
static stn_status view_body(stn_context *context, void *arg)
{
    static _Thread_local struct elements pairs;
    static const int64_t shape[] = {2, 2};
    const stn_placement second = stn_shard(1);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    uint64_t seed = 2;
    (void)arg;
    stn_scope_begin(context);
    elements_draw(&pairs, STN_DTYPE_I64, 2, shape, &seed);
    for (int i = 0; i < 4; i++)
        pairs.v[i] = i;
    stn_tensor *both = layout_tensor_placed(context, mesh, &pairs, &second), *index = stn_select(both, 0, 0);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, ROUTED_ROWS, 0);
    CHECK_STATUS(stn_tensor_keep_routes(index, 1), STN_OK);
    test_stats_reset(context);
    CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 3);
    CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 1);
    CHECK(!stn_tensor_is_error(stn_copy_(both, stn_add_number(both, 1))));
    CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 3);
    CHECK_I64(routed_exchanges(context, stn_index_select(table, 0, index)), 1);
    return stn_scope_end(context);
}

static void so_is_a_view_of_what_is_changed_also_where_chunks_are_empty(void)
{
    test_ranks(4, view_body, NULL);
}

static stn_status bounded_body(stn_context *context, void *arg)
{
    static const struct { int rows, exchanges; } visits[] = {
        {12, 3}, {13, 3}, {14, 3}, {15, 3}, {12, 1}, {13, 1}, {14, 1}, {15, 1}, {12, 1}, {16, 3},
        {12, 1}, {14, 1}, {13, 3}, {16, 1}, {12, 1}, {15, 3}, {12, 1}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *index = routed_index(context, 5, 0);
    const int64_t bytes = routed_live_bytes(context);
    CHECK_STATUS(stn_tensor_keep_routes(index, 1), STN_OK);
    for (size_t i = 0; i < sizeof visits / sizeof *visits; i++)
        CHECK_I64(routed_visit(context, index, visits[i].rows), visits[i].exchanges);
    const int64_t each = ROUTED_MANY / 2 * 8, kept = routed_live_bytes(context) - bytes;
    CHECK(kept > 4 * each && kept <= 8 * each);
    CHECK_STATUS(stn_tensor_keep_routes(index, 0), STN_OK);
    CHECK_I64(routed_live_bytes(context), bytes);
    CHECK_I64(stn_tensor_keeps_routes(index), 0);
    CHECK_I64(routed_visit(context, index, 12), 3);
    CHECK_I64(routed_visit(context, index, 12), 3);
    return stn_scope_end(context);
}

static void an_index_keeps_the_four_routes_that_were_used_last(void)
{
    test_ranks(2, bounded_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"a_call_by_kept_routes_sends_values_alone_and_waits_for_nothing",
         a_call_by_kept_routes_sends_values_alone_and_waits_for_nothing},
        {"tables_that_are_cut_alike_share_a_route", tables_that_are_cut_alike_share_a_route},
        {"elements_of_another_shape_or_dim_have_a_route_of_their_own",
         elements_of_another_shape_or_dim_have_a_route_of_their_own},
        {"an_index_that_is_changed_is_routed_anew", an_index_that_is_changed_is_routed_anew},
        {"so_is_a_view_of_what_is_changed_also_where_chunks_are_empty",
         so_is_a_view_of_what_is_changed_also_where_chunks_are_empty},
        {"an_index_keeps_the_four_routes_that_were_used_last", an_index_keeps_the_four_routes_that_were_used_last},
    };
    return TEST_MAIN(argc, argv, tests);
}
