/* Layouts: every combination once, draws that repeat, cuts that add up. */
#include "conform/layouts.h"
#include "conform/options.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const int64_t shape_2d[] = {5, 7}, shape_0d[] = {0};
static const struct subject floats_2d = {STN_DTYPE_F32, 2, shape_2d}, whole_2d = {STN_DTYPE_I64, 2, shape_2d},
                            float_0d = {STN_DTYPE_F32, 0, shape_0d};

static struct grid grid_of(int a, int b)
{
    return (struct grid){.ndim = b > 0 ? 2 : 1, .sizes = {a, b}, .ranks = b > 0 ? a * b : a};
}

static void counts_are_products_of_what_each_input_allows(void)
{
    const struct grid two = grid_of(2, 0), mesh = grid_of(2, 3), one = grid_of(1, 0), flat = grid_of(1, 3);
    CHECK_I64(layouts_count(&two, 1, &floats_2d), 4);
    CHECK_I64(layouts_count(&two, 1, &whole_2d), 3);
    CHECK_I64(layouts_count(&two, 1, &float_0d), 2);
    CHECK_I64(layouts_count(&mesh, 1, &floats_2d), 16);
    CHECK_I64(layouts_count(&one, 1, &floats_2d), 1);
    CHECK_I64(layouts_count(&flat, 1, &floats_2d), 4);
    const struct subject both[] = {floats_2d, whole_2d};
    CHECK_I64(layouts_count(&mesh, 2, both), 16 * 9);
    const int64_t shape[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct subject many[32];
    for (int i = 0; i < 32; i++)
        many[i] = (struct subject){STN_DTYPE_F32, 8, shape};
    CHECK_I64(layouts_count(&mesh, 32, many), INT64_MAX);
}

static void every_combination_stands_at_one_index(void)
{
    const struct grid mesh = grid_of(2, 3);
    const struct subject both[] = {floats_2d, whole_2d};
    const int64_t n = layouts_count(&mesh, 2, both);
    struct layout *layouts = malloc(2 * (size_t)n * sizeof *layouts);
    int64_t equal = 0, partial_whole = 0;
    for (int64_t i = 0; i < n; i++) {
        layouts_nth(&mesh, 2, both, i, layouts + 2 * i);
        for (int64_t j = 0; j < i; j++)
            equal += memcmp(layouts[2 * i].placement, layouts[2 * j].placement, sizeof layouts->placement) == 0 &&
                     memcmp(layouts[2 * i + 1].placement, layouts[2 * j + 1].placement, sizeof layouts->placement) == 0;
        for (int a = 0; a < 2; a++)
            partial_whole += layouts[2 * i + 1].placement[a].kind == STN_PLACE_PARTIAL;
    }
    CHECK_I64(equal, 0);
    CHECK_I64(partial_whole, 0);
    free(layouts);
}

static void draws_are_distinct_and_repeat(void)
{
    int64_t first[8], again[8], other[8];
    layouts_draw(100, 8, 3, first);
    layouts_draw(100, 8, 3, again);
    layouts_draw(100, 8, 4, other);
    CHECK_BYTES(again, first, sizeof first);
    CHECK(memcmp(first, other, sizeof first) != 0);
    for (int i = 0; i < 8; i++)
        CHECK(first[i] >= 0 && first[i] < 100 && (i == 0 || first[i] > first[i - 1]));
    int64_t all[7];
    layouts_draw(8, 7, 5, all);
    for (int i = 1; i < 7; i++)
        CHECK(all[i] > all[i - 1]);
}

static int64_t sum_of(int n, const int64_t *sizes)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += sizes[i] < 0 ? 1000 : sizes[i];
    return sum;
}

static void cuts_add_up_and_are_uneven(void)
{
    const struct grid mesh = grid_of(2, 3);
    const struct subject both[] = {floats_2d, whole_2d};
    const int64_t n = layouts_count(&mesh, 2, both);
    int empty = 0, uneven = 0, cut = 0, shared = 0, orders = 0, memory = 0;
    for (int64_t i = 0; i < n; i++) {
        struct layout layouts[2];
        layouts_nth(&mesh, 2, both, i, layouts);
        layouts_cut(&mesh, 2, both, (uint64_t)i, layouts);
        for (int t = 0; t < 2; t++) {
            for (int d = 0; d < 2; d++) {
                const int pieces = layouts[t].n_pieces[d];
                int sharding = 1, axes = 0;
                for (int a = 0; a < 2; a++)
                    if (layouts[t].placement[a].kind == STN_PLACE_SHARD && layouts[t].placement[a].dim == d) {
                        sharding *= mesh.sizes[a];
                        axes++;
                    }
                CHECK_I64(pieces, axes > 0 ? sharding : 0);
                if (pieces == 0)
                    continue;
                cut++;
                CHECK_I64(sum_of(pieces, layouts[t].sizes[d]), shape_2d[d]);
                int balanced = 1;
                for (int p = 0; p < pieces; p++) {
                    empty += layouts[t].sizes[d][p] == 0;
                    balanced = balanced && layouts[t].sizes[d][p] == shape_2d[d] / pieces + (p < shape_2d[d] % pieces);
                }
                uneven += !balanced;
                shared += t == 1 && layouts[0].n_pieces[d] == pieces &&
                          memcmp(layouts[0].sizes[d], layouts[1].sizes[d], sizeof layouts[0].sizes[d]) == 0;
            }
            CHECK_I64(layouts[t].axis_order[0] + layouts[t].axis_order[1], 1);
            orders += layouts[t].axis_order[0] == 1;
            memory += layouts[t].memory_order[0] == 1;
        }
    }
    CHECK(uneven == cut && cut > 100);
    CHECK(empty > cut / 4);
    CHECK(shared > 0 && orders > 0 && memory > 0);
}

