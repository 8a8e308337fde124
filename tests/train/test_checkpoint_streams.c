/* Random streams of meshes of some ranks go through a checkpoint: each goes on where it was, wherever it is made. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 6, MOST_RANKS = 6 };

static char path[] = "/tmp/stn-streams-XXXXXX";

/* What ranks drew. */
struct drawn {
    double own[MOST_RANKS][WIDTH], odd[MOST_RANKS][WIDTH];
};

static const stn_mesh *slice_of(const stn_mesh *grid, int axis)
{
    const stn_mesh *own = NULL;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &own), STN_OK);
    return own;
}

/* Three ranks in an order that no steps describe. */
static const stn_mesh *odd_mesh(stn_context *context)
{
    static const int size = 3, ranks[] = {3, 0, 2};
    static const char *const names[] = {"odd"};
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, 1, &size, names, ranks, &mesh), STN_OK);
    return mesh;
}

/* The next numbers of a mesh; nothing on ranks outside. */
static void draw(stn_context *context, const stn_mesh *mesh, double out[WIDTH])
{
    const int64_t shape[] = {WIDTH};
    const stn_placement place = stn_shard(0);
    const stn_spec *spec = NULL;
    if (!stn_mesh_contains_me(mesh))
        return;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, mesh, &place, STN_DTYPE_F64, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *whole = stn_redistribute_to(stn_randn(context, spec), (stn_placement[]){stn_replicate()});
    CHECK_STATUS(stn_to_host(stn_to_local(whole, STN_GRAD_PER_RANK), out, WIDTH * sizeof *out), STN_OK);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_checkpoint checkpoint_of(int64_t step)
{
    return (stn_checkpoint){.size = sizeof(stn_checkpoint), .step = step};
}

/* Groups draw once, twice, … before the save; what each mesh draws after it is kept. */
static stn_status stop_body(stn_context *context, void *arg)
{
    struct drawn *kept = arg;
    const int rank = stn_context_rank(context);
    const stn_mesh *grid = test_mesh(context, 2, 2), *own = slice_of(grid, 1), *odd = odd_mesh(context);
    stn_checkpoint c = checkpoint_of(11);
    stn_context_set_random_state(context, 17, 5);
    stn_mesh_set_random_stream(slice_of(grid, 0), 1000 * (1 + (uint64_t)stn_mesh_coordinate(grid, 1)));
    for (int i = 0; i <= stn_mesh_coordinate(grid, 0); i++)
        draw(context, own, kept->own[rank]);
    draw(context, odd, kept->odd[rank]);
    CHECK_STATUS(stn_checkpoint_save(context, path, &c), STN_OK);
    draw(context, own, kept->own[rank]);
    draw(context, odd, kept->odd[rank]);
    return STN_OK;
}

static stn_status go_on_body(stn_context *context, void *arg)
{
    const struct drawn *kept = arg;
    const int rank = stn_context_rank(context);
    double own[WIDTH] = {0}, odd[WIDTH] = {0};
    uint64_t seed = 0, stream = 0;
    const stn_mesh *grid = test_mesh(context, 2, 2), *before = slice_of(grid, 1);
    stn_checkpoint c = checkpoint_of(0);
    CHECK_STATUS(stn_checkpoint_load(context, path, &c, NULL), STN_OK);
    CHECK_I64(c.step, 11);
    stn_context_random_state(context, &seed, &stream);
    CHECK_I64((int64_t)seed, 17);
    CHECK_I64((int64_t)stream, 5);
    CHECK_I64((int64_t)stn_mesh_random_stream(before), 5 + 1 + stn_mesh_coordinate(grid, 0));
    CHECK_I64((int64_t)stn_mesh_random_stream(slice_of(grid, 0)), 1000 * (1 + stn_mesh_coordinate(grid, 1)));
    draw(context, before, own);
    draw(context, odd_mesh(context), odd); /* made after the load */
    CHECK_BYTES(own, kept->own[rank], sizeof own);
    CHECK_BYTES(odd, kept->odd[rank], sizeof odd); /* zeros outside of the mesh */
    return STN_OK;
}

/* Other slices begin where those of the run began; the one that both have goes on. */
static stn_status elsewhere_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_checkpoint c = checkpoint_of(0);
    CHECK_STATUS(stn_checkpoint_load(context, path, &c, NULL), STN_OK);
    const stn_mesh *wide = slice_of(test_mesh(context, 2, 3), 1);
    const stn_mesh *pair = slice_of(test_mesh(context, 3, 2), 1);
    const int first = stn_mesh_rank_at(pair, &(int){0});
    CHECK_I64((int64_t)stn_mesh_random_stream(wide), 5);
    CHECK_I64((int64_t)stn_mesh_random_stream(pair), first == 0 ? 6 : first == 2 ? 7 : 5);
    stn_context_set_random_state(context, 1, 2); /* forgets what the file told */
    CHECK_I64((int64_t)stn_mesh_random_stream(pair), 2);
    CHECK_I64((int64_t)stn_mesh_random_stream(odd_mesh(context)), 2);
    return STN_OK;
}

