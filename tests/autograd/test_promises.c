/* What backward promises about order, cotangents and leaves, each by itself. */
#include "ranks.h"
#include "stats.h"

#include <shardtensor/op.h>

#include <string.h>

enum { N = 7, MARKS = 5 };

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, stn_placement placement)
{
    const int64_t n = N;
    stn_tensor *t = test_tensor(context, mesh, &placement, STN_DTYPE_F64, 1, &n, NULL, test_value);
    stn_set_requires_grad(t, 1);
    return t;
}

static const stn_mesh *line(stn_context *context)
{
    return test_mesh(context, stn_context_size(context), 0);
}

/* An op that gives back its input and notes in which order its nodes run backward. */

struct mark_attrs {
    int64_t id;
};

struct mark_args {
    size_t bytes;
    const void *x;
    void *y;
};

struct noted {
    int64_t id[MARKS];
    int n;
};

static stn_status mark_kernel(stn_queue *queue, const void *args)
{
    const struct mark_args *a = args;
    (void)queue;
    memcpy(a->y, a->x, a->bytes);
    return STN_OK;
}

static stn_status mark_check(stn_op_call *call)
{
    const stn_spec *in = call->in_spec[0];
    call->out_meta[0].dtype = stn_spec_dtype(in);
    call->out_meta[0].ndim = stn_spec_ndim(in);
    memcpy(call->out_meta[0].shape, stn_spec_shape(in), (size_t)stn_spec_ndim(in) * sizeof(int64_t));
    return STN_OK;
}

static stn_status mark_place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status mark_run(stn_op_call *call)
{
    const stn_spec *spec = stn_tensor_spec(call->in[0]);
    struct mark_args args = {(size_t)stn_spec_local_numel(spec) * sizeof(double), stn_tensor_data(call->in[0]),
                             stn_tensor_data(call->out[0])};
    return args.bytes > 0 ? stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args) : STN_OK;
}

static stn_status mark_backward(stn_backward_call *call)
{
    struct noted *noted = call->arg;
    if (CHECK(noted->n < MARKS))
        noted->id[noted->n++] = ((const struct mark_attrs *)call->attrs)->id;
    call->grad_in[0] = call->grad_out[0];
    return STN_OK;
}

static stn_op_desc mark_desc(struct noted *noted)
{
    static const stn_input_schema input[] = {{.name = "input"}};
    static const stn_attr_schema attrs[] = {{"id", STN_ATTR_INT, offsetof(struct mark_attrs, id), NULL}};
    static const stn_kernel_slot slots[] = {{"forward", sizeof(struct mark_args)}};
    static const stn_kernel kernels[] = {
        {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F64, sizeof(struct mark_args), mark_kernel, NULL}};
    static const stn_op_impl impl = {.check = mark_check,
                                     .place = mark_place,
                                     .run = mark_run,
                                     .backward = mark_backward,
                                     STN_SLOTS(slots),
                                     STN_KERNELS(kernels)};
    return (stn_op_desc){.size = sizeof(stn_op_desc),
                         .name = "mark",
                         STN_INPUTS(input),
                         STN_ATTRS(attrs, struct mark_attrs),
                         .n_outputs = 1,
                         .impl = &impl,
                         .arg = noted};
}

static stn_tensor *mark(const stn_op *op, stn_tensor *x, int64_t id)
{
    const struct mark_attrs attrs = {id};
    stn_tensor *out = NULL;
    CHECK_STATUS(stn_op_apply(op, 1, &x, &attrs, 1, &out), STN_OK);
    return out;
}

/* Neither depth first (4 3 2 5 1) nor breadth first (4 5 3 1 2). */
static stn_status order_body(stn_context *context, void *arg)
{
    struct noted noted = {{0}, 0};
    (void)arg;
    const stn_op *op = NULL;
    stn_op_desc desc = mark_desc(&noted);
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, line(context), stn_shard(0));
    stn_tensor *a = mark(op, x, 1), *b = mark(op, x, 2);
    stn_tensor *d = mark(op, mark(op, b, 3), 4), *e = mark(op, a, 5);
    CHECK_STATUS(stn_backward(stn_sum(stn_add(d, e), 0, NULL, 0)), STN_OK);
    CHECK_I64(noted.n, MARKS);
    for (int i = 0; i < MARKS; i++)
        CHECK_I64(noted.id[i], MARKS - i);
    return stn_scope_end(context);
}

