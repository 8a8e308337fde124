/* Meshes: coordinates, interning, slices, and what is refused. */
#include "harness.h"

#include "core/shard/mesh.h"
#include "core/shard/world.h"

#include <string.h>

/* Position, coordinates and rank agree in both directions for every member, and no other rank is found. */
static void check_grid(const stn_mesh *mesh, const int *ranks)
{
    int members = 0;
    for (int i = 0; i < mesh->size; i++) {
        int coordinate[STN_MAX_MESH_NDIM];
        CHECK_I64(stni_mesh_rank(mesh, i), ranks[i]);
        CHECK_I64(stni_mesh_position(mesh, ranks[i]), i);
        CHECK(stni_mesh_find(mesh, ranks[i], coordinate));
        CHECK_I64(stn_mesh_rank_at(mesh, coordinate), ranks[i]);
    }
    for (int r = 0; r < mesh->context->size; r++)
        members += stni_mesh_position(mesh, r) >= 0;
    CHECK_I64(members, mesh->size);
}

static void whole_world_counts_in_row_major_order(void)
{
    stn_context *context = world_rank(4, 6);
    static const int sizes[] = {2, 3}, ranks[] = {0, 1, 2, 3, 4, 5};
    static const char *const names[] = {"lat", "lon"};
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, names, NULL, &mesh), STN_OK);
    check_grid(mesh, ranks);
    CHECK(mesh->ranks == NULL);
    CHECK_I64(stn_mesh_size(mesh), 6);
    CHECK_I64(stn_mesh_coordinate(mesh, 0), 1);
    CHECK_I64(stn_mesh_coordinate(mesh, 1), 1);
    CHECK_I64(stn_mesh_axis(mesh, "lon"), 1);
    CHECK_I64(stn_mesh_axis(mesh, "level"), -1);
    CHECK_STR(stn_mesh_axis_name(mesh, 0), "lat");
    CHECK(stn_mesh_axis_name(mesh, 2) == NULL);
    CHECK_I64(stn_mesh_axis_size(mesh, 1), 3);
    CHECK_I64(stn_mesh_axis_size(mesh, -1), 0);
    int outside[] = {2, 0};
    CHECK_I64(stn_mesh_rank_at(mesh, outside), -1);
    world_end(context);
}

static void lists_that_steps_describe_store_no_list(void)
{
    stn_context *context = world_rank(0, 24);
    static const int sizes[] = {2, 3}, line[] = {6};
    static const int offset[] = {3, 4, 5, 6, 7, 8}, transposed[] = {0, 2, 4, 1, 3, 5},
                     every_third[] = {2, 5, 8, 11, 14, 17};
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, offset, &mesh), STN_OK);
    CHECK(mesh->ranks == NULL);
    check_grid(mesh, offset);
    CHECK_I64(stn_mesh_contains_me(mesh), 0);
    CHECK_I64(stn_mesh_coordinate(mesh, 0), -1);
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, transposed, &mesh), STN_OK);
    CHECK(mesh->ranks == NULL);
    check_grid(mesh, transposed);
    CHECK_STATUS(stn_mesh_create(context, 1, line, NULL, every_third, &mesh), STN_OK);
    CHECK(mesh->ranks == NULL);
    check_grid(mesh, every_third);
    world_end(context);
}

static void any_list_of_ranks_is_a_mesh(void)
{
    stn_context *context = world_rank(3, 24);
    static const int sizes[] = {2, 3}, four[] = {2, 2};
    static const int mixed[] = {9, 3, 20, 1, 0, 23}, down[] = {5, 4, 3, 2, 1, 0}, crossing[] = {0, 3, 2, 5};
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, mixed, &mesh), STN_OK);
    check_grid(mesh, mixed);
    CHECK_I64(stn_mesh_coordinate(mesh, 1), 1);
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, down, &mesh), STN_OK);
    check_grid(mesh, down);
    /* steps 2 and 3 give distinct ranks, but the larger step does not tell the coordinate */
    CHECK_STATUS(stn_mesh_create(context, 2, four, NULL, crossing, &mesh), STN_OK);
    check_grid(mesh, crossing);
    world_end(context);
}

static void equal_meshes_are_one(void)
{
    stn_context *context = world_rank(0, 6);
    static const int sizes[] = {2, 3}, ranks[] = {0, 1, 2, 3, 4, 5};
    static const char *const names[] = {"a", "b"}, *const plain[] = {"0", "1"};
    const stn_mesh *a, *b, *c;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, NULL, &a), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, plain, ranks, &b), STN_OK);
    CHECK(a == b);
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, names, NULL, &c), STN_OK);
    CHECK(a != c);
    CHECK(stni_mesh_same_grid(a, c));
    CHECK_I64(context->shard.n_meshes, 2);
    world_end(context);
}

static void axes_of_one_rank_do_not_change_the_grid(void)
{
    stn_context *context = world_rank(0, 6);
    static const int flat[] = {2, 3}, padded[] = {2, 1, 3, 1}, turned[] = {3, 2};
    const stn_mesh *a, *b, *c;
    CHECK_STATUS(stn_mesh_create(context, 2, flat, NULL, NULL, &a), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 4, padded, NULL, NULL, &b), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 2, turned, NULL, NULL, &c), STN_OK);
    CHECK(stni_mesh_same_grid(a, b));
    CHECK(!stni_mesh_same_grid(a, c));
    world_end(context);
}

