/* knn and radius_search against a plain loop: in every layout and dtype, with ties, in clouds large enough for a tree;
 * what is at the radius, NaN, what moves, what is refused. */
#include "ops/against_one.h"
#include "ops/layouts.h"
#include "ops/points/plain_neighbours.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};

struct wanted {
    struct elements indices, distances, counts;
};

/* `radius` below 0: the k nearest. Small whole numbers: squares are exact in every dtype. */
static void want(const struct elements *points, const struct elements *queries, int64_t k, double radius,
                 struct wanted *out)
{
    const int64_t n = points->shape[0], m = queries->shape[0], d = points->shape[1], shape[] = {m, k};
    double p[LAYOUT_MAX_ELEMENTS], q[LAYOUT_MAX_ELEMENTS];
    uint64_t seed = 1;
    elements_draw(&out->indices, STN_DTYPE_I64, 2, shape, &seed);
    elements_draw(&out->distances, points->dtype, 2, shape, &seed);
    elements_draw(&out->counts, STN_DTYPE_I64, 1, shape, &seed);
    for (int64_t i = 0; i < points->n; i++)
        p[i] = creal(points->v[i]);
    for (int64_t i = 0; i < queries->n; i++)
        q[i] = creal(queries->v[i]);
    for (int64_t i = 0; i < m; i++) {
        struct plain_neighbour *all = plain_neighbours(p, n, q + i * d, d, 1);
        int64_t found = 0;
        for (int64_t j = 0; j < k; j++) {
            const int there = j < n && (radius < 0 || sqrt(all[j].square) <= radius);
            uint64_t rounded = 0;
            element_set(points->dtype, &rounded, 0, there ? sqrt(all[j].square) : 0);
            out->indices.v[i * k + j] = there ? (double)all[j].index : 0;
            out->distances.v[i * k + j] = element_get(points->dtype, &rounded, 0);
            found += there;
        }
        out->counts.v[i] = (double)found;
        free(all);
    }
}

static void check_layouts(stn_context *context, const stn_mesh *mesh, stn_dtype dtype, uint64_t *seed)
{
    const int64_t d = draw_below(seed, 4) ? draw_below(seed, 5) : 12,
                  n = 1 + draw_below(seed, draw_below(seed, 3) ? 20 : 200);
    const int64_t points[] = {n, d};
    const int64_t queries[] = {draw_below(seed, draw_below(seed, 2) ? 4 : 40), d};
    const int64_t k = 1 + draw_below(seed, points[0] < 90 ? points[0] : 90), most = 1 + draw_below(seed, 30);
    const double radius = (double)draw_below(seed, 16) / 2; /* whole distances are at it */
    static _Thread_local struct elements p, q;
    static _Thread_local struct wanted wanted;
    stn_tensor *distances, *counts;
    stn_scope_begin(context);
    elements_draw(&p, dtype, 2, points, seed);
    elements_draw(&q, dtype, 2, queries, seed);
    stn_tensor *x = layout_tensor_drawn(context, mesh, &p, seed), *y = layout_tensor_drawn(context, mesh, &q, seed);
    want(&p, &q, k, -1, &wanted);
    layout_check(stn_knn(x, y, k, &distances), &wanted.indices, "indices of knn");
    layout_check(distances, &wanted.distances, "distances of knn");
    want(&p, &q, most, radius, &wanted);
    layout_check(stn_radius_search(x, y, radius, most, &distances, &counts), &wanted.indices,
                 "indices of radius_search");
    layout_check(distances, &wanted.distances, "distances of radius_search");
    layout_check(counts, &wanted.counts, "counts");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t seed = 77;
    const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
    for (int round = 0; round < test_draws(48); round++)
        check_layouts(context, mesh, dtypes[round % 4], &seed);
    return STN_OK;
}

static void every_layout_finds_what_a_plain_loop_finds(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, layouts_body, NULL);
    test_ranks(6, layouts_body, "two axes");
}

/* Clouds of several shapes, points and queries: drawn evenly, few places, a line, one place, far apart. */
static double place(int shape, int64_t i, int64_t column, uint64_t *state)
{
    const double x = (double)draw_below(state, 1 << 20) / (1 << 20);
    switch (shape) {
    case 0: return x;
    case 1: return (double)(int)(4 * x) / 4;
    case 2: return column == 0 ? (double)(i % 1000) / 8 : 0.5;
    case 3: return 0.25;
    default: return ldexp(x - 0.5, (int)(40 * x));
    }
}

