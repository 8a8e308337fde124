/* Functions of a caller's own on chunks: values and gradients in random layouts against formulas, by ops and by a
 * backward in C. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

static stn_queue *queue_of(const stn_tensor *tensor)
{
    return stn_context_queue(stn_tensor_context(tensor));
}

/* The chunk's elements, dense; the caller frees them. */
static double *read_chunk(stn_tensor *tensor)
{
    const int64_t n = stn_spec_numel(stn_tensor_spec(tensor));
    double *data = calloc((size_t)n + 1, sizeof *data);
    CHECK_STATUS(stn_to_host(tensor, data, (size_t)n * sizeof *data), STN_OK);
    return data;
}

static stn_tensor *local_tensor(stn_context *context, int ndim, const int64_t *shape, const double *data)
{
    const stn_spec *spec;
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, ndim, shape, NULL, &spec);
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static stn_tensor *like(stn_tensor *tensor, const double *data)
{
    return local_tensor(stn_tensor_context(tensor), stn_tensor_ndim(tensor), stn_tensor_shape(tensor), data);
}

/* f(x, w) = x^2 w, pointwise; the sum of x, of which each rank has an addend; and 3 w, of which each has the whole. w
 * has one element. */
static stn_status by_ops(stn_local_call *call)
{
    stn_tensor *x = call->in[0], *w = call->in[1];
    ++*(int *)call->arg;
    call->out[0] = stn_mul(stn_mul(x, x), w);
    call->out[1] = stn_sum(x, 0, NULL, 0);
    call->out[2] = stn_mul_number(w, 3);
    return STN_OK;
}

static stn_status by_hand(stn_local_call *call)
{
    double *x = read_chunk(call->in[0]), *w = read_chunk(call->in[1]), sum = 0, three = 3 * w[0];
    const int64_t n = stn_spec_numel(stn_tensor_spec(call->in[0]));
    ++*(int *)call->arg;
    CHECK(!stn_grad_enabled(call->context));
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        x[i] *= x[i] * w[0];
    }
    call->out[0] = like(call->in[0], x);
    call->out[1] = local_tensor(call->context, 0, NULL, &sum);
    call->out[2] = local_tensor(call->context, 0, NULL, &three);
    free(x);
    free(w);
    return STN_OK;
}

static stn_status by_hand_backward(stn_local_backward_call *call)
{
    double *x = read_chunk(call->in[0]), *w = read_chunk(call->in[1]), *y = read_chunk(call->out[0]);
    double *g = read_chunk(call->grad_out[0]), *sum = read_chunk(call->grad_out[1]),
           *three = read_chunk(call->grad_out[2]);
    const int64_t n = stn_spec_numel(stn_tensor_spec(call->in[0]));
    double dw = 3 * three[0];
    CHECK_I64(call->needs, 3);
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(y[i], x[i] * x[i] * w[0], 1e-15);
        dw += g[i] * x[i] * x[i];
        g[i] = 2 * x[i] * w[0] * g[i] + sum[0];
    }
    call->grad_in[0] = like(call->in[0], g);
    call->grad_in[1] = local_tensor(call->context, 0, NULL, &dw);
    free(x), free(w), free(y), free(g), free(sum), free(three);
    return STN_OK;
}

struct layouts {
    const stn_mesh *mesh;
    stn_placement shard[STN_MAX_MESH_NDIM], whole[STN_MAX_MESH_NDIM], addends[STN_MAX_MESH_NDIM];
};

/* Shards of x as drawn, but for what is pending; its sum is pending where x is sharded. */
static void declare(const stn_spec *spec, struct layouts *l)
{
    l->mesh = stn_spec_mesh(spec);
    for (int a = 0; a < stn_mesh_ndim(l->mesh); a++) {
        const stn_placement p = stn_spec_placement(spec, a);
        l->whole[a] = stn_replicate();
        l->shard[a] = p.kind == STN_PLACE_SHARD ? p : stn_replicate();
        l->addends[a] = p.kind == STN_PLACE_SHARD ? stn_partial(STN_SUM) : stn_replicate();
    }
}

static const stn_spec *scalar(stn_context *context, const stn_mesh *mesh, const stn_placement *placements)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, STN_DTYPE_F64, 0, NULL, NULL, &spec), STN_OK);
    return spec;
}

