#include "ops/against_one.h"

#include "core/context/context.h"
#include "core/shard/world.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t against_one_numel(const struct random_shape *shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape->ndim; d++)
        n *= shape->shape[d];
    return n;
}

static void put(void *data, stn_dtype dtype, int64_t i, double x)
{
    if (dtype == STN_DTYPE_F64)
        ((double *)data)[i] = x;
    else if (dtype == STN_DTYPE_I64)
        ((int64_t *)data)[i] = (int64_t)x;
    else
        ((float *)data)[i] = (float)x;
}

static double get(const void *data, stn_dtype dtype, int64_t i)
{
    if (dtype == STN_DTYPE_F64)
        return ((const double *)data)[i];
    return dtype == STN_DTYPE_I64 ? (double)((const int64_t *)data)[i] : (double)((const float *)data)[i];
}

/* Linear index in the whole of element `at` of the chunk. */
static int64_t global_index(const stn_spec *spec, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int d = spec->layout.ndim - 1; d >= 0; d--) {
        index += (spec->local_offset[d] + at % spec->local_shape[d]) * stride;
        at /= spec->local_shape[d];
        stride *= spec->layout.shape[d];
    }
    return index;
}

/* This rank's part of element i: dealt whole to one coordinate of each axis with a pending reduction; and a sum that
 * cancels. */
static double addend(const stn_spec *spec, int64_t i, double value)
{
    const stn_mesh *mesh = spec->layout.mesh;
    double noise = 0;
    for (int a = 0; mesh && a < mesh->ndim; a++) {
        stn_placement p = spec->layout.placement[a];
        int size = mesh->sizes[a], own = mesh->coordinate[a];
        if (p.kind != STN_PLACE_PARTIAL)
            continue;
        if (own != (int)(i % size)) {
            value = 0;
            noise = 0;
        }
        if (own == 0 || own == 1)
            noise += own == 0 ? 2 + (double)(i % 3) : -2 - (double)(i % 3);
    }
    return value + noise;
}

stn_tensor *against_one_tensor(stn_context *context, const stn_spec *spec, const double *values)
{
    stn_dtype dtype = spec->layout.dtype;
    void *data = calloc((size_t)spec->local_numel + 1, stn_dtype_size(dtype));
    for (int64_t i = 0; i < spec->local_numel; i++) {
        int64_t whole = global_index(spec, i);
        put(data, dtype, i, addend(spec, whole, values[whole]));
    }
    stn_tensor *tensor = stn_from_host(context, spec, data);
    free(data);
    return tensor;
}

stn_tensor *against_one_local(stn_context *context, stn_dtype dtype, const struct random_shape *shape,
                              const double *values)
{
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, shape->ndim, shape->shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = against_one_tensor(context, spec, values);
    stn_spec_release(&spec);
    return tensor;
}

static double largest(const double *values, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(values[i]));
    return most;
}

void against_one_compare(stn_tensor *tensor, const double *want, double tolerance)
{
    stn_tensor *full = stn_full_tensor(tensor);
    if (!CHECK_STATUS(stn_context_status(stn_tensor_context(full)), STN_OK))
        return;
    const stn_spec *spec = stn_tensor_spec(full), *whole = stn_tensor_spec(tensor);
    if (whole->layout.mesh && !whole->layout.mesh->member)
        return;
    CHECK_I64(spec->numel, whole->numel);
    size_t bytes = (size_t)spec->numel * stn_dtype_size(spec->layout.dtype);
    void *data = calloc(bytes + 1, 1);
    CHECK_STATUS(stn_to_host(full, data, bytes), STN_OK);
    double bound = tolerance * fmax(largest(want, spec->numel), 1e-6), worst = 0, got = 0, wanted = 0;
    for (int64_t i = 0; i < spec->numel; i++) {
        double x = get(data, spec->layout.dtype, i);
        if (!(fabs(x - want[i]) <= worst)) {
            worst = fabs(x - want[i]);
            got = x;
            wanted = want[i];
        }
    }
    if (!CHECK(worst <= bound)) {
        char text[256];
        stn_spec_describe(whole, text, sizeof text);
        fprintf(stderr, "  %s: got %.17g, wanted %.17g\n", text, got, wanted);
    }
    free(data);
}

static void read_local(stn_tensor *tensor, double *out)
{
    const stn_spec *spec = stn_tensor_spec(tensor);
    size_t bytes = (size_t)spec->numel * stn_dtype_size(spec->layout.dtype);
    void *data = calloc(bytes + 1, 1);
    CHECK_STATUS(stn_to_host(tensor, data, bytes), STN_OK);
    for (int64_t i = 0; i < spec->numel; i++)
        out[i] = get(data, spec->layout.dtype, i);
    free(data);
}