/* A run that makes none of the meshes that a file tells of, or does not draw on them, saves what it was told. */
static stn_status pass_on_body(stn_context *context, void *arg)
{
    stn_checkpoint c = checkpoint_of(0);
    (void)arg;
    CHECK_STATUS(stn_checkpoint_load(context, path, &c, NULL), STN_OK);
    if (stn_context_size(context) == 4)
        slice_of(test_mesh(context, 2, 2), 1);
    CHECK_STATUS(stn_checkpoint_save(context, path, &c), STN_OK);
    return STN_OK;
}

static void streams_of_meshes_go_on_where_they_were(void)
{
    struct drawn kept = {0};
    test_ranks(4, stop_body, &kept);
    test_ranks(1, pass_on_body, NULL);
    test_ranks(4, pass_on_body, NULL);
    test_ranks(4, go_on_body, &kept);
    test_ranks(6, elsewhere_body, NULL);
}

/* Files of before know of no meshes: these go on from the stream of all ranks, as they did. Broken ones change
 * nothing. */
static stn_status other_files_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_metadata texts[] = {{"stn.step", "3"}, {"stn.seed", "4"}, {"stn.stream", "9"}, {"stn.stream.x:2+1@0", "many"}};
    uint64_t seed = 0, stream = 0;
    stn_checkpoint c = checkpoint_of(0);
    const stn_mesh *own = slice_of(test_mesh(context, 2, 2), 1);
    CHECK_STATUS(stn_save(context, path, 0, NULL, 3, texts), STN_OK);
    CHECK_STATUS(stn_checkpoint_load(context, path, &c, NULL), STN_OK);
    CHECK_I64((int64_t)stn_mesh_random_stream(own), 9);
    CHECK_STATUS(stn_save(context, path, 0, NULL, 4, texts), STN_OK);
    stn_context_set_random_state(context, 21, 22);
    CHECK_STATUS(stn_checkpoint_load(context, path, &c, NULL), STN_ERR_IO);
    CHECK_ERROR_PART(context, STN_ERR_IO, "metadata 'stn.stream.x:2+1@0' is 'many', wanted a number");
    stn_context_random_state(context, &seed, &stream);
    CHECK_I64((int64_t)seed, 21);
    CHECK_I64((int64_t)stn_mesh_random_stream(own), 22);
    return STN_OK;
}

static void files_without_streams_of_meshes_are_read_as_before(void)
{
    test_ranks(4, other_files_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"streams_of_meshes_go_on_where_they_were", streams_of_meshes_go_on_where_they_were},
        {"files_without_streams_of_meshes_are_read_as_before", files_without_streams_of_meshes_are_read_as_before},
    };
    const int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    const int code = TEST_MAIN(argc, argv, cases);
    unlink(path);
    return code;
}
