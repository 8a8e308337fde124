/* Every allocation of meshes, specs and redistributions fails once, in turn, then with all that follow it: always a status with a text,
 * nothing leaked. */
#include "harness.h"

#include "core/counted.h"
#include "core/redistribute/redistribute.h"
#include "core/shard/world.h"

#include <string.h>

/* From S(0) in uneven pieces through what each part of a redistribution needs: one exchange, a sum made in pieces, another mesh. */
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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_allocation_that_fails_is_a_status", every_allocation_that_fails_is_a_status},
    };
    return TEST_MAIN(argc, argv, cases);
}