static void nodes_run_in_strict_reverse_order_of_recording(void)
{
    test_ranks(1, order_body, NULL);
    test_ranks(3, order_body, NULL);
}

static void check_values(stn_tensor *t, double factor)
{
    double got[N];
    test_read(t, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], factor * test_value(i), 1e-12);
}

/* One cotangent goes to three leaves unchanged, twice; then the gradients change in place. */
static stn_status cotangent_body(stn_context *context, void *arg)
{
    const stn_placement placement = *(const stn_placement *)arg;
    const stn_mesh *mesh = line(context);
    stn_tensor *grad[3];
    stn_scope_begin(context);
    stn_tensor *x[3], *c = stn_detach(leaf(context, mesh, placement));
    for (int i = 0; i < 3; i++)
        x[i] = leaf(context, mesh, i == 2 ? stn_replicate() : placement);
    stn_tensor *y = stn_add(stn_add(x[0], x[1]), x[2]);
    for (int pass = 0; pass < 2; pass++)
        CHECK_STATUS(stn_backward_many(context, 1, &y, &c, 1), STN_OK);
    check_values(c, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(stn_grad_of(x[i], &grad[i]), STN_OK);
        stn_mul_number_(grad[i], i + 2);
    }
    check_values(c, 1);
    for (int i = 0; i < 3; i++)
        check_values(grad[i], 2 * (i + 2));
    return stn_scope_end(context);
}

/* The same of what stn_grad hands out: of two leaves, of a result, and of the same again. */
static stn_status handed_out_body(stn_context *context, void *arg)
{
    enum { ASKED = 5 };
    const stn_placement placement = *(const stn_placement *)arg;
    const stn_mesh *mesh = line(context);
    stn_tensor *grad[ASKED];
    stn_scope_begin(context);
    stn_tensor *a = leaf(context, mesh, placement), *b = leaf(context, mesh, placement);
    stn_tensor *y = stn_add(a, b), *z = stn_add_number(y, 1), *of[ASKED] = {a, b, y, z, a};
    for (int moves = 0; moves < 2; moves++) {
        stn_tensor *c = leaf(context, mesh, moves ? stn_replicate() : placement);
        CHECK_STATUS(stn_grad(context, 1, &z, &c, ASKED, of, 1, 0, grad), STN_OK);
        for (int i = 0; i < ASKED; i++)
            stn_mul_number_(grad[i], i + 2);
        check_values(c, 1);
        for (int i = 0; i < ASKED; i++) {
            CHECK_I64(stn_requires_grad(grad[i]), 0);
            check_values(grad[i], i + 2);
        }
    }
    return stn_scope_end(context);
}

static void cotangents_are_never_written_to(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 2; p++) {
            test_ranks(ranks, cotangent_body, &placements[p]);
            test_ranks(ranks, handed_out_body, &placements[p]);
        }
}

static stn_status detach_body(stn_context *context, void *arg)
{
    const int64_t n = N, sizes[] = {0, N - 2, 2}, *const cuts[] = {sizes};
    const stn_placement shard = stn_shard(0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, line(context), &shard, STN_DTYPE_F64, 1, &n, cuts, test_value);
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_mul(x, x);
    stn_tensor *of[] = {x, y};
    for (int i = 0; i < 2; i++) {
        stn_tensor *d = stn_detach(of[i]);
        CHECK(stn_tensor_spec(d) == stn_tensor_spec(of[i]));
        CHECK(stn_tensor_data(d) == stn_tensor_data(of[i]));
        CHECK_I64(stn_requires_grad(d), 0);
        CHECK_I64(stn_is_leaf(d), 1);
        CHECK_I64(stn_is_leaf(of[i]), i == 0);
        CHECK_I64(stn_requires_grad(of[i]), 1);
        CHECK(stn_grad_fn(d) == NULL);
        CHECK(stn_grad_fn(of[i]) == (i == 0 ? NULL : stn_op_find(context, "mul")));
    }
    return stn_scope_end(context);
}

