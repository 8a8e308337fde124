/* Numbers among the attributes of ops by index: those that scale what is written, and whole ones that may be absent. */
#include "ops/layouts.h"
#include "ranks.h"

static stn_tensor *call_with(stn_context *context, const char *name, int n_in, stn_tensor *const *in, int n,
                             const stn_attr *attrs)
{
    stn_tensor *out = NULL;
    stn_call(context, name, n_in, in, n, attrs, 1, &out);
    return out;
}

/* 2.0 is 2, as where an attribute takes whole numbers alone, and 2.5 is refused. */
static stn_status whole_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {3, 4}, places[] = {3, 1};
    static const stn_attr good[] = {{"repeats", STN_ATTR_FLOAT, {.f = 2}}, {"dim", STN_ATTR_FLOAT, {.f = 1}}},
                          half = {"repeats", STN_ATTR_FLOAT, {.f = 2.5}}, dim = {"dim", STN_ATTR_FLOAT, {.f = 0.5}},
                          padding = {"padding_idx", STN_ATTR_FLOAT, {.f = 2.5}},
                          last = {"padding_idx", STN_ATTR_FLOAT, {.f = -1}};
    struct elements t = elements_drawn(STN_DTYPE_F32, 2, shape, 0), i = elements_drawn(STN_DTYPE_I64, 2, places, 4),
                    twice = t, at = t;
    const stn_placement cut = stn_shard(0);
    (void)arg;
    twice.shape[1] = 8;
    twice.n = 24;
    at.shape[1] = 1;
    at.n = 3;
    for (int k = 0; k < 24; k++)
        twice.v[k] = t.v[k / 2];
    for (int k = 0; k < 3; k++)
        at.v[k] = t.v[4 * k + (int64_t)creal(i.v[k])];
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_tensor *in[] = {layout_tensor_placed(context, mesh, &t, &cut), layout_tensor_placed(context, mesh, &i, &cut)},
               *rows[] = {in[1], in[0]};
    layout_check(call_with(context, "repeat_interleave", 1, in, 2, good), &twice, "twice");
    layout_check(call_with(context, "take_along_dim", 2, in, 1, &good[1]), &at, "along dim 1");
    CHECK(!stn_tensor_is_error(call_with(context, "embedding", 2, rows, 1, &last)));
    call_with(context, "repeat_interleave", 1, in, 1, &half);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "repeat_interleave: 'repeats' got 2.5, wanted a whole number");
    call_with(context, "take_along_dim", 2, in, 1, &dim);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "take_along_dim: 'dim' got 0.5, wanted a whole number");
    call_with(context, "embedding", 2, rows, 1, &padding);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "embedding: 'padding_idx' got 2.5, wanted a whole number");
    stn_agree(context, STN_OK, NULL); /* rows that embedding was given */
    stn_context_take_error(context, NULL, 0);
    return stn_scope_end(context);
}

static void whole_numbers_may_be_written_with_a_point(void)
{
    test_ranks(2, whole_body, NULL);
}

/* index_select by name, whose negative indices count from the end; without the word they are refused. */
static stn_status wrap_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {5, 3}, line[] = {4}, names[] = {4, 0, 3, 4}, from_the_end[] = {-1, 0, -2, 4};
    const stn_attr attrs[] = {{"dim", STN_ATTR_INT, {.i = 0}}, {"wrap", STN_ATTR_INT, {.i = 1}}};
    struct elements t = elements_drawn(STN_DTYPE_F32, 2, shape, 0), i = elements_drawn(STN_DTYPE_I64, 1, line, 4),
                    rows = t;
    (void)arg;
    rows.shape[0] = 4;
    rows.n = 12;
    for (int k = 0; k < 12; k++)
        rows.v[k] = t.v[3 * names[k / 3] + k % 3];
    for (int k = 0; k < 4; k++)
        i.v[k] = (double)from_the_end[k];
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    for (int cut = 0; cut < 4; cut++) {
        const stn_placement of_table = cut & 1 ? stn_shard(0) : stn_replicate(),
                            of_index = cut & 2 ? stn_shard(0) : stn_replicate();
        stn_tensor *in[] = {layout_tensor_placed(context, mesh, &t, &of_table),
                            layout_tensor_placed(context, mesh, &i, &of_index)};
        layout_check(call_with(context, "index_select", 2, in, 2, attrs), &rows, "from the end");
        call_with(context, "index_select", 2, in, 1, attrs);
        stn_agree(context, STN_OK, NULL);
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_VALUE);
    }
    return stn_scope_end(context);
}