/* All that is computed from one set of tensors: output, gradients of the inputs, derivatives of these. */
struct results {
    stn_tensor *out, *grad[AGAINST_ONE_MAX_INPUTS],
        *second[AGAINST_ONE_MAX_INPUTS + 1]; /* the last of `second` is of the cotangent */
};

/* What they are computed from. */
struct givens {
    stn_tensor *in[AGAINST_ONE_MAX_INPUTS], *cotangent, *direction[AGAINST_ONE_MAX_INPUTS];
};

static int is_floating(const struct against_one_input *in)
{
    return in->dtype != STN_DTYPE_I64;
}

static int is_leaf(const struct against_one_op *op, int i)
{
    return is_floating(&op->in[i]) && !(op->still >> i & 1);
}

/* The inputs that gradients are asked of. */
static int list_leaves(const struct against_one_op *op, stn_tensor *const *from, stn_tensor **to)
{
    int n = 0;
    for (int i = 0; i < op->n_in; i++)
        if (is_leaf(op, i))
            to[n++] = from[i];
    return n;
}

static stn_tensor *draw_tensor(stn_context *context, uint64_t *state, const stn_mesh *mesh, stn_dtype dtype,
                               const struct random_shape *shape, uint32_t ops, const double *values)
{
    const stn_spec *spec = random_spec(state, context, mesh, shape, dtype, ops);
    stn_tensor *tensor = against_one_tensor(context, spec, values);
    stn_spec_release(&spec);
    return tensor;
}

static void forward(const struct against_one_op *op, const struct givens *g, struct results *out)
{
    for (int i = 0; i < op->n_in; i++)
        if (is_leaf(op, i))
            CHECK_STATUS(stn_set_requires_grad(g->in[i], 1), STN_OK);
    out->out = op->call(g->in, op->arg);
}

static void backward(stn_context *context, const struct against_one_op *op, const struct givens *g, struct results *out)
{
    stn_tensor *leaves[AGAINST_ONE_MAX_INPUTS + 1], *cotangent = g->cotangent;
    int n = list_leaves(op, g->in, leaves), again = !op->first_order;
    CHECK_STATUS(stn_set_requires_grad(cotangent, again), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &out->out, &cotangent, n, leaves, again, again, out->grad), STN_OK);
    if (!again)
        return;
    leaves[n] = cotangent;
    CHECK_STATUS(stn_grad(context, n, out->grad, g->direction, n + 1, leaves, 0, 0, out->second), STN_OK);
}

