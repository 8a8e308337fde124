/* Optimizers whose gradients stay zero: means that only decay do not stay below the normal numbers. */
#include "ranks.h"

#include <fenv.h>

/* A step along gradients, and then many without any. */
static void decay(stn_context *context, stn_optimizer *optimizer, stn_dtype dtype)
{
    const int64_t shape[] = {21};
    const stn_placement placement = stn_replicate();
    const stn_named_tensor named = {
        "p", test_tensor(context, test_mesh(context, 1, 0), &placement, dtype, 1, shape, NULL, test_value)};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    stn_tensor *p = named.tensor;
    stn_set_requires_grad(p, 1);
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(p, stn_detach(p)), 0, NULL, 0)), STN_OK);
    for (int step = 0; step < (dtype == STN_DTYPE_F64 ? 1060 : 200); step++) {
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
        if (step > 0)
            continue;
        CHECK_STATUS(stn_zero_grad(p), STN_OK);
        CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(p, 0), 0, NULL, 0)), STN_OK);
    }
    CHECK(!fetestexcept(FE_UNDERFLOW));
}

static stn_status decay_body(stn_context *context, void *arg)
{
    const stn_sgd_options sgd = {.size = sizeof sgd, .momentum = 0.5};
    const stn_adamw_options adamw = {.size = sizeof adamw, .beta1 = 0.5, .beta2 = 0.5};
    (void)arg;
    stn_scope_begin(context);
    for (int i = 0; i < 3; i++) { /* AdamW in f32: in f64 the powers of its rates underflow themselves */
        stn_optimizer *optimizer = NULL;
        CHECK_STATUS(i < 2 ? stn_sgd_create(context, &sgd, &optimizer) : stn_adamw_create(context, &adamw, &optimizer),
                     STN_OK);
        decay(context, optimizer, i == 1 ? STN_DTYPE_F64 : STN_DTYPE_F32);
        stn_optimizer_destroy(&optimizer);
    }
    return stn_scope_end(context);
}

static void means_that_only_decay_come_to_zero(void)
{
    test_ranks(1, decay_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"means_that_only_decay_come_to_zero", means_that_only_decay_come_to_zero},
    };
    return TEST_MAIN(argc, argv, cases);
}
