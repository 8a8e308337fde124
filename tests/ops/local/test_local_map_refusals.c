/* Functions of a caller's own on chunks: failures on one rank, what cannot be, and backwards that are differentiated
 * again. */
#include "ops/against_one.h"
#include "ranks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct faulty {
    int rank;    /* that fails */
    int forward; /* the function; else its backward */
    atomic_int destroyed;
};

static stn_status square(stn_local_call *call)
{
    const struct faulty *f = call->arg;
    if (f->forward && stn_context_rank(call->context) == f->rank)
        return STN_ERR_IO;
    call->out[0] = stn_mul(call->in[0], call->in[0]);
    return STN_OK;
}

static stn_status square_backward(stn_local_backward_call *call)
{
    const struct faulty *f = call->arg;
    if (!f->forward && stn_context_rank(call->context) == f->rank)
        return STN_ERR_IO;
    call->grad_in[0] = stn_mul(stn_mul_number(call->in[0], 2), call->grad_out[0]);
    return STN_OK;
}

static void count_destroyed(void *arg)
{
    atomic_fetch_add(&((struct faulty *)arg)->destroyed, 1);
}

static stn_tensor *sharded(stn_context *context, int ranks, int64_t n)
{
    const stn_placement rows = stn_shard(0);
    stn_tensor *x =
        test_tensor(context, test_mesh(context, ranks, 0), &rows, STN_DTYPE_F64, 1, (int64_t[]){n}, NULL, test_value);
    stn_set_requires_grad(x, 1);
    return x;
}

static stn_local_map_options square_map(struct faulty *f, const stn_spec *const *specs)
{
    return (stn_local_map_options){.size = sizeof(stn_local_map_options),
                                   .function = square,
                                   .backward = square_backward,
                                   .arg = f,
                                   .destroy = count_destroyed,
                                   .out_specs = specs};
}

static stn_status failing_body(stn_context *context, void *arg)
{
    struct faulty f = {1, *(const int *)arg, 0}, sound = {-1, 0, 0};
    char text[400];
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 3, 2), *y, *grad; /* the last chunk is empty */
    const stn_spec *spec = stn_tensor_spec(x);
    stn_local_map_options map = square_map(&f, &spec);
    stn_local_map(&map, 1, &x, 1, &y);
    CHECK_I64(stn_tensor_is_error(y), f.forward);
    if (!f.forward)
        stn_backward(stn_sum(y, 0, NULL, 0));
    const stn_status status = stn_context_take_error(context, text, sizeof text);
    CHECK_STATUS(status, STN_ERR_IO);
    snprintf(text + strlen(text), 2, "%s", "");
    CHECK(strstr(text, "rank 1: local_map: ") != NULL);
    CHECK(strstr(text, f.forward ? "the function returned" : "backward returned") != NULL);
    map = square_map(&sound, &spec);
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    CHECK_STATUS(stn_zero_grad(x), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    against_one_compare(grad, (double[]){2 * test_value(0), 2 * test_value(1)}, 1e-15);
    stn_status ended = stn_scope_end(context);
    stn_queue_sync(stn_context_queue(context));
    stn_context_trim(context);
    CHECK_I64(atomic_load(&f.destroyed) + 10 * atomic_load(&sound.destroyed), 11);
    return ended;
}

static void a_failure_on_one_rank_is_everybodys_and_the_mesh_stays_usable(void)
{
    test_ranks(3, failing_body, &(int){1});
    test_ranks(3, failing_body, &(int){0});
}

static stn_status without_ops(stn_local_call *call)
{
    call->out[0] = stn_detach(stn_mul_number(call->in[0], 2));
    return STN_OK;
}

static stn_status by_one_op(stn_local_call *call)
{
    call->out[0] = stn_mul_number(call->in[0], 2);
    return STN_OK;
}

static stn_status too_long_on_rank_1(stn_local_call *call)
{
    call->out[0] = stn_context_rank(call->context) == 1
                       ? stn_pad(call->in[0], 2, (int64_t[]){0, 1}, STN_PAD_CONSTANT, 0)
                       : call->in[0];
    return STN_OK;
}

