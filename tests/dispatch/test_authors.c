/* Ops whose authors made mistakes: each is an error that names the op, on every rank, and nothing is overrun or
 * lost. */
#include "ranks.h"

#include <string.h>

/* What the op of a case does wrong. */
enum fault {
    NONE,
    CHECK_FAILS,
    CHECK_TELLS,
    PLACE_FAILS,
    PLACE_TELLS,
    RUN_TELLS,
    COMPOSE_FAILS,
    COMPOSE_GIVES_NOTHING,
    COMPOSE_RAISES,
    COMPOSE_IS_REFUSED,
    RAISES,
    DROPS,
    WANTS_NOTHING,
    WANTS_ABSENT,
    WIDENS,
    RESHAPES,
    MAKES_NOTHING,
    NO_RULE,
    SENDS_STRIDED
};

static enum fault fault_of(const stn_op_call *call)
{
    return *(const enum fault *)call->arg;
}

static stn_status check(stn_op_call *call)
{
    const stn_spec *in = call->in_spec[0];
    enum fault fault = fault_of(call);
    call->out_meta[0] = (stn_meta){.dtype = stn_spec_dtype(in), .ndim = stn_spec_ndim(in)};
    memcpy(call->out_meta[0].shape, stn_spec_shape(in), (size_t)stn_spec_ndim(in) * sizeof(int64_t));
    if (fault == CHECK_TELLS)
        stn_op_fail(call, STN_ERR_SHAPE, "too narrow");
    if (fault == RAISES)
        call->n_out = STN_MAX_OUTPUTS + 8;
    if (fault == DROPS)
        call->n_out = -1;
    return fault == CHECK_FAILS ? STN_ERR_SHAPE : STN_OK;
}

static stn_status place(stn_op_call *call)
{
    enum fault fault = fault_of(call);
    call->out_spec[0] = call->in_spec[0];
    if (fault == PLACE_TELLS)
        stn_op_fail(call, STN_ERR_PARTIAL, "pending");
    if (fault == WANTS_NOTHING)
        call->want[0] = NULL;
    if (fault == WANTS_ABSENT)
        call->want[1] = call->in_spec[0];
    if (fault == WIDENS)
        call->out_meta[0].dtype = STN_DTYPE_F64;
    if (fault == RESHAPES)
        call->out_meta[0].shape[0]++;
    return fault == PLACE_FAILS ? STN_ERR_LAYOUT : fault == NO_RULE ? STN_NO_RULE : STN_OK;
}

