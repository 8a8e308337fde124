/* What is a view follows from the program: the same in every layout and on every rank, whether elements had to move or
 * a chunk is empty. Views that need not share memory are not changed in place, nor is what they show; through those
 * that share it on every rank, what they show is changed. */
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
    expect_refused(context, stn_square_(view),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    expect_refused(context, stn_square_(stn_detach(view)),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    expect_refused(context, stn_square_(base),
                   "square_: 'input' has views that need not share its memory and cannot be changed in place");
    expect_refused(context, stn_square_(stn_slice(base, 0, 0, 1, 1)),
                   "square_: 'input' has views that need not share its memory and cannot be changed in place");
    expect_refused(context, stn_square_(stn_slice(view, 0, 0, 1, 1)),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    stn_allow_stale_views_begin(context); /* the base may be, and what shares its memory; a view apart stays refused */
    stn_allow_stale_views_begin(context);
    stn_allow_stale_views_end(context);
    CHECK(!stn_tensor_is_error(stn_square_(base)));
    CHECK(!stn_tensor_is_error(stn_square_(stn_slice(base, 0, 0, 1, 1))));
    expect_refused(context, stn_square_(view),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    stn_allow_stale_views_end(context);
    stn_allow_stale_views_end(context); /* one too many changes nothing */
    expect_refused(context, stn_square_(base),
                   "square_: 'input' has views that need not share its memory and cannot be changed in place");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK(!stn_tensor_is_error(stn_square_(base)));
}

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

static stn_tensor *(*const shows[])(stn_tensor *) = {flat, flat_columns, pair, diagonal, windows};

static stn_tensor *make(stn_context *context, const stn_placement *place, int ndim, const int64_t *shape)
{
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), place, STN_DTYPE_F64, ndim, shape,
                       NULL, test_value);
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

/* Views that share memory in every layout, and which elements of a ROWS x COLUMNS tensor they have: at[k] for element
 * k. */
enum { ROWS = 5, COLUMNS = 4, N = ROWS * COLUMNS };

static stn_tensor *whole(stn_tensor *x)
{
    return stn_einsum("ij->ij", 1, &x);
}

static stn_tensor *first_column(stn_tensor *x)
{
    return stn_slice(x, 1, 0, 1, 1);
}
static stn_tensor *one_row(stn_tensor *x)
{
    return stn_narrow(x, 0, 3, 1);
}
static stn_tensor *every_other(stn_tensor *x)
{
    return stn_slice(x, 0, 1, ROWS, 2);
}
static stn_tensor *turned(stn_tensor *x)
{
    return stn_transpose(x, 0, 1);
}
static stn_tensor *permuted(stn_tensor *x)
{
    return stn_permute(x, 2, (int[]){1, 0});
}
static stn_tensor *selected(stn_tensor *x)
{
    return stn_select(x, 0, 2);
}
static stn_tensor *column(stn_tensor *x)
{
    return stn_select(x, 1, -1);
}
static stn_tensor *deeper(stn_tensor *x)
{
    return stn_unsqueeze(stn_slice(stn_transpose(x, 0, 1), 0, 1, 3, 1), 1);
}
static stn_tensor *detached(stn_tensor *x)
{
    return stn_detach(stn_slice(x, 0, 2, ROWS, 1));
}
static stn_tensor *none(stn_tensor *x)
{
    return stn_slice(x, 0, 2, 2, 1);
}

static stn_tensor *(*const shares[])(stn_tensor *) = {whole,    first_column, one_row, every_other, turned, permuted,
                                                      selected, column,       deeper,  detached,    none};

static double counted(int64_t i)
{
    return (double)i;
}

/* Numbers tell elements apart: the view's say which ones it has. */
static void check_write(stn_context *context, stn_tensor *x, stn_tensor *(*show)(stn_tensor *))
{
    double has[N], got[N], want[N];
    stn_scope_begin(context);
    stn_tensor *view = show(x), *other = stn_slice(x, 0, 0, 2, 1);
    if (show == column && stn_spec_placement(stn_tensor_spec(x), 0).dim == 1 && stn_context_size(context) > 1) {
        /* The ranks that have columns cut the rows of one instead: elements had to move. */
        expect_refused(context, stn_square_(view),
                       "square_: 'input' is a view that need not share memory and cannot be changed in place");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        return;
    }
    const int64_t n = stn_spec_numel(stn_tensor_spec(view));
    test_read(view, has, n);
    test_read(x, want, N);
    for (int64_t k = 0; k < n; k++)
        for (int i = 0; i < N; i++)
            if (want[i] == has[k]) {
                want[i] = -2 * has[k] - 100; /* found no second time */
                break;
            }
    const uint64_t before = stn_tensor_version(x);
    CHECK(stn_add_(stn_mul_number_(view, -2), stn_add_number(stn_mul_number(view, 0), 100), -1) == view);
    CHECK_I64((int64_t)(stn_tensor_version(x) - before), 2);
    CHECK_I64((int64_t)(stn_tensor_version(view) - before), 2);
    CHECK_I64((int64_t)(stn_tensor_version(other) - before), 2);
    test_read(x, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], want[i], 0);
    test_read(other, got, 2 * COLUMNS);
    for (int i = 0; i < 2 * COLUMNS; i++)
        CHECK_NEAR(got[i], want[i], 0);
    CHECK(stn_square_(x) == x); /* what has such views is changed too, and they show it */
    test_read(other, got, 2 * COLUMNS);
    for (int i = 0; i < 2 * COLUMNS; i++)
        CHECK_NEAR(got[i], want[i] * want[i], 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status writes_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {ROWS, COLUMNS},
                  rows[][3] = {{5}, {1, 4}, {0, 4, 1}}, *const sizes[] = {rows[stn_context_size(context) - 1], NULL};
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (size_t v = 0; v < sizeof shares / sizeof *shares; v++)
        for (int p = 0; p < 4; p++) {
            stn_scope_begin(context);
            const stn_placement *place =
                &places[p < 3 ? p : 1]; /* the last time with uneven rows, of which a rank may have none */
            check_write(context,
                        test_tensor(context, mesh, place, STN_DTYPE_F64, 2, shape, p == 3 ? sizes : NULL, counted),
                        shares[v]);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void what_views_share_on_every_rank_is_changed_through_them(void)
{
    for (int n = 1; n <= 3; n++)
        test_ranks(n, writes_body, NULL);
}

/* Partial: a view of a pending sum takes what the sum would. And an operand that overlaps what is changed is read as it
 * was. */
static stn_status operands_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_placement places[] = {stn_partial(STN_SUM), stn_shard(1), stn_replicate()};
    double got[N];
    (void)arg;
    for (int p = 0; p < 3; p++) {
        stn_scope_begin(context);
        stn_tensor *x =
            test_tensor(context, test_mesh(context, 2, 0), &places[p], STN_DTYPE_F64, 2, shape, NULL, counted);
        stn_tensor *later = stn_slice(x, 0, 1, ROWS, 1), *earlier = stn_slice(x, 0, 0, ROWS - 1, 1);
        CHECK(stn_add_(later, earlier, 10) == later);
        test_read(x, got, N);
        for (int i = 0; i < N; i++)
            CHECK_NEAR(got[i], i < COLUMNS ? i : i + 10 * (i - COLUMNS), 0);
        CHECK(stn_copy_(stn_select(x, 0, 0), stn_select(x, 0, 1)) != NULL);
        test_read(x, got, N);
        CHECK_NEAR(got[1], got[COLUMNS + 1], 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void pending_sums_and_operands_that_overlap_are_right(void)
{
    test_ranks(2, operands_body, NULL);
}

/* What backward kept is not what it was, on a rank whose part of the view is empty too. */
static stn_status gradients_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_placement cut = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    char text[300];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, shape, NULL, counted);
    stn_tensor *w = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_tensor *before = stn_slice(x, 1, 0, 2, 1);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    stn_tensor *loss = stn_sum(stn_mul(w, x), 0, NULL, 0), *row = stn_slice(x, 0, 0, 1, 1);
    CHECK(stn_square_(row) == row);
    CHECK(stn_backward(loss) == STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_STATE);
    CHECK_STR(text, "stn_backward: 'other' of mul was changed in place after it was saved (version 0, now 1)");
    const char *refused =
        "mul_: 'input' is a view whose change a gradient would have to follow and cannot be changed in place";
    expect_refused(context, stn_mul_(row, stn_slice(w, 0, 0, 1, 1)), refused); /* an operand requires grad */
    expect_refused(context, stn_mul_(stn_slice(w, 0, 0, 1, 1), row), refused); /* the view does */
    expect_refused(
        context, stn_mul_(x, w),
        "mul_: 'input' has views, whose change a gradient would have to follow, and cannot be changed in place");
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    expect_refused(context, stn_mul_(before, before), refused); /* what it shows does by now */
    stn_no_grad_begin(context);
    CHECK(stn_mul_(before, before) == before);
    stn_tensor *of_leaf = stn_slice(w, 0, 0, 1, 1);
    CHECK(stn_fill_(of_leaf, 7) == of_leaf);
    stn_no_grad_end(context);
    double got[N];
    test_read(stn_detach(w), got, N);
    CHECK_NEAR(got[COLUMNS - 1], 7, 0);
    CHECK_NEAR(got[COLUMNS], test_value(COLUMNS), 0);
    return stn_scope_end(context);
}

static void histories_that_would_not_know_of_a_change_refuse_it(void)
{
    test_ranks(3, gradients_body, NULL);
}

/* What one handle requires says nothing of the others. */
static stn_status flags_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_placement cut = stn_shard(0);
    const char *refused =
        "square_: 'input' has views, whose change a gradient would have to follow, and cannot be changed in place";
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), &cut, STN_DTYPE_F64, 2, shape, NULL, counted);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *same = stn_detach(x);
    stn_scope_begin(context);
    stn_slice(x, 0, 0, 1, 1); /* follows x */
    expect_refused(context, stn_square_(same), refused);
    CHECK_STATUS(stn_set_requires_grad(same, 0), STN_OK);
    CHECK(stn_requires_grad(x) && !stn_requires_grad(same));
    expect_refused(context, stn_square_(same), refused);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_slice(same, 0, 0, 1, 1);
    CHECK(stn_square_(same) == same);
    return stn_scope_end(context);
}

static void a_flag_is_one_handles(void)
{
    test_ranks(3, flags_body, NULL);
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
            stn_tensor *made[] = {stn_topk(x, 2, dim, 1, &where), stn_sort(x, dim, 0, &where), stn_cumsum(x, dim),
                                  stn_softmax(x, dim), stn_roll(x, 1, shifts, &dim)};
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
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, 3, 0), &cut, STN_DTYPE_F64, 2, shape, NULL, &spec),
                 STN_OK);
    const int is_first = stn_context_rank(context) == 0;
    const int64_t *own = is_first ? stn_spec_local_shape(spec) : rows;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, own, NULL, &local), STN_OK);
    stn_tensor *mine = stn_empty(context, local), *half = is_first ? mine : stn_slice(mine, 1, 0, 8, 2);
    stn_scope_begin(context);
    stn_tensor *whole = stn_from_local(half, spec, STN_GRAD_PER_RANK);
    expect_refused(context, stn_square_(whole),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    stn_spec_release(&local);
    return stn_scope_end(context);
}

