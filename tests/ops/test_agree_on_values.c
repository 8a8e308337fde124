/* stn_agree_on_values: after which calls it asks the ranks, and that it asks after each op whose kernels report. */
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <string.h>

/* What the ops are given: x (5, 3) of f32, and an index (5) of which the last number is bad. */
struct inputs {
    stn_tensor *x, *index, *numbers, *zero;
};

static stn_tensor *cut_rows(stn_context *context, stn_dtype dtype, int ndim, const double *v)
{
    const stn_placement cut = stn_shard(0);
    struct elements e = {.dtype = dtype, .ndim = ndim, .shape = {5, 3}, .n = ndim == 2 ? 15 : 5};
    for (int64_t i = 0; i < e.n; i++)
        e.v[i] = v ? v[i] : (double)i;
    return layout_tensor_placed(context, test_mesh(context, stn_context_size(context), 0), &e, &cut);
}

static struct inputs inputs_make(stn_context *context, double last)
{
    const double index[] = {0, 1, 2, 1, last}, numbers[] = {1, 2, 3, 4, last > 4 ? INFINITY : 5},
                 zero[] = {1, 2, 3, 4, last > 4 ? 0 : 5};
    return (struct inputs){cut_rows(context, STN_DTYPE_F32, 2, NULL), cut_rows(context, STN_DTYPE_I64, 1, index),
                           cut_rows(context, STN_DTYPE_F32, 1, numbers), cut_rows(context, STN_DTYPE_I64, 1, zero)};
}

static stn_tensor *index_of_elements(const struct inputs *in)
{
    return stn_expand(stn_unsqueeze(in->index, 1), 2, (const int64_t[]){5, 3});
}

static stn_tensor *gather(const struct inputs *in)
{
    return stn_gather(in->x, 0, index_of_elements(in));
}
static stn_tensor *index_select(const struct inputs *in)
{
    return stn_index_select(in->x, 0, in->index);
}
static stn_tensor *embedding(const struct inputs *in)
{
    return stn_embedding(in->index, in->x, NULL);
}
static stn_tensor *one_hot(const struct inputs *in)
{
    return stn_one_hot(in->index, 5);
}
static stn_tensor *floor_divide(const struct inputs *in)
{
    return stn_floor_divide(in->index, in->zero);
}
static stn_tensor *fmod_(const struct inputs *in)
{
    return stn_fmod(in->index, in->zero);
}
static stn_tensor *remainder_(const struct inputs *in)
{
    return stn_remainder_(stn_clone(in->index), in->zero);
}
static stn_tensor *histc(const struct inputs *in)
{
    return stn_histc(in->numbers, 4, 0, 0);
}
static stn_tensor *index_add(const struct inputs *in)
{
    return stn_index_add(in->x, 0, in->index, in->x, 1);
}
static stn_tensor *scatter_add(const struct inputs *in)
{
    return stn_scatter_add(in->x, 0, index_of_elements(in), in->x);
}

static stn_tensor *nll_loss(const struct inputs *in)
{
    return stn_nll_loss(stn_matmul(in->x, stn_transpose(in->x, 0, 1)), in->index, NULL, -100, STN_REDUCE_MEAN);
}

static stn_tensor *index_put(const struct inputs *in)
{
    return stn_index_put(in->x, 1, (stn_tensor *[]){in->index}, in->x, 0);
}

static stn_tensor *index_put_by_two(const struct inputs *in)
{
    return stn_index_put(in->x, 2, (stn_tensor *[]){in->index, stn_mul_number(in->index, 0)}, in->numbers, 0);
}

static stn_tensor *repeat_interleave(const struct inputs *in)
{
    return stn_repeat_interleave_each(in->x, in->index, (const int[]){0}, 5);
}

static stn_tensor *signed_distance_field(const struct inputs *in)
{
    return stn_signed_distance_field(in->x, index_of_elements(in), in->x, NULL, NULL);
}

static const struct {
    const char *name;
    stn_tensor *(*call)(const struct inputs *in);
} ops[] = {
    {"gather", gather},
    {"index_select", index_select},
    {"embedding", embedding},
    {"one_hot", one_hot},
    {"floor_divide", floor_divide},
    {"fmod", fmod_},
    {"remainder_", remainder_},
    {"histc", histc},
    {"index_add", index_add},
    {"scatter_add", scatter_add},
    {"nll_loss", nll_loss},
    {"index_put", index_put},
    {"index_put: index 7 of", index_put_by_two},
    {"repeat_interleave", repeat_interleave},
    {"signed_distance_field", signed_distance_field},
};
enum { OPS = sizeof ops / sizeof *ops };

