/* Functions that the library calls and that end a scope around them, or leave one of their own open: an error that
 * says so, and the caller's scopes are as they were. */
#include "ranks.h"

#include <stdio.h>
#include <string.h>

enum misuse { NONE, ENDS, ENDS_ONE_TOO_MANY, KEEPS, LEAVES_OPEN, LEAVES_TWO_OPEN, MISUSES };

/* What a function that the library calls on this thread does; some of them get no argument. */
static _Thread_local enum misuse now;
static _Thread_local stn_context *here;

static stn_tensor *own_tensor(void)
{
    return test_tensor(here, NULL, NULL, STN_DTYPE_F64, 1, (int64_t[]){2}, NULL, test_value);
}

static void misuse_scopes(void)
{
    stn_tensor *made, *kept = NULL;
    switch (now) {
    case ENDS_ONE_TOO_MANY:
        stn_scope_begin(here);
        CHECK_STATUS(stn_scope_end(here), STN_OK);
        CHECK_STATUS(stn_scope_end(here), STN_ERR_STATE);
        return;
    case ENDS:
        CHECK_STATUS(stn_scope_end(here), STN_ERR_STATE);
        return;
    case KEEPS:
        made = own_tensor();
        CHECK_STATUS(stn_scope_end_keep(here, made, &kept), STN_ERR_STATE);
        CHECK(kept == NULL);
        return;
    case LEAVES_TWO_OPEN:
        stn_scope_begin(here);
        own_tensor();
        stn_scope_agree(here); /* ranks would wait for each other there */
        stn_scope_begin(here);
        return;
    case LEAVES_OPEN:
        stn_scope_begin(here);
        return;
    case NONE: case MISUSES:
        return;
    }
}

/* Each kind of function, which does its work and then what is wrong */

static stn_status on_chunks(stn_local_call *call)
{
    call->out[0] = stn_mul(call->in[0], call->in[0]);
    misuse_scopes();
    return STN_OK;
}

static stn_status on_chunks_soundly(stn_local_call *call)
{
    call->out[0] = stn_mul(call->in[0], call->in[0]);
    return STN_OK;
}

static stn_status on_chunks_backward(stn_local_backward_call *call)
{
    call->grad_in[0] = stn_mul(stn_mul_number(call->in[0], 2), call->grad_out[0]);
    misuse_scopes();
    return STN_OK;
}

static stn_tensor *map(stn_tensor *x, stn_status (*function)(stn_local_call *))
{
    stn_tensor *y = NULL;
    const stn_spec *spec = stn_tensor_spec(x);
    const stn_local_map_options options = {
        .size = sizeof options, .function = function, .backward = on_chunks_backward, .out_specs = &spec};
    stn_local_map(&options, 1, &x, 1, &y);
    return y;
}

static stn_status part(stn_context *context, void *user, int n_in, stn_tensor *const *in, int n_out, stn_tensor **out)
{
    int *calls = user;
    (void)context, (void)n_in, (void)n_out;
    out[0] = stn_mul(in[0], in[0]);
    if (*calls == 0)
        misuse_scopes();
    --*calls;
    return STN_OK;
}

static stn_status leaf_hook(stn_tensor *leaf, void *arg)
{
    (void)leaf, (void)arg;
    misuse_scopes();
    return STN_OK;
}

static stn_status tensor_hook(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)arg;
    *instead = stn_mul_number(gradient, 2);
    misuse_scopes();
    return STN_OK;
}

static stn_tensor *initialiser(stn_context *context, const stn_spec *spec)
{
    stn_tensor *made = stn_zeros(context, spec);
    misuse_scopes();
    return made;
}

static stn_status handler(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                          stn_tensor **out, void *arg)
{
    (void)arg;
    stn_status status = stn_op_apply(op, n_in, in, attrs, n_out, out);
    misuse_scopes();
    return status;
}

static void given_back(void *arg)
{
    (void)arg;
    misuse_scopes();
}

static stn_status compose(stn_op_call *call)
{
    call->out[0] = stn_neg(call->in[0]);
    misuse_scopes();
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const stn_spec *in = call->in_spec[0];
    call->out_meta[0] = (stn_meta){.dtype = stn_spec_dtype(in), .ndim = stn_spec_ndim(in)};
    memcpy(call->out_meta[0].shape, stn_spec_shape(in), (size_t)stn_spec_ndim(in) * sizeof(int64_t));
    return STN_OK;
}

