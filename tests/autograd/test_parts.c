/* Cotangents of parts of one tensor: what they cost, and what others see of them. */
#include "ranks.h"
#include "stats.h"

enum { ROWS = 5, COLUMNS = 9, WIDTH = 4, N = ROWS * COLUMNS * WIDTH, BYTES = N * 8 };

static const int64_t shape[] = {ROWS, COLUMNS, WIDTH};

/* Of three ranks one has nothing. */
static stn_tensor *cube(stn_context *context, const stn_placement *placement)
{
    static const int64_t uneven[3][3] = {{0, 4, 1}, {2, 7, 0}, {1, 0, 3}};
    const int64_t *sizes[3] = {NULL};
    const int n = stn_context_size(context);
    if (n == 3 && placement->kind == STN_PLACE_SHARD)
        sizes[placement->dim] = uneven[placement->dim];
    return test_tensor(context, test_mesh(context, n, 0), placement, STN_DTYPE_F64, 3, shape, sizes, test_value);
}

enum { SPLIT, CHUNK, UNBIND, NARROW, SLICE, SELECT, BACKWARDS, KINDS };

static int cut(int kind, stn_tensor *x, stn_tensor **parts)
{
    switch (kind) {
    case SPLIT: stn_split(x, 1, 4, 3, parts); return 3;
    case CHUNK: stn_chunk(x, 1, 5, 5, parts); return 5;
    case UNBIND: stn_unbind(x, 2, WIDTH, parts); return WIDTH;
    case NARROW:
        for (int i = 0; i < 3; i++)
            parts[i] = stn_narrow(x, 1, 3 * i, 3);
        return 3;
    case SLICE:
        for (int i = 0; i < COLUMNS; i++)
            parts[i] = stn_slice(x, -2, i, i + 1, 1);
        return COLUMNS;
    case SELECT:
        for (int i = 0; i < WIDTH; i++)
            parts[i] = stn_select(x, 2, i);
        return WIDTH;
    default:
        for (int i = 0; i < 3; i++)
            parts[i] = stn_narrow(x, 1, 6 - 3 * i, 3);
        return 3;
    }
}

/* `factor` times the values of a cube, zero in the columns from `end` on. */
static void check_values(stn_tensor *got, double factor, int64_t end)
{
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = i / WIDTH % COLUMNS < end ? factor * test_value(i) : 0;
    if (CHECK_PTR(got))
        test_compare(got, want, N, 0);
}

static void check_grad(stn_tensor *x, double factor, int64_t end)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    check_values(grad, factor, end);
}

