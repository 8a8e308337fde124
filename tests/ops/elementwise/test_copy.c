/* clone, copy_ and fill_ on every layout; their gradients; versions of tensors. */
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
#include <string.h>

static struct elements drawn(stn_dtype dtype, int ndim, const int64_t *shape, uint64_t seed)
{
    struct elements e;
    elements_draw(&e, dtype, ndim, shape, &seed);
    return e;
}

static stn_status clones_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, *(const int *)arg, 0);
    struct elements x = drawn(STN_DTYPE_F32, 2, (int64_t[]){7, 3}, 3);
    uint64_t seed = 9;
    for (int round = 0; round < test_draws(30); round++) {
        stn_scope_begin(context);
        stn_tensor *t = layout_tensor_drawn(context, mesh, &x, &seed), *copy = stn_clone(t);
        CHECK(stn_tensor_spec(copy) == stn_tensor_spec(t));
        CHECK(stn_tensor_data(t) == NULL || stn_tensor_data(copy) != stn_tensor_data(t));
        stn_fill_(t, 0);
        layout_check(copy, &x, "clone");
        stn_tensor *of_view = stn_clone(stn_transpose(copy, 0, 1));
        stn_mul_number_(of_view, 1); /* it is nobody's view */
        layout_check(stn_transpose(of_view, 0, 1), &x, "clone of a view");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_clone_keeps_values_and_layout_in_memory_of_its_own(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, clones_body, &ranks);
}

static stn_status pending_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const int64_t n = 5;
    const stn_placement pending = stn_partial(STN_MAX);
    const float mine = (float)stn_context_rank(context), host[] = {mine, -mine, 1, mine, 2};
    const stn_spec *spec;
    double whole[5];
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, mesh, &pending, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *copy = stn_clone(stn_from_host(context, spec, host));
    CHECK(stn_tensor_spec(copy) == spec);
    test_read(copy, whole, n);
    CHECK(whole[0] == 2 && whole[1] == 0 && whole[2] == 1 && whole[3] == 2 && whole[4] == 2);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void a_clone_of_a_pending_maximum_is_one(void)
{
    test_ranks(3, pending_body, NULL);
}

/* Each pair of dtypes, in drawn layouts of both: what cast gives, brought to the target's layout. */
static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_BF16};