static stn_status check_wrongly(stn_op_call *call)
{
    misuse_scopes();
    return check(call);
}

static stn_status place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    (void)call;
    return STN_OK;
}

static stn_status run_wrongly(stn_op_call *call)
{
    (void)call;
    misuse_scopes();
    return STN_OK;
}

static stn_status op_backward(stn_backward_call *call)
{
    call->grad_in[0] = stn_mul_number(call->grad_out[0], 2);
    misuse_scopes();
    return STN_OK;
}

static const stn_input_schema one_input[] = {{.name = "input"}};
static const stn_op_impl composed = {.compose = compose}, runs = {.check = check, .place = place, .run = run_wrongly},
                         checks = {.check = check_wrongly, .place = place, .run = run},
                         goes_back = {.check = check, .place = place, .run = run, .backward = op_backward};
#define OWN_OP(name_, impl_) \
    {.size = sizeof(stn_op_desc), .name = name_, STN_INPUTS(one_input), .n_outputs = 1, .impl = &impl_}
static const stn_op_desc own_ops[] = {OWN_OP("composed", composed), OWN_OP("runs", runs), OWN_OP("checks", checks),
                                      OWN_OP("goes_back", goes_back)};

static stn_tensor *call_own(const char *name, stn_tensor *x)
{
    stn_tensor *y = NULL;
    stn_call(here, name, 1, &x, 0, NULL, 1, &y);
    return y;
}

static void backward(stn_tensor *y)
{
    stn_backward(stn_sum(y, 0, NULL, 0));
}

/* What has each of them called. `x` is a leaf that requires grad. */

static void map_forward(stn_tensor *x) { map(x, on_chunks); }
static void map_backward(stn_tensor *x) { backward(map(x, on_chunks_soundly)); }
static void hook_of_leaf(stn_tensor *x)
{
    CHECK_STATUS(stn_add_grad_hook(x, leaf_hook, NULL, NULL), STN_OK);
    backward(stn_mul(x, x));
}
static void hook_of_tensor(stn_tensor *x)
{
    stn_tensor *y = stn_mul(x, x);
    CHECK_STATUS(stn_add_tensor_hook(y, tensor_hook, NULL, NULL), STN_OK);
    backward(y);
}
static void recomputed_at(stn_tensor *x, int call)
{
    stn_tensor *y = NULL;
    stn_recompute(here, part, &call, NULL, 1, &x, 1, &y);
    backward(y);
}
static void recomputed_at_first(stn_tensor *x) { recomputed_at(x, 0); }
static void recomputed_again(stn_tensor *x) { recomputed_at(x, 1); }
static void parameter(stn_tensor *x)
{
    stn_params *params = NULL;
    CHECK_STATUS(stn_params_create(here, &params), STN_OK);
    CHECK(stn_tensor_is_error(stn_params_make(params, "w", stn_tensor_spec(x), initialiser)));
    stn_params_destroy(&params);
}
static void handled(stn_tensor *x)
{
    CHECK_STATUS(stn_handler_set(here, "exp", handler, NULL), STN_OK);
    CHECK(stn_tensor_is_error(stn_exp(x)));
    CHECK_STATUS(stn_handler_set(here, "exp", NULL, NULL), STN_OK);
}
static void own_compose(stn_tensor *x) { CHECK(stn_tensor_is_error(call_own("composed", x))); }
static void own_run(stn_tensor *x) { CHECK(stn_tensor_is_error(call_own("runs", stn_detach(x)))); }
static void own_check(stn_tensor *x) { CHECK(stn_tensor_is_error(call_own("checks", stn_detach(x)))); }
static void own_backward(stn_tensor *x) { backward(call_own("goes_back", x)); }
static void lent(stn_tensor *x)
{
    static double memory[2];
    (void)x;
    stn_scope_begin(here);
    stn_wrap(here, STN_DTYPE_F64, 1, (int64_t[]){2}, NULL, memory, given_back, NULL);
    CHECK_STATUS(stn_scope_end(here), STN_ERR_STATE);
}

