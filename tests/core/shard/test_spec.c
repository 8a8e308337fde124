/* Specs: canonical form, interning, chunks, text, and what is refused. */
#include "harness.h"

#include "core/shard/spec.h"
#include "core/tensor/scope.h"
#include "core/shard/random_spec.h"
#include "core/shard/world.h"

#include <stdio.h>
#include <string.h>

static const int64_t globe[] = {73, 144};

static const stn_mesh *grid(stn_context *context, int rows, int columns)
{
    static const char *const names[] = {"lat", "lon"};
    int sizes[] = {rows, columns};
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, names, NULL, &mesh), STN_OK);
    return mesh;
}

static const stn_mesh *line(stn_context *context, int n)
{
    static const char *const names[] = {"lat"};
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, 1, &n, names, NULL, &mesh), STN_OK);
    return mesh;
}

static const stn_spec *globe_spec(stn_context *context, const stn_mesh *mesh, const stn_placement *placements,
                                  const stn_spec_options *options)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, STN_DTYPE_F32, 2, globe, options, &spec), STN_OK);
    return spec;
}

static void check_chunk(const stn_spec *spec, int rank, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    int64_t shape[2], offset[2];
    stn_spec_chunk(spec, rank, shape, offset);
    CHECK_I64(shape[0], rows);
    CHECK_I64(shape[1], columns);
    CHECK_I64(offset[0], row);
    CHECK_I64(offset[1], column);
}

static void chunks_of_a_grid_are_products_of_cuts(void)
{
    stn_context *context = world_rank(5, 8);
    stn_placement placements[] = {stn_shard(0), stn_shard(1)};
    const stn_spec *spec = globe_spec(context, grid(context, 2, 3), placements, NULL);
    check_chunk(spec, 0, 37, 48, 0, 0);
    check_chunk(spec, 4, 36, 48, 37, 48);
    CHECK_I64(stn_spec_local_shape(spec)[0], 36);
    CHECK_I64(stn_spec_local_offset(spec)[1], 96);
    CHECK_I64(stn_spec_local_numel(spec), 36 * 48);
    CHECK_I64(stn_spec_numel(spec), 73 * 144);
    CHECK_I64(spec->shard_axes, 3);
    check_chunk(spec, 6, 0, 0, 0, 0); /* outside the mesh */
    stn_spec_release(&spec);
    CHECK(spec == NULL);
    world_end(context);
}

static void two_axes_on_one_dim_cut_in_either_order(void)
{
    stn_context *context = world_rank(1, 6);
    stn_placement placements[] = {stn_shard(0), stn_shard(0)};
    static const int reversed[] = {1, 0};
    stn_spec_options options = {.size = sizeof options, .axis_order = reversed};
    const stn_spec *rows_major = globe_spec(context, grid(context, 2, 3), placements, NULL);
    const stn_spec *columns_major = globe_spec(context, grid(context, 2, 3), placements, &options);
    CHECK(rows_major != columns_major);
    /* 73 = 37 + 36, 37 = 13 + 12 + 12, 36 = 12 + 12 + 12 */
    check_chunk(rows_major, 1, 12, 144, 13, 0);
    check_chunk(rows_major, 3, 12, 144, 37, 0);
    /* 73 = 25 + 24 + 24, 25 = 13 + 12 */
    check_chunk(columns_major, 1, 12, 144, 25, 0);
    check_chunk(columns_major, 3, 12, 144, 13, 0);
    CHECK(!stni_spec_same_chunks(rows_major, columns_major));
    world_end(context);
}

