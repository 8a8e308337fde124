/* Gradients of the distances of knn and radius_search: against one process in drawn layouts, against differences, and
 * where there is none. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

struct settings {
    int64_t k;
    double radius; /* 0: of knn */
};

static stn_tensor *call_distances(stn_tensor *const *in, const void *arg)
{
    const struct settings *s = arg;
    stn_tensor *distances;
    if (s->radius > 0)
        stn_radius_search(in[0], in[1], s->radius, s->k, &distances, NULL);
    else
        stn_knn(in[0], in[1], s->k, &distances);
    return distances;
}

/* Points around whole places, queries beside: no two distances are so close that a difference turns them round. */
static stn_status layouts_body(stn_context *context, void *arg)
{
    static const struct random_shape shapes[][2] = {{{2, {9, 3}}, {2, {5, 3}}},
                                                    {{2, {12, 2}}, {2, {1, 2}}},
                                                    {{2, {3, 1}}, {2, {7, 1}}},
                                                    {{2, {70, 2}}, {2, {4, 2}}},
                                                    {{2, {4, 3}}, {2, {0, 3}}}};
    static const struct settings settings[] = {{3, 0}, {1, 0}, {3, 4.25}};
    uint64_t state = 4;
    (void)arg;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
            /* Along a line the second derivative is 0, and nothing to compare with. */
            struct against_one_op op = {.call = call_distances,
                                        .arg = &settings[i],
                                        .n_in = 2,
                                        .tolerance = 1e-10,
                                        .first_order = shapes[s][0].shape[1] == 1};
            double *v[2];
            for (int k = 0; k < 2; k++) {
                v[k] = against_one_draw(&state, against_one_numel(&shapes[s][k]));
                op.in[k] = (struct against_one_input){STN_DTYPE_F64, shapes[s][k], v[k], 1u << STN_SUM};
            }
            for (int64_t j = 0; j < against_one_numel(&shapes[s][0]); j++)
                v[0][j] += (double)(j / shapes[s][0].shape[1] * (j % 2 ? 2 : -2));
            for (int round = 0; round < 3; round++)
                against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1)
                against_one_differences(context, &state, &op);
            free(v[0]), free(v[1]);
        }
    return STN_OK;
}

static void random_layouts_give_the_gradients_of_one_process(void)
{
    test_worlds(layouts_body, NULL);
}

/* A point finds itself at the distance 0, and the rest of its row is no point: neither pulls, even where point 0, which
 * stands for none, is not finite. */
static stn_status none_body(stn_context *context, void *arg)
{
    const struct random_shape points = {2, {3, 2}}, query = {2, {1, 2}};
    const double p[] = {(double)INFINITY, 1, 3, 4, 6, 8}, q[] = {3, 4}, want_p[] = {0, 0, 0, 0, 0.6, 0.8},
                 want_q[] = {-0.6, -0.8};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    (void)arg;
    for (int i = 0; i < 4; i++) {
        const double tolerance = i < 2 ? 1e-6 : 3e-3;
        stn_tensor *x, *y, *distances, *grads[2];
        stn_scope_begin(context);
        const struct random_shape *shapes[] = {&points, &query};
        stn_tensor *whole[2];
        for (int k = 0; k < 2; k++)
            whole[k] = stn_cast(against_one_local(context, STN_DTYPE_F64, shapes[k], k ? q : p), dtypes[i]);
        x = whole[0], y = whole[1];
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        CHECK_STATUS(stn_set_requires_grad(y, 1), STN_OK);
        stn_radius_search(x, y, 6, 4, &distances, NULL);
        stn_tensor *sum = stn_sum(distances, 0, NULL, 0), *inputs[] = {x, y};
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 2, inputs, 0, 0, grads), STN_OK);
        against_one_compare(stn_cast(grads[0], STN_DTYPE_F64), want_p, tolerance);
        against_one_compare(stn_cast(grads[1], STN_DTYPE_F64), want_q, tolerance);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void no_distance_and_no_point_pull_nowhere(void)
{
    test_ranks(1, none_body, NULL);
}