/* One tensor is made, each part is written once, and nothing moves. */
static stn_status cost_body(stn_context *context, void *arg)
{
    for (int kind = 0; kind < KINDS; kind++) {
        stn_tensor *parts[STN_MAX_OUTPUTS], *grads[STN_MAX_OUTPUTS];
        stn_scope_begin(context);
        stn_tensor *x = cube(context, arg);
        stn_set_requires_grad(x, 1);
        const int n = cut(kind, x, parts);
        for (int i = 0; i < n; i++)
            grads[i] = stn_detach(stn_mul_number(parts[i], 2));
        CHECK_STATUS(stn_backward_many(context, n, parts, grads, 1),
                     STN_OK); /* what an op keeps is made on first use */
        CHECK_STATUS(stn_zero_grad(x), STN_OK);
        stn_context_stats_reset(context);
        const int64_t before = test_stats(context).live_bytes;
        CHECK_STATUS(stn_backward_many(context, n, parts, grads, 0), STN_OK);
        const stn_stats stats = test_stats(context);
        CHECK(stats.allocations <= 1);
        CHECK(stats.peak_bytes - before <= stn_spec_local_numel(stn_tensor_spec(x)) * 8);
        CHECK(stats.kernels <= n);
        CHECK_I64(stats.redistributions, 0);
        check_grad(x, 2, COLUMNS);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void gradients_of_parts_are_written_once_into_one_tensor(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 3; p++)
            test_ranks(ranks, cost_body, &placements[p]);
}

/* Parts that do not follow each other, and a tensor that is used whole, too: the whole is filled or copied once. */
static stn_status company_body(stn_context *context, void *arg)
{
    static const int order[] = {4, 1, 7, 0, 8, 3, 6, 2, 5};
    for (int whole = 0; whole < 2; whole++) {
        stn_tensor *uses[COLUMNS + 1], *grads[COLUMNS + 1];
        int n = 0;
        stn_scope_begin(context);
        stn_tensor *x = cube(context, arg);
        stn_set_requires_grad(x, 1);
        for (int i = 0; i < COLUMNS; i++)
            uses[n++] = stn_narrow(x, 1, order[i], 1);
        if (whole)
            uses[n++] = stn_clone(x); /* the last use is the first to be run backward */
        for (int i = 0; i < n; i++)
            grads[i] = stn_detach(stn_mul_number(uses[i], 2));
        stn_context_stats_reset(context);
        const int64_t before = test_stats(context).live_bytes;
        CHECK_STATUS(stn_backward_many(context, n, uses, grads, 0), STN_OK);
        CHECK(test_stats(context).peak_bytes - before <= stn_spec_local_numel(stn_tensor_spec(x)) * 8);
        CHECK(test_stats(context).kernels <= n + 2);
        check_grad(x, whole ? 4 : 2, COLUMNS);
        if (whole)
            check_values(grads[n - 1], 2, COLUMNS);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void parts_in_any_order_and_beside_the_whole_cost_one_tensor(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    for (int p = 0; p < 3; p++)
        test_ranks(3, company_body, &placements[p]);
}

/* Who looks on */

struct seen {
    stn_tensor *sum, *x; /* what a backward from inside of the hook starts at, and leads to */
    int calls;
};

static stn_status see(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)instead;
    check_values(gradient, 3, 6);
    ((struct seen *)arg)->calls++;
    return STN_OK;
}

/* The same nodes once more, while a sum of parts is open in one of them. */
static stn_status go_back(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct seen *seen = arg;
    stn_tensor *inner;
    (void)gradient, (void)instead;
    if (seen->calls++ > 0)
        return STN_OK;
    CHECK_STATUS(stn_grad(stn_tensor_context(seen->x), 1, &seen->sum, NULL, 1, &seen->x, 1, 0, &inner), STN_OK);
    check_values(inner, 6, 6);
    return STN_OK;
}

/* y = 2 x, loss = the sum of 3/2 of the squares of its first six columns, in parts of three. */
static stn_tensor *loss_of(stn_tensor *y, stn_tensor **parts)
{
    stn_tensor *sum = NULL;
    for (int i = 0; i < 2; i++) {
        parts[i] = stn_narrow(y, 1, 3 * i, 3);
        stn_tensor *square = stn_mul_number(stn_sum(stn_mul(parts[i], parts[i]), 0, NULL, 0), 0.75);
        sum = sum ? stn_add(sum, square) : square;
    }
    return sum;
}

static stn_status onlookers_body(stn_context *context, void *arg)
{
    struct seen at_y = {0}, at_part = {0};
    stn_tensor *parts[2], *grads[2], *kept = NULL;
    stn_scope_begin(context);
    stn_tensor *x = cube(context, arg);
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_mul_number(x, 2), *loss = loss_of(y, parts);
    at_part = (struct seen){loss, x, 0};
    CHECK_STATUS(stn_add_tensor_hook(y, see, &at_y, NULL), STN_OK);
    CHECK_STATUS(stn_retain_grad(y), STN_OK);
    CHECK_STATUS(stn_add_tensor_hook(parts[0], go_back, &at_part, NULL), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 2, (stn_tensor *[]){y, x}, 1, 0, grads), STN_OK);
    check_values(grads[0], 3, 6);
    check_values(grads[1], 6, 6);
    CHECK_STATUS(stn_backward_many(context, 1, &loss, NULL, 0), STN_OK);
    check_grad(x, 6, 6);
    CHECK_STATUS(stn_grad_of(y, &kept), STN_OK);
    check_values(kept, 3, 6);
    CHECK_I64(at_y.calls, 3);
    CHECK_I64(at_part.calls, 3);
    return stn_scope_end(context);
}

static void hooks_captures_and_backwards_inside_see_whole_gradients(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 3; p++)
            test_ranks(ranks, onlookers_body, &placements[p]);
}