static void rows_are_selected_from_the_end(void)
{
    test_ranks(3, wrap_body, NULL);
}

/* Integers that a double rounds. */
static stn_status large_body(stn_context *context, void *arg)
{
    static const int64_t large = (INT64_C(1) << 53) + 1, shape[] = {2}, table[] = {10, 1}, at[] = {1}, one[] = {1};
    const stn_attr alpha = {"alpha", STN_ATTR_INT, {.i = large}},
                   add[] = {{"value", STN_ATTR_INT, {.i = large}}, {"reduce", STN_ATTR_STRING, {.s = "add"}}},
                   multiply[] = {add[0], {"reduce", STN_ATTR_STRING, {.s = "multiply"}}};
    int64_t got[2];
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *two, *single;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, shape, NULL, &two), STN_OK);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, one, NULL, &single), STN_OK);
    stn_tensor *in[] = {stn_from_host(context, two, table), stn_from_host(context, single, at),
                        stn_from_host(context, single, one)};
    CHECK_STATUS(stn_to_host(call_with(context, "index_add", 3, in, 1, &alpha), got, sizeof got), STN_OK);
    CHECK_I64(got[1], large + 1);
    CHECK_STATUS(stn_to_host(call_with(context, "scatter", 2, in, 2, add), got, sizeof got), STN_OK);
    CHECK_I64(got[1], large + 1);
    CHECK_STATUS(stn_to_host(call_with(context, "scatter", 2, in, 2, multiply), got, sizeof got), STN_OK);
    CHECK_I64(got[1], large);
    stn_spec_release(&two);
    stn_spec_release(&single);
    return stn_scope_end(context);
}

static void integers_keep_all_their_digits(void)
{
    test_ranks(1, large_body, NULL);
}

/* Bools are joined by "or", and by nothing where they are multiplied with 0. */
static stn_status bools_body(stn_context *context, void *arg)
{
    static const int64_t rows[] = {6};
    struct elements t = elements_drawn(STN_DTYPE_BOOL, 1, rows, 2), i = elements_drawn(STN_DTYPE_I64, 1, rows, 6),
                    ones = t, all = t;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0);
    (void)arg;
    stn_scope_begin(context);
    for (int k = 0; k < 6; k++)
        ones.v[k] = 1, all.v[(int64_t)creal(i.v[k])] = 1;
    stn_tensor *in = layout_tensor_placed(context, mesh, &t, &cut),
               *index = layout_tensor_placed(context, mesh, &i, &cut),
               *source = layout_tensor_placed(context, mesh, &ones, &cut);
    layout_check(stn_index_add(in, 0, index, source, 0), &t, "times 0");
    layout_check(stn_index_add(in, 0, index, source, 2), &all, "times 2");
    return stn_scope_end(context);
}

static void bools_times_zero_add_nothing(void)
{
    test_ranks(1, bools_body, NULL);
    test_ranks(3, bools_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"integers_keep_all_their_digits", integers_keep_all_their_digits},
        {"bools_times_zero_add_nothing", bools_times_zero_add_nothing},
        {"rows_are_selected_from_the_end", rows_are_selected_from_the_end},
        {"whole_numbers_may_be_written_with_a_point", whole_numbers_may_be_written_with_a_point},
    };
    return TEST_MAIN(argc, argv, tests);
}