static void specs_that_mean_the_same_are_the_same_pointer(void)
{
    stn_context *context = world_rank(0, 6);
    const stn_mesh *mesh = grid(context, 2, 3);
    stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    stn_placement odd = stn_replicate();
    odd.dim = 1;
    odd.op = 3;
    odd.unused = 9;
    stn_placement untidy[] = {odd, stn_shard(0)};
    static const int order[] = {1, 0};
    static const int64_t balanced[] = {25, 24, 24};
    const int64_t *const sizes[] = {balanced, NULL};
    stn_spec_options options = {.size = sizeof options, .axis_order = order, .sizes = sizes};
    const stn_spec *a = globe_spec(context, mesh, placements, NULL), *b = globe_spec(context, mesh, untidy, &options);
    CHECK(a == b);
    CHECK_I64(atomic_load(&a->held), 2);
    CHECK_I64(context->shard.n_specs, 1);
    world_end(context);
}

static void axes_of_one_rank_are_replicated(void)
{
    stn_context *context = world_rank(0, 6);
    stn_placement sharded[] = {stn_shard(1), stn_shard(0)}, partial[] = {stn_partial(STN_MAX), stn_shard(0)};
    const stn_mesh *mesh = grid(context, 1, 3);
    const stn_spec *a = globe_spec(context, mesh, sharded, NULL), *b = globe_spec(context, mesh, partial, NULL);
    CHECK(a == b);
    CHECK_I64(stn_spec_placement(a, 0).kind, STN_PLACE_REPLICATE);
    CHECK_I64(stn_spec_placement(a, 1).kind, STN_PLACE_SHARD);
    CHECK_I64(stn_spec_placement(a, 7).kind, STN_PLACE_REPLICATE);
    CHECK(a->layout.split[1] == NULL);
    world_end(context);
}

static void dims_of_one_element_stand_last_in_memory_order(void)
{
    stn_context *context = world_rank(0, 1);
    static const int64_t shape[] = {1, 5, 1, 7};
    static const int channels_last[] = {0, 3, 2, 1};
    stn_spec_options options = {.size = sizeof options, .memory_order = channels_last};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 4, shape, &options, &spec), STN_OK);
    static const uint8_t wanted[] = {3, 1, 0, 2};
    CHECK_BYTES(stn_spec_memory_order(spec), wanted, 4);
    CHECK_I64(spec->strides[3], 5);
    CHECK_I64(spec->strides[1], 1);
    world_end(context);
}

static void explicit_sizes_place_the_chunks(void)
{
    stn_context *context = world_rank(2, 3);
    stn_placement placements[] = {stn_shard(0)};
    static const int64_t rows[] = {70, 0, 3};
    const int64_t *const sizes[] = {rows, NULL};
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec = globe_spec(context, line(context, 3), placements, &options);
    check_chunk(spec, 0, 70, 144, 0, 0);
    check_chunk(spec, 1, 0, 144, 70, 0);
    check_chunk(spec, 2, 3, 144, 70, 0);
    CHECK_I64(spec->local_numel, 3 * 144);
    CHECK_I64(spec->layout.split[0]->refs, 1);
    world_end(context);
}

static void ranks_outside_the_mesh_hold_nothing(void)
{
    stn_context *context = world_rank(3, 4);
    stn_placement placements[] = {stn_replicate()};
    const stn_spec *spec, *scalar, *chunk;
    spec = globe_spec(context, line(context, 2), placements, NULL);
    CHECK_I64(spec->local_numel, 0);
    CHECK_I64(spec->local_shape[0], 0);
    CHECK_STATUS(stn_spec_create(context, line(context, 2), placements, STN_DTYPE_F32, 0, NULL, NULL, &scalar), STN_OK);
    CHECK_I64(scalar->numel, 1);
    CHECK_I64(scalar->local_numel, 0);
    CHECK_STATUS(stni_spec_of_chunk(spec, &chunk), STN_OK);
    CHECK_I64(chunk->local_numel, 0);
    world_end(context);
}

static void chunk_as_a_local_tensor_keeps_memory_order(void)
{
    stn_context *context = world_rank(1, 3);
    stn_placement placements[] = {stn_shard(0)};
    static const int order[] = {1, 0};
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *chunk;
    CHECK_STATUS(stni_spec_of_chunk(globe_spec(context, line(context, 3), placements, &options), &chunk), STN_OK);
    CHECK(chunk->layout.mesh == NULL);
    CHECK_I64(chunk->layout.shape[0], 24);
    CHECK_I64(chunk->strides[0], 1);
    CHECK_I64(chunk->strides[1], 24);
    world_end(context);
}

