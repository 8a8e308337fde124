/* What masks name: masked_select, masked_scatter, nonzero, unique, index and index_put by masks, in drawn layouts
 * against one process, and one process against plain loops. */
#include "core/shard/world.h"
#include "harness.h"
#include "ops/against_one.h"
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT, MASK, SOURCE, ROUNDS = 30 };

/* Masks come as integers: what is not 0 is named. */
static stn_tensor *named(stn_tensor *const *in)
{
    return stn_ne_number(in[MASK], 0);
}
static stn_tensor *select_named(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_masked_select(in[INPUT], named(in));
}

static stn_tensor *scatter_named(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_masked_scatter(in[INPUT], named(in), in[SOURCE]);
}

static stn_tensor *rows_named(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_index(in[INPUT], 1, (stn_tensor *[]){named(in)});
}

static stn_tensor *put_named(stn_tensor *const *in, const void *arg)
{
    return stn_index_put(in[INPUT], 1, (stn_tensor *[]){named(in)}, in[SOURCE], arg != NULL);
}

/* One dim by a mask, the next by integers. */
static stn_tensor *named_and_numbered(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_index(in[INPUT], 2, (stn_tensor *[]){named(in), in[SOURCE]});
}

static stn_tensor *numbered(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_index(in[INPUT], 2, in + MASK);
}

static stn_tensor *where_not_zero(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_cast(stn_nonzero(in[INPUT]), STN_DTYPE_F64);
}

static stn_tensor *classes(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_cast(stn_one_hot(in[INPUT], -1), STN_DTYPE_F64);
}

enum unique_result { VALUES, INVERSE, COUNTS };
struct unique_call {
    stn_tensor *(*call)(stn_tensor *input, stn_tensor **inverse, stn_tensor **counts);
    enum unique_result result;
};

static stn_tensor *different(stn_tensor *const *in, const void *arg)
{
    const struct unique_call *unique = arg;
    stn_tensor *out[3];
    out[VALUES] = unique->call(in[INPUT], &out[INVERSE], &out[COUNTS]);
    return unique->result == VALUES ? out[VALUES] : stn_cast(out[unique->result], STN_DTYPE_F64);
}