static void cutting_repeats_from_its_seed(void)
{
    const struct grid mesh = grid_of(2, 3);
    struct layout a, b, c;
    layouts_nth(&mesh, 1, &floats_2d, 5, &a);
    b = c = a;
    layouts_cut(&mesh, 1, &floats_2d, 9, &a);
    layouts_cut(&mesh, 1, &floats_2d, 9, &b);
    layouts_cut(&mesh, 1, &floats_2d, 10, &c);
    CHECK_BYTES(&b, &a, sizeof a);
    CHECK(memcmp(&c, &a, sizeof a) != 0);
}

static void a_dim_without_elements_can_be_cut(void)
{
    const struct grid four = grid_of(4, 0);
    const int64_t shape[] = {0};
    const struct subject none = {STN_DTYPE_F32, 1, shape};
    struct layout layout;
    layouts_nth(&four, 1, &none, 1, &layout);
    layouts_cut(&four, 1, &none, 1, &layout);
    CHECK_I64(layout.n_pieces[0], 4);
    CHECK_I64(sum_of(4, layout.sizes[0]), 0);
}

static void descriptions_name_placements_cuts_and_orders(void)
{
    const struct grid mesh = grid_of(2, 2);
    struct layout layout = {.placement = {{STN_PLACE_SHARD, 1, 0, 0}, {STN_PLACE_PARTIAL, 0, 0, 0}},
                            .axis_order = {1, 0},
                            .memory_order = {0, 1},
                            .n_pieces = {0, 2},
                            .sizes = {{0}, {7, 0}}};
    char text[128], small[8];
    const int length = layout_describe(&mesh, &layout, 2, text, sizeof text);
    CHECK_STR(text, "S(1),P[7 0] axes 1 0");
    CHECK_I64(length, (int64_t)strlen(text));
    CHECK_I64(layout_describe(&mesh, &layout, 2, small, sizeof small), length);
    CHECK_STR(small, "S(1),P[");
}

static int options_of(struct options *o, int n, const char *const *words)
{
    static char copies[16][64];
    char *argv[16], error[256];
    for (int i = 0; i < n; i++)
        argv[i] = strcpy(copies[i], words[i]);
    return options_parse(n, argv, o, error, sizeof error);
}

static void options_are_read_or_refused(void)
{
    struct options o;
    const char *const all[] = {"stn-conform", "--ranks", "1,5", "a",       "--mesh", "2x3,2x2x2", "--placements",
                               "all",         "--seed",  "9",   "--queue", "worker", "b"};
    if (!CHECK(options_of(&o, 13, all)))
        return;
    CHECK_I64(o.n_grids, 4);
    CHECK_I64(o.grids[1].ranks, 5);
    CHECK_I64(o.grids[2].ranks, 6);
    CHECK_I64(o.grids[3].ndim, 3);
    CHECK_I64(o.run.placements, INT64_MAX);
    CHECK_I64((int64_t)o.run.seed, 9);
    CHECK_I64(o.run.queue, STN_QUEUE_WORKER);
    CHECK_I64(o.n_paths, 2);
    const char *const plain[] = {"stn-conform", "a"};
    CHECK(options_of(&o, 2, plain) && o.n_grids == 6 && o.run.placements == 8);
    static const char *const bad[][3] = {{"--ranks", "0", "a"},      {"--ranks", "2x2", "a"}, {"--mesh", "2x", "a"},
                                         {"--mesh", "9x9", "a"},     {"--comm", "nccl", "a"}, {"--device", "", "a"},   {"--comm", "gloo", "a"},
                                         {"--placements", "0", "a"}, {"--seed", "x", "a"},    {"--queue", "fast", "a"},
                                         {"--what", "1", "a"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const words[] = {"stn-conform", bad[i][0], bad[i][1], bad[i][2]};
        CHECK(!options_of(&o, 4, words));
    }
    const char *const nccl[] = {"stn-conform", "--comm", "nccl", "a", "--device", "cuda"};
    CHECK(options_of(&o, 6, nccl) && o.run.nccl && !o.run.processes);
    const char *const none[] = {"stn-conform"}, *const half[] = {"stn-conform", "a", "--ranks"};
    CHECK(!options_of(&o, 1, none));
    CHECK(!options_of(&o, 3, half));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"counts_are_products_of_what_each_input_allows", counts_are_products_of_what_each_input_allows},
        {"every_combination_stands_at_one_index", every_combination_stands_at_one_index},
        {"draws_are_distinct_and_repeat", draws_are_distinct_and_repeat},
        {"cuts_add_up_and_are_uneven", cuts_add_up_and_are_uneven},
        {"cutting_repeats_from_its_seed", cutting_repeats_from_its_seed},
        {"a_dim_without_elements_can_be_cut", a_dim_without_elements_can_be_cut},
        {"descriptions_name_placements_cuts_and_orders", descriptions_name_placements_cuts_and_orders},
        {"options_are_read_or_refused", options_are_read_or_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
