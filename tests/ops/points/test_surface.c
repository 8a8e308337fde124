/* signed_distance_field: of a cube, whose distances are known, and of a bumpy closed surface, whose side the solid
 * angles of its triangles tell; every layout, gradients, NaN, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VERTICES = 2002, MOST_TRIANGLES = 4000 };

struct surface {
    int64_t n_vertices, n_triangles;
    double vertices[3 * MOST_VERTICES], triangles[3 * MOST_TRIANGLES];
};

/* Between 0 and 1 in each coordinate; corners count as binary numbers. Each side is two triangles. */
static void cube(struct surface *s)
{
    static const double triangles[] = {0, 2, 1, 1, 2, 3, 4, 5, 6, 5, 7, 6, 0, 1, 4, 1, 5, 4,
                                       2, 6, 3, 3, 6, 7, 0, 4, 2, 2, 4, 6, 1, 3, 5, 3, 7, 5};
    *s = (struct surface){.n_vertices = 8, .n_triangles = 12};
    for (int i = 0; i < 24; i++)
        s->vertices[i] = i / 3 >> i % 3 & 1;
    memcpy(s->triangles, triangles, sizeof triangles);
}

/* A sphere of rings of triangles whose radius goes up and down: round vertices in all directions, and saddles. */
static void bumps(struct surface *s, int rings, int around)
{
    *s = (struct surface){.n_vertices = 2 + rings * around};
    for (int64_t i = 0; i < s->n_vertices; i++) {
        const int ring = (int)(i / around), k = (int)(i % around);
        const double down = i >= s->n_vertices - 2 ? (i % 2 ? 0 : 1) : (ring + 1.0) / (rings + 1);
        const double turn = 2 * acos(-1) * k / around, r = 1 + 0.35 * sin(5 * (double)i + 2 * turn);
        const double v[] = {r * sin(acos(-1) * down) * cos(turn), r * sin(acos(-1) * down) * sin(turn),
                            r * cos(acos(-1) * down)};
        memcpy(s->vertices + 3 * i, v, sizeof v);
    }
    const int top = s->n_vertices % 2 ? rings * around : rings * around + 1, bottom = 2 * rings * around + 1 - top;
    for (int k = 0; k < around; k++) {
        const int next = (k + 1) % around;
        for (int ring = 0; ring + 1 < rings; ring++) {
            const double pair[] = {ring * around + k,    (ring + 1) * around + k, ring * around + next,
                                   ring * around + next, (ring + 1) * around + k, (ring + 1) * around + next};
            memcpy(s->triangles + 3 * s->n_triangles, pair, sizeof pair);
            s->n_triangles += 2;
        }
        const double ends[] = {top, k, next, bottom, (rings - 1) * around + next, (rings - 1) * around + k};
        memcpy(s->triangles + 3 * s->n_triangles, ends, sizeof ends);
        s->n_triangles += 2;
    }
}

static void tensors(stn_context *context, const struct surface *s, stn_dtype dtype, int64_t m, const double *points,
                    stn_tensor **out)
{
    const struct random_shape shapes[] = {{2, {s->n_vertices, 3}}, {2, {s->n_triangles, 3}}, {2, {m, 3}}};
    out[0] = against_one_local(context, dtype, &shapes[0], s->vertices);
    out[1] = against_one_local(context, STN_DTYPE_I64, &shapes[1], s->triangles);
    out[2] = against_one_local(context, dtype, &shapes[2], points);
}

static double cube_distance(const double *p)
{
    double outside = 0, inside = -1;
    for (int i = 0; i < 3; i++) {
        const double beyond = fabs(p[i] - 0.5) - 0.5;
        outside += beyond > 0 ? beyond * beyond : 0;
        inside = fmax(inside, beyond);
    }
    return outside > 0 ? sqrt(outside) : inside;
}

