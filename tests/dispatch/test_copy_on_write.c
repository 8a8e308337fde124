/* What a redistribution gives is a value of its own, also where nothing had to move: ranks and layouts do not show in
 * what a change in place changes. */
#include "ranks.h"

enum { N = 5 * 4 };
static const int64_t shape[] = {5, 4};

static double counted(int64_t i)
{
    return (double)(i + 1);
}

static void is_counted(stn_tensor *t, double factor)
{
    double got[N];
    test_read(t, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], factor * counted(i), 0);
}

static stn_tensor *source(stn_context *context, stn_placement place)
{
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &place, STN_DTYPE_F64, 2, shape, NULL,
                       counted);
}

static stn_tensor *moved(stn_tensor *x, stn_placement place)
{
    stn_context *context = stn_tensor_context(x);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, stn_spec_mesh(stn_tensor_spec(x)), &place, STN_DTYPE_F64, 2, shape, NULL,
                                 &spec),
                 STN_OK);
    stn_tensor *y = stn_redistribute(x, spec);
    stn_spec_release(&spec);
    CHECK(!stn_tensor_is_view(y));
    return y;
}

/* Each is changed, and none sees the others' changes: the source, what it was moved to, and what that was. */
static void check_changes(stn_context *context, stn_placement from, stn_placement to)
{
    stn_scope_begin(context);
    stn_tensor *x = source(context, from), *y = moved(x, to), *z = moved(y, from), *w = moved(x, to);
    CHECK(stn_mul_number_(y, 2) == y);
    CHECK(stn_mul_number_(x, 3) == x);
    CHECK(stn_sub_(x, source(context, stn_replicate()), 1) == x);
    CHECK(stn_mul_number_(w, 4) == w);
    is_counted(x, 2);
    is_counted(y, 2);
    is_counted(z, 1);
    is_counted(w, 4);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* Between any two of the layouts. */
static stn_status each_move(stn_context *context, void (*check)(stn_context *, stn_placement from, stn_placement to))
{
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            check(context, places[from], places[to]);
    return STN_OK;
}

static stn_status changes_body(stn_context *context, void *arg)
{
    (void)arg;
    return each_move(context, check_changes);
}

static void changes_stay_with_who_made_them(void)
{
    test_worlds(changes_body, NULL);
}

/* In any order of release; what nobody else has any more is not copied. */
static stn_status lives_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int order = 0; order < 6; order++) {
        stn_tensor *x = source(context, stn_shard(0)), *y = moved(x, stn_shard(0)), *z = moved(x, stn_shard(0));
        stn_tensor **all[] = {&x, &y, &z};
        stn_tensor_release(all[order % 3]);
        stn_tensor *next = *all[(order + 1 + order / 3) % 3], *last = *all[(order + 2 - order / 3) % 3];
        CHECK(stn_mul_number_(next, 2) == next);
        is_counted(last, 1);
        is_counted(next, 2);
        for (int i = 0; i < 3; i++)
            stn_tensor_release(all[i]);
    }
    stn_tensor *x = source(context, stn_shard(0)), *y = moved(x, stn_shard(0));
    stn_tensor_release(&x);
    const void *before = stn_tensor_data(y);
    CHECK(stn_mul_number_(y, 2) == y && stn_tensor_data(y) == before);
    is_counted(y, 2);
    stn_tensor_release(&y);
    return STN_OK;
}

/* What was moved from a tensor whose stale views are allowed is no view of it. */
static stn_status stale_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = source(context, stn_shard(0)), *y = moved(x, stn_shard(0));
    stn_tensor *apart = stn_view(x, 1, (int64_t[]){-1}), *of_value = stn_view(y, 1, (int64_t[]){-1});
    CHECK(!stn_tensor_is_error(apart) && !stn_tensor_is_error(of_value));
    stn_allow_stale_views_begin(context);
    CHECK(stn_mul_number_(x, 3) == x);
    is_counted(y, 1);
    CHECK(stn_mul_number_(y, 2) == y);
    stn_allow_stale_views_end(context);
    is_counted(x, 3);
    is_counted(y, 2);
    return stn_scope_end(context);
}

static void stale_views_hinder_no_copy(void)
{
    test_worlds(stale_body, NULL);
}

static void values_outlive_each_other(void)
{
    test_ranks(1, lives_body, NULL);
    test_ranks(3, lives_body, NULL);
}

