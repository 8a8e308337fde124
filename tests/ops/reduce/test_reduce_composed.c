/* logsumexp, vector_norm, count_nonzero: layouts against one process with second derivatives; what sums of powers
 * and exponentials cannot hold. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

struct composed {
    double ord; /* 0: logsumexp */
    struct random_shape x;
    int n, dims[2], keepdim;
};

static const struct composed list[] = {
    {0, {3, {4, 5, 3}}, 2, {0, 2}, 0}, {0, {2, {6, 7}}, 1, {-1}, 1},  {2, {3, {4, 5, 3}}, 1, {1}, 0},
    {3, {2, {6, 7}}, 0, {0}, 0},       {2.5, {2, {3, 8}}, 1, {0}, 1},
};

static stn_tensor *call_composed(stn_tensor *const *in, const void *arg)
{
    const struct composed *c = arg;
    return c->ord == 0 ? stn_logsumexp(in[0], c->n, c->dims, c->keepdim)
                       : stn_vector_norm(in[0], c->ord, c->n, c->dims, c->keepdim);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int round = 0; round < test_draws(4); round++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            int64_t n = against_one_numel(&list[i].x);
            double *x = against_one_draw(&state, n);
            struct against_one_op op = {.call = call_composed, .arg = &list[i], .n_in = 1, .tolerance = 1e-11};
            for (int64_t k = 0; k < n; k++)
                x[k] += x[k] < 0 ? -0.5 : 0.5; /* |x|^p bends at 0 */
            op.in[0] = (struct against_one_input){STN_DTYPE_F64, list[i].x, x, 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            free(x);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_status edges_body(stn_context *context, void *arg)
{
    static const struct random_shape shape = {1, {3}};
    const double large[] = {1000, 1000, -1000}, none[] = {-INFINITY, -INFINITY, -INFINITY}, zeros[] = {0, 0, 0},
                 mixed[] = {-3, 0, 2};
    double got[3];
    (void)arg;
    stn_scope_begin(context);
    test_read(stn_logsumexp(against_one_local(context, STN_DTYPE_F32, &shape, large), 0, NULL, 0), got, 1);
    CHECK_NEAR(got[0], 1000 + log(2), 1e-4);
    test_read(stn_logsumexp(against_one_local(context, STN_DTYPE_F32, &shape, none), 0, NULL, 0), got, 1);
    CHECK(got[0] == -INFINITY);
    stn_tensor *z = against_one_local(context, STN_DTYPE_F64, &shape, zeros), *grad;
    CHECK_STATUS(stn_set_requires_grad(z, 1), STN_OK);
    stn_tensor *norm = stn_vector_norm(z, 2, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &norm, NULL, 1, &z, 0, 0, &grad), STN_OK);
    test_read(grad, got, 3);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(got[i], 0, 0);
    stn_tensor *m = against_one_local(context, STN_DTYPE_F64, &shape, mixed);
    static const struct {
        double ord, want;
    } norms[] = {{INFINITY, 3}, {-INFINITY, 0}, {0, 2}, {1, 5}, {2, 3.605551275463989}};
    for (int i = 0; i < 5; i++) {
        test_read(stn_vector_norm(m, norms[i].ord, 0, NULL, 0), got, 1);
        CHECK_NEAR(got[0], norms[i].want, 1e-14);
    }
    test_read(stn_cast(stn_count_nonzero(m, 0, NULL), STN_DTYPE_F64), got, 1);
    CHECK_NEAR(got[0], 2, 0);
    return stn_scope_end(context);
}

static void large_numbers_infinities_and_zeros_are_what_limits_say(void)
{
    test_ranks(1, edges_body, NULL);
}

/* Rows 1 1 0 and -1 1 0 of two ranks are 0 2 0 in all: no rank can count by itself. */
static double of_two_ranks(int64_t i)
{
    static const double values[] = {1, 1, 0, -1, 1, 0};
    return values[i];
}

static stn_status pending_body(stn_context *context, void *arg)
{
    const stn_placement rows = stn_shard(0);
    const int64_t shape[] = {2, 3};
    double got;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), &rows, STN_DTYPE_I64, 2, shape, NULL, of_two_ranks);
    stn_tensor *sum = stn_sum(x, 1, (int[]){0}, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(sum), 0).kind, STN_PLACE_PARTIAL);
    test_read(stn_count_nonzero(sum, 0, NULL), &got, 1);
    CHECK_NEAR(got, 1, 0);
    return stn_scope_end(context);
}

static void what_is_pending_is_counted_when_it_is_complete(void)
{
    test_ranks(2, pending_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"large_numbers_infinities_and_zeros_are_what_limits_say",
         large_numbers_infinities_and_zeros_are_what_limits_say},
        {"what_is_pending_is_counted_when_it_is_complete", what_is_pending_is_counted_when_it_is_complete},
    };
    return TEST_MAIN(argc, argv, cases);
}