/* Points on a lattice too, from which several triangles are equally far. */
static stn_status cube_body(stn_context *context, void *arg)
{
    enum { M = 400 };
    static struct surface s;
    double points[3 * M], got[M], nearest[3 * M];
    uint64_t state = 8;
    (void)arg;
    cube(&s);
    for (int i = 0; i < 3 * M; i++)
        points[i] =
            i < 3 * 200 ? (double)draw_below(&state, 17) / 4 - 1.5 : (double)draw_below(&state, 1000) / 250 - 1.5;
    for (int f64 = 0; f64 < 2; f64++) {
        stn_tensor *in[3], *at, *faces;
        stn_scope_begin(context);
        tensors(context, &s, f64 ? STN_DTYPE_F64 : STN_DTYPE_F32, M, points, in);
        test_read(stn_signed_distance_field(in[0], in[1], in[2], &at, &faces), got, M);
        test_read(at, nearest, 3 * M);
        for (int i = 0; i < M; i++) {
            const double *p = points + 3 * i, *q = nearest + 3 * i;
            CHECK_NEAR(got[i], cube_distance(p), f64 ? 1e-12 : 1e-6);
            CHECK_NEAR(cube_distance(q), 0, f64 ? 1e-12 : 1e-6);
            CHECK_NEAR(sqrt(pow(p[0] - q[0], 2) + pow(p[1] - q[1], 2) + pow(p[2] - q[2], 2)), fabs(got[i]), 1e-5);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_cube_is_as_far_as_it_is(void)
{
    test_ranks(1, cube_body, NULL);
}

/* The solid angle of a triangle (Van Oosterom and Strackee 1983), halved: over a closed surface the sum is 2 pi inside
 * and 0 outside. */
static double half_angle(const double *a, const double *b, const double *c, const double *p)
{
    double u[3], v[3], w[3];
    for (int i = 0; i < 3; i++)
        u[i] = a[i] - p[i], v[i] = b[i] - p[i], w[i] = c[i] - p[i];
    const double lu = sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]), lv = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]),
                 lw = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
    const double volume =
        u[0] * (v[1] * w[2] - v[2] * w[1]) - u[1] * (v[0] * w[2] - v[2] * w[0]) + u[2] * (v[0] * w[1] - v[1] * w[0]);
    const double uv = u[0] * v[0] + u[1] * v[1] + u[2] * v[2], uw = u[0] * w[0] + u[1] * w[1] + u[2] * w[2],
                 vw = v[0] * w[0] + v[1] * w[1] + v[2] * w[2];
    return atan2(volume, lu * lv * lw + uv * lw + uw * lv + vw * lu);
}

/* Points of the triangle in steps: none is nearer than the result, and some are hardly farther. */
static double sampled(const struct surface *s, const double *p)
{
    enum { STEPS = 24 };
    double least = (double)INFINITY;
    for (int64_t t = 0; t < s->n_triangles; t++)
        for (int i = 0; i <= STEPS; i++)
            for (int j = 0; i + j <= STEPS; j++) {
                double square = 0;
                for (int c = 0; c < 3; c++) {
                    const double *v = s->vertices + c;
                    const double at = (i * v[3 * (int)s->triangles[3 * t]] + j * v[3 * (int)s->triangles[3 * t + 1]] +
                                       (STEPS - i - j) * v[3 * (int)s->triangles[3 * t + 2]]) /
                                      STEPS;
                    square += (p[c] - at) * (p[c] - at);
                }
                least = fmin(least, square);
            }
    return sqrt(least);
}