/* What backward has kept of a value is the value's, however the source goes on; a change of itself is noticed. */
static stn_status saved_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = source(context, stn_shard(0)), *w = source(context, stn_shard(0)), *grad;
    CHECK(stn_mul_number_(x, 1) == x); /* counted, and no change of what comes of it */
    stn_tensor *y = moved(x, stn_shard(0));
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    stn_tensor *loss = stn_sum(stn_mul(y, w), 0, NULL, 0), *again = stn_sum(stn_mul(y, w), 0, NULL, 0);
    CHECK(stn_mul_number_(x, 3) == x);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    is_counted(grad, 1);
    CHECK(stn_mul_number_(y, 2) == y);
    CHECK(stn_backward(again) != STN_OK);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "was changed in place after it was saved");
    stn_scope_end(context);
    return STN_OK;
}

static void what_backward_kept_stays(void)
{
    test_ranks(1, saved_body, NULL);
    test_ranks(2, saved_body, NULL);
}

/* A step of an optimizer, a file and immutability are each tensor's own. */
static stn_status others_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *p = source(context, stn_shard(0)), *grad = stn_mul_number(source(context, stn_shard(0)), 0.5);
    stn_optimizer *optimizer;
    const stn_sgd_options options = {.size = sizeof options, .rate = 1};
    CHECK_STATUS(stn_set_requires_grad(p, 1), STN_OK);
    stn_tensor *before = moved(stn_detach(p), stn_shard(0)), *frozen = moved(before, stn_shard(0));
    CHECK_STATUS(stn_sgd_create(context, &options, &optimizer), STN_OK);
    const stn_named_tensor parameter = {.name = "p", .tensor = p};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &parameter};
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(p, grad), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    is_counted(stn_detach(p), 0.5);
    is_counted(before, 1);
    stn_optimizer_destroy(&optimizer);

    CHECK_STATUS(stn_tensor_freeze(frozen), STN_OK);
    CHECK(stn_tensor_is_frozen(frozen) && !stn_tensor_is_frozen(before));
    CHECK(stn_mul_number_(before, 2) == before);
    CHECK_REFUSED(context, stn_mul_number_(frozen, 2), STN_ERR_STATE,
                  "mul_: 'input' is immutable and cannot be changed in place");
    stn_tensor *thawed = moved(frozen, stn_shard(0));
    CHECK(!stn_tensor_is_frozen(thawed) && stn_mul_number_(thawed, 5) == thawed);
    is_counted(frozen, 1);
    is_counted(before, 2);
    is_counted(thawed, 5);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return STN_OK;
}

static void steps_and_immutability_are_each_tensors_own(void)
{
    test_ranks(1, others_body, NULL);
    test_ranks(3, others_body, NULL);
}

/* A part of what was detached follows nothing, whatever else was made of the leaf and is gone, or was moved by a
 * redistribution that had nothing to move in some layouts. */
static void check_detached(stn_context *context, stn_placement from, stn_placement to)
{
    stn_scope_begin(context);
    stn_tensor *x = source(context, from), *same = stn_detach(x);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK(!stn_tensor_is_error(stn_mul_number_(stn_slice(same, 0, 0, 5, 1), 2)));
    stn_scope_begin(context);
    moved(x, to);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK(!stn_tensor_is_error(stn_mul_number_(stn_slice(same, 0, 0, 5, 1), 2)));
    stn_tensor *y = moved(x, to);
    CHECK(!stn_tensor_is_error(stn_mul_number_(stn_slice(same, 0, 0, 5, 1), 2)));
    is_counted(same, 8);
    is_counted(stn_detach(y), 4);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status detached_body(stn_context *context, void *arg)
{
    (void)arg;
    return each_move(context, check_detached);
}

static void parts_of_what_was_detached_are_changed_in_every_layout(void)
{
    test_worlds(detached_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"changes_stay_with_who_made_them", changes_stay_with_who_made_them},
        {"stale_views_hinder_no_copy", stale_views_hinder_no_copy},
        {"values_outlive_each_other", values_outlive_each_other},
        {"what_backward_kept_stays", what_backward_kept_stays},
        {"steps_and_immutability_are_each_tensors_own", steps_and_immutability_are_each_tensors_own},
        {"parts_of_what_was_detached_are_changed_in_every_layout",
         parts_of_what_was_detached_are_changed_in_every_layout},
    };
    return TEST_MAIN(argc, argv, cases);
}