static void slice_fixes_the_other_axes_at_this_rank(void)
{
    stn_context *context = world_rank(17, 24);
    static const int sizes[] = {2, 3, 4}, axes[] = {0, 2}, last[] = {1};
    const stn_mesh *mesh, *slice, *line;
    CHECK_STATUS(stn_mesh_create(context, 3, sizes, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_mesh_slice(mesh, 2, axes, &slice), STN_OK); /* 17 = (1, 1, 1) */
    static const int wanted[] = {4, 5, 6, 7, 16, 17, 18, 19};
    check_grid(slice, wanted);
    CHECK_STR(stn_mesh_axis_name(slice, 1), "2");
    CHECK_STATUS(stn_mesh_slice(mesh, 1, last, &line), STN_OK);
    static const int column[] = {13, 17, 21};
    check_grid(line, column);
    world_end(context);

    context = world_rank(23, 24);
    static const int small[] = {2, 2}, first[] = {1};
    CHECK_STATUS(stn_mesh_create(context, 2, small, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_mesh_slice(mesh, 1, first, &line), STN_OK);
    static const int row[] = {0, 1};
    check_grid(line, row);
    world_end(context);
}

struct refusal {
    int ndim;
    const int *sizes;
    const char *const *names;
    const int *ranks;
    const char *text;
};

static void bad_arguments_are_named(void)
{
    stn_context *context = world_rank(0, 6);
    static const int good[] = {2, 3}, zero[] = {2, 0}, large[] = {2, 4}, huge[] = {1 << 30, 1 << 30};
    static const int twice[] = {0, 1, 2, 3, 1, 5}, beyond[] = {0, 1, 2, 3, 4, 6};
    static const char *const same[] = {"a", "a"}, *const lengthy[] = {"a", "0123456789abcdef"},
                             *const empty[] = {"", "b"};
    static const struct refusal refusals[] = {
        {0, good, NULL, NULL, "stn_mesh_create: ndim is 0, wanted 1 to 8"},
        {2, NULL, NULL, NULL, "stn_mesh_create: sizes is NULL, wanted 2 sizes"},
        {2, zero, NULL, NULL, "stn_mesh_create: sizes[1] is 0, wanted at least 1"},
        {2, large, NULL, NULL, "stn_mesh_create: sizes ask for 8 ranks or more, wanted at most 6 in all"},
        {2, huge, NULL, NULL, "stn_mesh_create: sizes ask for 1073741824 ranks or more, wanted at most 6 in all"},
        {2, good, same, NULL, "stn_mesh_create: names[1] is \"a\" as is names[0], wanted distinct names"},
        {2, good, lengthy, NULL, "stn_mesh_create: names[1] has 16 bytes, wanted 1 to 15"},
        {2, good, empty, NULL, "stn_mesh_create: names[0] has 0 bytes, wanted 1 to 15"},
        {2, good, NULL, twice, "stn_mesh_create: ranks[4] is 1 a second time, wanted each rank at most once"},
        {2, good, NULL, beyond, "stn_mesh_create: ranks[5] is 6, wanted 0 to 5"},
    };
    const stn_mesh *mesh = NULL, *made;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        CHECK_STATUS(stn_mesh_create(context, r->ndim, r->sizes, r->names, r->ranks, &mesh), STN_ERR_ARGUMENT);
        CHECK_STATUS(stn_mesh_create(context, 2, good, NULL, NULL, &made), STN_OK); /* a failure's ranks have their meshes */
        CHECK_STATUS(stn_mesh_slice(made, 1, (int[]){1}, &made), STN_OK);
        CHECK_STR(world_error(context), r->text);
    }
    CHECK(mesh == NULL);
    CHECK_STATUS(stn_mesh_create(context, 2, good, NULL, NULL, &mesh), STN_OK);
    static const int axes[] = {1, 1};
    const stn_mesh *slice = NULL;
    CHECK_STATUS(stn_mesh_slice(mesh, 2, axes, &slice), STN_ERR_ARGUMENT);
    CHECK_STR(world_error(context), "stn_mesh_slice: axes[1] is 1, wanted distinct axes from 0 to 1");
    CHECK(slice == NULL);
    CHECK_STATUS(stn_mesh_create(NULL, 2, good, NULL, NULL, &mesh), STN_ERR_ARGUMENT);
    world_end(context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"whole_world_counts_in_row_major_order", whole_world_counts_in_row_major_order},
        {"lists_that_steps_describe_store_no_list", lists_that_steps_describe_store_no_list},
        {"any_list_of_ranks_is_a_mesh", any_list_of_ranks_is_a_mesh},
        {"equal_meshes_are_one", equal_meshes_are_one},
        {"axes_of_one_rank_do_not_change_the_grid", axes_of_one_rank_do_not_change_the_grid},
        {"slice_fixes_the_other_axes_at_this_rank", slice_fixes_the_other_axes_at_this_rank},
        {"bad_arguments_are_named", bad_arguments_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