/* loss = sum(y h) + 2 s + 5 t, so dx = 2 x w h + 2, dw = sum(x^2 h) + 15. */
static void check_gradients(stn_tensor *const *out, stn_tensor *x, stn_tensor *w, stn_tensor *h, const double *values,
                            const double *others, int64_t n, double at)
{
    stn_tensor *grad;
    double *want = calloc((size_t)n + 1, sizeof *want), dw = 15;
    stn_tensor *loss =
        stn_add(stn_add(stn_sum(stn_mul(out[0], h), 0, NULL, 0), stn_mul_number(out[1], 2)), stn_mul_number(out[2], 5));
    CHECK_STATUS(stn_backward(loss), STN_OK);
    for (int64_t i = 0; i < n; i++) {
        want[i] = 2 * values[i] * at * others[i] + 2;
        dw += values[i] * values[i] * others[i];
    }
    if (CHECK_STATUS(stn_grad_of(x, &grad), STN_OK))
        against_one_compare(grad, want, 1e-12);
    if (CHECK_STATUS(stn_grad_of(w, &grad), STN_OK))
        against_one_compare(grad, &dw, 1e-12);
    free(want);
}

static void one_layout(stn_context *context, uint64_t *state, int with_backward)
{
    struct random_shape shape;
    struct layouts l;
    int calls = 0;
    random_shape(state, &shape);
    const int64_t n = against_one_numel(&shape);
    double *values = against_one_draw(state, n), *others = against_one_draw(state, n),
           *want = calloc((size_t)n + 1, sizeof *want), at = 0.75;
    const stn_mesh *mesh = random_mesh(state, context);
    const stn_spec *given = random_spec(state, context, mesh, &shape, STN_DTYPE_F64, 1u << STN_SUM);
    const stn_spec *declared = random_spec(state, context, mesh, &shape, STN_DTYPE_F64, 0), *x_spec;
    declare(declared, &l);
    CHECK_STATUS(stn_spec_like(given, l.shard, STN_DTYPE_F64, shape.ndim, shape.shape, &x_spec), STN_OK);
    const stn_spec *whole = scalar(context, mesh, l.whole),
                   *specs[] = {x_spec, scalar(context, mesh, l.addends), whole};
    stn_tensor *x = against_one_tensor(context, given, values), *h = against_one_tensor(context, given, others);
    stn_tensor *w = against_one_tensor(context, whole, &at), *out[3];
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(w, 1);
    const stn_placement *in_placements[] = {l.shard, NULL};
    const stn_local_map_options map = {.size = sizeof map,
                                       .function = with_backward ? by_hand : by_ops,
                                       .backward = with_backward ? by_hand_backward : NULL,
                                       .arg = &calls,
                                       .in_placements = in_placements,
                                       .out_specs = specs};
    CHECK_STATUS(stn_local_map(&map, 2, (stn_tensor *[]){x, w}, 3, out), STN_OK);
    CHECK_I64(calls, stn_mesh_contains_me(mesh));
    CHECK(stn_tensor_spec(out[0]) == x_spec);
    for (int64_t i = 0; i < n; i++)
        want[i] = values[i] * values[i] * at;
    against_one_compare(out[0], want, 1e-14);
    check_gradients(out, x, w, h, values, others, n, at);
    for (int k = 0; k < 3; k++)
        stn_spec_release(&specs[k]);
    stn_spec_release(&given);
    stn_spec_release(&declared);
    free(values), free(others), free(want);
}

static stn_status body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        stn_scope_begin(context);
        one_layout(context, &state, i % 2);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            return STN_OK;
    }
    return STN_OK;
}

static void functions_on_chunks_give_what_formulas_do_in_every_layout(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], body, NULL);
}

/* Gradients by the other convention: each rank's is the whole, of a function that computes it so. */
static stn_status doubled(stn_local_call *call)
{
    call->out[0] = stn_mul_number(call->in[0], 2);
    return STN_OK;
}

