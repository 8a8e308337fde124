/* Layouts of views: groups of dims, cuts, what moves, strides, boxes. No data, no ranks: contexts of a world that
 * moves nothing. */
#include "core/shard/random_spec.h"
#include "core/shard/world.h"
#include "harness.h"
#include "ops/shape/view_exchange.h"
#include "ops/shape/view_layout.h"

#include <shardtensor/spec.h>

#include <stdio.h>

struct group_case {
    int old_ndim, new_ndim;
    int64_t old_shape[6], new_shape[6];
    int n;
    int ends[6][2]; /* old and new dims behind each group */
};

static void dims_fall_into_the_smallest_groups(void)
{
    static const struct group_case cases[] = {
        {2, 3, {143, 3}, {13, 11, 3}, 2, {{1, 2}, {2, 3}}},
        {3, 1, {5, 7, 5}, {175}, 1, {{3, 1}}},
        {3, 3, {4, 15, 7}, {20, 3, 7}, 2, {{2, 2}, {3, 3}}},
        {2, 3, {9, 25}, {3, 15, 5}, 1, {{2, 3}}},
        {2, 5, {2, 16}, {2, 1, 4, 4, 1}, 2, {{1, 1}, {2, 5}}},
        {3, 2, {4, 1, 6}, {4, 6}, 2, {{1, 1}, {3, 2}}},
        {3, 4, {2, 1, 3}, {2, 1, 3, 1}, 3, {{1, 1}, {2, 2}, {3, 4}}},
        {2, 1, {3, 1}, {3}, 1, {{2, 1}}},
        {0, 2, {0}, {1, 1}, 1, {{0, 2}}},
        {2, 0, {1, 1}, {0}, 1, {{2, 0}}},
        {0, 0, {0}, {0}, 0, {{0}}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct group_case *k = &cases[c];
        struct stni_view_groups got;
        stni_view_groups_make(k->old_ndim, k->old_shape, k->new_ndim, k->new_shape, &got);
        if (!CHECK_I64(got.n, k->n))
            continue;
        for (int g = 0; g < got.n; g++) {
            CHECK_I64(got.group[g].old_first + got.group[g].old_n, k->ends[g][0]);
            CHECK_I64(got.group[g].new_first + got.group[g].new_n, k->ends[g][1]);
        }
    }
}

enum { MAX_RANKS = 6 };

/* One axis of `ranks` ranks shards `dim`; `sizes` all 0: balanced. */
struct cut_case {
    const char *fact;
    int ranks, dim, ndim, new_ndim;
    int64_t shape[4], sizes[MAX_RANKS], new_shape[5];
    int new_dim;
    int64_t new_sizes[MAX_RANKS];
    int moves;
};

static const struct cut_case cut_cases[] = {
    {"splitting cuts the first new dim", 2, 0, 2, 3, {12, 5}, {0}, {4, 3, 5}, 0, {2, 2}, 0},
    {"rows that straddle go to who has their beginning", 2, 0, 2, 3, {12, 5}, {7, 5}, {4, 3, 5}, 0, {3, 1}, 1},
    {"the first new dim that is not 1 is cut", 2, 1, 2, 5, {2, 16}, {12, 4}, {2, 1, 4, 4, 1}, 2, {3, 1}, 0},
    {"merging under a leading dim of 1 is in place", 3, 1, 3, 1, {1, 4, 5}, {1, 0, 3}, {20}, 0, {5, 0, 15}, 0},
    {"merging behind the cut is in place", 3, 0, 3, 2, {4, 3, 2}, {0}, {12, 2}, 0, {6, 3, 3}, 0},
    {"merging a later dim goes to the balanced cut", 3, 1, 2, 1, {4, 5}, {1, 0, 4}, {20}, 0, {7, 7, 6}, 1},
    {"merging and splitting go by the balanced cut of the whole", 2, 1, 2, 2, {4, 6}, {0}, {3, 8}, 0, {2, 1}, 1},
    {"rows need not divide each other", 2, 0, 2, 2, {3, 90}, {0}, {5, 54}, 0, {4, 1}, 1},
    {"a group of its own keeps its cut", 3, 1, 3, 2, {4, 5, 6}, {0, 5, 0}, {4, 30}, 1, {0, 30, 0}, 0},
    {"an untouched dim keeps its cut", 3, 2, 3, 3, {4, 6, 5}, {4, 1, 0}, {8, 3, 5}, 2, {4, 1, 0}, 0},
    {"a dim of size 1 keeps its cut", 3, 1, 3, 4, {2, 1, 3}, {0, 1, 0}, {2, 1, 3, 1}, 1, {0, 1, 0}, 0},
    {"a dim of size 1 joins what follows", 3, 1, 3, 2, {4, 1, 6}, {0, 1, 0}, {4, 6}, 1, {0, 6, 0}, 0},
    {"no elements: balanced cuts", 2, 0, 3, 2, {8, 0, 6}, {1, 7}, {6, 0}, 0, {3, 3}, 0},
};

static const stn_spec *cut_spec(stn_context *context, const struct cut_case *c, int explicit_cut)
{
    const stn_mesh *mesh = NULL;
    const stn_spec *spec = NULL;
    const int64_t *sizes[4] = {NULL};
    stn_placement shard = stn_shard(c->dim);
    sizes[c->dim] = c->sizes;
    stn_spec_options options = {.size = sizeof options, .sizes = explicit_cut ? sizes : NULL};
    CHECK_STATUS(stn_mesh_create(context, 1, &c->ranks, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, c->ndim, c->shape, &options, &spec), STN_OK);
    return spec;
}

static int is_explicit(const struct cut_case *c)
{
    for (int r = 0; r < c->ranks; r++)
        if (c->sizes[r] != 0)
            return 1;
    return 0;
}

static void cuts_of_views_are_those_of_contract_2(void)
{
    for (size_t i = 0; i < sizeof cut_cases / sizeof *cut_cases; i++) {
        const struct cut_case *c = &cut_cases[i];
        stn_context *context = world_rank(0, c->ranks);
        const stn_spec *in = cut_spec(context, c, is_explicit(c)), *out;
        struct stni_view_place place;
        if (!CHECK_STATUS(stni_view_place(in, c->new_ndim, c->new_shape, &place), STN_OK))
            return;
        CHECK(place.want == in);
        out = place.out;
        stn_placement p = stn_spec_placement(out, 0);
        bool held = CHECK_I64(p.kind, STN_PLACE_SHARD);
        held &= CHECK_I64(p.dim, c->new_dim);
        for (int r = 0; r < c->ranks; r++) {
            int64_t shape[STN_MAX_NDIM];
            stn_spec_chunk(out, r, shape, NULL);
            held &= CHECK_I64(shape[c->new_dim], c->new_sizes[r]);
        }
        held &= CHECK_I64(place.moves, c->moves);
        if (!held)
            fprintf(stderr, "  where %s\n", c->fact);
        stn_spec_release(&in);
        world_end(context);
    }
}

/* (4, 6) over a 2 x 3 mesh, both dims cut: the merged dim is sharded by both axes, that of the earlier dim major. */
static void shards_of_several_dims_are_merged_in_the_order_of_dims(void)
{
    stn_context *context = world_rank(0, 6);
    const int sizes[] = {2, 3};
    const int64_t shape[] = {4, 6}, merged[] = {24};
    const stn_mesh *mesh;
    const stn_spec *in;
    struct stni_view_place place;
    stn_placement placements[] = {stn_shard(1), stn_shard(0)};
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, placements, STN_DTYPE_F32, 2, shape, NULL, &in), STN_OK);
    CHECK_STATUS(stni_view_place(in, 1, merged, &place), STN_OK);
    CHECK_I64(stn_spec_placement(place.out, 0).kind, STN_PLACE_SHARD);
    CHECK_I64(stn_spec_placement(place.out, 1).kind, STN_PLACE_SHARD);
    CHECK_I64(place.out->layout.axis_order[0], 1);
    int64_t offset;
    for (int r = 0; r < 6; r++) {
        stn_spec_chunk(place.out, r, NULL, &offset);
        CHECK_I64(offset, 8 * (r % 3) + 4 * (r / 3));
    }
    stn_spec_release(&in);
    world_end(context);
}