static stn_status history_on_rank_0(stn_local_call *call)
{
    call->out[0] = stn_mul_number(call->in[0], 2);
    call->out[1] = stn_context_rank(call->context) == 0 ? call->out[0] : stn_detach(call->out[0]);
    return STN_OK;
}

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_placement whole = stn_replicate(), *const placements[] = {&whole};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 2, 5), *y[2], *local = stn_detach(stn_to_local(x, STN_GRAD_PER_RANK));
    const stn_spec *const specs[] = {stn_tensor_spec(x), stn_tensor_spec(x)};
    stn_local_map_options map = {.size = sizeof map, .function = without_ops, .out_specs = specs};
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, y), STN_ERR_UNSUPPORTED);
    CHECK_ERROR(context, STN_ERR_UNSUPPORTED,
           "local_map: an input requires grad and the function made its outputs without ops: give a backward, or "
           "detach the input");
    stn_tensor *detached = stn_detach(x);
    CHECK_STATUS(stn_local_map(&map, 1, &detached, 1, y), STN_OK);
    CHECK(!stn_requires_grad(y[0]));
    map.function = too_long_on_rank_1;
    stn_local_map(&map, 1, &x, 1, y);
    CHECK_ERROR(context, STN_ERR_SHAPE, "rank 1: local_map: out[0]: local got shape (3), wanted this rank's chunk (2)");
    map.function = history_on_rank_0;
    stn_local_map(&map, 1, &x, 2, y);
    CHECK_ERROR(
        context, STN_ERR_MISMATCH,
        "rank 1 calls local_map(outputs that depend on what requires grad, as bits 1), rank 0 local_map(outputs that "
        "depend on what requires grad, as bits 3); nothing was moved");
    map.function = by_one_op;
    map.in_placements = placements;
    map.no_redistribution = 1;
    stn_local_map(&map, 1, &x, 1, y);
    CHECK_ERROR(context, STN_ERR_LAYOUT,
           "local_map: in[0] has other placements than declared, and no_redistribution forbids to bring it there");
    map.in_placements = NULL;
    map.mesh = stn_spec_mesh(specs[0]);
    CHECK_STATUS(stn_set_requires_grad(local, 1), STN_OK);
    stn_local_map(&map, 1, &local, 1, y);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
           "local_map: in[0] is a local tensor that requires grad, wanted one on a mesh: stn_from_local makes it");
    map.out_specs = NULL;
    stn_local_map(&map, 1, &x, 1, y);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "local_map: out[0] has neither out_specs nor out_placements, wanted one of them");
    return stn_scope_end(context);
}

static void what_cannot_be_is_refused_on_every_rank(void)
{
    test_ranks(2, refused_body, NULL);
}

/* What rank 1 alone meets before the function runs */

enum lone { ERROR_INPUT, FAILED_BEFORE, FAILED_WITHOUT_A_MESH, NO_FUNCTION, BAD_SIZE, NEEDS_GRAD, NOTHING };

static const struct {
    stn_status status;
    const char *text;
} lone_texts[NOTHING] = {
    [ERROR_INPUT] = {STN_ERR_ARGUMENT, "rank 1: local_map: in[0] is what an earlier failure returned"},
    [FAILED_BEFORE] = {STN_ERR_SHAPE, "rank 1: add: "},
    [FAILED_WITHOUT_A_MESH] = {STN_ERR_SHAPE, "rank 1: add: "},
    [NO_FUNCTION] = {STN_ERR_ARGUMENT, "rank 1: local_map: function got NULL"},
    [BAD_SIZE] = {STN_ERR_ARGUMENT, "rank 1: local_map: got 1 inputs and 1 outputs, wanted options of this version"},
    [NEEDS_GRAD] = {STN_ERR_ARGUMENT, "rank 1: local_map: in[0] is a local tensor that requires grad"},
};

static stn_tensor *local_of(stn_context *context, int64_t n)
{
    return test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value);
}

static stn_tensor *lone_input(stn_context *context, stn_tensor *x, enum lone fault)
{
    if (fault == NEEDS_GRAD) {
        stn_tensor *leaf = local_of(context, 2);
        CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
        return leaf;
    }
    if (fault > FAILED_WITHOUT_A_MESH)
        return x;
    stn_tensor *bad = stn_add(local_of(context, 2), local_of(context, 3));
    if (fault == ERROR_INPUT)
        stn_context_take_error(context, NULL, 0);
    return fault == FAILED_WITHOUT_A_MESH ? stn_from_local(bad, stn_tensor_spec(x), STN_GRAD_PER_RANK) : bad;
}