static void detach_keeps_spec_and_memory_and_no_history(void)
{
    test_ranks(3, detach_body, NULL);
}

static int64_t collectives(stn_context *context)
{
    return test_stats(context).collectives;
}

/* The rows of x are sharded, so that what comes back for a row of weights is Partial. Collectives of a backward
 * inside no-sync. */
static int64_t collectives_of_backward(stn_context *context, stn_tensor *x, stn_tensor *weights)
{
    stn_tensor *loss = stn_sum(stn_mul(x, weights), 0, NULL, 0);
    int64_t before = collectives(context);
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    stn_no_sync_end(context);
    return collectives(context) - before;
}

static stn_status no_sync_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {5, N};
    const stn_placement rows = stn_shard(0);
    stn_tensor *grad = NULL;
    (void)arg;
    const stn_mesh *mesh = line(context);
    stn_scope_begin(context);
    stn_tensor *whole = leaf(context, mesh, stn_replicate()), *cut = leaf(context, mesh, stn_shard(0));
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, shape, NULL, test_value);
    int64_t kept = collectives_of_backward(context, x, whole), reduced = collectives_of_backward(context, x, cut);
    CHECK_I64(kept, 1); /* the agreement */
    CHECK_I64(reduced, 2);
    CHECK_STATUS(stn_grad_of(cut, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(cut));
    CHECK_STATUS(stn_grad_of(whole, &grad), STN_ERR_PARTIAL);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_grad_sync(context, 1, &whole), STN_OK);
    return stn_scope_end(context);
}

static void no_sync_keeps_replicas_pending_and_reduces_to_the_chunks_of_what_is_cut(void)
{
    test_ranks(3, no_sync_body, NULL);
}

/* As every failure: what follows in the scope does nothing. */
static stn_status lists_body(stn_context *context, void *arg)
{
    const stn_placement whole = stn_replicate();
    const int64_t n = 3;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 1, 0), &whole, STN_DTYPE_F64, 1, &n, NULL, test_value), *g;
    CHECK_STATUS(stn_backward_many(context, -1, &x, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_backward_many: losses got -1 at ");
    CHECK_STATUS(stn_backward_many(context, 1, NULL, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_backward_many: losses got 1 at ");
    CHECK_STATUS(stn_grad(context, 1, NULL, NULL, 1, &x, 0, 0, &g), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_grad: outputs got 1 at ");
    CHECK_STATUS(stn_grad(context, 1, &x, NULL, 1, NULL, 0, 0, &g), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_grad: inputs got 1 at ");
    CHECK_STATUS(stn_grad(context, 1, &x, NULL, 1, &x, 0, 0, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_grad: grads got 1 at ");
    CHECK_STATUS(stn_grad_sync(context, 1, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_grad_sync: leaves got 1 at ");
    CHECK_STATUS(stn_grad_sync(context, -2, NULL), STN_ERR_ARGUMENT);
    CHECK(stn_tensor_is_error(stn_exp(x)));
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "stn_grad_sync: leaves got -2 at ");
    return stn_scope_end(context);
}

static void a_list_that_is_none_is_a_kept_error(void)
{
    test_ranks(1, lists_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"nodes_run_in_strict_reverse_order_of_recording", nodes_run_in_strict_reverse_order_of_recording},
        {"cotangents_are_never_written_to", cotangents_are_never_written_to},
        {"detach_keeps_spec_and_memory_and_no_history", detach_keeps_spec_and_memory_and_no_history},
        {"no_sync_keeps_replicas_pending_and_reduces_to_the_chunks_of_what_is_cut",
         no_sync_keeps_replicas_pending_and_reduces_to_the_chunks_of_what_is_cut},
        {"a_list_that_is_none_is_a_kept_error", a_list_that_is_none_is_a_kept_error},
    };
    return TEST_MAIN(argc, argv, cases);
}