/* Numbers of few values; of a mask one in `of` is not 0. */
static double *few(uint64_t *state, int64_t n, int64_t of)
{
    double *values = malloc(((size_t)n + 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = world_random(state, (uint64_t)of) == 0 ? 1 + (double)world_random(state, 3) : 0;
    return values;
}

static int64_t count(const double *mask, int64_t n)
{
    int64_t named = 0;
    for (int64_t i = 0; i < n; i++)
        named += mask[i] != 0;
    return named;
}

struct drawn {
    struct random_shape shape, first; /* of the input; its first dims, which the mask has */
    int64_t n, n_mask, n_named;
    double *values, *mask;
};

static struct drawn draw_named(uint64_t *state, int all_dims)
{
    struct drawn d = {.shape = {.ndim = 1 + (int)world_random(state, 3)}};
    for (int k = 0; k < d.shape.ndim; k++)
        d.shape.shape[k] = world_random(state, 12) == 0 ? 0 : 1 + (int64_t)world_random(state, 7);
    d.first = d.shape;
    d.first.ndim = all_dims ? d.shape.ndim : 1 + (int)world_random(state, (uint64_t)d.shape.ndim);
    d.n = against_one_numel(&d.shape);
    d.n_mask = against_one_numel(&d.first);
    d.values = against_one_draw(state, d.n);
    d.mask = few(state, d.n_mask, 1 + (int64_t)world_random(state, 4));
    d.n_named = count(d.mask, d.n_mask);
    return d;
}

static void drop(struct drawn *d)
{
    free(d->values);
    free(d->mask);
}

/* The input, the mask, and a source with a row for each that the mask names. */
static struct against_one_op op_of(const struct drawn *d, stn_tensor *(*call)(stn_tensor *const *in, const void *arg),
                                   int n_in, const struct random_shape *source, const double *values)
{
    struct against_one_op op = {.call = call, .n_in = n_in, .tolerance = 1e-12};
    op.in[INPUT] = (struct against_one_input){STN_DTYPE_F64, d->shape, d->values, 1u << STN_SUM};
    op.in[MASK] = (struct against_one_input){STN_DTYPE_I64, d->first, d->mask, 0};
    if (source)
        op.in[SOURCE] = (struct against_one_input){STN_DTYPE_F64, *source, values, 1u << STN_SUM};
    return op;
}

static void check_read(stn_context *context, uint64_t *state, const stn_mesh *mesh)
{
    struct drawn all = draw_named(state, 1), first = draw_named(state, 0);
    struct against_one_op op = op_of(&all, select_named, 2, NULL, NULL);
    against_one_check(context, state, mesh, &op);
    op = op_of(&first, rows_named, 2, NULL, NULL);
    against_one_check(context, state, mesh, &op);
    op = op_of(&all, where_not_zero, 1, NULL, NULL);
    op.in[INPUT] = op.in[MASK];
    against_one_check(context, state, mesh, &op);
    op.call = classes;
    if (all.n > 0)
        against_one_check(context, state, mesh, &op);
    drop(&all);
    drop(&first);
}

static void check_write(stn_context *context, uint64_t *state, const stn_mesh *mesh)
{
    static const int accumulate = 1;
    struct drawn all = draw_named(state, 1), first = draw_named(state, 0);
    struct random_shape more = {1, {all.n_named + (int64_t)world_random(state, 3)}}, rows = first.shape;
    double *source = against_one_draw(state, more.shape[0]);
    struct against_one_op op = op_of(&all, scatter_named, 3, &more, source);
    against_one_check(context, state, mesh, &op);
    free(source);
    rows.ndim = 1 + first.shape.ndim - first.first.ndim;
    rows.shape[0] = first.n_named;
    for (int d = 1; d < rows.ndim; d++)
        rows.shape[d] = first.shape.shape[first.first.ndim + d - 1];
    source = against_one_draw(state, against_one_numel(&rows));
    op = op_of(&first, put_named, 3, &rows, source);
    op.arg = world_random(state, 2) ? &accumulate : NULL;
    against_one_check(context, state, mesh, &op);
    free(source);
    drop(&all);
    drop(&first);
}

/* Two dims by integers, or one by a mask and one by as many integers as that names. */
static void check_numbers(stn_context *context, uint64_t *state, const stn_mesh *mesh)
{
    struct random_shape shape = {3, {5, 4, 3}}, line = {1, {5}}, some;
    double *values = against_one_draw(state, 60), *mask = few(state, 5, 2), at[6];
    some = (struct random_shape){1, {count(mask, 5)}};
    for (int i = 0; i < 6; i++)
        at[i] = (double)world_random(state, 8) - 4;
    const struct drawn d = {.shape = shape, .first = line, .values = values, .mask = mask};
    struct against_one_op op = op_of(&d, named_and_numbered, 3, &some, at);
    op.in[SOURCE].dtype = STN_DTYPE_I64;
    op.in[SOURCE].ops = 0;
    against_one_check(context, state, mesh, &op);
    op.call = numbered;
    op.in[MASK] = op.in[SOURCE];
    op.in[MASK].shape = (struct random_shape){2, {2, 3}};
    op.in[SOURCE].shape = (struct random_shape){1, {3}};
    against_one_check(context, state, mesh, &op);
    free(values);
    free(mask);
}

static void check_unique(stn_context *context, uint64_t *state, const stn_mesh *mesh)
{
    struct drawn d = draw_named(state, 1);
    double *values = few(state, d.n, 2);
    struct unique_call unique = {world_random(state, 2) ? stn_unique : stn_unique_consecutive,
                                 (enum unique_result)world_random(state, 3)};
    struct against_one_op op = op_of(&d, different, 1, NULL, NULL);
    op.arg = &unique;
    op.in[INPUT].values = values;
    if (unique.result != VALUES) { /* which have no gradient */
        op.in[INPUT].dtype = STN_DTYPE_I64;
        op.in[INPUT].ops = 0;
    }
    against_one_check(context, state, mesh, &op);
    free(values);
    drop(&d);
}

static stn_status layouts(stn_context *context, void *arg)
{
    uint64_t state = 11;
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        const int size = stn_context_size(context);
        const stn_mesh *mesh = size == 6 && round % 2 ? test_mesh(context, 2, 3) : test_mesh(context, size, 0);
        check_read(context, &state, mesh);
        check_write(context, &state, mesh);
        check_numbers(context, &state, mesh);
        check_unique(context, &state, mesh);
    }
    return STN_OK;
}

static void what_masks_name_is_that_of_one_process(void)
{
    test_worlds(layouts, NULL);
}

static stn_status differences(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int round = 0; round < 6; round++) {
        struct drawn d = draw_named(&state, 0);
        struct against_one_op op = op_of(&d, rows_named, 2, NULL, NULL);
        against_one_differences(context, &state, &op);
        drop(&d);
    }
    return STN_OK;
}