/* A call's own pullback, which nobody else sees gradients of, with and without a cotangent of each part. */
static stn_status pullback_body(stn_context *context, void *arg)
{
    const stn_attr attrs[] = {{"split_size", STN_ATTR_INT, {.i = 3}}, {"dim", STN_ATTR_INT, {.i = 1}}};
    stn_pullback *pullback = NULL;
    stn_tensor *parts[3], *grad;
    stn_scope_begin(context);
    stn_tensor *x = cube(context, arg);
    const stn_op *op = stn_op_find(context, "split");
    CHECK_STATUS(stn_op_invoke_pullback(op, 1, &x, 2, attrs, 1, 3, parts, &pullback), STN_OK);
    for (int n = 1; n <= 3; n++) {
        CHECK_STATUS(stn_pullback_apply(pullback, n, parts, 1, &grad, NULL), STN_OK);
        check_values(grad, 1, 3 * n);
    }
    stn_pullback_release(&pullback);
    return stn_scope_end(context);
}

static void pullbacks_give_whole_gradients(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 3; p++)
            test_ranks(ranks, pullback_body, &placements[p]);
}

/* Layouts meet in that in which wholes would: of a replicated tensor a pending sum joins what is complete, and waits
 * with it; of a sharded one its chunks take what is pending, of the part alone. */
static stn_status meeting_body(stn_context *context, void *arg)
{
    const int64_t third[] = {ROWS, 3, WIDTH};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    for (int pending = 0; pending < 2; pending++) {
        stn_tensor *parts[2], *grads[2], *grad = NULL;
        stn_scope_begin(context);
        stn_tensor *x = cube(context, arg);
        stn_set_requires_grad(x, 1);
        for (int i = 0; i < 2; i++) {
            stn_placement placement = i == pending ? stn_partial(STN_SUM) : *(stn_placement *)arg;
            parts[i] = stn_narrow(x, 1, 3 * i, 3);
            grads[i] = test_tensor(context, mesh, &placement, STN_DTYPE_F64, 3, third, NULL, test_value);
        }
        stn_no_sync_begin(context);
        CHECK_STATUS(stn_backward_many(context, 2, parts, grads, 1), STN_OK);
        stn_no_sync_end(context);
        const stn_status status = stn_grad_of(x, &grad);
        CHECK_STATUS(status, ((stn_placement *)arg)->kind == STN_PLACE_SHARD ? STN_OK : STN_ERR_PARTIAL);
        if (status == STN_ERR_PARTIAL)
            CHECK_ERROR_PART(context, STN_ERR_PARTIAL, "a reduction is pending");
        CHECK_STATUS(stn_backward_many(context, 2, parts, grads, 0), STN_OK);
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        double want[N] = {0};
        for (int i = 0; i < N; i++)
            if (i / WIDTH % COLUMNS < 6)
                want[i] = 2 * test_value(i / WIDTH / COLUMNS * 3 * WIDTH + i % (3 * WIDTH));
        test_compare(grad, want, N, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void parts_in_other_layouts_meet_as_wholes_do(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(2)};
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int p = 0; p < 3; p++)
            test_ranks(ranks, meeting_body, &placements[p]);
}

/* A gradient that came from parts is a tensor like any other: a later backward leaves it as it is. */
static stn_status later_body(stn_context *context, void *arg)
{
    stn_tensor *part, *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *x = cube(context, arg), *z = cube(context, arg);
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(z, 1);
    part = stn_narrow(x, 1, 0, COLUMNS);
    stn_tensor *twice = stn_detach(stn_mul_number(part, 2));
    CHECK_STATUS(stn_backward_many(context, 1, &part, &twice, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    stn_tensor *uses[] = {stn_narrow(z, 1, 0, COLUMNS), stn_clone(z)}, *grads[] = {twice, grad};
    CHECK_STATUS(stn_backward_many(context, 2, uses, grads, 0), STN_OK);
    check_grad(z, 4, COLUMNS);
    check_grad(x, 2, COLUMNS);
    part = stn_narrow(x, 1, 0, 6);
    twice = stn_narrow(twice, 1, 0, 6);
    CHECK_STATUS(stn_zero_grad(x), STN_OK);
    CHECK_STATUS(stn_backward_many(context, 1, &part, &twice, 0), STN_OK);
    check_grad(x, 2, 6);
    part = stn_narrow(z, 1, COLUMNS, 0);
    twice = stn_narrow(twice, 1, 6, 0);
    CHECK_STATUS(stn_grad(context, 1, &part, &twice, 1, &z, 0, 0, &grad), STN_OK);
    check_values(grad, 0, 0);
    return stn_scope_end(context);
}

static void what_parts_gave_is_not_written_to_later(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    for (int p = 0; p < 3; p++)
        test_ranks(3, later_body, &placements[p]);
}

/* A handler's results need not be views of its inputs. */
static stn_status copied_slice(const stn_op *op, int n_inputs, stn_tensor *const *inputs, const void *attrs,
                               int n_outputs, stn_tensor **outputs, void *arg)
{
    stn_tensor *part = NULL;
    ++*(int *)arg;
    CHECK_STATUS(stn_op_apply(op, n_inputs, inputs, attrs, n_outputs, &part), STN_OK);
    outputs[0] = stn_clone(part);
    return stn_context_status(stn_tensor_context(inputs[0]));
}

static stn_status handler_body(stn_context *context, void *arg)
{
    int calls = 0;
    stn_tensor *parts[2];
    stn_scope_begin(context);
    stn_tensor *x = cube(context, arg);
    stn_set_requires_grad(x, 1);
    const stn_op *slice = stn_op_find(context, "slice");
    CHECK_STATUS(stn_op_set_handler(slice, copied_slice, &calls), STN_OK);
    stn_tensor *loss = loss_of(x, parts);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK(calls >= 2);
    check_grad(x, 1.5, 6);
    CHECK_STATUS(stn_op_set_handler(slice, NULL, NULL), STN_OK);
    return stn_scope_end(context);
}

static void handlers_of_slice_may_copy(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(1)};
    for (int p = 0; p < 2; p++)
        test_ranks(3, handler_body, &placements[p]);
}

static stn_tensor *gradient(stn_context *context, stn_tensor *x)
{
    stn_tensor *parts[2], *loss = loss_of(stn_mul_number(x, 2), parts), *grad = NULL;
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 0, 0, &grad), STN_OK);
    return grad;
}