/* Where there are no points at all, index 0 stands for none of them and is no index out of range. */
static stn_status nowhere_body(stn_context *context, void *arg)
{
    const struct random_shape points = {2, {0, 2}}, queries = {2, {4, 2}};
    const double q[] = {1, 2, 3, 4, 5, 6, 7, 8}, want[8] = {0};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0);
    stn_tensor *in[2], *distances, *grads[2];
    const stn_spec *spec;
    (void)arg;
    stn_scope_begin(context);
    for (int k = 0; k < 2; k++) {
        const struct random_shape *shape = k ? &queries : &points;
        CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F64, 2, shape->shape, NULL, &spec), STN_OK);
        in[k] = against_one_tensor(context, spec, q);
        stn_spec_release(&spec);
        CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
    }
    stn_radius_search(in[0], in[1], 6, 3, &distances, NULL);
    stn_tensor *sum = stn_sum(distances, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 2, in, 0, 0, grads), STN_OK);
    against_one_compare(grads[1], want, 0);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    return stn_scope_end(context);
}

static void no_points_at_all_pull_nowhere(void)
{
    test_ranks(1, nowhere_body, NULL);
    test_ranks(2, nowhere_body, NULL);
}

/* Second derivatives with respect to one side alone are those that it has beside the other: the indices that backward
 * keeps follow nothing. */
static stn_status sides_body(stn_context *context, void *arg)
{
    const struct random_shape shapes[] = {{2, {6, 2}}, {2, {5, 2}}};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0);
    uint64_t state = 8;
    double *values[] = {against_one_draw(&state, 12), against_one_draw(&state, 10)}, want[2][12];
    (void)arg;
    for (int sides = 3; sides > 0; sides--) {
        stn_tensor *in[2], *distances, *asked[2], *grads[2], *squares[2];
        int n = 0, of[2];
        stn_scope_begin(context);
        for (int k = 0; k < 2; k++) {
            const stn_spec *spec;
            CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F64, 2, shapes[k].shape, NULL, &spec), STN_OK);
            in[k] = against_one_tensor(context, spec, values[k]);
            stn_spec_release(&spec);
            CHECK_STATUS(stn_set_requires_grad(in[k], sides >> k & 1), STN_OK);
            if (sides >> k & 1) {
                of[n] = k;
                asked[n++] = in[k];
            }
        }
        stn_knn(in[0], in[1], 3, &distances);
        stn_tensor *sum = stn_sum(stn_mul(distances, distances), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, n, asked, 1, 1, grads), STN_OK);
        for (int i = 0; i < n; i++) { /* of one side at a time */
            squares[i] = stn_sum(stn_mul(grads[i], grads[i]), 0, NULL, 0);
            stn_tensor *again;
            CHECK_STATUS(stn_grad(context, 1, &squares[i], NULL, 1, &asked[i], 1, 0, &again), STN_OK);
            if (n == 2)
                test_read(again, want[of[i]], of[i] ? 10 : 12);
            else
                against_one_compare(again, want[of[i]], 1e-12);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    free(values[0]), free(values[1]);
    return STN_OK;
}

static void one_side_has_the_second_derivatives_that_it_has_beside_the_other(void)
{
    test_worlds(sides_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_the_gradients_of_one_process", random_layouts_give_the_gradients_of_one_process},
        {"no_distance_and_no_point_pull_nowhere", no_distance_and_no_point_pull_nowhere},
        {"no_points_at_all_pull_nowhere", no_points_at_all_pull_nowhere},
        {"one_side_has_the_second_derivatives_that_it_has_beside_the_other",
         one_side_has_the_second_derivatives_that_it_has_beside_the_other},
    };
    return TEST_MAIN(argc, argv, cases);
}