static stn_status convention_body(stn_context *context, void *arg)
{
    const stn_placement one = stn_replicate(), *const whole[] = {&one};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_local_map_options a = {
        .size = sizeof a, .function = doubled, .out_placements = whole, .convention = STN_GRAD_REPLICATED};
    const stn_local_map_options b = {.size = sizeof b,
                                     .function = doubled,
                                     .out_placements = whole,
                                     .in_grad_placements = whole,
                                     .out_grad_placements = whole};
    const stn_local_map_options c = {.size = sizeof c, .function = doubled, .out_placements = whole};
    const stn_local_map_options *const maps[] = {&a, &b, &c};
    stn_stats stats = {.size = sizeof stats};
    int64_t bytes[3];
    (void)arg;
    for (int m = 0; m < 3; m++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &one, STN_DTYPE_F64, 1, (int64_t[]){4}, NULL, test_value), *y, *grad;
        stn_set_requires_grad(x, 1);
        CHECK_STATUS(stn_local_map(maps[m], 1, &x, 1, &y), STN_OK);
        stn_queue_sync(stn_context_queue(context));
        stn_context_stats_reset(context);
        CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
        CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
        bytes[m] = stats.bytes_sent;
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        against_one_compare(grad, (double[]){2, 2, 2, 2}, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_I64(bytes[1], bytes[0]);
    CHECK(bytes[2] > bytes[0]); /* the sum over the axis */
    return STN_OK;
}

static void replicas_need_no_sum_where_the_caller_says_so(void)
{
    test_ranks(3, convention_body, NULL);
}

/* Sizes that only the ranks know: rank r keeps r of its rows. */
static stn_status keep_rows(stn_local_call *call)
{
    call->out[0] = stn_narrow(call->in[0], 0, 0, stn_context_rank(call->context));
    return STN_OK;
}

static stn_status sizes_body(stn_context *context, void *arg)
{
    const stn_placement rows = stn_shard(0), *const placements[] = {&rows};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_local_map_options map = {.size = sizeof map, .function = keep_rows, .out_placements = placements};
    double want[9] = {0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 1, (int64_t[]){9}, NULL, test_value), *y, *grad;
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    CHECK_I64(stn_tensor_shape(y)[0], 3);
    against_one_compare(y, (double[]){test_value(3), test_value(6), test_value(7)}, 0);
    CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    want[3] = want[6] = want[7] = 1;
    against_one_compare(grad, want, 0);
    return stn_scope_end(context);
}

static void sizes_that_only_ranks_know_are_gathered(void)
{
    test_ranks(3, sizes_body, NULL);
}

/* The mean over one axis of a grid by its communicator: x - mean, and the same of cotangents. */
static stn_status minus_mean(stn_context *context, const stn_mesh *mesh, stn_tensor *in, stn_tensor **out)
{
    stn_comm *comm;
    stn_status status = stn_mesh_axes_comm(mesh, 1, (int[]){1}, &comm);
    double *x = read_chunk(in), mean = 0;
    stn_tensor *sum = local_tensor(context, 0, NULL, x);
    stn_queue_sync(queue_of(sum));
    if (status == STN_OK)
        status = stn_comm_all_reduce(comm, x, &mean, 1, STN_DTYPE_F64, STN_SUM, NULL);
    x[0] -= mean / stn_comm_size(comm);
    *out = like(in, x);
    free(x);
    return status;
}

static stn_status minus_mean_forward(stn_local_call *call)
{
    return minus_mean(call->context, call->mesh, call->in[0], &call->out[0]);
}

static stn_status minus_mean_backward(stn_local_backward_call *call)
{
    return minus_mean(call->context, call->mesh, call->grad_out[0], &call->grad_in[0]);
}

static stn_status comm_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    const stn_placement grid[] = {stn_shard(0), stn_shard(1)};
    double want[6], gradient[6];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, grid, STN_DTYPE_F64, 2, (int64_t[]){2, 3}, NULL, test_value), *y, *grad;
    const stn_spec *spec = stn_tensor_spec(x);
    const stn_local_map_options map = {
        .size = sizeof map, .function = minus_mean_forward, .backward = minus_mean_backward, .out_specs = &spec};
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    for (int i = 0; i < 6; i++) {
        const int row = i / 3 * 3;
        want[i] = test_value(i) - (test_value(row) + test_value(row + 1) + test_value(row + 2)) / 3;
        gradient[i] = i - (row + 1);
    }
    against_one_compare(y, want, 1e-14);
    double index[] = {0, 1, 2, 3, 4, 5};
    stn_tensor *w = against_one_tensor(context, spec, index);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(y, w), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    against_one_compare(grad, gradient, 1e-14);
    return stn_scope_end(context);
}

static void functions_have_the_communicators_of_axes(void)
{
    test_ranks(6, comm_body, NULL);
}

/* The sum over the ranks by a collective of per-rank programs, whose gradient is its own: y = s^2, dy/dx = 2 s. */
static stn_status square_of_sum(stn_local_call *call)
{
    stn_tensor *sum = stn_dist_all_reduce(stn_sum(call->in[0], 0, NULL, 0), call->mesh, STN_SUM, STN_GRAD_PER_RANK);
    call->out[0] = stn_mul(sum, sum);
    return STN_OK;
}

/* The same along one axis of the mesh after the other. */
static stn_status square_by_axes(stn_local_call *call)
{
    stn_tensor *sum = stn_sum(call->in[0], 0, NULL, 0);
    for (int axis = 0; axis < stn_mesh_ndim(call->mesh); axis++) {
        const stn_mesh *line = NULL;
        stn_mesh_slice(call->mesh, 1, &axis, &line);
        sum = stn_dist_all_reduce(sum, line, STN_SUM, STN_GRAD_PER_RANK);
    }
    call->out[0] = stn_mul(sum, sum);
    return STN_OK;
}