static stn_status each_body(stn_context *context, void *arg)
{
    char text[256];
    (void)arg;
    for (int i = 0; i < OPS; i++) {
        stn_scope_begin(context);
        const struct inputs in = inputs_make(context, 7);
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
        CHECK(ops[i].call(&in) != NULL);
        CHECK_STATUS(stn_agree_on_values(context), STN_ERR_VALUE);
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_VALUE);
        CHECK(strstr(text, ops[i].name) != NULL);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void each_op_that_reports_is_asked_after(void)
{
    test_ranks(1, each_body, NULL);
    test_ranks(2, each_body, NULL);
    test_ranks(3, each_body, NULL);
}

static int64_t agreements(stn_context *context)
{
    const int64_t before = test_stats(context).collectives;
    CHECK_STATUS(stn_agree_on_values(context), STN_OK);
    return test_stats(context).collectives - before;
}

/* Of two ranks. */
static stn_status costs_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    const struct inputs in = inputs_make(context, 1);
    CHECK_I64(agreements(context), 0);
    stn_div(stn_add(in.x, in.x), stn_add_number(in.x, 1));
    stn_floor_divide(in.x, in.x); /* of floating numbers, where 0 is as good as any other */
    CHECK_I64(agreements(context), 0);
    stn_index_select(in.x, 0, in.index);
    CHECK_I64(agreements(context), 1);
    CHECK_I64(agreements(context), 0);
    stn_floor_divide(in.index, in.zero);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    CHECK_I64(agreements(context), 0);
    return stn_scope_end(context);
}

static void it_asks_once_after_such_ops_and_after_no_others(void)
{
    test_ranks(2, costs_body, NULL);
}

/* What it accesses the forward pass has reported. */
static stn_status backward_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int i = 0; i < OPS; i++) {
        stn_scope_begin(context);
        const struct inputs in = inputs_make(context, 1);
        CHECK_STATUS(stn_set_requires_grad(in.x, 1), STN_OK);
        stn_tensor *y = ops[i].call(&in);
        CHECK_I64(agreements(context), 1);
        if (stn_requires_grad(y)) {
            CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
            CHECK_I64(agreements(context), 0);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void it_does_not_ask_after_a_backward(void)
{
    test_ranks(2, backward_body, NULL);
}

/* Some ranks know nothing of these calls: to ask would be to wait for them. */
static stn_status apart_body(stn_context *context, void *arg)
{
    static const int first_two[] = {0, 1};
    static const int64_t shape[] = {5};
    const stn_placement cut = stn_shard(0);
    const stn_mesh *part = NULL;
    struct elements index = elements_drawn(STN_DTYPE_I64, 1, shape, 5);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *whole = cut_rows(context, STN_DTYPE_I64, 1, NULL);
    CHECK_STATUS(stn_mesh_create(context, 1, (const int[]){2}, NULL, first_two, &part), STN_OK);
    if (stn_context_rank(context) < 2) {
        stn_tensor *i = layout_tensor_placed(context, part, &index, &cut);
        stn_floor_divide(i, stn_add_number(i, 1));
    } else {
        stn_tensor *i = stn_to_local(whole, STN_GRAD_PER_RANK);
        stn_floor_divide(i, stn_add_number(i, 1));
    }
    CHECK_I64(agreements(context), 0);
    return stn_scope_end(context);
}

static void what_some_ranks_ran_is_not_asked_after(void)
{
    test_ranks(3, apart_body, NULL);
}

/* Of whole tensors each rank that ran the op knows by itself; one may have run it alone. */
static stn_status whole_body(stn_context *context, void *arg)
{
    const int runs = !arg || stn_context_rank(context) == *(const int *)arg;
    const stn_placement whole = stn_replicate();
    struct elements e = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {5}, .n = 5};
    char text[256];
    stn_scope_begin(context);
    stn_tensor *zeros = layout_tensor_placed(context, test_mesh(context, stn_context_size(context), 0), &e, &whole);
    CHECK_I64(agreements(context), 0);
    if (runs)
        stn_floor_divide(zeros, zeros);
    const int64_t before = test_stats(context).collectives;
    CHECK_STATUS(stn_agree_on_values(context), runs ? STN_ERR_VALUE : STN_OK);
    CHECK_I64(test_stats(context).collectives, before);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), runs ? STN_ERR_VALUE : STN_OK);
    CHECK_STR(text, runs ? "floor_divide: an integer is divided by 0" : "");
    CHECK_I64(agreements(context), 0);
    return stn_scope_end(context);
}

