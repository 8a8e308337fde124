/* What each rank holds of a whole tensor: every rank of a fake world is played in turn. */
#include "conform/parts.h"
#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <stdlib.h>
#include <string.h>

enum { RANKS = 6, LAYOUTS = 400 };

static const struct grid grid = {.ndim = 2, .sizes = {2, 3}, .ranks = RANKS};
static const int64_t shape[] = {5, 4};

static stn_context *play(int rank)
{
    stn_comm *comm;
    stn_context *context = NULL;
    if (!CHECK_STATUS(stn_comm_create_fake(rank, RANKS, 0, 0, &comm), STN_OK))
        return NULL;
    const stn_context_options options = {.size = sizeof options, .comm = comm};
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static const stn_mesh *mesh_of(stn_context *context)
{
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, grid.ndim, grid.sizes, NULL, NULL, &mesh), STN_OK);
    return mesh;
}

/* Small whole numbers, on which the shifts are exact, and others, on which they are not. */
static void fill(float *data)
{
    for (int i = 0; i < 20; i++)
        data[i] = i % 2 ? (float)i : 0.1f * (float)i + 1e-7f;
}

/* Adds what rank `rank` holds in layout `index` at its place of the whole, once per replica. */
static int add_rank(int rank, int64_t index, const struct value *value, double *sum, int *holders, int64_t *shifted)
{
    const struct subject subject = {value->dtype, value->ndim, value->shape};
    stn_context *context = play(rank);
    const stn_mesh *mesh = mesh_of(context);
    struct layout layout;
    const stn_spec *spec;
    layouts_nth(&grid, 1, &subject, index % layouts_count(&grid, 1, &subject), &layout);
    layouts_cut(&grid, 1, &subject, (uint64_t)index, &layout);
    if (!CHECK_STATUS(parts_spec(context, mesh, &layout, value->dtype, value->ndim, value->shape, &spec), STN_OK))
        return 0;
    float chunk[20] = {0};
    parts_fill(value, spec, (uint64_t)index, chunk);
    const int64_t *at = stn_spec_local_offset(spec), *local = stn_spec_local_shape(spec);
    int replicas = 1;
    for (int a = 0; a < grid.ndim; a++)
        replicas *= layout.placement[a].kind == STN_PLACE_REPLICATE ? grid.sizes[a] : 1;
    for (int64_t i = 0; i < local[0]; i++)
        for (int64_t j = 0; j < local[1]; j++) {
            const int64_t whole = (at[0] + i) * shape[1] + at[1] + j;
            const float part = chunk[i * local[1] + j];
            sum[whole] += (double)part / replicas;
            holders[whole]++;
            *shifted += part != 0 && part != ((const float *)value->data)[whole];
        }
    stn_spec_release(&spec);
    stn_context_destroy(&context);
    return 1;
}

static void parts_add_up_to_the_whole_in_every_layout(void)
{
    float data[20];
    struct value value = {.dtype = STN_DTYPE_F32, .ndim = 2, .shape = {5, 4}, .numel = 20, .data = data};
    int64_t shifted = 0;
    fill(data);
    for (int64_t index = 0; index < 32; index++) {
        double sum[20] = {0};
        int holders[20] = {0};
        for (int rank = 0; rank < RANKS; rank++)
            if (!add_rank(rank, index, &value, sum, holders, &shifted))
                return;
        for (int i = 0; i < 20; i++) {
            CHECK(holders[i] > 0);
            CHECK_NEAR(sum[i], data[i], 1e-14);
        }
    }
    CHECK(shifted > 0);
}

/* A dual's dual is the spec itself, cuts, axis order and memory order included. */
static void the_dual_of_the_dual_is_the_spec(void)
{
    const struct subject subject = {STN_DTYPE_F32, 2, shape};
    stn_context *context = play(4);
    const stn_mesh *mesh = mesh_of(context);
    const int64_t count = layouts_count(&grid, 1, &subject);
    for (int64_t i = 0; i < LAYOUTS; i++) {
        struct layout layout;
        const stn_spec *spec, *dual, *back;
        layouts_nth(&grid, 1, &subject, i % count, &layout);
        layouts_cut(&grid, 1, &subject, (uint64_t)i, &layout);
        if (!CHECK_STATUS(parts_spec(context, mesh, &layout, STN_DTYPE_F32, 2, shape, &spec), STN_OK))
            return;
        CHECK_STATUS(parts_dual_spec(context, spec, &dual), STN_OK);
        CHECK_STATUS(parts_dual_spec(context, dual, &back), STN_OK);
        CHECK(back == spec);
        for (int a = 0; a < grid.ndim; a++) {
            const int kind = stn_spec_placement(spec, a).kind, dual_kind = stn_spec_placement(dual, a).kind;
            CHECK_I64(dual_kind, kind == STN_PLACE_SHARD     ? kind
                                 : kind == STN_PLACE_PARTIAL ? STN_PLACE_REPLICATE
                                                             : STN_PLACE_PARTIAL);
        }
        CHECK(memcmp(stn_spec_local_shape(dual), stn_spec_local_shape(spec), sizeof shape) == 0);
        stn_spec_release(&spec);
        stn_spec_release(&dual);
        stn_spec_release(&back);
    }
    stn_context_destroy(&context);
}

static void gradients_keep_shards_and_replicate_the_rest(void)
{
    struct layout layout = {.placement = {{STN_PLACE_PARTIAL, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}}};
    const struct layout gradient = parts_gradient_layout(&layout);
    CHECK_I64(gradient.placement[0].kind, STN_PLACE_REPLICATE);
    CHECK_I64(gradient.placement[1].kind, STN_PLACE_SHARD);
    CHECK_I64(gradient.placement[1].dim, 1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"parts_add_up_to_the_whole_in_every_layout", parts_add_up_to_the_whole_in_every_layout},
        {"the_dual_of_the_dual_is_the_spec", the_dual_of_the_dual_is_the_spec},
        {"gradients_keep_shards_and_replicate_the_rest", gradients_keep_shards_and_replicate_the_rest},
    };
    return TEST_MAIN(argc, argv, cases);
}