static void square(stn_context *context, const stn_mesh *mesh, int64_t n, stn_status (*function)(stn_local_call *call))
{
    const stn_placement rows[] = {stn_shard(0), stn_shard(0)}, whole[] = {stn_replicate(), stn_replicate()};
    double sum = 0, want[8];
    stn_tensor *x = test_tensor(context, mesh, rows, STN_DTYPE_F64, 1, &n, NULL, test_value), *y, *grad;
    const stn_spec *spec = scalar(context, mesh, whole);
    const stn_local_map_options map = {.size = sizeof map, .function = function, .out_specs = &spec};
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    for (int i = 0; i < n; i++)
        sum += test_value(i);
    against_one_compare(y, (double[]){sum * sum}, 1e-14);
    CHECK_STATUS(stn_backward(y), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    for (int i = 0; i < n; i++)
        want[i] = 2 * sum;
    against_one_compare(grad, want, 1e-14);
    stn_spec_release(&spec);
}

static stn_status collectives_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    square(context, test_mesh(context, 3, 0), 5, square_of_sum);
    return stn_scope_end(context);
}

static void functions_may_call_collectives_of_their_own(void)
{
    test_ranks(3, collectives_body, NULL);
}

/* Groups on slices along the second axis, each with a size and a number of calls of its own; then all ranks, over
 * slices of the whole grid. */
static stn_status slices_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, *(const int *)arg), *own = NULL;
    const int group = stn_mesh_coordinate(grid, 0);
    CHECK_STATUS(stn_mesh_slice(grid, 1, (int[]){1}, &own), STN_OK);
    stn_scope_begin(context);
    for (int call = 0; call <= group; call++)
        square(context, own, 5 + group, square_of_sum);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_scope_begin(context);
    square(context, grid, 5, square_by_axes);
    return stn_scope_end(context);
}

static void functions_may_call_collectives_over_slices(void)
{
    test_ranks(4, slices_body, &(int){2});
    test_ranks(6, slices_body, &(int){3});
}

/* Second differences around a ring, from chunks with a margin of two elements behind them; an empty chunk has none. */
static stn_status differences(stn_local_call *call)
{
    stn_tensor *x = call->in[0];
    const int64_t n = stn_tensor_shape(x)[0] - 2;
    if (n < 0) {
        call->out[0] = stn_mul_number(x, 1);
        return STN_OK;
    }
    stn_tensor *ends = stn_add(stn_narrow(x, 0, 0, n), stn_narrow(x, 0, 2, n));
    call->out[0] = stn_sub(ends, stn_mul_number(stn_narrow(x, 0, 1, n), 2));
    return STN_OK;
}

static stn_status halos_body(stn_context *context, void *arg)
{
    static const int64_t cuts[] = {4, 0, 3}, *const sizes[] = {cuts};
    const stn_placement rows = stn_shard(0);
    const stn_halo ring = {.size = sizeof ring, .above = {2}, .mode = {STN_PADDING_CIRCULAR}}, *halos[] = {&ring};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    double want[7], gradient[7], weights[7];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 1, (int64_t[]){7}, sizes, test_value), *y, *grad;
    const stn_spec *spec = stn_tensor_spec(x);
    const stn_local_map_options map = {
        .size = sizeof map, .function = differences, .in_halos = halos, .out_specs = &spec};
    stn_set_requires_grad(x, 1);
    CHECK_STATUS(stn_local_map(&map, 1, &x, 1, &y), STN_OK);
    for (int i = 0; i < 7; i++) {
        weights[i] = test_value(i + 50);
        want[i] = test_value(i) - 2 * test_value((i + 1) % 7) + test_value((i + 2) % 7);
    }
    against_one_compare(y, want, 1e-14);
    for (int i = 0; i < 7; i++)
        gradient[i] = weights[i] - 2 * weights[(i + 6) % 7] + weights[(i + 5) % 7];
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(y, against_one_tensor(context, spec, weights)), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    against_one_compare(grad, gradient, 1e-14);
    return stn_scope_end(context);
}

static void chunks_come_with_margins_where_asked_for(void)
{
    test_ranks(3, halos_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"functions_on_chunks_give_what_formulas_do_in_every_layout",
         functions_on_chunks_give_what_formulas_do_in_every_layout},
        {"replicas_need_no_sum_where_the_caller_says_so", replicas_need_no_sum_where_the_caller_says_so},
        {"sizes_that_only_ranks_know_are_gathered", sizes_that_only_ranks_know_are_gathered},
        {"functions_have_the_communicators_of_axes", functions_have_the_communicators_of_axes},
        {"functions_may_call_collectives_of_their_own", functions_may_call_collectives_of_their_own},
        {"functions_may_call_collectives_over_slices", functions_may_call_collectives_over_slices},
        {"chunks_come_with_margins_where_asked_for", chunks_come_with_margins_where_asked_for},
    };
    return TEST_MAIN(argc, argv, cases);
}
