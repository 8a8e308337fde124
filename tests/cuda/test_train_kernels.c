/* Factories, random numbers, dropout and updates of parameters on a CUDA device against the CPU's: random numbers
 * have the same bits. */
#include "both.h"

#include "harness.h"

static const int64_t shapes[][3] = {{3, 5, 7}, {1, 1, 1}, {2, 0, 3}, {2, 37, 130}, {1, 3, 9001}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const stn_dtype floating[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
enum { FLOATING = sizeof floating / sizeof floating[0] };

static const stn_spec *spec_of(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape)
{
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, ndim, shape, NULL, &spec), STN_OK);
    return spec;
}

static int random_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_spec *spec = spec_of(context, dtype, 3, shape);
    out[0] = stn_uniform(context, spec, -1, 3);
    out[1] = stn_normal(context, spec, 1, 2);
    out[2] = stn_trunc_normal(context, spec, 0, 1, -1.5, 0.5);
    out[3] = stn_randint(context, spec, -7, 12);
    stn_spec_release(&spec);
    return 4;
}

static int numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_spec *line = spec_of(context, dtype, 1, shape + 2), *plane = spec_of(context, dtype, 2, shape + 1);
    out[0] = stn_full(context, plane, 3);
    out[1] = stn_arange(context, line, 2, dtype == STN_DTYPE_U8 || dtype == STN_DTYPE_I8 ? 0 : 1);
    out[2] = stn_linspace(context, line, 0, 100);
    out[3] = stn_eye(context, plane);
    stn_spec_release(&line);
    stn_spec_release(&plane);
    return 4;
}

static int dropout(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = stn_detach(both_input(context, dtype, 3, shape, 1));
    stn_set_requires_grad(x, 1);
    out[0] = stn_dropout(stn_transpose(x, 0, 2), 0.375, 1);
    out[1] = stn_dropout_channels(x, 0.5, 1);
    out[2] = stn_dropout(x, 1, 1);
    stn_backward(stn_sum(stn_add(stn_transpose(out[0], 0, 2), out[1]), 0, NULL, 0));
    return stn_grad_of(x, &out[3]) == STN_OK && out[3] ? 4 : 0;
}

static void random_numbers_have_the_cpus_bits(void)
{
    static const both_work works[] = {{"random numbers", random_numbers}, {"dropout", dropout}};
    for (int w = 0; w < 2; w++)
        for (int d = 0; d < FLOATING; d++)
            for (int s = 0; s < SHAPES; s++)
                both_compare(&works[w], floating[d], shapes[s], 0);
}

static void numbers_have_the_cpus_bits(void)
{
    static const both_work work = {"numbers", numbers};
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++)
        for (int s = 0; s < SHAPES; s++)
            if (dtype != STN_DTYPE_BOOL)
                both_compare(&work, (stn_dtype)dtype, shapes[s], 0);
}

/* Parameters: more than one list holds, of which one has several blocks and one has no elements. */
enum { PARAMETERS = 66 };

struct training {
    stn_context *context;
    stn_tensor *leaf[PARAMETERS];
    stn_named_tensor named[PARAMETERS];
};

static void begin(struct training *t, stn_context *context, stn_dtype dtype, const int64_t *shape)
{
    static char names[PARAMETERS][8];
    t->context = context;
    for (int i = 0; i < PARAMETERS; i++) {
        const int64_t n = i == 3 ? shape[0] * shape[1] * shape[2] : i == 5 ? 0 : 1 + i % 9;
        t->leaf[i] = stn_detach(both_input(context, dtype, 1, &n, i));
        stn_set_requires_grad(t->leaf[i], 1);
        names[i][0] = (char)('a' + i % 26);
        names[i][1] = (char)('a' + i / 26);
        t->named[i] = (stn_named_tensor){names[i], t->leaf[i]};
    }
}

/* Of the sum of all squares. */
static void add_gradients(struct training *t)
{
    stn_tensor *loss = NULL;
    for (int i = 0; i < PARAMETERS; i++) {
        stn_tensor *square = stn_sum(stn_mul(t->leaf[i], t->leaf[i]), 0, NULL, 0);
        loss = loss ? stn_add(loss, square) : square;
    }
    CHECK_STATUS(stn_backward(loss), STN_OK);
}

static void take_steps(struct training *t, stn_optimizer *optimizer)
{
    const stn_parameter_group group = {.size = sizeof group, .n = PARAMETERS, .parameters = t->named};
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    for (int step = 0; step < 2; step++) {
        add_gradients(t);
        CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
        CHECK_STATUS(stn_optimizer_zero_grad(optimizer), STN_OK);
    }
    stn_optimizer_destroy(&optimizer);
}