static stn_status step_body(stn_context *context, void *arg)
{
    stn_step *step = NULL;
    stn_scope_begin(context);
    stn_tensor *x = cube(context, arg);
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *grad = gradient(context, x);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int round = 1; round < 3; round++) {
        stn_no_grad_begin(context);
        stn_mul_number_(x, 0.5);
        stn_no_grad_end(context);
        CHECK_STATUS(stn_step_run(step), STN_OK);
        check_values(grad, 6 / (double)(1 << round), 6);
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void captured_steps_write_parts_again(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(1)};
    for (int p = 0; p < 2; p++)
        test_ranks(3, step_body, &placements[p]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_of_parts_are_written_once_into_one_tensor", gradients_of_parts_are_written_once_into_one_tensor},
        {"parts_in_any_order_and_beside_the_whole_cost_one_tensor",
         parts_in_any_order_and_beside_the_whole_cost_one_tensor},
        {"hooks_captures_and_backwards_inside_see_whole_gradients",
         hooks_captures_and_backwards_inside_see_whole_gradients},
        {"pullbacks_give_whole_gradients", pullbacks_give_whole_gradients},
        {"parts_in_other_layouts_meet_as_wholes_do", parts_in_other_layouts_meet_as_wholes_do},
        {"what_parts_gave_is_not_written_to_later", what_parts_gave_is_not_written_to_later},
        {"handlers_of_slice_may_copy", handlers_of_slice_may_copy},
        {"captured_steps_write_parts_again", captured_steps_write_parts_again},
    };
    return TEST_MAIN(argc, argv, cases);
}