static void what_ranks_have_whole_is_not_asked_after(void)
{
    static const int alone = 1;
    test_ranks(3, whole_body, NULL);
    test_ranks(3, whole_body, (void *)&alone);
}

static stn_status step_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *adds = NULL, *divides = NULL;
    stn_scope_begin(context);
    const struct inputs in = inputs_make(context, 1);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_floor_divide(in.index, in.zero);
    CHECK_STATUS(stn_capture_end(context, &divides), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_add(in.x, in.x);
    CHECK_STATUS(stn_capture_end(context, &adds), STN_OK);
    CHECK_I64(agreements(context), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(stn_step_run(adds), STN_OK);
        CHECK_I64(agreements(context), 0);
        CHECK_STATUS(stn_step_run(divides), STN_OK);
        CHECK_I64(agreements(context), 1);
    }
    stn_step_destroy(&adds);
    stn_step_destroy(&divides);
    return stn_scope_end(context);
}

static void it_asks_after_each_repetition_of_a_step_with_such_ops(void)
{
    test_ranks(2, step_body, NULL);
}

static stn_status check_same(stn_op_call *call)
{
    call->out_meta[0] = (stn_meta){STN_DTYPE_F32, 2, {5, 3}};
    return STN_OK;
}

static stn_status place_same(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status run_nothing(stn_op_call *call)
{
    memset(stn_tensor_data(call->out[0]), 0, (size_t)stn_spec_local_numel(call->out_spec[0]) * sizeof(float));
    return STN_OK;
}

/* Of an op that is not the library's the texts of its value errors tell that it has some. */
static stn_status own_body(stn_context *context, void *arg)
{
    static const stn_input_schema schema[] = {{.name = "input"}};
    static const char *const texts[] = {"the value is not to my taste"};
    static const stn_op_impl with = {.check = check_same,
                                     .place = place_same,
                                     .run = run_nothing,
                                     .value_texts = texts,
                                     .n_value_texts = 1},
                             without = {.check = check_same, .place = place_same, .run = run_nothing};
    static const stn_op_desc reports = {.size = sizeof reports,
                                        .name = "own_reports",
                                        STN_INPUTS(schema),
                                        .n_outputs = 1,
                                        .impl = &with},
                             reports_nothing = {.size = sizeof reports,
                                                .name = "own_reports_nothing",
                                                STN_INPUTS(schema),
                                                .n_outputs = 1,
                                                .impl = &without};
    const stn_op *op = NULL, *other = NULL;
    stn_tensor *out = NULL;
    (void)arg;
    stn_scope_begin(context);
    struct inputs in = inputs_make(context, 1);
    CHECK_STATUS(stn_op_register(context, &reports, &op), STN_OK);
    CHECK_STATUS(stn_op_register(context, &reports_nothing, &other), STN_OK);
    CHECK_STATUS(stn_op_apply(other, 1, &in.x, NULL, 1, &out), STN_OK);
    CHECK_I64(agreements(context), 0);
    CHECK_STATUS(stn_op_apply(op, 1, &in.x, NULL, 1, &out), STN_OK);
    CHECK_I64(agreements(context), 1);
    return stn_scope_end(context);
}

static void it_asks_after_an_own_op_with_texts_of_value_errors(void)
{
    test_ranks(2, own_body, NULL);
}

static void no_context_is_an_argument_error(void)
{
    CHECK_STATUS(stn_agree_on_values(NULL), STN_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_op_that_reports_is_asked_after", each_op_that_reports_is_asked_after},
        {"it_asks_once_after_such_ops_and_after_no_others", it_asks_once_after_such_ops_and_after_no_others},
        {"it_does_not_ask_after_a_backward", it_does_not_ask_after_a_backward},
        {"what_some_ranks_ran_is_not_asked_after", what_some_ranks_ran_is_not_asked_after},
        {"what_ranks_have_whole_is_not_asked_after", what_ranks_have_whole_is_not_asked_after},
        {"it_asks_after_each_repetition_of_a_step_with_such_ops",
         it_asks_after_each_repetition_of_a_step_with_such_ops},
        {"it_asks_after_an_own_op_with_texts_of_value_errors", it_asks_after_an_own_op_with_texts_of_value_errors},
        {"no_context_is_an_argument_error", no_context_is_an_argument_error},
    };
    return TEST_MAIN(argc, argv, cases);
}