static void edited_layouts_get_balanced_splits(void)
{
    stn_context *context = world_rank(0, 6);
    stn_placement placements[] = {stn_shard(0), stn_replicate()};
    static const int64_t rows[] = {70, 3};
    const int64_t *const sizes[] = {rows, NULL};
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec = globe_spec(context, grid(context, 2, 3), placements, &options), *other;
    struct stni_layout layout = spec->layout;
    layout.placement[1] = stn_shard(1);
    CHECK_STATUS(stni_spec_intern(context, &layout, &other), STN_OK);
    CHECK(other->layout.split[0] == spec->layout.split[0]);
    CHECK_I64(other->local_shape[1], 48);
    layout.placement[1] = stn_shard(0); /* the explicit cut has one level: it does not fit two axes */
    CHECK_STATUS(stni_spec_intern(context, &layout, &other), STN_OK);
    CHECK_I64(other->local_shape[0], 13);
    world_end(context);
}

static void same_chunks_ignores_names_and_axes_of_one_rank(void)
{
    stn_context *context = world_rank(0, 6);
    static const int padded[] = {1, 2, 3};
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 3, padded, NULL, NULL, &mesh), STN_OK);
    stn_placement flat[] = {stn_shard(1), stn_partial(STN_SUM)};
    stn_placement deep[] = {stn_replicate(), stn_shard(1), stn_partial(STN_SUM)};
    stn_placement other[] = {stn_replicate(), stn_shard(1), stn_partial(STN_AVG)};
    const stn_spec *a = globe_spec(context, grid(context, 2, 3), flat, NULL);
    CHECK(stni_spec_same_chunks(a, globe_spec(context, mesh, deep, NULL)));
    CHECK(!stni_spec_same_chunks(a, globe_spec(context, mesh, other, NULL)));
    CHECK(!stni_spec_same_chunks(a, globe_spec(context, NULL, NULL, NULL)));
    world_end(context);
}

static void unused_specs_are_collected_and_used_ones_stay(void)
{
    stn_context *context = world_rank(0, 3);
    const stn_mesh *mesh = line(context, 3);
    stn_placement placements[] = {stn_shard(0)};
    const stn_spec *kept = globe_spec(context, mesh, placements, NULL);
    for (int64_t n = 0; n < 2000; n++) {
        struct stni_layout layout = kept->layout;
        const stn_spec *spec;
        layout.shape[0] = n;
        CHECK_STATUS(stni_spec_intern(context, &layout, &spec), STN_OK);
    }
    CHECK_I64(context->shard.n_specs, 2000);
    stni_shard_collect(context, 0);
    CHECK_I64(context->shard.n_specs, 1);
    CHECK_I64(context->shard.n_splits, 1);
    CHECK(globe_spec(context, mesh, placements, NULL) == kept);
    world_end(context);
}