static void gradients_are_those_of_differences(void)
{
    test_ranks(1, differences, NULL);
}

/* (2, 3) of 5 0 7 / 0 0 2. */
static stn_status plain(stn_context *context, void *arg)
{
    static const double values[] = {5, 0, 7, 0, 0, 2}, named[] = {5, 7, 2}, places[] = {0, 0, 0, 2, 1, 2},
                        put[] = {1, 0, 2, 0, 0, 3}, ordered[] = {0, 2, 5, 7}, inverse[] = {2, 0, 3, 0, 0, 1},
                        counts[] = {3, 1, 1, 1}, runs[] = {5, 0, 7, 0, 2}, lengths[] = {1, 1, 1, 2, 1};
    const struct random_shape shape = {2, {2, 3}}, line = {1, {4}};
    static const double source[] = {1, 2, 3, 4};
    stn_tensor *back, *often;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, values), *mask = stn_ne_number(x, 0);
    test_compare(stn_masked_select(x, mask), named, 3, 0);
    test_compare(stn_cast(stn_nonzero(x), STN_DTYPE_F64), places, 6, 0);
    test_compare(stn_masked_scatter(x, mask, against_one_local(context, STN_DTYPE_F64, &line, source)), put, 6, 0);
    test_compare(stn_index(x, 1, &mask), named, 3, 0);
    test_compare(stn_unique(x, &back, &often), ordered, 4, 0);
    test_compare(stn_cast(back, STN_DTYPE_F64), inverse, 6, 0);
    test_compare(stn_cast(often, STN_DTYPE_F64), counts, 4, 0);
    CHECK_I64(stn_tensor_ndim(back), 2);
    test_compare(stn_unique_consecutive(x, NULL, &often), runs, 5, 0);
    test_compare(stn_cast(often, STN_DTYPE_F64), lengths, 5, 0);
    return stn_scope_end(context);
}

static void one_process_gives_what_the_words_say(void)
{
    test_ranks(1, plain, NULL);
}

/* Each dtype, and numbers that equal nothing: NaN is one of its own, each time. */
static stn_status dtypes(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_placement cut = stn_shard(0), whole = stn_replicate();
    (void)arg;
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++) {
        struct elements x = elements_drawn((stn_dtype)dtype, 1, (int64_t[]){17}, 0), want = x,
                        mask = elements_drawn(STN_DTYPE_BOOL, 1, (int64_t[]){17}, 0);
        stn_scope_begin(context);
        want.n = 0;
        for (int i = 0; i < 17; i++) {
            mask.v[i] = i % 5 != 2;
            if (i % 5 != 2)
                want.v[want.n++] = x.v[i];
        }
        want.shape[0] = want.n;
        layout_check(stn_masked_select(layout_tensor_placed(context, mesh, &x, dtype % 2 ? &cut : &whole),
                                       layout_tensor_placed(context, mesh, &mask, &cut)),
                     &want, stn_dtype_name((stn_dtype)dtype));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    stn_scope_begin(context);
    struct elements nans = elements_drawn(STN_DTYPE_F32, 1, (int64_t[]){7}, 0);
    for (int i = 0; i < 7; i++)
        nans.v[i] = i % 2 ? NAN : 1;
    stn_tensor *often, *values = stn_unique(layout_tensor_placed(context, mesh, &nans, &cut), NULL, &often);
    CHECK_I64(stn_tensor_shape(values)[0], 4);
    test_compare(stn_cast(often, STN_DTYPE_F64), (double[]){4, 1, 1, 1}, 4, 0);
    return stn_scope_end(context);
}

static void any_dtype_is_selected_and_each_nan_is_one_of_its_own(void)
{
    test_ranks(3, dtypes, NULL);
}

/* 12 rows over 3 ranks, of which the second has nothing that is named: rows stay, one collective tells how many. */
static stn_status unmoved(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_placement cut = stn_shard(0);
    struct elements x = elements_drawn(STN_DTYPE_F32, 2, (int64_t[]){12, 5}, 0),
                    mask = elements_drawn(STN_DTYPE_BOOL, 1, (int64_t[]){12}, 0);
    static const int64_t wanted[] = {3, 0, 1};
    (void)arg;
    stn_scope_begin(context);
    for (int i = 0; i < 12; i++)
        mask.v[i] = i < 3 || i == 11;
    stn_tensor *in = layout_tensor_placed(context, mesh, &x, &cut),
               *where = layout_tensor_placed(context, mesh, &mask, &cut);
    test_stats_reset(context);
    stn_tensor *out = stn_index(in, 1, &where);
    const stn_stats stats = test_stats(context);
    CHECK_I64(stats.collectives, 1);
    CHECK(stats.bytes_sent <= 2 * (int64_t)sizeof(int64_t));
    CHECK_I64(stn_tensor_shape(out)[0], 4);
    CHECK_I64(stn_spec_local_shape(stn_tensor_spec(out))[0], wanted[stn_context_rank(context)]);
    return stn_scope_end(context);
}