static void a_view_without_dims_wants_its_input_whole(void)
{
    stn_context *context = world_rank(0, 3);
    const int size = 3;
    const int64_t shape[] = {1, 1};
    const stn_mesh *mesh;
    const stn_spec *in;
    struct stni_view_place place;
    stn_placement shard = stn_shard(1);
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, 2, shape, NULL, &in), STN_OK);
    CHECK_STATUS(stni_view_place(in, 0, NULL, &place), STN_OK);
    CHECK_I64(stn_spec_placement(place.want, 0).kind, STN_PLACE_REPLICATE);
    CHECK_I64(stn_spec_placement(place.out, 0).kind, STN_PLACE_REPLICATE);
    stn_spec_release(&in);
    world_end(context);
}

/* Balanced cuts that stay even cost nothing, whatever the world. */
static void even_cuts_stay_closed_form_in_a_large_world(void)
{
    enum { RANKS = 100000 };
    stn_context *context = world_rank(3, RANKS);
    const int size = RANKS;
    const int64_t shape[] = {2 * RANKS, 6}, merged[] = {12 * RANKS}, split[] = {RANKS, 2, 6};
    const stn_mesh *mesh;
    const stn_spec *in;
    struct stni_view_place place;
    stn_placement shard = stn_shard(0);
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, 2, shape, NULL, &in), STN_OK);
    CHECK_STATUS(stni_view_place(in, 1, merged, &place), STN_OK);
    CHECK(place.out->layout.split[0]->offsets == NULL);
    CHECK_I64(place.out->local_shape[0], 12);
    CHECK_STATUS(stni_view_place(in, 3, split, &place), STN_OK);
    CHECK(place.out->layout.split[0]->offsets == NULL);
    CHECK_I64(place.out->local_shape[0], 1);
    stn_spec_release(&in);
    world_end(context);
}