static void describe_writes_layouts_for_people(void)
{
    stn_context *context = world_rank(0, 24);
    char text[200];
    stn_placement rows[] = {stn_shard(0)};
    const stn_spec *spec = globe_spec(context, line(context, 3), rows, NULL);
    stn_spec_describe(spec, text, sizeof text);
    CHECK_STR(text, "f32 (73, 144) on lat=3: Shard(0) sizes 25 24 24");
    CHECK_I64(stn_spec_describe(spec, text, 10), (int64_t)strlen("f32 (73, 144) on lat=3: Shard(0) sizes 25 24 24"));
    CHECK_STR(text, "f32 (73, ");
    stn_placement both[] = {stn_shard(0), stn_shard(0)}, mixed[] = {stn_partial(STN_MIN), stn_replicate()};
    static const int reversed[] = {1, 0};
    stn_spec_options options = {.size = sizeof options, .axis_order = reversed, .memory_order = reversed};
    stn_spec_describe(globe_spec(context, grid(context, 2, 3), both, &options), text, sizeof text);
    CHECK_STR(text,
              "f32 (73, 144) on lat=2 lon=3: Shard(0) within lon sizes 13 12 12 12 12 12, Shard(0), memory order 1 0");
    stn_spec_describe(globe_spec(context, grid(context, 2, 3), mixed, NULL), text, sizeof text);
    CHECK_STR(text, "f32 (73, 144) on lat=2 lon=3: Partial(min), Replicate");
    stn_spec_describe(globe_spec(context, line(context, 24), rows, NULL), text, sizeof text);
    CHECK_STR(text, "f32 (73, 144) on lat=24: Shard(0) sizes 4 3 3 3 3 3 3 3 ... (24 pieces, balanced)");
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 0, NULL, NULL, &spec), STN_OK);
    stn_spec_describe(spec, text, sizeof text);
    CHECK_STR(text, "i64 () local");
    world_end(context);
}

struct refusal {
    const stn_placement *placements;
    int ndim;
    int dtype;
    const int64_t *shape;
    const stn_spec_options *options;
    stn_status status;
    const char *text;
};

static void bad_arguments_are_named(void)
{
    stn_context *context = world_rank(0, 3);
    const stn_mesh *mesh = line(context, 3);
    static const int64_t negative[] = {73, -1}, vast[] = {INT64_MAX / 2, 3};
    static const int64_t few[] = {25, 24, 21}, below[] = {80, -7, 0}, one[] = {144}, two[] = {143};
    const int64_t *const few_sizes[] = {few, NULL}, *const below_sizes[] = {below, NULL}, *const ok[] = {NULL, one},
                         *const unsharded[] = {NULL, two};
    static const int twice[] = {1, 1};
    stn_placement rows[] = {stn_shard(0)}, deep[] = {stn_shard(2)}, odd[] = {stn_partial((stn_reduce_op)5)},
                  wide[] = {stn_shard(256)}, wide_op[] = {stn_partial((stn_reduce_op)256)}, kind[] = {{3, 0, 0, 0}};
    stn_spec_options sizes = {.size = sizeof sizes, .sizes = few_sizes},
                     less = {.size = sizeof less, .sizes = below_sizes},
                     order = {.size = sizeof order, .memory_order = twice}, none = {0},
                     whole = {.size = sizeof whole, .sizes = ok}, part = {.size = sizeof part, .sizes = unsharded};
    const struct refusal refusals[] = {
        {rows, 9, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT, "stn_spec_create: ndim is 9, wanted 0 to 8"},
        {rows, 2, STN_DTYPE_COUNT, globe, NULL, STN_ERR_ARGUMENT, "stn_spec_create: dtype is 12, wanted 0 to 11"},
        {rows, 2, STN_DTYPE_F32, NULL, NULL, STN_ERR_ARGUMENT, "stn_spec_create: shape is NULL, wanted 2 lengths"},
        {rows, 2, STN_DTYPE_F32, negative, NULL, STN_ERR_ARGUMENT,
         "stn_spec_create: shape[1] is -1, wanted at least 0"},
        {NULL, 2, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT,
         "stn_spec_create: placements is NULL, wanted one for each of 1 axes"},
        {deep, 2, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT,
         "stn_spec_create: placements[0] shards dim 2, wanted 0 to 1"},
        {wide, 2, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT,
         "stn_spec_create: placements[0] shards dim -1, wanted 0 to 1"},
        {odd, 2, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT, "stn_spec_create: placements[0].op is 5, wanted 0 to 4"},
        {wide_op, 2, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT,
         "stn_spec_create: placements[0].op is 255, wanted 0 to 4"},
        {kind, 2, STN_DTYPE_F32, globe, NULL, STN_ERR_ARGUMENT,
         "stn_spec_create: placements[0].kind is 3, wanted 0 to 2"},
        {rows, 2, STN_DTYPE_F32, globe, &none, STN_ERR_ARGUMENT, NULL},
        {rows, 2, STN_DTYPE_F32, globe, &sizes, STN_ERR_SHAPE,
         "stn_spec_create: sizes[0] add up to 70, wanted shape[0] = 73"},
        {rows, 2, STN_DTYPE_F32, globe, &less, STN_ERR_ARGUMENT,
         "stn_spec_create: sizes[0][1] is -7, wanted at least 0"},
        {rows, 2, STN_DTYPE_F32, globe, &part, STN_ERR_SHAPE,
         "stn_spec_create: sizes[1] add up to 143, wanted shape[1] = 144"},
        {rows, 2, STN_DTYPE_F32, globe, &order, STN_ERR_ARGUMENT,
         "stn_spec_create: memory_order[1] is 1, wanted each of 0 to 1 once"},
        {rows, 2, STN_DTYPE_F32, vast, NULL, STN_ERR_SHAPE,
         "spec: shape[0] to shape[0] give more than 2^63 - 1 bytes of f32, wanted fewer"},
    };
    const stn_spec *spec = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        CHECK_STATUS(
            stn_spec_create(context, mesh, r->placements, (stn_dtype)r->dtype, r->ndim, r->shape, r->options, &spec),
            r->status);
        const char *text = world_error(context);
        CHECK_STR(text, r->text == NULL ? text : r->text);
    }
    CHECK(spec == NULL);
    CHECK_STATUS(stn_spec_create(context, mesh, rows, STN_DTYPE_F32, 2, globe, &whole, &spec), STN_OK);
    CHECK_STATUS(stn_spec_create(context, NULL, rows, STN_DTYPE_F32, 2, globe, NULL, &spec), STN_ERR_ARGUMENT);
    world_error(context);
    CHECK_STATUS(stn_spec_create(NULL, mesh, rows, STN_DTYPE_F32, 2, globe, NULL, &spec), STN_ERR_ARGUMENT);
    world_end(context);
}

