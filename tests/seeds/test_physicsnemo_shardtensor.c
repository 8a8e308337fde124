/* NVIDIA/physicsnemo pull request, ShardTensor's own dispatch: what a scattered tensor is to autograd (requires_grad
 * and is_leaf were set through a dispatch that ignored them), gradients that are cut as unevenly as their tensors,
 * group_norm asking `weight.requires_grad` of the moment in its backward, views whose new shape ends in a one, unbind,
 * and ops of several results, which must not take even cuts for granted.
 *
 * Put back by leaving out the call of stn_set_requires_grad in stn_scatter (src/ops/redistribute/scatter.c), and by
 * asking edge->leaf->handle->flags in `deliver` (src/autograd/backward.c) whether its tensor requires grad now; even
 * cuts by asking `derive_split` (src/ops/shape/view_layout.c) for a balanced one always, and by such an offset for
 * local_offset in `add_along` (src/ops/sort/sort_common.c). */
#include "ranks.h"

#include <math.h>

enum { ROWS = 7, CHANNELS = 4, N = ROWS * CHANNELS };

static const int64_t cuts[][3] = {{7}, {2, 5}, {4, 0, 3}};

static const stn_spec *spec_of(stn_context *context)
{
    const int p = stn_context_size(context);
    const int64_t shape[] = {ROWS, CHANNELS}, *const sizes[] = {cuts[p - 1], NULL};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_placement shard = stn_shard(0);
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, p, 0), &shard, STN_DTYPE_F64, 2, shape, &options, &spec),
                 STN_OK);
    return spec;
}

static stn_tensor *scattered(stn_context *context, const stn_spec *spec, int requires_grad)
{
    const int64_t shape[] = {ROWS, CHANNELS};
    double values[N];
    for (int i = 0; i < N; i++)
        values[i] = test_value(i);
    const stn_spec *local;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &local), STN_OK);
    stn_tensor *whole = stn_context_rank(context) == 0 ? stn_from_host(context, local, values) : NULL;
    stn_spec_release(&local);
    return stn_scatter(context, whole, 0, spec, requires_grad);
}

static stn_status scatter_body(stn_context *context, void *arg)
{
    const stn_spec *spec = spec_of(context);
    (void)arg;
    stn_scope_begin(context);
    for (int requires_grad = 0; requires_grad < 2; requires_grad++) {
        stn_tensor *x = scattered(context, spec, requires_grad), *grad = NULL;
        CHECK_I64(stn_requires_grad(x), requires_grad);
        CHECK(stn_is_leaf(x));
        stn_tensor *loss = stn_sum(stn_mul(x, x), 0, NULL, 0);
        CHECK_STATUS(stn_backward(loss), requires_grad ? STN_OK : STN_ERR_STATE);
        stn_context_take_error(context, NULL, 0);
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        CHECK((grad != NULL) == requires_grad);
        if (grad)
            CHECK(stn_tensor_spec(grad) == spec); /* the uneven cuts too */
    }
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void a_scattered_tensor_is_a_leaf_that_obeys(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, scatter_body, NULL);
}

static stn_tensor *channels(stn_context *context, double value, int requires_grad)
{
    const int64_t n = CHANNELS;
    const stn_placement replicate = stn_replicate();
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, stn_context_size(context), 0), &replicate, STN_DTYPE_F64,
                                 1, &n, NULL, &spec),
                 STN_OK);
    stn_tensor *t = stn_full(context, spec, value);
    stn_spec_release(&spec);
    stn_set_requires_grad(t, requires_grad);
    return t;
}

/* The flags change between forward and backward: what counts is what they were. */
static stn_status mask_body(stn_context *context, void *arg)
{
    const stn_spec *spec = spec_of(context);
    stn_tensor *weight_grad = NULL, *bias_grad = NULL;
    double got[CHANNELS];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = scattered(context, spec, 0), *weight = channels(context, 2, 1), *bias = channels(context, 0, 0);
    stn_tensor *loss = stn_sum(stn_group_norm(x, 2, weight, bias, 1e-5), 0, NULL, 0);
    stn_set_requires_grad(weight, 0);
    stn_set_requires_grad(bias, 1);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK_STATUS(stn_grad_of(weight, &weight_grad), STN_OK);
    CHECK_STATUS(stn_grad_of(bias, &bias_grad), STN_OK);
    CHECK(bias_grad == NULL);
    if (CHECK_PTR(weight_grad)) {
        test_read(weight_grad, got, CHANNELS);
        CHECK(fabs(got[0]) > 1e-3 && fabs(got[0] + got[1]) < 1e-12); /* what is normalised has mean 0 in each group */
    }
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void the_mask_of_the_forward_decides(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, mask_body, NULL);
}

