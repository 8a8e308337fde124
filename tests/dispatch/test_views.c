/* What is a view follows from the program: the same in every layout and on every rank, whether elements had to move or a chunk is empty. */
#include "ranks.h"

static void expect_refused(stn_context *context, stn_tensor *result, const char *wanted)
{
    char text[300] = "";
    CHECK(stn_tensor_is_error(result));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_STATE);
    CHECK_STR(text, wanted);
}

/* Neither is changed in place while both live; then the base may be. */
static void check_view(stn_context *context, stn_tensor *base, stn_tensor *(*show)(stn_tensor *))
{
    stn_scope_begin(context);
    stn_tensor *view = show(base);
    expect_refused(context, stn_square_(view), "square_: 'input' is a view and cannot be changed in place");
    expect_refused(context, stn_square_(stn_detach(view)), "square_: 'input' is a view and cannot be changed in place");
    expect_refused(context, stn_square_(base), "square_: 'input' has views and cannot be changed in place");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK(!stn_tensor_is_error(stn_square_(base)));
}

static stn_tensor *first_row(stn_tensor *x) { return stn_slice(x, 0, 0, 1, 1); }

static stn_tensor *flat(stn_tensor *x)
{
    const int64_t shape[] = {-1};
    return stn_view(x, 1, shape);
}

static stn_tensor *flat_columns(stn_tensor *x) { return flat(stn_transpose(x, 0, 1)); }

static stn_tensor *pair(stn_tensor *x)
{
    const int64_t shape[] = {2, stn_tensor_shape(x)[0], stn_tensor_shape(x)[1]};
    return stn_expand(x, 3, shape);
}

static stn_tensor *diagonal(stn_tensor *x) { return stn_diagonal(x, 1, 0, 1); }

static stn_tensor *windows(stn_tensor *x) { return stn_unfold(x, 0, 2, 1); }

static stn_tensor *once(stn_tensor *x)
{
    const int64_t repeats[] = {1, 1};
    return stn_repeat(x, 2, repeats);
}

static stn_tensor *(*const shows[])(stn_tensor *) = {first_row, flat, flat_columns, pair, diagonal, windows, once};

static stn_tensor *make(stn_context *context, const stn_placement *place, int ndim, const int64_t *shape)
{
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), place, STN_DTYPE_F64, ndim, shape, NULL, test_value);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    const int64_t shapes[][2] = {{2, 5}, {7, 3}, {2, 2}}; /* of two rows on three ranks one has none */
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    (void)arg;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            for (size_t v = 0; v < sizeof shows / sizeof *shows; v++) {
                stn_scope_begin(context);
                check_view(context, make(context, &places[p], 2, shapes[s]), shows[v]);
                CHECK_STATUS(stn_scope_end(context), STN_OK);
            }
    return STN_OK;
}

static void views_are_views_in_every_layout_and_on_every_rank(void)
{
    for (int n = 1; n <= 3; n++)
        test_ranks(n, layouts_body, NULL);
}

/* Made of transposed or flattened tensors of which nobody else knows. */
static stn_status own_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {6, 5, 2};
    const stn_placement places[] = {stn_shard(0), stn_shard(1), stn_shard(2)};
    const int64_t shifts[] = {1};
    (void)arg;
    for (int p = 0; p < 3; p++)
        for (int dim = 0; dim < 3; dim++) {
            stn_scope_begin(context);
            stn_tensor *x = make(context, &places[p], 3, shape), *where;
            stn_tensor *made[] = {stn_topk(x, 2, dim, 1, &where), stn_sort(x, dim, 0, &where), stn_cumsum(x, dim), stn_softmax(x, dim),
                                  stn_roll(x, 1, shifts, &dim)};
            for (size_t m = 0; m < sizeof made / sizeof *made; m++)
                CHECK(!stn_tensor_is_error(stn_square_(made[m])));
            CHECK(!stn_tensor_is_error(stn_square_(x)));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void results_made_by_way_of_views_are_none(void)
{
    for (int n = 1; n <= 3; n++)
        test_ranks(n, own_body, NULL);
}

/* One rank's rows lie as its chunk would, the others' have to be copied. */
static stn_status local_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {6, 4}, rows[] = {2, 8};
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec, *local;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, 3, 0), &cut, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    const int is_first = stn_context_rank(context) == 0;
    const int64_t *own = is_first ? stn_spec_local_shape(spec) : rows;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, own, NULL, &local), STN_OK);
    stn_tensor *mine = stn_empty(context, local), *half = is_first ? mine : stn_slice(mine, 1, 0, 8, 2);
    stn_scope_begin(context);
    stn_tensor *whole = stn_from_local(half, spec, STN_GRAD_PER_RANK);
    expect_refused(context, stn_square_(whole), "square_: 'input' is a view and cannot be changed in place");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    stn_spec_release(&local);
    return stn_scope_end(context);
}

static void what_local_tensors_become_is_a_view_on_every_rank(void)
{
    test_ranks(3, local_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"views_are_views_in_every_layout_and_on_every_rank", views_are_views_in_every_layout_and_on_every_rank},
        {"results_made_by_way_of_views_are_none", results_made_by_way_of_views_are_none},
        {"what_local_tensors_become_is_a_view_on_every_rank", what_local_tensors_become_is_a_view_on_every_rank},
    };
    return TEST_MAIN(argc, argv, cases);
}