static void texts_of_all_specs_give_the_same_specs(void)
{
    enum { ROUNDS = 3000 };
    uint64_t state = 5;
    int elided = 0;
    stn_context *context = world_rank(1, 12);
    for (int round = 0; round < ROUNDS; round++) {
        struct random_shape shape;
        char text[1024];
        stn_scope_begin(context);
        random_shape(&state, &shape);
        const stn_mesh *mesh = random_mesh(&state, context);
        const stn_spec *spec = random_spec(&state, context, mesh, &shape, STN_DTYPE_F64, 31);
        stn_spec_describe(spec, text, sizeof text);
        const char *placements = strchr(text, ':') + 1;
        if (strstr(text, "pieces)")) { /* not all of the sizes are there */
            elided++;
            CHECK(stn_spec_of(mesh, STN_DTYPE_F64, placements, shape.ndim, shape.shape) == NULL);
            CHECK(strstr(world_error(context), "all sizes") != NULL);
        } else if (!CHECK(stn_spec_of(mesh, STN_DTYPE_F64, placements, shape.ndim, shape.shape) == spec)) {
            fprintf(stderr, "  %s: %s\n", text, stn_context_error_text(context));
            world_error(context);
        }
        stn_spec_release(&spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK(elided > 0 && elided < ROUNDS / 10);
    world_end(context);
}

static void short_texts_are_specs_that_the_scope_owns(void)
{
    static const stn_placement rows[][2] = {{STN_S(0), STN_R},
                                            {STN_R, STN_S(1)},
                                            {STN_S(1), STN_S(1)},
                                            {{STN_PLACE_PARTIAL, 0, STN_SUM, 0}, STN_S(0)},
                                            {{STN_PLACE_PARTIAL, 0, STN_MAX, 0}, STN_R}};
    static const char *const texts[][3] = {{"S0,R", "Shard(0), Replicate", " S(0) , R "},
                                           {"R,S1", "Replicate, Shard(1)", "R , S 1"},
                                           {"S1,S1", "Shard(1), Shard(1) within lat", "S(1),Shard(1)"},
                                           {"P,S0", "Partial(sum), Shard(0)", "P(sum),S0"},
                                           {"P(max),R", "Partial(max),R", "P( max ),R"}};
    stn_context *context = world_rank(0, 6);
    const stn_mesh *mesh = grid(context, 2, 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const stn_spec *wanted = globe_spec(context, mesh, rows[i], NULL);
        const int64_t held = atomic_load(&wanted->held);
        stn_scope_begin(context);
        for (int k = 0; k < 3; k++)
            if (!CHECK(stn_spec_of(mesh, STN_DTYPE_F32, texts[i][k], 2, globe) == wanted))
                fprintf(stderr, "  \"%s\": %s\n", texts[i][k], world_error(context));
        CHECK_I64(atomic_load(&wanted->held), held + 3);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        CHECK_I64(atomic_load(&wanted->held), held);
        const stn_spec *own = stn_spec_of(mesh, STN_DTYPE_F32, texts[i][0], 2, globe);
        CHECK_I64(atomic_load(&wanted->held), held + 1);
        stn_spec_release(&own);
        stn_spec_release(&wanted);
    }
    CHECK_I64(stn_placement_shard(3).dim, 3);
    CHECK_I64(stn_placement_replicate().kind, STN_PLACE_REPLICATE);
    CHECK_I64(stn_placement_partial(STN_AVG).op, STN_AVG);
    world_end(context);
}

static void texts_that_are_no_placements_are_refused_at_their_place(void)
{
    static const struct { const char *text; int ndim; const char *why; } rows[] = {
        {"", 2, "\"\": it ends before character 1, wanted R, S and a dim, or P"},
        {"S0", 2, "it ends before character 3, wanted ',' and the placement of axis lon"},
        {"S0,Q", 2, "\"S0,Q\": character 4 is 'Q', wanted R, S and a dim, or P"},
        {"S0 R", 2, "character 4 is 'R', wanted ',' and"},
        {"S0,R,R", 2, "character 5 is ',', wanted its end"},
        {"S2,R", 2, "character 2 is '2', wanted a dim, 0 to 1"},
        {"S-1,R", 2, "character 2 is '-', wanted a dim"},
        {"S99999999999999999999,R", 2, "character 2 is '9', wanted a dim"},
        {"S0,R", 0, "a tensor of 0 dims has none to cut"},
        {"Shard(0,R", 2, "character 8 is ',', wanted ')'"},
        {"P(sam),R", 2, "character 3 is 's', wanted sum, avg, prod, min or max"},
        {"P(sum,R", 2, "character 6 is ',', wanted ')'"},
        {"S0 within nobody,R", 2, "character 11 is 'n', wanted an axis of the mesh"},
        {"S0 within lon,S0 within lat", 2, "axes are within each other"},
        {"S0 sizes 40 33 1,R", 2, "3 sizes of dim 0, wanted 2"},
        {"S0 sizes 1 1 1 1 1 1 67,R", 2, "character 22 is '6', wanted at most 6 sizes, as the mesh has so many ranks"},
        {"S0 sizes,R", 2, "character 9 is ',', wanted a size"},
        {"S0 sizes 40 20,R", 2, "sizes[0] add up to 60, wanted shape[0] = 73"},
        {"R,R, memory order 0 0", 2, "memory_order[1] is 0"},
        {"R,R, memory order 0", 2, "it ends before character 20, wanted a dim"},
        {"S0,R", 9, "ndim got 9"},
        {NULL, 2, "placements got NULL"},
    };
    stn_context *context = world_rank(0, 6);
    const stn_mesh *mesh = grid(context, 2, 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(stn_spec_of(mesh, STN_DTYPE_F32, rows[i].text, rows[i].ndim, globe) == NULL);
        const char *got = world_error(context);
        if (!CHECK(strstr(got, rows[i].why) != NULL))
            fprintf(stderr, "  got %s, wanted %s\n", got, rows[i].why);
    }
    CHECK(stn_spec_of(NULL, STN_DTYPE_F32, "R", 2, globe) == NULL);
    world_end(context);
}

/* What a caller has who asks an error tensor for its spec. */
static void no_spec_and_no_mesh_have_nothing(void)
{
    char text[40];
    int64_t chunk[] = {7};
    const int at[] = {0};
    CHECK_I64(stn_spec_ndim(NULL), 0);
    CHECK_I64(stn_spec_dtype(NULL), STN_DTYPE_F32);
    CHECK_I64(stn_spec_numel(NULL), 0);
    CHECK_I64(stn_spec_local_numel(NULL), 0);
    CHECK_I64(stn_spec_shape(NULL)[0], 0);
    CHECK_I64(stn_spec_local_shape(NULL)[0], 0);
    CHECK_I64(stn_spec_local_offset(NULL)[0], 0);
    CHECK_I64(stn_spec_axis_order(NULL)[0], 0);
    CHECK_I64(stn_spec_memory_order(NULL)[0], 0);
    CHECK_I64(stn_spec_placement(NULL, 0).kind, STN_PLACE_REPLICATE);
    CHECK(stn_spec_mesh(NULL) == NULL);
    CHECK(stn_spec_retain(NULL) == NULL);
    stn_spec_chunk(NULL, 0, chunk, NULL);
    CHECK_I64(chunk[0], 7);
    stn_spec_describe(NULL, text, sizeof text);
    CHECK_STR(text, "no spec");
    CHECK_I64(stn_mesh_ndim(NULL), 0);
    CHECK_I64(stn_mesh_size(NULL), 0);
    CHECK_I64(stn_mesh_axis_size(NULL, 0), 0);
    CHECK(stn_mesh_axis_name(NULL, 0) == NULL);
    CHECK_I64(stn_mesh_axis(NULL, "lat"), -1);
    CHECK_I64(stn_mesh_contains_me(NULL), 0);
    CHECK_I64(stn_mesh_coordinate(NULL, 0), -1);
    CHECK_I64(stn_mesh_rank_at(NULL, at), -1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"texts_of_all_specs_give_the_same_specs", texts_of_all_specs_give_the_same_specs},
        {"short_texts_are_specs_that_the_scope_owns", short_texts_are_specs_that_the_scope_owns},
        {"texts_that_are_no_placements_are_refused_at_their_place",
         texts_that_are_no_placements_are_refused_at_their_place},
        {"chunks_of_a_grid_are_products_of_cuts", chunks_of_a_grid_are_products_of_cuts},
        {"two_axes_on_one_dim_cut_in_either_order", two_axes_on_one_dim_cut_in_either_order},
        {"specs_that_mean_the_same_are_the_same_pointer", specs_that_mean_the_same_are_the_same_pointer},
        {"axes_of_one_rank_are_replicated", axes_of_one_rank_are_replicated},
        {"dims_of_one_element_stand_last_in_memory_order", dims_of_one_element_stand_last_in_memory_order},
        {"explicit_sizes_place_the_chunks", explicit_sizes_place_the_chunks},
        {"ranks_outside_the_mesh_hold_nothing", ranks_outside_the_mesh_hold_nothing},
        {"chunk_as_a_local_tensor_keeps_memory_order", chunk_as_a_local_tensor_keeps_memory_order},
        {"edited_layouts_get_balanced_splits", edited_layouts_get_balanced_splits},
        {"same_chunks_ignores_names_and_axes_of_one_rank", same_chunks_ignores_names_and_axes_of_one_rank},
        {"unused_specs_are_collected_and_used_ones_stay", unused_specs_are_collected_and_used_ones_stay},
        {"describe_writes_layouts_for_people", describe_writes_layouts_for_people},
        {"bad_arguments_are_named", bad_arguments_are_named},
        {"no_spec_and_no_mesh_have_nothing", no_spec_and_no_mesh_have_nothing},
    };
    return TEST_MAIN(argc, argv, cases);
}