static void check_cloud(stn_context *context, int shape, int64_t n, int64_t d, int64_t k, int f64)
{
    const int64_t m = 60;
    const struct random_shape sizes[] = {{2, {n, d}}, {2, {m, d}}};
    uint64_t state = 5 + (uint64_t)n;
    double *p = malloc((size_t)(n * d) * sizeof *p), *q = malloc((size_t)(m * d) * sizeof *q),
           *got = malloc((size_t)(m * k) * sizeof *got);
    double *far = malloc((size_t)(m * k) * sizeof *far);
    for (int64_t i = 0; i < n * d; i++)
        p[i] = place(shape, i / d, i % d, &state);
    for (int64_t i = 0; i < m * d; i++)
        q[i] = place(i / d % 3 ? shape : 0, i / d, i % d, &state);
    const stn_dtype dtype = f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
    stn_tensor *points = against_one_local(context, dtype, &sizes[0], p),
               *queries = against_one_local(context, dtype, &sizes[1], q), *distances;
    test_read(stn_knn(points, queries, k, &distances), got, m * k);
    test_read(distances, far, m * k);
    for (int64_t i = 0; i < m; i++) {
        struct plain_neighbour *all = plain_neighbours(p, n, q + i * d, d, f64);
        for (int64_t j = 0; j < k; j++) {
            CHECK_I64((int64_t)got[i * k + j], all[j].index);
            CHECK(far[i * k + j] == (f64 ? sqrt(all[j].square) : (double)sqrtf((float)all[j].square)));
        }
        free(all);
    }
    free(p), free(q), free(got), free(far);
}

