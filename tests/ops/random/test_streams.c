/* Random streams belong to meshes: who draws more often than others, or is outside and does not draw along, changes
 * nobody's numbers; and in checks mode a rank that is out of step is named. */
#include "ranks.h"

#include <string.h>

enum { N = 6 };

static const stn_spec *spec_on(stn_context *context, const stn_mesh *mesh)
{
    const int64_t n = N;
    const stn_placement shard[] = {stn_shard(0), stn_replicate()};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, mesh ? shard : NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    return spec;
}

static void draw(stn_context *context, const stn_mesh *mesh, double *out)
{
    const stn_spec *spec = spec_on(context, mesh);
    test_read(stn_randn(context, spec), out, N);
    stn_spec_release(&spec);
}

/* What one process draws from a stream. */
static void expect_stream(const double *got, uint64_t stream)
{
    const stn_context_options options = {.size = sizeof options, .seed = 0};
    stn_context *one = NULL;
    double want[N];
    CHECK_STATUS(stn_context_create(&options, &one), STN_OK);
    stn_context_set_random_state(one, 0, stream);
    stn_scope_begin(one);
    draw(one, NULL, want);
    CHECK_STATUS(stn_scope_end(one), STN_OK);
    CHECK_BYTES(got, want, sizeof want);
    stn_context_destroy(&one);
}

/* Each group draws as often as it likes on its slice, and what both draw then is the same everywhere. */
static stn_status groups_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *own;
    const int domain = 1, group = stn_mesh_coordinate(grid, 0);
    double got[N];
    (void)arg;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &domain, &own), STN_OK);
    stn_scope_begin(context);
    for (int i = 0; i < 2 + 3 * group; i++) {
        draw(context, own, got);
        expect_stream(got, (uint64_t)i);
    }
    CHECK_I64((int64_t)stn_mesh_random_stream(own), 2 + 3 * group);
    draw(context, grid, got);
    expect_stream(got, 0);
    draw(context, test_mesh(context, 4, 0), got); /* another grid of all ranks: the same program */
    expect_stream(got, 1);
    return stn_scope_end(context);
}

static void groups_draw_as_often_as_they_like(void)
{
    test_ranks(4, groups_body, NULL);
}

/* Dropout counts too, and its backward draws the forward's numbers again whatever was drawn between. */
static stn_status dropout_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *own;
    const int domain = 1, group = stn_mesh_coordinate(grid, 0);
    const int64_t n = 200 + group;
    const stn_placement shard = stn_shard(0);
    double y[256], gradient[256];
    stn_tensor *grad = NULL;
    (void)arg;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &domain, &own), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, own, &shard, STN_DTYPE_F64, 1, &n, NULL, test_value);
    stn_set_requires_grad(x, 1);
    stn_tensor *dropped = stn_dropout(x, 0.5, 1);
    for (int i = 0; i < group; i++)
        draw(context, own, y);
    CHECK_STATUS(stn_backward(stn_sum(dropped, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    test_read(dropped, y, n);
    test_read(grad, gradient, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(y[i], gradient[i] * test_value(i), 1e-15);
    CHECK_I64((int64_t)stn_mesh_random_stream(own), 1 + group);
    return stn_scope_end(context);
}

static void dropout_of_a_group_is_its_own(void)
{
    test_ranks(4, dropout_body, NULL);
}

/* Where a mesh begins, and how it is set apart. */
static stn_status set_body(stn_context *context, void *arg)
{
    const int ranks[] = {0, 1}, two = 2;
    const stn_mesh *pair, *turned, *world = test_mesh(context, 3, 0);
    double got[N];
    (void)arg;
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, ranks, &pair), STN_OK);
    stn_scope_begin(context);
    stn_mesh_set_random_stream(pair, 1ull << 32);
    CHECK_I64((int64_t)stn_mesh_random_stream(pair), 1ll << 32);
    CHECK_I64((int64_t)stn_mesh_random_stream(world), 0);
    if (stn_mesh_contains_me(pair)) { /* nobody else need draw along */
        draw(context, pair, got);
        expect_stream(got, 1ull << 32);
    }
    stn_context_set_random_state(context, 0, 7);
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, (int[]){1, 0}, &turned), STN_OK);
    CHECK_I64((int64_t)stn_mesh_random_stream(pair), 7);
    CHECK_I64((int64_t)stn_mesh_random_stream(turned), 7); /* made later */
    CHECK_I64((int64_t)stn_mesh_random_stream(world), 7);
    stn_mesh_set_random_stream(world, 9);
    uint64_t seed, stream;
    stn_context_random_state(context, &seed, &stream);
    CHECK_I64((int64_t)stream, 9);
    CHECK_I64((int64_t)stn_mesh_random_stream(NULL), 0);
    stn_mesh_set_random_stream(NULL, 1);
    return stn_scope_end(context);
}

static void a_mesh_begins_where_it_was_set(void)
{
    test_ranks(3, set_body, NULL);
}

/* Rank 1 draws once more than its peers, for itself: nothing is sent, and only the comparison can tell. */
static stn_status checks_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_placement shard = stn_shard(0);
    const int64_t n = N;
    double got[N], item;
    char text[512];
    const char wanted[] =
        "random numbers: rank 1 draws from stream 1 of a mesh, rank 0 from stream 0: they have not drawn "
        "equally often";
    (void)arg;
    stn_scope_begin(context);
    if (stn_context_rank(context) == 1)
        draw(context, NULL, got);
    for (int op = 0; op < 2; op++) {
        const stn_spec *spec = spec_on(context, mesh);
        stn_tensor *x = test_tensor(context, mesh, &shard, STN_DTYPE_F64, 1, &n, NULL, test_value);
        CHECK(stn_tensor_is_error(op ? stn_dropout(x, 0.5, 1) : stn_rand(context, spec)));
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_MISMATCH);
        CHECK_STR(text, wanted);
        CHECK_STATUS(stn_item(stn_sum(x, 0, NULL, 0), &item), STN_OK); /* the mesh is usable */
        stn_spec_release(&spec);
    }
    stn_mesh_set_random_stream(mesh, 5);
    draw(context, mesh, got);
    expect_stream(got, 5);
    return stn_scope_end(context);
}

static void checks_mode_names_the_rank_that_drew_more(void)
{
    const stn_context_options options = {.size = sizeof options, .checks = 1};
    CHECK_STATUS(test_launch(3, &options, checks_body, NULL), STN_OK);
}

/* Who leaves before is missed by those that compare, whose error is kept. */
static stn_status left_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {6};
    (void)arg;
    if (stn_context_rank(context) == 1)
        return STN_OK;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    CHECK(stn_tensor_is_error(stn_randn(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 1, shape))));
    CHECK(strstr(stn_context_error_text(context), "random numbers: ") != NULL);
    const stn_status status = stn_scope_end(context);
    CHECK(status != STN_OK);
    return status;
}

static void a_rank_that_left_is_missed_by_those_that_draw(void)
{
    const stn_context_options options = {.size = sizeof options, .checks = 1};
    CHECK(test_launch(3, &options, left_body, NULL) != STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"groups_draw_as_often_as_they_like", groups_draw_as_often_as_they_like},
        {"dropout_of_a_group_is_its_own", dropout_of_a_group_is_its_own},
        {"a_mesh_begins_where_it_was_set", a_mesh_begins_where_it_was_set},
        {"checks_mode_names_the_rank_that_drew_more", checks_mode_names_the_rank_that_drew_more},
        {"a_rank_that_left_is_missed_by_those_that_draw", a_rank_that_left_is_missed_by_those_that_draw},
    };
    return TEST_MAIN(argc, argv, cases);
}