/* A box that is not dense; what the communicator said before is not the reason. */
static stn_status send_strided(stn_op_call *call)
{
    double data[8] = {0};
    stn_comm *comm = stn_context_comm(call->context);
    const stn_message message = {0, {data, 2, {2, 2}, {4, 1}}};
    const stn_exchange messages = {
        .dtype = STN_DTYPE_F64, .n_send = 1, .send = &message, .n_recv = 1, .recv = &message};
    CHECK_STATUS(stn_comm_broadcast(comm, data, 1, STN_DTYPE_F64, 99, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    return stn_comm_group(comm, &messages, NULL);
}

static stn_status run(stn_op_call *call)
{
    enum fault fault = fault_of(call);
    if (fault == SENDS_STRIDED)
        return send_strided(call);
    if (fault == RUN_TELLS)
        stn_op_fail(call, STN_ERR_DEVICE, "too hot");
    if (fault == MAKES_NOTHING)
        return STN_OK;
    return call->out[0] ? STN_OK : stn_op_alias(call, 0, call->in[0], 0, stn_tensor_strides(call->in[0]));
}

static stn_status compose(stn_op_call *call)
{
    enum fault fault = fault_of(call);
    call->out[0] = fault == COMPOSE_GIVES_NOTHING ? NULL : stn_neg(call->in[0]);
    if (fault == COMPOSE_RAISES)
        call->n_out = 2;
    if (fault == COMPOSE_IS_REFUSED)
        call->out[0] = stn_view(call->in[0], 1, (const int64_t[]){-2});
    return fault == COMPOSE_FAILS ? STN_ERR_DTYPE : STN_OK;
}

static const stn_input_schema two_inputs[] = {{.name = "input"}, {.name = "other", .optional = 1}};

static stn_op_desc mine(enum fault *fault)
{
    static const stn_op_impl plain = {.check = check, .place = place, .run = run}, composed = {.compose = compose};
    const int composes = *fault == COMPOSE_FAILS || *fault == COMPOSE_GIVES_NOTHING || *fault == COMPOSE_RAISES ||
                         *fault == COMPOSE_IS_REFUSED;
    stn_op_desc desc = {.size = sizeof desc,
                        .name = "mine",
                        STN_INPUTS(two_inputs),
                        .n_outputs = 1,
                        .impl = composes ? &composed : &plain,
                        .arg = fault};
    if (*fault == MAKES_NOTHING)
        desc.flags = STN_OP_ALIAS;
    return desc;
}

static const struct wanted {
    enum fault fault;
    stn_status status;
    const char *text;
} all[] = {
    {NONE, STN_OK, ""},
    {NO_RULE, STN_OK, ""},
    {CHECK_FAILS, STN_ERR_SHAPE, "mine: its check returned \"shapes do not fit\""},
    {CHECK_TELLS, STN_ERR_SHAPE, "mine: too narrow"},
    {PLACE_FAILS, STN_ERR_LAYOUT, "mine: its place returned \"layout does not fit\""},
    {PLACE_TELLS, STN_ERR_PARTIAL, "mine: pending"},
    {RUN_TELLS, STN_ERR_DEVICE, "mine: too hot"},
    {COMPOSE_FAILS, STN_ERR_DTYPE, "mine: its compose returned \"dtype does not fit\""},
    {COMPOSE_GIVES_NOTHING, STN_ERR_INTERNAL, "mine: its compose gave no output 0"},
    {COMPOSE_IS_REFUSED, STN_ERR_ARGUMENT, "mine: view: 'shape' got -2 at 0, wanted sizes and at most one -1"},
    {COMPOSE_RAISES, STN_ERR_INTERNAL, "mine: its compose gave n_out 2, wanted 0 to 1"},
    {RAISES, STN_ERR_INTERNAL, "mine: its check gave n_out 40, wanted 0 to 1"},
    {DROPS, STN_ERR_INTERNAL, "mine: its check gave n_out -1, wanted 0 to 1"},
    {WANTS_NOTHING, STN_ERR_INTERNAL, "mine: its place wants none of input 'input', which is there"},
    {WANTS_ABSENT, STN_ERR_INTERNAL, "mine: its place wants a spec of input 'other', which is absent"},
    {WIDENS, STN_ERR_INTERNAL, "mine: its place gave output 0 another shape or dtype than its check"},
    {RESHAPES, STN_ERR_INTERNAL, "mine: its place gave output 0 another shape or dtype than its check"},
    {SENDS_STRIDED, STN_ERR_ARGUMENT, "mine: group: a box has strides[0] = 4, wanted 2 (dense)"},
    {MAKES_NOTHING, STN_ERR_INTERNAL, "mine: its run made no output 0"},
};

static stn_status fault_body(stn_context *context, void *arg)
{
    const struct wanted *wanted = arg;
    enum fault fault = wanted->fault;
    const stn_op_desc desc = mine(&fault);
    const stn_placement shard = stn_shard(0);
    const int64_t n = 5;
    const stn_op *op;
    stn_tensor *y = NULL;
    char text[300] = "";
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &shard, STN_DTYPE_F32, 1, &n,
                                NULL, test_value);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), wanted->status);
    CHECK_I64(stn_tensor_is_error(y), wanted->status != STN_OK);
    CHECK_STATUS(stn_context_status(context), wanted->status);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), wanted->status);
    CHECK_STR(text, wanted->text);
    return stn_scope_end(context);
}

/* A run that failed has aborted its family: the scope's end may say so. */
static void what_an_author_gets_wrong_is_an_error(void)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        test_ranks(1, fault_body, (void *)&all[i]);
        if (all[i].fault != RUN_TELLS && all[i].fault != SENDS_STRIDED)
            test_ranks(3, fault_body, (void *)&all[i]);
    }
}

static stn_status silent_handler(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                                 stn_tensor **out, void *arg)
{
    (void)op, (void)n_in, (void)in, (void)attrs, (void)n_out, (void)out, (void)arg;
    return STN_OK;
}

static stn_status other_handler(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                                stn_tensor **out, void *arg)
{
    (void)op, (void)n_in, (void)attrs, (void)n_out, (void)arg;
    out[0] = stn_neg(in[0]);
    return STN_OK;
}

static void expect_kept(stn_context *context, const char *wanted)
{
    char text[300] = "";
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_CALLBACK);
    CHECK_STR(text, wanted);
}