static stn_status clouds_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 5; shape++)
        for (int f64 = 0; f64 < 2; f64++) {
            stn_scope_begin(context);
            check_cloud(context, shape, 3001, 3, 7, f64);
            check_cloud(context, shape, 97, 1, 97, f64);
            check_cloud(context, shape, 260, 20, 3, f64);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void clouds_of_every_shape_are_searched_to_the_last_tie(void)
{
    test_ranks(1, clouds_body, NULL);
}

/* 0.1 in f32 is more than 0.1: a radius is rounded as a number beside a tensor is. */
static stn_status radius_body(stn_context *context, void *arg)
{
    const struct random_shape four = {2, {4, 1}}, one = {2, {1, 1}}, none = {2, {0, 1}};
    const double points[] = {0.1, 0, 0.1000001, -0.1}, origin[] = {0}, zeros[3] = {0};
    const struct {
        double radius, counts, indices[3];
    } cases[] = {{0.1, 3, {1, 0, 3}},   {0, 1, {1, 0, 0}},   {0.09, 1, {1, 0, 0}}, {(double)INFINITY, 3, {1, 0, 3}},
                 {1e-30, 1, {1, 0, 0}}, {1e30, 3, {1, 0, 3}}};
    stn_tensor *counts, *distances;
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int f64 = 0; f64 < 2; f64++) {
            const stn_dtype dtype = f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            stn_scope_begin(context);
            stn_tensor *p = against_one_local(context, dtype, &four, points),
                       *q = against_one_local(context, dtype, &one, origin);
            against_one_compare(stn_radius_search(p, q, cases[i].radius, 3, &distances, &counts), cases[i].indices, 0);
            against_one_compare(counts, &cases[i].counts, 0);
            p = against_one_local(context, dtype, &none, points);
            against_one_compare(stn_radius_search(p, q, cases[i].radius, 3, &distances, &counts), zeros, 0);
            against_one_compare(distances, zeros, 0);
            against_one_compare(counts, zeros, 0);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void what_is_at_the_radius_is_within(void)
{
    test_ranks(1, radius_body, NULL);
}

/* Behind infinity, by index; never within a radius. A query with NaN has the first points. */
static stn_status nan_body(stn_context *context, void *arg)
{
    const double nan = (double)NAN, inf = (double)INFINITY, points[] = {nan, 0, inf, 5, 1, 0, 0, nan, 2, 0},
                 queries[] = {0, 0, nan, 0};
    const double indices[] = {2, 4, 1, 0, 3, 0, 1, 2, 3, 4}, within[] = {2, 4, 1, 0, 0, 0}, counts[] = {3, 0};
    const int64_t five[] = {5, 2}, two[] = {2, 2};
    double got[10];
    static _Thread_local struct elements p, q;
    uint64_t seed = 3;
    stn_tensor *distances, *found;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    for (int round = 0; round < 8; round++) {
        const stn_placement cut = round & 1 ? stn_shard(0) : stn_replicate(),
                            across = round & 2 ? stn_shard(0) : stn_replicate();
        stn_scope_begin(context);
        elements_draw(&p, dtypes[round / 4], 2, five, &seed);
        elements_draw(&q, dtypes[round / 4], 2, two, &seed);
        for (int i = 0; i < 10; i++)
            p.v[i] = points[i];
        for (int i = 0; i < 4; i++)
            q.v[i] = queries[i];
        stn_tensor *x = layout_tensor_placed(context, mesh, &p, &cut),
                   *y = layout_tensor_placed(context, mesh, &q, &across);
        against_one_compare(stn_knn(x, y, 5, &distances), indices, 0);
        test_read(distances, got, 10);
        CHECK(got[0] == 1 && got[1] == 2 && isinf(got[2]) && isnan(got[3]) && isnan(got[4]) && isnan(got[5]) &&
              isnan(got[9]));
        stn_tensor *near = stn_radius_search(x, y, (double)INFINITY, 3, NULL, &found);
        against_one_compare(near, within, 0);
        against_one_compare(found, counts, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    (void)arg;
    return STN_OK;
}

static void nan_is_behind_infinity(void)
{
    test_ranks(1, nan_body, NULL);
    test_ranks(3, nan_body, NULL);
}

/* From each of two ranks. A block of 40 points of 3 columns in f32: 320 bytes of indices; 2 leaves of 32 points of 12
 * bytes; 3 boxes of 24 bytes and a leaf, together 472 of 8 bytes. */
static stn_status moves_body(stn_context *context, void *arg)
{
    const int64_t many[] = {80, 3};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const struct {
        stn_placement points, queries, want;
        int64_t m, k, bytes;
    } cases[] = {
        {stn_replicate(), stn_shard(0), stn_shard(0), 80, 4, 0},
        {stn_shard(0), stn_shard(0), stn_shard(0), 80, 4, 320 + 768 + 72 + 384},
        {stn_shard(0), stn_replicate(), stn_shard(0), 80, 4, 320 + 768 + 72 + 384},
        {stn_shard(0), stn_replicate(), stn_replicate(), 2, 4, 2 * 4 * 16},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t few[] = {cases[i].m, 3};
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *points = test_tensor(context, mesh, &cases[i].points, STN_DTYPE_F32, 2, many, NULL, test_value),
                   *queries = test_tensor(context, mesh, &cases[i].queries, STN_DTYPE_F32, 2, few, NULL, test_value);
        stn_context_stats_reset(context);
        stn_tensor *near = stn_knn(points, queries, cases[i].k, NULL);
        stn_context_stats(context, &stats);
        stn_placement have = stn_spec_placement(stn_tensor_spec(near), 0);
        CHECK(have.kind == cases[i].want.kind && have.dim == cases[i].want.dim);
        CHECK_I64(stats.bytes_sent, cases[i].bytes);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

/* Beside the results of its own queries, 16 bytes a candidate, a rank holds its block and another one, however many
 * ranks there are. */
static stn_status holds_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {8192, 3}, chunk = shape[0] / stn_context_size(context), block = chunk * (8 + 12 + 2);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *points = test_tensor(context, mesh, &cut, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_context_stats_reset(context);
    stn_context_stats(context, &stats);
    const int64_t before = stats.live_bytes;
    stn_knn(points, points, 2, NULL);
    stn_context_stats(context, &stats);
    CHECK(stats.peak_bytes - before <= chunk * 2 * (8 + 4 + 16) + 2 * block + 4096);
    return stn_scope_end(context);
}

static void a_rank_holds_two_blocks(void)
{
    test_ranks(2, holds_body, NULL);
    test_ranks(4, holds_body, NULL);
}

static void points_go_round_or_candidates_meet_by_bytes(void)
{
    test_ranks(2, moves_body, NULL);
}

/* Candidates of many queries among still more points meet in parts. */
static stn_status parts_body(stn_context *context, void *arg)
{
    enum { N = 14100, M = 1100, K = 8 };
    static _Thread_local double points[3 * N], got[2 * M * K], want[2 * M * K];
    const int64_t shapes[][2] = {{N, 3}, {M, 3}};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    uint64_t state = 40;
    (void)arg;
    for (int i = 0; i < 3 * N; i++)
        points[i] = (double)draw_below(&state, 64) / 64;
    stn_scope_begin(context);
    for (int sharded = 0; sharded < 2; sharded++) {
        stn_tensor *in[2], *distances;
        for (int k = 0; k < 2; k++) {
            const stn_spec *spec = NULL;
            CHECK_STATUS(stn_spec_create(context, sharded ? mesh : NULL, sharded ? &cut : NULL, STN_DTYPE_F64, 2,
                                         shapes[k], NULL, &spec),
                         STN_OK);
            in[k] = stn_from_host_global(context, spec, points);
            stn_spec_release(&spec);
        }
        double *out = sharded ? got : want;
        stn_tensor *near = stn_knn(in[0], in[1], K, &distances);
        CHECK(stn_spec_placement(stn_tensor_spec(near), 0).kind == STN_PLACE_REPLICATE || !sharded);
        test_read(near, out, M * K);
        test_read(distances, out + M * K, M * K);
    }
    CHECK(memcmp(got, want, sizeof got) == 0);
    return stn_scope_end(context);
}

static void many_candidates_meet_in_parts(void)
{
    test_ranks(2, parts_body, NULL);
}

/* The way round is recorded with its kernels: nothing about it depends on values. */
static stn_status captured_body(stn_context *context, void *arg)
{
    enum { N = 90, K = 3 };
    const int64_t shape[] = {N, 2};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    double want[2 * N * K], got[2 * N * K];
    stn_step *step = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *points = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_tensor *others = stn_flip(points, 1, (const int[]){1}), *near, *distances;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    near = stn_knn(points, others, K, &distances);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int round = 0; round < 3; round++) {
        stn_tensor *far;
        stn_copy_(points, stn_add_number(stn_mul_number(points, -1.5), 0.25));
        CHECK_STATUS(stn_step_run(step), STN_OK);
        test_read(stn_knn(points, others, K, &far), want, N * K);
        test_read(far, want + N * K, N * K);
        test_read(near, got, N * K);
        test_read(distances, got + N * K, N * K);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void a_captured_search_is_repeated(void)
{
    test_ranks(2, captured_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct random_shape s23 = {2, {2, 3}}, s24 = {2, {2, 4}}, s6 = {1, {6}};
    const double zeros[8] = {0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = against_one_local(context, STN_DTYPE_F32, &s23, zeros),
               *b = against_one_local(context, STN_DTYPE_F32, &s24, zeros),
               *c = against_one_local(context, STN_DTYPE_F64, &s23, zeros),
               *flat = against_one_local(context, STN_DTYPE_F32, &s6, zeros),
               *whole = against_one_local(context, STN_DTYPE_I64, &s23, zeros);
    CHECK_REFUSED(context, stn_knn(a, b, 1, NULL), STN_ERR_SHAPE,
                  "knn: 'points' and 'queries' got shapes (2, 3) and (2, 4), wanted (n, d) and (m, d)");
    CHECK_REFUSED(context, stn_knn(flat, a, 1, NULL), STN_ERR_SHAPE,
                  "knn: 'points' and 'queries' got shapes (6) and (2, 3), wanted (n, d) and (m, d)");
    CHECK_REFUSED(context, stn_knn(a, c, 1, NULL), STN_ERR_DTYPE,
                  "knn: 'points' and 'queries' got dtypes f32 and f64, wanted one floating dtype");
    CHECK_REFUSED(context, stn_knn(whole, whole, 1, NULL), STN_ERR_DTYPE,
                  "knn: 'points' and 'queries' got dtypes i64 and i64, wanted one floating dtype");
    CHECK_REFUSED(context, stn_knn(a, a, 3, NULL), STN_ERR_ARGUMENT,
                  "knn: 'k' got 3, wanted 1 <= k <= 2, the number of points");
    CHECK_REFUSED(context, stn_knn(a, a, 0, NULL), STN_ERR_ARGUMENT,
                  "knn: 'k' got 0, wanted 1 <= k <= 2, the number of points");
    CHECK_REFUSED(context, stn_radius_search(a, a, -1, 3, NULL, NULL), STN_ERR_ARGUMENT,
                  "radius_search: 'radius' got -1, wanted at least 0");
    CHECK_REFUSED(context, stn_radius_search(a, a, (double)NAN, 3, NULL, NULL), STN_ERR_ARGUMENT,
                  "radius_search: 'radius' got nan, wanted at least 0");
    CHECK_REFUSED(context, stn_radius_search(a, a, 1, 0, NULL, NULL), STN_ERR_ARGUMENT,
                  "radius_search: 'max_points' got 0, wanted at least 1");
    return stn_scope_end(context);
}

static void bad_arguments_are_named(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_layout_finds_what_a_plain_loop_finds", every_layout_finds_what_a_plain_loop_finds},
        {"clouds_of_every_shape_are_searched_to_the_last_tie", clouds_of_every_shape_are_searched_to_the_last_tie},
        {"what_is_at_the_radius_is_within", what_is_at_the_radius_is_within},
        {"nan_is_behind_infinity", nan_is_behind_infinity},
        {"points_go_round_or_candidates_meet_by_bytes", points_go_round_or_candidates_meet_by_bytes},
        {"a_rank_holds_two_blocks", a_rank_holds_two_blocks},
        {"many_candidates_meet_in_parts", many_candidates_meet_in_parts},
        {"a_captured_search_is_repeated", a_captured_search_is_repeated},
        {"bad_arguments_are_named", bad_arguments_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