/* 12 elements, cut where no row of 3 ends. */
enum { FLAT = 12, VIEW_ROWS = 4, VIEW_COLUMNS = 3, TOP = 5 };

static const int64_t flat_cuts[][3] = {{12}, {5, 7}, {4, 0, 8}};

static stn_tensor *flat(stn_context *context, double (*value)(int64_t), int requires_grad)
{
    const int p = stn_context_size(context);
    const int64_t n = FLAT, *const sizes[] = {flat_cuts[p - 1]};
    const stn_placement shard = stn_shard(0);
    stn_tensor *t = test_tensor(context, test_mesh(context, p, 0), &shard, STN_DTYPE_F64, 1, &n, sizes, value);
    CHECK_STATUS(stn_set_requires_grad(t, requires_grad), STN_OK);
    return t;
}

static double weight_of(int64_t i)
{
    return (double)(3 * i % 7) - 2;
}

static void expect_gradient(stn_tensor *x, const double *want)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(x));
    test_compare(grad, want, FLAT, 1e-14);
}

/* (12) -> (4, 3, 1) -> three of (4, 1), the j-th of which counts j + 1 times with a weight for each row. */
static stn_status views_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {VIEW_ROWS, VIEW_COLUMNS, 1};
    stn_tensor *columns[VIEW_COLUMNS], *loss = NULL;
    double want[FLAT], values[FLAT];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = flat(context, test_value, 1), *y = stn_view(x, 3, shape);
    stn_tensor *w = stn_narrow(stn_view(flat(context, weight_of, 0), 3, shape), 1, 0, 1);
    for (int i = 0; i < FLAT; i++) {
        values[i] = test_value(i);
        want[i] = (i % VIEW_COLUMNS + 1) * weight_of(i - i % VIEW_COLUMNS);
    }
    test_compare(y, values, FLAT, 0);
    CHECK_STATUS(stn_unbind(y, 1, VIEW_COLUMNS, columns), STN_OK);
    for (int j = 0; j < VIEW_COLUMNS; j++) {
        stn_tensor *part =
            stn_mul_number(stn_sum(stn_mul(columns[j], stn_squeeze(w, 1, (int[]){1})), 0, NULL, 0), j + 1);
        loss = loss ? stn_add(loss, part) : part;
    }
    CHECK_STATUS(stn_backward(loss), STN_OK);
    expect_gradient(x, want);
    return stn_scope_end(context);
}

static void views_and_unbind_go_on_with_uneven_cuts(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, views_body, NULL);
}

static double scrambled(int64_t i)
{
    return (double)(5 * i % FLAT);
}

/* Both results of topk, with the gradient of the first: the largest five are 11 … 7, wherever they are. */
static stn_status results_body(stn_context *context, void *arg)
{
    stn_tensor *indices = NULL;
    double want[FLAT] = {0}, largest[TOP], places[TOP];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = flat(context, scrambled, 1), *top = stn_topk(x, TOP, 0, 1, &indices);
    for (int64_t i = 0; i < FLAT; i++) {
        const int64_t place = FLAT - 1 - (int64_t)scrambled(i);
        if (place < TOP) {
            largest[place] = scrambled(i);
            places[place] = (double)i;
            want[i] = 2 * scrambled(i);
        }
    }
    test_compare(top, largest, TOP, 0);
    test_compare(indices, places, TOP, 0);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(top, top), 0, NULL, 0)), STN_OK);
    expect_gradient(x, want);
    return stn_scope_end(context);
}

static void ops_of_several_results_give_each_its_own(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, results_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_scattered_tensor_is_a_leaf_that_obeys", a_scattered_tensor_is_a_leaf_that_obeys},
        {"the_mask_of_the_forward_decides", the_mask_of_the_forward_decides},
        {"views_and_unbind_go_on_with_uneven_cuts", views_and_unbind_go_on_with_uneven_cuts},
        {"ops_of_several_results_give_each_its_own", ops_of_several_results_give_each_its_own},
    };
    return TEST_MAIN(argc, argv, cases);
}