static stn_status handler_body(stn_context *context, void *arg)
{
    const int64_t n = 5;
    const stn_op *unbind = stn_op_find(context, "unbind");
    stn_tensor *out[3];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, test_value);
    stn_handler_set(context, "relu", silent_handler, NULL);
    CHECK(stn_tensor_is_error(stn_relu(x)));
    expect_kept(context, "relu: its handler gave no output");
    CHECK_STATUS(stn_call(context, "relu", 1, &x, 0, NULL, 0, NULL), STN_OK);
    stn_handler_set(context, "neg_", other_handler, NULL);
    CHECK(stn_tensor_is_error(stn_neg_(x)));
    expect_kept(context, "neg_: in place, its handler gave another tensor than its input");
    stn_handler_set(context, "unbind", silent_handler, NULL); /* as many as it pleases */
    CHECK_STATUS(stn_op_apply(unbind, 1, &x, NULL, 3, out), STN_OK);
    for (int k = 0; k < 3; k++)
        CHECK(out[k] == NULL);
    return stn_scope_end(context);
}

static void a_handler_that_gives_nothing_has_failed(void)
{
    test_ranks(1, handler_body, NULL);
    test_ranks(2, handler_body, NULL);
}

static stn_status set_seven(stn_queue *queue, const void *args)
{
    (void)queue;
    **(float *const *)args = 7;
    return STN_OK;
}

static stn_status change_run(stn_op_call *call)
{
    float *at = stn_tensor_data(call->in[0]);
    return at ? stn_queue_launch(stn_context_queue(call->context), set_seven, &at, sizeof at) : STN_OK;
}

/* In place and without a rule, on a mesh of ranks 1 and 2 of three: the fallback changes what it was given. */
static stn_status in_place_body(stn_context *context, void *arg)
{
    static const stn_input_schema input[] = {{.name = "input"}};
    static const stn_op_impl impl = {.check = check, .run = change_run};
    enum fault none = NONE;
    const stn_op_desc desc = {.size = sizeof desc,
                              .name = "change_",
                              STN_INPUTS(input),
                              .n_outputs = 1,
                              .flags = STN_OP_IN_PLACE,
                              .impl = &impl,
                              .arg = &none};
    const int two = 2, ranks[] = {1, 2};
    const int64_t n = 3;
    const stn_placement whole = stn_replicate(), shard = stn_shard(0);
    const stn_mesh *mesh;
    const stn_op *op;
    stn_tensor *y;
    double got;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, ranks, &mesh), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &whole, STN_DTYPE_F32, 1, &n, NULL, test_value);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), STN_OK);
    CHECK(y == x);
    CHECK_STATUS(stn_item(stn_select(x, 0, 0), &got), STN_OK);
    CHECK(stn_mesh_contains_me(mesh) ? got == 7 : got != got);
    x = test_tensor(context, mesh, &shard, STN_DTYPE_F32, 1, &n, NULL, test_value);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), STN_ERR_LAYOUT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_LAYOUT);
    return stn_scope_end(context);
}

static void in_place_without_a_rule_changes_what_was_given(void)
{
    test_ranks(3, in_place_body, NULL);
}

static stn_status check_nothing(stn_op_call *call)
{
    (void)call;
    return STN_OK;
}

/* Rank 2 is outside of the mesh. */
static stn_status look_run(stn_op_call *call)
{
    CHECK(stn_context_rank(call->context) < 2);
    CHECK(stn_spec_mesh(stn_tensor_spec(call->in[0])) == NULL);
    return STN_OK;
}

static stn_status nothing_body(stn_context *context, void *arg)
{
    static const stn_input_schema input[] = {{.name = "input"}};
    static const stn_op_impl impl = {.check = check_nothing, .run = look_run};
    const stn_op_desc desc = {.size = sizeof desc, .name = "look", STN_INPUTS(input), .impl = &impl};
    const int64_t n = 7;
    const stn_placement shard = stn_shard(0);
    const stn_op *op;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), &shard, STN_DTYPE_F32, 1, &n, NULL, test_value);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 0, NULL), STN_OK);
    return stn_scope_end(context);
}

static void an_op_without_outputs_or_a_rule_runs_on_its_mesh_alone(void)
{
    test_ranks(3, nothing_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_an_author_gets_wrong_is_an_error", what_an_author_gets_wrong_is_an_error},
        {"a_handler_that_gives_nothing_has_failed", a_handler_that_gives_nothing_has_failed},
        {"in_place_without_a_rule_changes_what_was_given", in_place_without_a_rule_changes_what_was_given},
        {"an_op_without_outputs_or_a_rule_runs_on_its_mesh_alone",
         an_op_without_outputs_or_a_rule_runs_on_its_mesh_alone},
    };
    return TEST_MAIN(argc, argv, cases);
}
