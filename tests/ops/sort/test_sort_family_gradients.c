/* Gradients of what is chosen, and their derivatives: drawn layouts against one process, and one process against
 * differences. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

enum { MAX, MIN_DIM, SORT, TOPK, KTH, MEDIAN, MEDIAN_DIM, KINDS };

static stn_tensor *call_order(stn_tensor *const *in, const void *arg)
{
    const int *kind = arg, dim = kind[1];
    switch (kind[0]) {
    case MAX: return stn_max(in[0]);
    case MIN_DIM: return stn_min_dim(in[0], dim, 0, NULL);
    case SORT: return stn_sort(in[0], dim, 1, NULL);
    case TOPK: return stn_topk(in[0], 2, dim, 1, NULL);
    case KTH: return stn_kthvalue(in[0], 2, dim, 0, NULL);
    case MEDIAN: return stn_median(in[0]);
    default: return stn_median_dim(in[0], dim, 1, NULL);
    }
}

static stn_status gradients_body(stn_context *context, void *arg)
{
    static const struct random_shape shapes[] = {{1, {13}}, {2, {2, 9}}, {3, {4, 3, 5}}};
    uint64_t state = 11;
    (void)arg;
    for (int i = 0; i < 3 * KINDS; i++) {
        const struct random_shape *shape = &shapes[i % 3];
        int kind[] = {i % KINDS, (i / 2) % shape->ndim};
        double *values = against_one_draw(&state, against_one_numel(shape));
        if (shape->shape[kind[1]] < 2)
            kind[1] = 0;
        struct against_one_op op = {.call = call_order, .arg = kind, .n_in = 1, .tolerance = 1e-14,
                                    .in = {{STN_DTYPE_F64, *shape, values, 1u << STN_SUM}}};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        if (stn_context_size(context) == 1)
            against_one_differences(context, &state, &op);
        free(values);
    }
    return STN_OK;
}

static void gradients_go_to_the_elements_chosen_in_every_layout(void)
{
    test_worlds(gradients_body, NULL);
}

static void check_shares(stn_tensor *x, stn_tensor *y, const double *want)
{
    stn_tensor *grad;
    double got[5];
    CHECK_STATUS(stn_grad(stn_tensor_context(x), 1, &y, NULL, 1, &x, 0, 0, &grad), STN_OK);
    test_read(grad, got, 5);
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(got[i], want[i], 0);
}

static double tied(int64_t i)
{
    static const double values[] = {2, 5, 2, 5, 1};
    return values[i];
}

static double with_nan(int64_t i)
{
    return i == 1 || i == 4 ? NAN : (double)i;
}

static stn_status shares_body(stn_context *context, void *arg)
{
    const stn_placement cut = stn_shard(0);
    const int64_t n = 5;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F32, 1, &n, NULL, tied);
    stn_tensor *y = test_tensor(context, mesh, &cut, STN_DTYPE_F32, 1, &n, NULL, with_nan);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(y, 1), STN_OK);
    check_shares(x, stn_max(x), (double[]){0, 0.5, 0, 0.5, 0});
    check_shares(x, stn_median(x), (double[]){0.5, 0, 0.5, 0, 0});
    check_shares(x, stn_max_dim(x, 0, 0, NULL), (double[]){0, 1, 0, 0, 0});
    check_shares(y, stn_min(y), (double[]){0, 0.5, 0, 0, 0.5});
    check_shares(y, stn_median(y), (double[]){0, 0.5, 0, 0, 0.5});
    check_shares(y, stn_median_dim(y, 0, 0, NULL), (double[]){0, 1, 0, 0, 0});
    return stn_scope_end(context);
}

static void equal_elements_share_without_a_dim_and_the_first_has_all_with_one(void)
{
    test_ranks(2, shares_body, NULL);
}

static double seven(int64_t i)
{
    return 7 + (double)i;
}

/* A tensor without dims has dim 0 and -1; a line of nothing has no first. */
static stn_status edges_body(stn_context *context, void *arg)
{
    const stn_placement cut = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t shape[] = {0, 3};
    const int last = -1;
    double got;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, (stn_placement[]){stn_replicate()}, STN_DTYPE_F64, 0, NULL, NULL, seven),
               *grad, *index;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *all[] = {stn_sort(x, 0, 1, &index),
                         stn_topk(x, 1, -1, 1, NULL),
                         stn_kthvalue(x, 1, 0, 1, NULL),
                         stn_median_dim(x, -1, 0, NULL),
                         stn_max_dim(x, 0, 0, NULL),
                         stn_min(x),
                         stn_median(x)};
    test_read(index, &got, 1);
    CHECK_NEAR(got, 0, 0);
    for (int i = 0; i < 7; i++) {
        CHECK_I64(stn_tensor_ndim(all[i]), 0);
        test_read(all[i], &got, 1);
        CHECK_NEAR(got, 7, 0);
        CHECK_STATUS(stn_grad(context, 1, &all[i], NULL, 1, &x, 0, 0, &grad), STN_OK);
        test_read(grad, &got, 1);
        CHECK_NEAR(got, 1, 0);
    }
    stn_tensor *none = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, shape, NULL, seven);
    CHECK_STATUS(stn_set_requires_grad(none, 1), STN_OK);
    stn_tensor *empty[] = {stn_sort(none, 0, 0, NULL), stn_topk(none, 0, 0, 1, NULL), stn_max_dim(none, 1, 0, NULL),
                           stn_sort(none, 1, 0, NULL)};
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(stn_grad(context, 1, &empty[i], (stn_tensor *[]){empty[i]}, 1, &none, 0, 0, &grad), STN_OK);
    CHECK_I64(stn_tensor_shape(stn_argmax(none, &last, 1))[1], 1);
    test_read(stn_median(none), &got, 1);
    CHECK(isnan(got));
    return stn_scope_end(context);
}

static void tensors_without_dims_and_without_elements_are_ordered_too(void)
{
    test_ranks(2, edges_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_go_to_the_elements_chosen_in_every_layout", gradients_go_to_the_elements_chosen_in_every_layout},
        {"equal_elements_share_without_a_dim_and_the_first_has_all_with_one",
         equal_elements_share_without_a_dim_and_the_first_has_all_with_one},
        {"tensors_without_dims_and_without_elements_are_ordered_too",
         tensors_without_dims_and_without_elements_are_ordered_too},
    };
    return TEST_MAIN(argc, argv, cases);
}