/* `moves`: inputs are brought to every rank before the function runs; the outputs' sizes are gathered where
 * `gathers`. */
struct lone_case {
    int members, moves, gathers;
};

static void call_with(stn_context *context, const struct lone_case *c, enum lone kind)
{
    const enum lone fault = stn_context_rank(context) == 1 ? kind : NOTHING;
    const stn_placement rows = stn_shard(0),
                        whole = stn_replicate(), *const in[] = {&whole}, *const out[] = {c->moves ? &whole : &rows};
    const stn_mesh *mesh = test_mesh(context, c->members, 0);
    stn_tensor *x = stn_detach(sharded(context, c->members, 5)), *y;
    const stn_spec *spec = c->moves ? stn_tensor_spec(stn_redistribute_to(x, &whole)) : stn_tensor_spec(x);
    stn_tensor *given = lone_input(context, x, fault);
    const stn_local_map_options map = {.size = fault == BAD_SIZE ? 1 : sizeof map,
                                       .mesh = kind == FAILED_WITHOUT_A_MESH ? NULL : mesh,
                                       .function = fault == NO_FUNCTION ? NULL : by_one_op,
                                       .in_placements = c->moves && fault != NEEDS_GRAD ? in : NULL,
                                       .out_specs = c->gathers ? NULL : &spec,
                                       .out_placements = c->gathers ? out : NULL};
    const stn_status status = stn_local_map(&map, 1, &given, 1, &y);
    if (kind == NOTHING) {
        CHECK_STATUS(status, STN_OK);
        return;
    }
    CHECK_STATUS(status, lone_texts[kind].status);
    CHECK(stn_tensor_is_error(y));
    CHECK_ERROR_PART(context, lone_texts[kind].status, lone_texts[kind].text);
}

static stn_status lone_body(stn_context *context, void *arg)
{
    const struct lone_case *c = arg;
    for (int kind = 0; kind <= NOTHING; kind++) {
        stn_scope_begin(context);
        if (kind != BAD_SIZE || !c->gathers) /* without options nobody knows that ranks outside of the mesh wait */
            call_with(context, c, (enum lone)kind);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void what_one_rank_meets_before_the_function_is_everybodys(void)
{
    static const struct lone_case cases[] = {{3, 0, 0}, {3, 1, 0}, {2, 0, 1}, {2, 1, 1}};
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 20};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STATUS(test_launch(3, &options, lone_body, (void *)&cases[i]), STN_OK);
}

/* y = x^2 by a backward of ops: d2y/dx2 = 2; one that does not say so is refused. */
static stn_status second_body(stn_context *context, void *arg)
{
    struct faulty sound = {-1, 0, 0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 3, 5), *y, *ones = stn_add_number(stn_mul_number(stn_detach(x), 0), 1), *first,
               *second;
    const stn_spec *spec = stn_tensor_spec(x);
    stn_local_map_options map = square_map(&sound, &spec);
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 1, 1, &first), STN_ERR_UNSUPPORTED);
    CHECK_ERROR(context, STN_ERR_UNSUPPORTED, "stn_grad: the backward of local_map cannot be differentiated again");
    map.backward_of_ops = 1;
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 1, 1, &first), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &first, &ones, 1, &x, 0, 0, &second), STN_OK);
    against_one_compare(second, (double[]){2, 2, 2, 2, 2}, 1e-15);
    const stn_status status = stn_scope_end(context);
    stn_queue_sync(stn_context_queue(context)); /* behind queued work `destroy` is called with what lies in this frame */
    return status;
}

static void a_backward_of_ops_is_differentiated_again(void)
{
    test_ranks(3, second_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_failure_on_one_rank_is_everybodys_and_the_mesh_stays_usable",
         a_failure_on_one_rank_is_everybodys_and_the_mesh_stays_usable},
        {"what_cannot_be_is_refused_on_every_rank", what_cannot_be_is_refused_on_every_rank},
        {"what_one_rank_meets_before_the_function_is_everybodys",
         what_one_rank_meets_before_the_function_is_everybodys},
        {"a_backward_of_ops_is_differentiated_again", a_backward_of_ops_is_differentiated_again},
    };
    return TEST_MAIN(argc, argv, cases);
}
