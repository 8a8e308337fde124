/* Every allocation of meshes, specs and redistributions fails once, in turn, then with all that follow it: always a
 * status with a text, nothing leaked. */
#include "harness.h"

#include "core/counted.h"
#include "core/redistribute/redistribute.h"
#include "core/shard/world.h"

#include <stdio.h>
#include <string.h>

/* From S(0) in uneven pieces through what each part of a redistribution needs: one exchange, a sum made in pieces,
 * another mesh. */
static stn_status move_around(stn_context *context, const stn_mesh *grid, const stn_mesh *half)
{
    static const int64_t shape[] = {60, 5}, rows[] = {0, 40, 20};
    static const int64_t *const sizes[] = {rows, NULL};
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    stn_placement cut[] = {stn_replicate(), stn_shard(0)}, turned[] = {stn_partial(STN_SUM), stn_shard(1)};
    stn_placement whole[] = {stn_replicate(), stn_replicate()}, line[] = {stn_shard(1)};
    const stn_spec *specs[4] = {NULL};
    stn_status status = STN_OK;
    stn_tensor *tensor = NULL, *moved = NULL;
    STNI_TRY_GOTO(stn_spec_create(context, grid, cut, STN_DTYPE_F32, 2, shape, &options, &specs[0]), out);
    STNI_TRY_GOTO(stn_spec_create(context, grid, turned, STN_DTYPE_F32, 2, shape, NULL, &specs[1]), out);
    STNI_TRY_GOTO(stn_spec_create(context, grid, whole, STN_DTYPE_F32, 2, shape, NULL, &specs[2]), out);
    STNI_TRY_GOTO(stn_spec_create(context, half, line, STN_DTYPE_F32, 2, shape, NULL, &specs[3]), out);
    STNI_TRY_GOTO(stni_tensor_create(context, specs[0], &tensor), out);
    for (int i = 1; i < 4; i++) {
        STNI_TRY_GOTO(stni_redistribute(tensor, specs[i], &moved), out);
        stni_tensor_drop(&tensor);
        tensor = moved;
    }
out:
    stni_tensor_drop(&tensor);
    for (int i = 0; i < 4; i++)
        stn_spec_release(&specs[i]);
    return status;
}

static stn_status run_program(stn_context *context)
{
    static const int two_three[] = {2, 3}, three[] = {3}, mixed[] = {5, 0, 2}, axes[] = {1};
    const stn_mesh *grid, *half, *slice;
    STNI_TRY(stn_mesh_create(context, 2, two_three, NULL, NULL, &grid));
    STNI_TRY(stn_mesh_create(context, 1, three, NULL, mixed, &half));
    STNI_TRY(stn_mesh_slice(grid, 1, axes, &slice));
    return move_around(context, grid, half);
}

/* Returns 1 once the program has run without meeting the failure. */
static int fail_at(int64_t n, int for_ever)
{
    char text[STNI_ERROR_TEXT] = "";
    int64_t live = counted_live();
    stn_context *context = world_rank(2, 6);
    counted_fail_at(n, for_ever);
    stn_status status = run_program(context);
    counted_fail_at(0, 0);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status);
    if (status != STN_OK) {
        CHECK_STATUS(status, STN_ERR_MEMORY);
        CHECK(strstr(text, "out of memory") != NULL);
    }
    world_end(context);
    CHECK_I64(counted_live(), live);
    return status == STN_OK;
}

static void every_allocation_that_fails_is_a_status(void)
{
    int failures = 0;
    for (int64_t n = 1; !fail_at(n, 0); n++)
        failures++;
    for (int64_t n = 1; !fail_at(n, 1); n++)
        failures++;
    CHECK(failures > 40);
}

enum { HELD = 8 };

/* Bytes asked of the host for `n` specs on a mesh of world / 2 x 2 ranks, of shapes that differ; sharded over all
 * ranks in balanced pieces, or over the two of axis 1 in the given ones. */
static int64_t bytes_of_specs(int world, const int64_t *rows, int n)
{
    const int sizes[] = {world / 2, 2};
    const int64_t *const given[] = {rows, NULL};
    stn_context *context = world_rank(world / 2, world);
    const stn_placement all[] = {stn_shard(0), stn_shard(0)}, last[] = {stn_replicate(), stn_shard(0)};
    const stn_spec_options options = {.size = sizeof options, .sizes = rows ? given : NULL};
    const stn_mesh *mesh = NULL;
    const stn_spec *specs[HELD] = {NULL};
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, NULL, &mesh), STN_OK);
    const int64_t before = counted_host_bytes();
    for (int i = 0; i < n; i++) {
        const int64_t shape[] = {1000003, 1 + i};
        CHECK_STATUS(stn_spec_create(context, mesh, rows ? last : all, STN_DTYPE_F32, 2, shape, &options, &specs[i]),
                     STN_OK);
    }
    const int64_t bytes = counted_host_bytes() - before;
    for (int i = 0; i < n; i++)
        stn_spec_release(&specs[i]);
    world_end(context);
    return bytes;
}

/* Every rank keeps the pieces of the ranks that share a dim, once for all specs that have them, and of no others. */
static void memory_of_a_spec_does_not_grow_with_the_world(void)
{
    static const int64_t rows[] = {1000000, 3};
    static const int worlds[] = {100, 3000, 100000};
    const int64_t balanced = bytes_of_specs(4, NULL, 1), uneven = bytes_of_specs(4, rows, 1),
                  many = bytes_of_specs(4, rows, HELD);
    CHECK(balanced > 0 && uneven > 0);
    for (int i = 0; i < 3; i++) {
        CHECK_I64(bytes_of_specs(worlds[i], NULL, 1), balanced);
        CHECK_I64(bytes_of_specs(worlds[i], rows, 1), uneven);
        CHECK_I64(bytes_of_specs(worlds[i], rows, HELD), many);
    }
    printf("     bytes: balanced %lld, two uneven pieces %lld\n", (long long)balanced, (long long)uneven);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"memory_of_a_spec_does_not_grow_with_the_world", memory_of_a_spec_does_not_grow_with_the_world},
        {"every_allocation_that_fails_is_a_status", every_allocation_that_fails_is_a_status},
    };
    return TEST_MAIN(argc, argv, cases);
}