static stn_status bumps_body(stn_context *context, void *arg)
{
    enum { M = 600 };
    static struct surface s;
    static double points[3 * M], got[M];
    uint64_t state = 12;
    stn_tensor *in[3];
    (void)arg;
    bumps(&s, 12, 17);
    for (int i = 0; i < 3 * M; i++)
        points[i] = (double)draw_below(&state, 3000) / 1000 - 1.5;
    stn_scope_begin(context);
    tensors(context, &s, STN_DTYPE_F64, M, points, in);
    test_read(stn_signed_distance_field(in[0], in[1], in[2], NULL, NULL), got, M);
    for (int i = 0; i < M; i++) {
        double angle = 0;
        for (int64_t t = 0; t < s.n_triangles; t++)
            angle += half_angle(s.vertices + 3 * (int)s.triangles[3 * t], s.vertices + 3 * (int)s.triangles[3 * t + 1],
                                s.vertices + 3 * (int)s.triangles[3 * t + 2], points + 3 * i);
        CHECK((got[i] < 0) == (fabs(angle) > acos(-1)));
        if (i >= 40)
            continue;
        const double near = sampled(&s, points + 3 * i);
        CHECK(fabs(got[i]) <= near + 1e-12 && fabs(got[i]) >= near - 0.02);
    }
    return stn_scope_end(context);
}

static void the_side_is_that_of_the_solid_angles(void)
{
    test_ranks(1, bumps_body, NULL);
}

/* The tip of a spike, one side of which is four narrow triangles: the point lies before it, and behind their planes. As
 * many normals as triangles would outweigh the others'. */
static stn_status spike_body(stn_context *context, void *arg)
{
    static const struct surface s = {
        8,
        7,
        {0, 0, 1, .2, -.2, 0, .2, .2, 0, -.2, .2, 0, -.2, .1, 0, -.2, 0, 0, -.2, -.1, 0, -.2, -.2, 0},
        {0, 1, 2, 0, 2, 3, 0, 3, 4, 0, 4, 5, 0, 5, 6, 0, 6, 7, 0, 7, 1}};
    const double points[] = {0.01, 0, 1.0025, 0, 0, 1.5, 0, 0, 0.5}, want[] = {0.010307764064044151, 0.5};
    double got[3];
    stn_tensor *in[3];
    (void)arg;
    stn_scope_begin(context);
    tensors(context, &s, STN_DTYPE_F64, 3, points, in);
    test_read(stn_signed_distance_field(in[0], in[1], in[2], NULL, NULL), got, 3);
    CHECK_NEAR(got[0], want[0], 1e-12);
    CHECK_NEAR(got[1], want[1], 1e-12);
    CHECK(got[2] < 0);
    return stn_scope_end(context);
}

static void angles_weigh_normals(void)
{
    test_ranks(1, spike_body, NULL);
}