static void memory_order_follows_the_groups(void)
{
    stn_context *context = world_rank(0, 1);
    const int64_t shape[] = {2, 3, 4, 5}, merged[] = {2, 3, 20}, mixed[] = {6, 20};
    const int order[] = {0, 2, 3, 1}; /* channels last */
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *in;
    struct stni_view_place place;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 4, shape, &options, &in), STN_OK);
    CHECK_STATUS(stni_view_place(in, 3, merged, &place), STN_OK);
    static const uint8_t channels_last[] = {0, 2, 1}, row_major[] = {0, 1};
    CHECK_BYTES(place.out->layout.memory_order, channels_last, 3);
    CHECK_I64(place.keeps_order, 1);
    struct stni_view_groups groups;
    int64_t strides[STN_MAX_NDIM];
    stni_view_groups_make(4, shape, 3, merged, &groups);
    CHECK(stni_view_strides(&groups, shape, in->strides, merged, strides));
    CHECK_I64(strides[0], 60);
    CHECK_I64(strides[1], 1);
    CHECK_I64(strides[2], 3);
    CHECK_STATUS(stni_view_place(in, 2, mixed, &place), STN_OK);
    CHECK_BYTES(place.out->layout.memory_order, row_major, 2);
    CHECK_I64(place.keeps_order, 0);
    stni_view_groups_make(4, shape, 2, mixed, &groups);
    CHECK(!stni_view_strides(&groups, shape, in->strides, mixed, strides));
    stn_spec_release(&in);
    world_end(context);
}

/* Every flat index of the range that lies in the box is in exactly one box, and the boxes are in order. */
static void boxes_cover_a_range_once(void)
{
    uint64_t state = 3;
    for (int round = 0; round < 3000; round++) {
        int n = 1 + (int)world_random(&state, 4);
        int64_t size[4], total = 1, count[5000] = {0};
        struct stni_view_box within;
        struct stni_view_boxes boxes;
        for (int d = 0; d < n; d++) {
            size[d] = 1 + (int64_t)world_random(&state, 6);
            total *= size[d];
            within.offset[d] = (int64_t)world_random(&state, (uint64_t)size[d]);
            within.shape[d] = 1 + (int64_t)world_random(&state, (uint64_t)(size[d] - within.offset[d]));
        }
        int64_t begin = (int64_t)world_random(&state, (uint64_t)total + 1),
                end = begin + (int64_t)world_random(&state, (uint64_t)(total - begin) + 1);
        stni_view_boxes_make(n, size, begin, end, &within, &boxes);
        CHECK(boxes.n <= 2 * n);
        for (int b = 0; b < boxes.n; b++) {
            int64_t numel = 1;
            for (int d = 0; d < n; d++)
                numel *= boxes.box[b].shape[d];
            for (int64_t i = 0; i < numel; i++) {
                int64_t flat = 0, rest = i, stride = 1;
                for (int d = n - 1; d >= 0; d--) {
                    flat += (boxes.box[b].offset[d] + rest % boxes.box[b].shape[d]) * stride;
                    rest /= boxes.box[b].shape[d];
                    stride *= size[d];
                }
                count[flat]++;
            }
        }
        int64_t wrong = 0;
        for (int64_t flat = 0; flat < total; flat++) {
            int64_t rest = flat;
            int inside = flat >= begin && flat < end;
            for (int d = n - 1; d >= 0; d--) {
                int64_t x = rest % size[d];
                inside &= x >= within.offset[d] && x < within.offset[d] + within.shape[d];
                rest /= size[d];
            }
            wrong += count[flat] != inside;
        }
        CHECK_I64(wrong, 0);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"dims_fall_into_the_smallest_groups", dims_fall_into_the_smallest_groups},
        {"cuts_of_views_are_those_of_contract_2", cuts_of_views_are_those_of_contract_2},
        {"shards_of_several_dims_are_merged_in_the_order_of_dims",
         shards_of_several_dims_are_merged_in_the_order_of_dims},
        {"a_view_without_dims_wants_its_input_whole", a_view_without_dims_wants_its_input_whole},
        {"even_cuts_stay_closed_form_in_a_large_world", even_cuts_stay_closed_form_in_a_large_world},
        {"memory_order_follows_the_groups", memory_order_follows_the_groups},
        {"boxes_cover_a_range_once", boxes_cover_a_range_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