static void what_local_tensors_become_is_a_view_on_every_rank(void)
{
    test_ranks(3, local_body, NULL);
}

/* An element of the last dim, where that is sharded, is one rank's; it moves, and is no part of the memory that it
 * came from. Of any other dim it stays where it is. */
static stn_status select_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {4, 5, 6};
    const char *refused = "fill_: 'input' is a view that need not share memory and cannot be changed in place";
    (void)arg;
    for (int cut = 0; cut < 3; cut++)
        for (int dim = 0; dim < 3; dim++) {
            const stn_placement place = stn_shard(cut);
            stn_scope_begin(context);
            stn_tensor *x = make(context, &place, 3, shape), *chosen = stn_select(x, dim, 1), *parts[6] = {NULL};
            const int moves = cut == 2 && dim == 2 && stn_context_size(context) > 1;
            CHECK(stn_tensor_is_view(chosen));
            if (moves)
                expect_refused(context, stn_fill_(chosen, 7), refused);
            else
                CHECK(stn_fill_(chosen, 7) == chosen);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
            stn_scope_begin(context);
            CHECK_STATUS(stn_unbind(make(context, &place, 3, shape), dim, (int)shape[dim], parts), STN_OK);
            if (moves)
                expect_refused(context, stn_fill_(parts[2], 7), refused);
            else
                CHECK(stn_fill_(parts[2], 7) == parts[2]);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void elements_of_the_last_dim_move_where_it_is_sharded(void)
{
    for (int n = 1; n <= 3; n++)
        test_ranks(n, select_body, NULL);
}

/* Ops change a caller's memory through the local tensor over it, and not through what stn_from_local made of that. */
static stn_status lent_body(stn_context *context, void *arg)
{
    double memory[4] = {1, 2, 3, 4};
    const int64_t mine = 4, all = mine * stn_context_size(context);
    const stn_placement cut = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_spec *spec;
    (void)arg;
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F64, 1, &all, NULL, &spec), STN_OK);
    stn_scope_begin(context);
    stn_tensor *lent = stn_wrap(context, STN_DTYPE_F64, 1, &mine, NULL, memory, NULL, NULL);
    CHECK(stn_square_(lent) == lent);
    stn_queue_sync(stn_context_queue(context));
    CHECK_NEAR(memory[3], 16, 0);
    stn_scope_begin(context);
    stn_tensor *whole = stn_from_local(lent, spec, STN_GRAD_PER_RANK), *own = stn_empty(context, spec);
    CHECK(stn_tensor_data(whole) == memory);
    expect_refused(context, stn_square_(whole),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    expect_refused(context, stn_square_(lent),
                   "square_: 'input' has views that need not share its memory and cannot be changed in place");
    expect_refused(context, stn_square_(stn_to_local(whole, STN_GRAD_PER_RANK)),
                   "square_: 'input' is a view that need not share memory and cannot be changed in place");
    CHECK(stn_square_(stn_copy_(own, whole)) == own); /* as the header advises */
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK(stn_square_(lent) == lent);
    stn_queue_sync(stn_context_queue(context));
    CHECK_NEAR(memory[3], 256, 0);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void memory_that_was_lent_is_changed_through_its_local_tensor_alone(void)
{
    test_ranks(1, lent_body, NULL);
    test_ranks(3, lent_body, NULL);
}

/* Twice as much three times over is not twice as much. */
static stn_status repeated_body(stn_context *context, void *arg)
{
    float memory[] = {1, 2, 3, 4};
    const int64_t shape[] = {3, 4}, one[] = {1, 4}, strides[] = {0, 1};
    double sum = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *rows = stn_wrap(context, STN_DTYPE_F32, 2, shape, strides, memory, NULL, NULL),
               *row = stn_wrap(context, STN_DTYPE_F32, 2, one, strides, memory, NULL, NULL);
    CHECK_REFUSED(context, stn_mul_number_(rows, 2), STN_ERR_STATE,
                  "mul_: 'input' has elements that stand in several places and cannot be changed in place");
    CHECK_STATUS(stn_item(stn_sum(rows, 0, NULL, 0), &sum), STN_OK);
    CHECK_NEAR(sum, 30, 0);
    CHECK(stn_mul_number_(row, 2) == row);
    CHECK_STATUS(stn_item(stn_sum(rows, 0, NULL, 0), &sum), STN_OK);
    CHECK_NEAR(sum, 60, 0);
    return stn_scope_end(context);
}

static void elements_that_stand_in_several_places_are_not_changed(void)
{
    test_ranks(1, repeated_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"views_are_views_in_every_layout_and_on_every_rank", views_are_views_in_every_layout_and_on_every_rank},
        {"what_views_share_on_every_rank_is_changed_through_them",
         what_views_share_on_every_rank_is_changed_through_them},
        {"pending_sums_and_operands_that_overlap_are_right", pending_sums_and_operands_that_overlap_are_right},
        {"histories_that_would_not_know_of_a_change_refuse_it", histories_that_would_not_know_of_a_change_refuse_it},
        {"results_made_by_way_of_views_are_none", results_made_by_way_of_views_are_none},
        {"elements_of_the_last_dim_move_where_it_is_sharded", elements_of_the_last_dim_move_where_it_is_sharded},
        {"memory_that_was_lent_is_changed_through_its_local_tensor_alone",
         memory_that_was_lent_is_changed_through_its_local_tensor_alone},
        {"elements_that_stand_in_several_places_are_not_changed",
         elements_that_stand_in_several_places_are_not_changed},
        {"a_flag_is_one_handles", a_flag_is_one_handles},
        {"what_local_tensors_become_is_a_view_on_every_rank", what_local_tensors_become_is_a_view_on_every_rank},
    };
    return TEST_MAIN(argc, argv, cases);
}