double *against_one_draw(uint64_t *state, int64_t n)
{
    double *values = calloc((size_t)n + 1, sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = ldexp((double)world_random(state, 1 << 21), -20) - 1;
    return values;
}

static void compare_result(stn_tensor *got, stn_tensor *wanted, double tolerance)
{
    if (!CHECK((got == NULL) == (wanted == NULL)) || got == NULL)
        return;
    int64_t n = stn_spec_numel(stn_tensor_spec(wanted));
    double *values = calloc((size_t)n + 1, sizeof *values);
    read_local(wanted, values);
    against_one_compare(got, values, tolerance);
    free(values);
}

static void check_gradient_spec(const stn_tensor *grad, const stn_tensor *input)
{
    const stn_spec *spec = stn_tensor_spec(input);
    if (grad && spec->partial_axes == 0)
        CHECK(stn_tensor_spec(grad) == spec);
}

/* For a drawn cotangent and drawn directions. */
static void check_derivatives(stn_context *context, uint64_t *state, const stn_mesh *mesh,
                              const struct against_one_op *op, struct givens *local, struct givens *given,
                              struct results *wanted, struct results *got)
{
    struct random_shape shape = {.ndim = stn_tensor_ndim(wanted->out)};
    const stn_dtype dtype = stn_tensor_dtype(wanted->out);
    stn_tensor *leaves[AGAINST_ONE_MAX_INPUTS];
    memcpy(shape.shape, stn_tensor_shape(wanted->out), sizeof shape.shape[0] * (size_t)shape.ndim);
    double *cotangent = against_one_draw(state, against_one_numel(&shape));
    local->cotangent = against_one_local(context, dtype, &shape, cotangent);
    given->cotangent = draw_tensor(context, state, mesh, dtype, &shape, 1u << STN_SUM, cotangent);
    int n = 0;
    for (int i = 0; i < op->n_in; i++) {
        const struct against_one_input *in = &op->in[i];
        if (!is_floating(in))
            continue;
        double *values = against_one_draw(state, against_one_numel(&in->shape));
        local->direction[n] = against_one_local(context, in->dtype, &in->shape, values);
        given->direction[n] = draw_tensor(context, state, mesh, in->dtype, &in->shape, 1u << STN_SUM, values);
        free(values);
        n += is_leaf(op, i); /* the next one takes the place of what has none */
    }
    backward(context, op, local, wanted);
    backward(context, op, given, got);
    list_leaves(op, given->in, leaves);
    for (int i = 0; i < n; i++)
        check_gradient_spec(got->grad[i], leaves[i]);
    for (int i = 0; i < n; i++)
        compare_result(got->grad[i], wanted->grad[i], op->tolerance);
    for (int i = 0; i <= n; i++)
        compare_result(got->second[i], wanted->second[i], op->tolerance);
    free(cotangent);
}

/* Every other time inputs that require no gradient, but not all of them. What else is drawn stays the same. */
static uint32_t draw_still(const struct against_one_op *op, uint64_t state)
{
    uint32_t floating = 0;
    for (int i = 0; i < op->n_in; i++)
        floating |= is_leaf(op, i) ? 1u << i : 0;
    const uint32_t drawn = (uint32_t)world_random(&state, 1 << AGAINST_ONE_MAX_INPUTS) & floating;
    return drawn == floating || world_random(&state, 2) ? op->still : op->still | drawn;
}

static void check(stn_context *context, uint64_t *state, const stn_mesh *mesh, const struct against_one_op *op)
{
    struct givens local = {0}, given = {0};
    struct results wanted = {0}, got = {0};
    stn_tensor *leaves[AGAINST_ONE_MAX_INPUTS];
    stn_scope_begin(context);
    for (int i = 0; i < op->n_in; i++)
        local.in[i] = against_one_local(context, op->in[i].dtype, &op->in[i].shape, op->in[i].values);
    for (int i = 0; i < op->n_in; i++)
        given.in[i] =
            draw_tensor(context, state, mesh, op->in[i].dtype, &op->in[i].shape, op->in[i].ops, op->in[i].values);
    forward(op, &local, &wanted);
    forward(op, &given, &got);
    if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
        compare_result(got.out, wanted.out, op->tolerance);
        if (list_leaves(op, local.in, leaves) > 0)
            check_derivatives(context, state, mesh, op, &local, &given, &wanted, &got);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

void against_one_check(stn_context *context, uint64_t *state, const stn_mesh *mesh, const struct against_one_op *op)
{
    struct against_one_op drawn = *op;
    drawn.still = draw_still(op, *state);
    check(context, state, mesh, &drawn);
}

void against_one_check_drawn(stn_context *context, uint64_t state, int rounds,
                             stn_tensor *(*call)(stn_tensor *const *in, const void *arg))
{
    for (int i = 0; i < rounds; i++) {
        struct random_shape shape;
        random_shape(&state, &shape);
        const uint64_t drawn = world_random(&state, 1 << 30);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        const struct against_one_op op = {
            .call = call, .arg = &drawn, .n_in = 1, .in = {{STN_DTYPE_F64, shape, values, 1u << STN_SUM}}};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
}

/* Differences */

/* Values of all that the gradient of <cotangent, op(in)> depends on: the inputs, and the cotangent behind them. */
struct point {
    double *v[AGAINST_ONE_MAX_INPUTS + 1];
    int64_t n[AGAINST_ONE_MAX_INPUTS + 1];
};

static struct point point_copy(const struct against_one_op *op, const struct point *from)
{
    struct point p = {0};
    for (int i = 0; i <= op->n_in; i++) {
        p.n[i] = from->n[i];
        p.v[i] = malloc(((size_t)p.n[i] + 1) * sizeof(double));
        memcpy(p.v[i], from->v[i], (size_t)p.n[i] * sizeof(double));
    }
    return p;
}

/* Directions for what can vary; zeros for indices. */
static struct point point_draw(const struct against_one_op *op, const struct point *like, uint64_t *state)
{
    struct point p = {0};
    for (int i = 0; i <= op->n_in; i++) {
        p.n[i] = like->n[i];
        p.v[i] = i == op->n_in || is_floating(&op->in[i]) ? against_one_draw(state, p.n[i])
                                                          : calloc((size_t)p.n[i] + 1, sizeof(double));
    }
    return p;
}

static void point_free(const struct against_one_op *op, struct point *p)
{
    for (int i = 0; i <= op->n_in; i++)
        free(p->v[i]);
}

static double point_dot(const struct against_one_op *op, const struct point *a, const struct point *b)
{
    double sum = 0;
    for (int i = 0; i <= op->n_in; i++)
        for (int64_t j = 0; j < a->n[i]; j++)
            sum += a->v[i][j] * b->v[i][j];
    return sum;
}

/* F = <cotangent, op(in)> at `at`, its gradient, and the gradient of <direction, gradient of the inputs>. */
static double evaluate(stn_context *context, const struct against_one_op *op, const struct random_shape *out_shape,
                       const struct point *at, const struct point *direction, struct point *gradient,
                       struct point *second)
{
    struct givens g = {0};
    struct results r = {0};
    double sum = 0;
    int n = 0, last = op->n_in;
    stn_scope_begin(context);
    for (int i = 0; i < last; i++) {
        g.in[i] = against_one_local(context, op->in[i].dtype, &op->in[i].shape, at->v[i]);
        if (is_floating(&op->in[i]))
            g.direction[n++] = against_one_local(context, STN_DTYPE_F64, &op->in[i].shape, direction->v[i]);
    }
    g.cotangent = against_one_local(context, STN_DTYPE_F64, out_shape, at->v[last]);
    forward(op, &g, &r);
    backward(context, op, &g, &r);
    n = 0;
    for (int i = 0; i < last; i++) {
        if (!is_floating(&op->in[i]))
            continue;
        read_local(r.grad[n], gradient->v[i]);
        memset(second->v[i], 0, (size_t)second->n[i] * sizeof(double)); /* NULL: does not depend on it */
        if (r.second[n])
            read_local(r.second[n], second->v[i]);
        n++;
    }
    read_local(r.out, gradient->v[last]);
    if (r.second[n])
        read_local(r.second[n], second->v[last]);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    for (int64_t j = 0; j < at->n[last]; j++)
        sum += gradient->v[last][j] * at->v[last][j];
    return sum;
}

static void step(const struct against_one_op *op, struct point *p, const struct point *direction, double h)
{
    for (int i = 0; i <= op->n_in; i++)
        for (int64_t j = 0; j < p->n[i]; j++)
            p->v[i][j] += h * direction->v[i][j];
}

static void check_difference(double got, double wanted)
{
    if (fabs(got - wanted) > 1e-7)
        CHECK_NEAR(got, wanted, 1e-7);
    CHECK(isfinite(got));
}

/* The inputs' values and a drawn cotangent. */
static struct point start(stn_context *context, uint64_t *state, const struct against_one_op *op,
                          struct random_shape *out_shape)
{
    stn_tensor *in[AGAINST_ONE_MAX_INPUTS];
    struct point at = {0}, copy;
    stn_scope_begin(context);
    for (int i = 0; i < op->n_in; i++) {
        at.v[i] = (double *)(uintptr_t)op->in[i].values;
        at.n[i] = against_one_numel(&op->in[i].shape);
        in[i] = against_one_local(context, op->in[i].dtype, &op->in[i].shape, op->in[i].values);
    }
    stn_tensor *out = op->call(in, op->arg);
    out_shape->ndim = stn_tensor_ndim(out);
    memcpy(out_shape->shape, stn_tensor_shape(out), (size_t)out_shape->ndim * sizeof out_shape->shape[0]);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    at.n[op->n_in] = against_one_numel(out_shape);
    at.v[op->n_in] = against_one_draw(state, at.n[op->n_in]);
    copy = point_copy(op, &at);
    free(at.v[op->n_in]);
    return copy;
}

void against_one_differences(stn_context *context, uint64_t *state, const struct against_one_op *op)
{
    const double h = 1e-4;
    struct random_shape shape = {0};
    struct point at = start(context, state, op, &shape), low = point_copy(op, &at), high = point_copy(op, &at);
    struct point direction = point_draw(op, &at, state), along = point_draw(op, &at, state);
    struct point gradient = point_copy(op, &at), second = point_copy(op, &at), low_gradient = point_copy(op, &at),
                 high_gradient = point_copy(op, &at), unused = point_copy(op, &at);
    memset(direction.v[op->n_in], 0, (size_t)direction.n[op->n_in] * sizeof(double));
    step(op, &low, &along, -h);
    step(op, &high, &along, h);
    evaluate(context, op, &shape, &at, &direction, &gradient, &second);
    double f_low = evaluate(context, op, &shape, &low, &direction, &low_gradient, &unused);
    double f_high = evaluate(context, op, &shape, &high, &direction, &high_gradient, &unused);
    check_difference(point_dot(op, &gradient, &along), (f_high - f_low) / (2 * h));
    if (!op->first_order)
        check_difference(point_dot(op, &second, &along),
                         (point_dot(op, &high_gradient, &direction) - point_dot(op, &low_gradient, &direction)) /
                             (2 * h));

    struct point *all[] = {&at,       &low,    &high,         &direction,     &along,
                           &gradient, &second, &low_gradient, &high_gradient, &unused};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        point_free(op, all[i]);
}
