#include "ops/loss/loss_suite.h"

#include "core/shard/world.h"
#include "ranks.h"

#include <stdlib.h>

static void free_operands(const struct against_one_op *op, double *v[LOSS_MOST_INPUTS])
{
    for (int k = 0; k < op->n_in; k++)
        free(v[k]);
}

static stn_status values_body(stn_context *context, void *arg)
{
    const struct loss_suite *suite = arg;
    uint64_t state = suite->values_seed;
    for (int i = 0; i < suite->n; i++) {
        struct against_one_op op;
        stn_tensor *in[LOSS_MOST_INPUTS];
        double *v[LOSS_MOST_INPUTS], want[LOSS_MOST_ELEMENTS];
        suite->draw(i, &state, &op, v);
        stn_scope_begin(context);
        for (int k = 0; k < op.n_in; k++)
            in[k] = against_one_local(context, op.in[k].dtype, &op.in[k].shape, v[k]);
        suite->expect(i, v, want);
        against_one_compare(op.call(in, op.arg), want, suite->tolerance);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        against_one_differences(context, &state, &op);
        free_operands(&op, v);
    }
    return STN_OK;
}

void loss_suite_check_values(const struct loss_suite *suite)
{
    struct loss_suite copy = *suite;
    test_ranks(1, values_body, &copy);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    const struct loss_suite *suite = arg;
    uint64_t state = suite->layouts_seed;
    for (int round = 0; round < test_draws(suite->rounds); round++)
        for (int i = 0; i < suite->n; i++) {
            struct against_one_op op;
            double *v[LOSS_MOST_INPUTS];
            suite->draw(i, &state, &op, v);
            against_one_check(context, &state, random_mesh(&state, context), &op);
            free_operands(&op, v);
        }
    return STN_OK;
}

void loss_suite_check_layouts(const struct loss_suite *suite)
{
    struct loss_suite copy = *suite;
    test_worlds(layouts_body, &copy);
}