static stn_status copies_body(stn_context *context, void *arg)
{
    const int *grid = arg;
    const stn_mesh *mesh = test_mesh(context, grid[0], grid[1]);
    enum { N = sizeof dtypes / sizeof *dtypes };
    uint64_t seed = 4;
    for (int pair = 0; pair < 2 * N * N; pair++) {
        struct elements to = drawn(dtypes[pair % N], 2, (int64_t[]){7, 4}, 3);
        struct elements row = drawn(dtypes[pair / N % N], 1, (int64_t[]){4}, (uint64_t)pair + 5);
        struct elements whole = drawn(dtypes[pair / N % N], 2, (int64_t[]){7, 4}, (uint64_t)pair + 90);
        stn_scope_begin(context);
        stn_tensor *t = layout_tensor_drawn(context, mesh, &to, &seed),
                   *r = layout_tensor_drawn(context, mesh, &row, &seed),
                   *w = layout_tensor_drawn(context, mesh, &whole, &seed);
        const stn_spec *spec = stn_tensor_spec(t);
        for (int64_t i = 0; i < to.n; i++)
            to.v[i] = row.v[i % 4];
        stn_tensor *copied = stn_copy_(t, r);
        if (stn_tensor_is_error(copied)) { /* a pending sum of a wider float: rounding is not linear */
            CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_PARTIAL);
            CHECK(stn_dtype_size(row.dtype) > stn_dtype_size(to.dtype) || to.dtype != row.dtype);
            stn_scope_end(context);
            continue;
        }
        CHECK(copied == t && stn_tensor_spec(t) == spec);
        layout_check(t, &to, "copy_ of a row");
        if (!stn_tensor_is_error(stn_copy_(t, w))) {
            memcpy(to.v, whole.v, sizeof to.v);
            layout_check(t, &to, "copy_");
        }
        stn_context_take_error(context, NULL, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void copy_moves_layouts_and_casts(void)
{
    static const int grids[][2] = {{1, 0}, {3, 0}, {2, 3}};
    for (int g = 0; g < 3; g++)
        test_ranks(grids[g][0] * (grids[g][1] ? grids[g][1] : 1), copies_body, (void *)grids[g]);
}

static stn_status fills_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    static const stn_dtype all[] = {STN_DTYPE_F32, STN_DTYPE_F16,  STN_DTYPE_I64,
                                    STN_DTYPE_U8,  STN_DTYPE_BOOL, STN_DTYPE_C64};
    uint64_t seed = 2;
    for (int round = 0; round < test_draws(48); round++) {
        struct elements x = drawn(all[round % 6], 2, (int64_t[]){5, 3}, 3);
        const double value = round % 4 ? 3 : 0;
        char text[200] = "";
        stn_scope_begin(context);
        stn_tensor *t = layout_tensor_drawn(context, mesh, &x, &seed);
        for (int64_t i = 0; i < x.n; i++)
            x.v[i] = x.dtype == STN_DTYPE_BOOL ? value != 0 : value;
        if (stn_tensor_is_error(stn_fill_(t, value))) {
            CHECK(value != 0 && stn_spec_placement(stn_tensor_spec(t), 0).kind == STN_PLACE_PARTIAL);
            CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_PARTIAL);
        } else {
            layout_check(t, &x, "fill_");
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void fill_sets_every_element(void)
{
    test_ranks(3, fills_body, NULL);
}

/* y = 2 x; y[:] = s; loss = sum(y^2 …): nothing reaches x, and s gets what its copies sum to. */
static stn_status gradients_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const int64_t rows[] = {5, 2}, two = 2;
    const stn_placement sharded = stn_shard(0), whole = stn_replicate();
    double got[10];
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &sharded, STN_DTYPE_F32, 2, rows, NULL, test_value);
    stn_tensor *s = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 1, &two, NULL, test_value), *grads[2], *c;
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(s, 1);
    stn_tensor *y = stn_mul_number(x, 2);
    stn_copy_(y, s);
    stn_tensor *loss = stn_sum(stn_square(stn_clone(y)), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 2, (stn_tensor *[]){x, s}, 1, 1, grads), STN_OK);
    CHECK(grads[0] == NULL || stn_tensor_ndim(grads[0]) == 2);
    CHECK(stn_tensor_dtype(grads[1]) == STN_DTYPE_F64);
    test_read(grads[1], got, 2);
    for (int i = 0; i < 2; i++)
        CHECK_NEAR(got[i], 5 * 2 * (double)(float)test_value(i), 1e-6);
    loss = stn_sum(grads[1], 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &s, 0, 0, &c), STN_OK);
    test_read(c, got, 2);
    CHECK_NEAR(got[0], 10, 1e-6);
    stn_tensor *z = stn_mul_number(x, 2);
    stn_fill_(z, 3);
    stn_tensor *sum = stn_sum(stn_add(z, x), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 0, 0, &c), STN_OK);
    test_read(c, got, 10);
    for (int i = 0; i < 10; i++)
        CHECK_NEAR(got[i], 1, 0);
    return stn_scope_end(context);
}

static void gradients_reach_what_was_copied_and_not_what_was_overwritten(void)
{
    test_ranks(3, gradients_body, NULL);
}

static stn_status versions_body(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t n = 4;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, test_value), *leaf = stn_clone(x),
               *grad;
    const uint64_t before = stn_tensor_version(x);
    stn_fill_(x, 1);
    CHECK_I64((int64_t)(stn_tensor_version(x) - before), 1);
    stn_set_requires_grad(leaf, 1);
    stn_tensor *loss = stn_sum(stn_mul(leaf, x), 0, NULL, 0), *view = stn_slice(x, 0, 1, 3, 1);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    ((float *)stn_tensor_data(x))[0] = 5;
    stn_tensor_changed(view);
    CHECK_I64((int64_t)(stn_tensor_version(x) - before), 2);
    CHECK_I64((int64_t)stn_tensor_version(view), (int64_t)stn_tensor_version(x));
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &leaf, 0, 0, &grad), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK_I64((int64_t)stn_tensor_version(NULL), 0);
    stn_tensor_changed(NULL);
    stn_scope_end(context);
    return STN_OK;
}

static void a_write_through_memory_is_seen_once_it_is_told(void)
{
    test_ranks(1, versions_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_clone_keeps_values_and_layout_in_memory_of_its_own", a_clone_keeps_values_and_layout_in_memory_of_its_own},
        {"a_clone_of_a_pending_maximum_is_one", a_clone_of_a_pending_maximum_is_one},
        {"copy_moves_layouts_and_casts", copy_moves_layouts_and_casts},
        {"fill_sets_every_element", fill_sets_every_element},
        {"gradients_reach_what_was_copied_and_not_what_was_overwritten",
         gradients_reach_what_was_copied_and_not_what_was_overwritten},
        {"a_write_through_memory_is_seen_once_it_is_told", a_write_through_memory_is_seen_once_it_is_told},
    };
    return TEST_MAIN(argc, argv, cases);
}