/* What one process gives, to the last bit. Triangles of few vertices: many share edges, some have no area. */
static stn_status layouts_body(stn_context *context, void *arg)
{
    static _Thread_local struct elements e[6];
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    uint64_t seed = 31;
    const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
    for (int round = 0; round < test_draws(32); round++) {
        const stn_dtype dtype = dtypes[round % 4];
        const int64_t vertices[] = {4 + draw_below(&seed, 9), 3}, m = draw_below(&seed, draw_below(&seed, 2) ? 5 : 60);
        const int64_t triangles[] = {1 + draw_below(&seed, draw_below(&seed, 2) ? 9 : 80), 3}, points[] = {m, 3};
        double got[3 * 60];
        stn_tensor *given[3], *out[3];
        stn_scope_begin(context);
        elements_draw(&e[0], dtype, 2, vertices, &seed);
        elements_draw(&e[1], round & 4 ? STN_DTYPE_I32 : STN_DTYPE_I64, 2, triangles, &seed);
        elements_draw(&e[2], dtype, 2, points, &seed);
        for (int64_t i = 0; i < e[1].n; i++)
            e[1].v[i] = (double)draw_below(&seed, vertices[0]);
        for (int k = 0; k < 3; k++) {
            const stn_spec *spec = NULL;
            CHECK_STATUS(stn_spec_create(context, NULL, NULL, e[k].dtype, 2, e[k].shape, NULL, &spec), STN_OK);
            given[k] = layout_tensor(context, spec, &e[k]);
            stn_spec_release(&spec);
        }
        out[0] = stn_signed_distance_field(given[0], given[1], given[2], &out[1], &out[2]);
        for (int k = 0; k < 3; k++) {
            elements_draw(&e[3 + k], k == 2 ? STN_DTYPE_I64 : dtype, k == 1 ? 2 : 1, points, &seed);
            test_read(k == 2 ? out[k] : stn_cast(out[k], STN_DTYPE_F64), got, e[3 + k].n);
            for (int64_t i = 0; i < e[3 + k].n; i++)
                e[3 + k].v[i] = got[i];
            given[k] = layout_tensor_drawn(context, mesh, &e[k], &seed);
        }
        out[0] = stn_signed_distance_field(given[0], given[1], given[2], &out[1], &out[2]);
        layout_check(out[0], &e[3], "distance");
        layout_check(out[1], &e[4], "nearest");
        layout_check(out[2], &e[5], "faces");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void every_layout_gives_what_one_process_gives(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, layouts_body, NULL);
    test_ranks(6, layouts_body, "two axes");
}

/* What ranks found of many points for a surface of more triangles is gathered in parts. */
static stn_status parts_body(stn_context *context, void *arg)
{
    enum { M = 2100 };
    static _Thread_local struct surface s;
    static _Thread_local double points[3 * M], got[2 * M], want[2 * M];
    uint64_t state = 2;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    stn_tensor *in[3], *faces;
    (void)arg;
    bumps(&s, 40, 50);
    for (int i = 0; i < 3 * M; i++)
        points[i] = (double)draw_below(&state, 3000) / 1000 - 1.5;
    stn_scope_begin(context);
    tensors(context, &s, STN_DTYPE_F64, M, points, in);
    for (int sharded = 0; sharded < 2; sharded++) {
        double *out = sharded ? got : want;
        for (int k = 0; k < 3 && sharded; k++) {
            const stn_spec *spec = NULL;
            const stn_dtype dtype = stn_tensor_dtype(in[k]);
            const size_t bytes = (size_t)stn_spec_numel(stn_tensor_spec(in[k])) * stn_dtype_size(dtype);
            void *data = malloc(bytes);
            CHECK_STATUS(stn_to_host(in[k], data, bytes), STN_OK);
            CHECK_STATUS(stn_spec_create(context, mesh, &cut, dtype, 2, stn_tensor_shape(in[k]), NULL, &spec), STN_OK);
            in[k] = stn_from_host_global(context, spec, data);
            free(data);
            stn_spec_release(&spec);
        }
        test_read(stn_signed_distance_field(in[0], in[1], in[2], NULL, &faces), out, M);
        test_read(faces, out + M, M);
    }
    CHECK(memcmp(got, want, sizeof got) == 0);
    return stn_scope_end(context);
}

static void many_points_come_in_parts(void)
{
    test_ranks(2, parts_body, NULL);
}

static stn_tensor *call_distance(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_signed_distance_field(in[0], in[1], in[2], NULL, NULL);
}

static stn_status gradients_body(stn_context *context, void *arg)
{
    static _Thread_local struct surface s;
    uint64_t state = 6;
    (void)arg;
    for (int shape = 0; shape < 2; shape++) {
        shape ? bumps(&s, 3, 5) : cube(&s);
        const struct random_shape points = {2, {shape ? 4 : 9, 3}};
        double *p = against_one_draw(&state, against_one_numel(&points));
        for (int64_t i = 0; i < against_one_numel(&points); i++)
            p[i] *= 1.7;
        const struct against_one_op op = {
            .call = call_distance,
            .n_in = 3,
            .tolerance = 1e-10,
            .first_order = 1,
            .in = {{STN_DTYPE_F64, {2, {s.n_vertices, 3}}, s.vertices, 1u << STN_SUM},
                   {STN_DTYPE_I64, {2, {s.n_triangles, 3}}, s.triangles, 0},
                   {STN_DTYPE_F64, points, p, 1u << STN_SUM}},
        };
        for (int round = 0; round < 4; round++)
            against_one_check(context, &state, random_mesh(&state, context), &op);
        if (stn_context_size(context) == 1)
            against_one_differences(context, &state, &op);
        free(p);
    }
    return STN_OK;
}

static void random_layouts_give_the_gradients_of_one_process(void)
{
    test_worlds(gradients_body, NULL);
}

/* Points with NaN are nowhere, triangles with NaN are not there; neither has a gradient. */
static stn_status nan_body(stn_context *context, void *arg)
{
    static struct surface s;
    const double nan = (double)NAN, points[] = {0.5, 0.5, 2, nan, 0, 0};
    double got[2], faces[2], grads[6], at[24];
    stn_tensor *in[3], *face, *grad[2];
    (void)arg;
    cube(&s);
    s.vertices[0] = nan;
    stn_scope_begin(context);
    tensors(context, &s, STN_DTYPE_F32, 2, points, in);
    CHECK_STATUS(stn_set_requires_grad(in[0], 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(in[2], 1), STN_OK);
    stn_tensor *distance = stn_signed_distance_field(in[0], in[1], in[2], NULL, &face), *leaves[] = {in[0], in[2]};
    stn_tensor *ones = stn_add_number(stn_mul_number(stn_cast(face, STN_DTYPE_F32), 0), 1);
    test_read(distance, got, 2);
    test_read(face, faces, 2);
    CHECK(got[0] == 1 && isnan(got[1]) && faces[0] >= 2 && faces[1] == -1);
    CHECK_STATUS(stn_grad(context, 1, &distance, &ones, 2, leaves, 0, 0, grad), STN_OK);
    test_read(grad[0], at, 24);
    test_read(grad[1], grads, 6);
    CHECK(grads[2] == 1 && grads[3] == 0 && grads[5] == 0);
    for (int i = 0; i < 24; i++)
        CHECK(isfinite(at[i]));
    return stn_scope_end(context);
}

static void nan_is_nowhere(void)
{
    test_ranks(1, nan_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct random_shape s23 = {2, {2, 3}}, s22 = {2, {2, 2}}, s03 = {2, {0, 3}};
    const double zeros[6] = {0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &s23, zeros),
               *f = against_one_local(context, STN_DTYPE_I64, &s23, zeros),
               *flat = against_one_local(context, STN_DTYPE_F32, &s22, zeros),
               *wide = against_one_local(context, STN_DTYPE_F64, &s23, zeros),
               *none = against_one_local(context, STN_DTYPE_I64, &s03, zeros);
    CHECK_REFUSED(context, stn_signed_distance_field(flat, f, x, NULL, NULL), STN_ERR_SHAPE,
                  "signed_distance_field: 'vertices' got shape (2, 2), wanted (v, 3)");
    CHECK_REFUSED(context, stn_signed_distance_field(x, x, x, NULL, NULL), STN_ERR_DTYPE,
                  "signed_distance_field: 'triangles' got f32, wanted i64 or i32");
    CHECK_REFUSED(context, stn_signed_distance_field(x, f, wide, NULL, NULL), STN_ERR_DTYPE,
                  "signed_distance_field: 'points' got f64, wanted that of 'vertices', f32");
    CHECK_REFUSED(context, stn_signed_distance_field(x, none, x, NULL, NULL), STN_ERR_SHAPE,
                  "signed_distance_field: 'triangles' got none, wanted at least one");
    stn_signed_distance_field(x, stn_add_number(f, 2), x, NULL, NULL);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_ERROR(context, STN_ERR_VALUE, "signed_distance_field: index 2 at (0, 0) is outside 0 … 1");
    return stn_scope_end(context);
}

static void bad_arguments_are_named(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_cube_is_as_far_as_it_is", a_cube_is_as_far_as_it_is},
        {"the_side_is_that_of_the_solid_angles", the_side_is_that_of_the_solid_angles},
        {"angles_weigh_normals", angles_weigh_normals},
        {"every_layout_gives_what_one_process_gives", every_layout_gives_what_one_process_gives},
        {"many_points_come_in_parts", many_points_come_in_parts},
        {"random_layouts_give_the_gradients_of_one_process", random_layouts_give_the_gradients_of_one_process},
        {"nan_is_nowhere", nan_is_nowhere},
        {"bad_arguments_are_named", bad_arguments_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