static void named_rows_stay_where_they_are(void)
{
    test_ranks(3, unmoved, NULL);
}

static stn_status refusals(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    struct elements x = elements_drawn(STN_DTYPE_F32, 2, (int64_t[]){6, 4}, 0),
                    mask = elements_drawn(STN_DTYPE_BOOL, 2, (int64_t[]){6, 4}, 0), few = x;
    (void)arg;
    for (int i = 0; i < 24; i++)
        mask.v[i] = i < 9;
    few.ndim = 1;
    few.shape[0] = few.n = 8;
    stn_scope_begin(context);
    stn_tensor *in = layout_tensor_placed(context, mesh, &x, &cut),
               *where = layout_tensor_placed(context, mesh, &mask, &cut),
               *source = layout_tensor_placed(context, mesh, &few, &cut);
    test_stats_reset(context);
    CHECK_REFUSED(context, stn_masked_select(in, in), STN_ERR_DTYPE, "masked_select: 'mask' got f32, wanted bool");
    CHECK_REFUSED(context, stn_masked_select(in, stn_slice(where, 1, 0, 3, 1)), STN_ERR_SHAPE,
                  "masked_select: 'mask' got shape (6, 3), wanted one that broadcasts with (6, 4)");
    CHECK_REFUSED(context, stn_index(in, 1, (stn_tensor *[]){stn_slice(where, 0, 0, 5, 1)}), STN_ERR_SHAPE,
                  "index: 'indices0' got a mask of shape (5, 4), wanted that of dims of 'input', (6, 4)");
    CHECK_REFUSED(context, stn_index(in, 2, (stn_tensor *[]){where, where}), STN_ERR_SHAPE,
                  "index: 'indices1' got a mask of shape (6, 4), wanted that of dims of 'input', ()");
    CHECK_REFUSED(context, stn_index(in, 1, &in), STN_ERR_DTYPE, "index: 'indices0' got f32, wanted i64, i32 or bool");
    stn_tensor *local = layout_tensor_placed(context, NULL, &x, NULL);
    CHECK_REFUSED(context, stn_masked_select(local, where), STN_ERR_ARGUMENT,
                  "masked_select: input 'mask' is on a mesh, wanted local as the others");
    CHECK_REFUSED(context, stn_index(in, 1, (stn_tensor *[]){stn_ne_number(local, 0)}), STN_ERR_ARGUMENT,
                  "index: input 'indices0' is local, wanted on a mesh as the others");
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_REFUSED(context, stn_masked_scatter(in, where, source), STN_ERR_VALUE,
                  "masked_scatter: 'source' got 8 elements, wanted the 9 that 'mask' names, or more");
    CHECK_REFUSED(context, stn_index_put(in, 1, &where, source, 0), STN_ERR_SHAPE,
                  "index_put: 'values' got shape (8), wanted one that can be repeated to (9), of at most 8 dims");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused_by_all_ranks(void)
{
    test_ranks(2, refusals, NULL);
}

static stn_status captured(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    struct elements x = elements_drawn(STN_DTYPE_F32, 1, (int64_t[]){6}, 0);
    stn_step *step = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in = layout_tensor_placed(context, mesh, &x, &cut);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    CHECK(stn_tensor_is_error(stn_nonzero(in)));
    stn_capture_end(context, &step);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "captured");
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void a_captured_step_has_none_of_it(void)
{
    test_ranks(2, captured, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_masks_name_is_that_of_one_process", what_masks_name_is_that_of_one_process},
        {"gradients_are_those_of_differences", gradients_are_those_of_differences},
        {"one_process_gives_what_the_words_say", one_process_gives_what_the_words_say},
        {"any_dtype_is_selected_and_each_nan_is_one_of_its_own", any_dtype_is_selected_and_each_nan_is_one_of_its_own},
        {"named_rows_stay_where_they_are", named_rows_stay_where_they_are},
        {"what_does_not_fit_is_refused_by_all_ranks", what_does_not_fit_is_refused_by_all_ranks},
        {"a_captured_step_has_none_of_it", a_captured_step_has_none_of_it},
    };
    return TEST_MAIN(argc, argv, cases);
}