static const struct kind {
    void (*provoke)(stn_tensor *x);
    const char *who;
    int alone; /* elsewhere a failure aborts the family, or the queue's thread is the one that calls */
} kinds[] = {
    {map_forward, "local_map: the function", 0},
    {map_backward, "local_map: backward", 0},
    {hook_of_leaf, "stn_add_grad_hook: a gradient hook", 0},
    {hook_of_tensor, "stn_add_tensor_hook: a tensor hook", 0},
    {recomputed_at_first, "stn_recompute: the function", 0},
    {recomputed_again, "stn_recompute: the function", 0},
    {parameter, "params: the initialiser", 0},
    {handled, "exp: its handler", 0},
    {own_compose, "composed: its compose", 0},
    {own_check, "checks: its check", 0},
    {own_backward, "goes_back: its backward", 0},
    {own_run, "runs: its run", 1},
    {lent, "scope_end: a function that lent memory was given back to", 1},
};

static void check_text(const struct kind *kind, enum misuse misuse)
{
    char text[400], wanted[200];
    CHECK_STATUS(stn_context_take_error(here, text, sizeof text), STN_ERR_STATE);
    if (misuse < LEAVES_OPEN)
        snprintf(wanted, sizeof wanted,
                 "scope_end: the innermost scope was begun outside of the function that ends it: one that the ");
    else
        snprintf(wanted, sizeof wanted, "%s left %s open, wanted an end of each that it began", kind->who,
                 misuse == LEAVES_OPEN ? "1 scope" : "2 scopes");
    if (!CHECK(strstr(text, wanted) != NULL))
        CHECK_STR(text, wanted);
}

/* Two scopes around the call, of which both own something, end as they would have. */
static void check_kind(const struct kind *kind, enum misuse misuse)
{
    const double values[] = {test_value(0), test_value(1), test_value(2)};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(here, stn_context_size(here), 0);
    stn_scope_begin(here);
    stn_tensor *outer = test_tensor(here, mesh, &rows, STN_DTYPE_F64, 1, (int64_t[]){3}, NULL, test_value);
    stn_scope_begin(here);
    stn_tensor *x = test_tensor(here, mesh, &rows, STN_DTYPE_F64, 1, (int64_t[]){3}, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    now = misuse;
    kind->provoke(x);
    now = NONE;
    check_text(kind, misuse);
    test_compare(stn_detach(x), values, 3, 0);
    CHECK_STATUS(stn_scope_end(here), STN_OK);
    test_compare(outer, values, 3, 0);
    CHECK_STATUS(stn_scope_end(here), STN_OK);
    CHECK_STATUS(stn_scope_end(here), STN_ERR_STATE);
    CHECK_ERROR(here, STN_ERR_STATE, "scope_end: no scope is open");
}

static stn_status misuse_body(stn_context *context, void *arg)
{
    const int alone = stn_context_size(context) == 1 && test_queue() == TEST_QUEUE_IMMEDIATE;
    const stn_op *op;
    (void)arg;
    here = context;
    for (size_t i = 0; i < sizeof own_ops / sizeof *own_ops; i++)
        CHECK_STATUS(stn_op_register(context, &own_ops[i], &op), STN_OK);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (enum misuse misuse = ENDS; misuse < MISUSES; misuse++)
            if (alone || !kinds[k].alone)
                check_kind(&kinds[k], misuse);
    return STN_OK;
}

static void functions_that_are_called_end_their_own_scopes_and_no_other(void)
{
    test_ranks(1, misuse_body, NULL);
    test_ranks(2, misuse_body, NULL);
}

/* As a sound program does it: scopes of its own that a function begins and ends. */
static stn_status own_scopes(stn_local_call *call)
{
    stn_scope_begin(call->context);
    stn_scope_begin(call->context);
    stn_tensor *y = stn_mul(call->in[0], call->in[0]);
    CHECK_STATUS(stn_scope_end_keep(call->context, y, &y), STN_OK);
    return stn_scope_end_keep(call->context, y, &call->out[0]);
}

static stn_status own_body(stn_context *context, void *arg)
{
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    here = context;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 1, (int64_t[]){3}, NULL, test_value);
    stn_tensor *y = map(x, own_scopes);
    CHECK(!stn_tensor_is_error(y));
    double want[3];
    for (int i = 0; i < 3; i++)
        want[i] = test_value(i) * test_value(i);
    test_compare(y, want, 3, 1e-15);
    return stn_scope_end(context);
}

static void scopes_of_their_own_are_theirs(void)
{
    test_ranks(2, own_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"functions_that_are_called_end_their_own_scopes_and_no_other",
         functions_that_are_called_end_their_own_scopes_and_no_other},
        {"scopes_of_their_own_are_theirs", scopes_of_their_own_are_theirs},
    };
    return TEST_MAIN(argc, argv, cases);
}
