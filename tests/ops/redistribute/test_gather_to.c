/* The whole on one rank, and from the whole that every rank has: whatever the layout, and nobody else holds it. */
#include "ranks.h"

#include <string.h>

enum { ROWS = 7, COLUMNS = 5, N = ROWS * COLUMNS };

static const char *const layouts[] = {"S0,R",
                                      "S1,S0",
                                      "S0,S0",
                                      "R,R",
                                      "P,S1",
                                      "P(avg),R",
                                      "P(max),S0",
                                      "S0 sizes 0 7,S1 sizes 5 0 0",
                                      "S1,R, memory order 1 0"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void check_whole(stn_tensor *whole, int root)
{
    stn_context *context = stn_tensor_context(whole);
    double got[N];
    CHECK(stn_spec_mesh(stn_tensor_spec(whole)) == NULL);
    if (stn_context_rank(context) != root) {
        CHECK_I64(stn_spec_local_numel(stn_tensor_spec(whole)), 0);
        return;
    }
    CHECK_I64(stn_tensor_shape(whole)[0], ROWS);
    CHECK_I64(stn_tensor_shape(whole)[1], COLUMNS);
    CHECK_STATUS(stn_to_host(whole, got, sizeof got), STN_OK);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], test_value(i), 0);
}

static stn_status gather_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {ROWS, COLUMNS};
    double data[N], got[N];
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    (void)arg;
    for (int i = 0; i < N; i++)
        data[i] = test_value(i);
    for (int l = 0; l < LAYOUTS; l++) {
        stn_scope_begin(context);
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats_reset(context);
        const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F64, layouts[l], 2, shape);
        stn_tensor *t = stn_from_host_global(context, spec, data);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.bytes_sent, 0);
        CHECK(stn_tensor_spec(t) == spec);
        if (stn_context_size(context) == stn_mesh_size(mesh)) {
            test_read(t, got, N);
            CHECK_BYTES(got, data, sizeof data);
        }
        for (int root = 0; root < stn_context_size(context); root += 4)
            check_whole(stn_gather_to(t, root), root);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void one_rank_gets_the_whole_of_any_layout(void)
{
    test_ranks(6, gather_body, NULL);
    test_ranks(7, gather_body, NULL); /* one outside the mesh */
}

static stn_status scalar_body(stn_context *context, void *arg)
{
    const int ranks = stn_context_size(context);
    double value = 3.5, got = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *t =
        stn_from_host_global(context, stn_spec_of(test_mesh(context, ranks, 0), STN_DTYPE_F64, "P", 0, NULL), &value);
    stn_tensor *whole = stn_gather_to(t, ranks - 1);
    if (stn_context_rank(context) == ranks - 1) {
        CHECK_I64(stn_tensor_ndim(whole), 0);
        CHECK_STATUS(stn_to_host(whole, &got, sizeof got), STN_OK);
        CHECK_NEAR(got, value, 0);
    } else {
        CHECK_I64(stn_spec_local_numel(stn_tensor_spec(whole)), 0);
    }
    stn_tensor *leaf = stn_detach(stn_from_host_global(
        context, stn_spec_of(test_mesh(context, ranks, 0), STN_DTYPE_F64, "S0", 1, (int64_t[]){1}), &value));
    CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
    CHECK(!stn_requires_grad(stn_gather_to(stn_mul(leaf, leaf), 0)));
    return stn_scope_end(context);
}

static void tensors_without_dims_are_gathered(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, scalar_body, NULL);
}

static void refused(stn_context *context, stn_tensor *got, const char *why)
{
    char text[512];
    CHECK(stn_tensor_is_error(got));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, why);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {2, 3};
    double data[6] = {0};
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *spec = stn_spec_of(test_mesh(context, 2, 0), STN_DTYPE_F64, "R", 2, shape);
    stn_tensor *t = stn_from_host_global(context, spec, data);
    refused(context, stn_gather_to(t, 2), "gather_to: root got 2, wanted a rank of the world, 0 to 1");
    refused(context, stn_gather_to(t, -1), "gather_to: root got -1, wanted a rank of the world, 0 to 1");
    refused(context, stn_gather_to(stn_full_tensor(t), 0), "gather_to: tensor is a local one, wanted one on a mesh");
    refused(context, stn_from_host_global(context, spec, NULL),
            "from_host_global: data got NULL, wanted the whole tensor of 6 elements");
    refused(context, stn_from_host_global(context, NULL, data), "from_host_global: spec got NULL");
    return stn_scope_end(context);
}

static void bad_arguments_are_named(void)
{
    test_ranks(2, refused_body, NULL);
}

/* On every rank alike, the one that gets nothing included. */
static stn_status change_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {ROWS, COLUMNS};
    const int one = 1, root = 0;
    const stn_placement shard = stn_shard(0);
    const stn_mesh *mesh;
    (void)arg;
    CHECK_STATUS(stn_mesh_create(context, 1, &one, NULL, &root, &mesh), STN_OK);
    stn_scope_begin(context);
    stn_tensor *t =
        test_tensor(context, test_mesh(context, 2, 0), &shard, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_tensor *whole = stn_gather_to(t, 0);
    CHECK(!stn_tensor_is_view(whole));
    stn_mul_number_(whole, 2);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    t = test_tensor(context, mesh, &shard, STN_DTYPE_F64, 2, shape, NULL, test_value);
    whole = stn_gather_to(t, 0); /* it was there already */
    CHECK(!stn_tensor_is_view(whole) && stn_mul_number_(whole, 2) == whole);
    if (stn_context_rank(context) == 0) {
        double doubled[ROWS * COLUMNS], before[ROWS * COLUMNS];
        CHECK_STATUS(stn_to_host(whole, doubled, sizeof doubled), STN_OK);
        CHECK_STATUS(stn_to_host(t, before, sizeof before), STN_OK);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            CHECK_NEAR(doubled[i], 2 * test_value(i), 0);
            CHECK_NEAR(before[i], test_value(i), 0);
        }
    }
    return stn_scope_end(context);
}

static void what_was_gathered_may_be_changed_in_place(void)
{
    test_ranks(2, change_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"one_rank_gets_the_whole_of_any_layout", one_rank_gets_the_whole_of_any_layout},
        {"tensors_without_dims_are_gathered", tensors_without_dims_are_gathered},
        {"what_was_gathered_may_be_changed_in_place", what_was_gathered_may_be_changed_in_place},
        {"bad_arguments_are_named", bad_arguments_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