static int results(const struct training *t, stn_tensor **out)
{
    out[0] = t->leaf[0];
    out[1] = t->leaf[3];
    out[2] = t->leaf[PARAMETERS - 1];
    return 3;
}

static int descend_by(stn_context *context, const stn_sgd_options *options, stn_dtype dtype, const int64_t *shape,
                      stn_tensor **out)
{
    struct training t;
    stn_optimizer *optimizer;
    begin(&t, context, dtype, shape);
    CHECK_STATUS(stn_sgd_create(context, options, &optimizer), STN_OK);
    take_steps(&t, optimizer);
    return results(&t, out);
}

static int descend(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.01, .weight_decay = 0.1};
    return descend_by(context, &options, dtype, shape, out);
}

static int descend_with_momentum(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.01, .momentum = 0.75, .nesterov = 1};
    return descend_by(context, &options, dtype, shape, out);
}

typedef stn_status (*adam_create)(stn_context *context, const stn_adamw_options *options, stn_optimizer **out);

static int adam_by(adam_create create, stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_adamw_options options = {.size = sizeof options, .rate = 0.01, .weight_decay = 0.1};
    struct training t;
    stn_optimizer *optimizer;
    begin(&t, context, dtype, shape);
    CHECK_STATUS(create(context, &options, &optimizer), STN_OK);
    take_steps(&t, optimizer);
    return results(&t, out);
}

static int adamw(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    return adam_by(stn_adamw_create, context, dtype, shape, out);
}

static int adam(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    return adam_by(stn_adam_create, context, dtype, shape, out);
}

static int averages(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    struct training t;
    stn_optimizer *optimizer;
    stn_average *average;
    begin(&t, context, dtype, shape);
    CHECK_STATUS(stn_average_create(context, PARAMETERS, t.named, &average), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, NULL, &optimizer), STN_OK);
    take_steps(&t, optimizer);
    CHECK_STATUS(stn_average_update(average, 0.875), STN_OK);
    CHECK_STATUS(stn_average_swap(average), STN_OK);
    stn_average_destroy(&average);
    return results(&t, out);
}

/* The norm is a number of the host: it is put into a tensor. */
static stn_tensor *number(stn_context *context, double value)
{
    const int64_t one = 1;
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 1, &one);
    stn_tensor *t = stn_from_host(context, spec, &value);
    stn_spec_release(&spec);
    return t;
}

static int clipping(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    struct training t;
    double norm = 0;
    int finite = 0;
    begin(&t, context, dtype, shape);
    add_gradients(&t);
    CHECK_STATUS(stn_grad_unscale(context, PARAMETERS, t.leaf, 4, &finite), STN_OK);
    CHECK(finite);
    CHECK_STATUS(stn_clip_grad_norm(context, PARAMETERS, t.leaf, 0.5, &norm), STN_OK);
    out[0] = number(context, norm);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_grad_of(t.leaf[3 * i], &out[1 + i]), STN_OK);
    return 3;
}

static int overflow_is_told(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    struct training t;
    int finite = 1;
    begin(&t, context, dtype, shape);
    stn_tensor *huge = stn_mul_number(t.leaf[3], 1e30);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul_number(stn_mul(huge, huge), 1e300), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_unscale(context, PARAMETERS, t.leaf, 2, &finite), STN_OK);
    out[0] = number(context, finite);
    CHECK_I64(finite, 0);
    return 1;
}

static void updates_are_the_cpus(void)
{
    static const both_work works[] = {{"sgd", descend},       {"momentum", descend_with_momentum},
                                      {"adamw", adamw},       {"adam", adam},
                                      {"averages", averages}, {"overflow", overflow_is_told},
                                      {"clipping", clipping}};
    for (size_t w = 0; w < sizeof works / sizeof works[0]; w++) {
        both_compare(&works[w], STN_DTYPE_F32, shapes[SHAPES - 1], 1e-6);
        both_compare(&works[w], STN_DTYPE_F64, shapes[SHAPES - 1], 1e-14);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_numbers_have_the_cpus_bits", random_numbers_have_the_cpus_bits},
        {"numbers_have_the_cpus_bits", numbers_have_the_cpus_bits},
        {"updates_are_the_cpus", updates_are_the_cpus},
    };
    return TEST_MAIN(argc, argv, cases);
}
