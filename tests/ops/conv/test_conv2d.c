/* conv2d and its gradients: one process against plain loops, random layouts against one process, specs, dtypes, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call: sizes and attributes. pad -1: "same". */
struct shape {
    int64_t n, c, h, w, o, kh, kw, groups; /* n 0: without a batch dim; -1: an empty batch */
    int64_t stride[2], pad[2], dilation[2];
    stn_padding_mode mode[2];
    int has_bias;
};

static stn_conv_attrs attrs_of(const struct shape *s)
{
    stn_conv_attrs a = {.size = sizeof a, .groups = s->groups, .same = s->pad[0] < 0};
    for (int d = 0; d < 2; d++) {
        a.stride[d] = s->stride[d];
        a.padding[d] = s->pad[d] < 0 ? 0 : s->pad[d];
        a.dilation[d] = s->dilation[d];
        a.mode[d] = s->mode[d];
    }
    return a;
}

static struct random_shape input_shape(const struct shape *s)
{
    if (s->n == 0)
        return (struct random_shape){3, {s->c, s->h, s->w}};
    return (struct random_shape){4, {s->n < 0 ? 0 : s->n, s->c, s->h, s->w}};
}

static struct random_shape weight_shape(const struct shape *s)
{
    return (struct random_shape){4, {s->o, s->c / s->groups, s->kh, s->kw}};
}

/* Plain loops, in double, with the boundary followed position by position. */

static int64_t images(const struct shape *s)
{
    return s->n == 0 ? 1 : s->n < 0 ? 0 : s->n;
}

static int64_t extent(const struct shape *s, int d)
{
    return s->dilation[d] * ((d ? s->kw : s->kh) - 1) + 1;
}

static int64_t pad_low(const struct shape *s, int d)
{
    return s->pad[d] < 0 ? (extent(s, d) - 1) / 2 : s->pad[d];
}

static int64_t out_size(const struct shape *s, int d)
{
    int64_t total = s->pad[d] < 0 ? extent(s, d) - 1 : 2 * s->pad[d];
    return ((d ? s->w : s->h) + total - extent(s, d)) / s->stride[d] + 1;
}

/* The element at a position, -1 for zero: one step at a time towards the input. */
static int64_t element(int64_t at, int64_t n, stn_padding_mode mode)
{
    while (at < 0 || at >= n) {
        if (mode == STN_PADDING_ZEROS)
            return -1;
        if (mode == STN_PADDING_REPLICATE)
            at = at < 0 ? 0 : n - 1;
        else if (mode == STN_PADDING_CIRCULAR)
            at += at < 0 ? n : -n;
        else
            at = at < 0 ? -at : 2 * (n - 1) - at;
    }
    return at;
}

/* Calls for every product y += x weight; one of the three is the sum. */
static void plain(const struct shape *s, double *x, double *weight, double *y, double *sum)
{
    int64_t oh = out_size(s, 0), ow = out_size(s, 1), cg = s->c / s->groups, og = s->o / s->groups;
    for (int64_t i = 0; i < images(s) * s->o * oh * ow; i++) {
        int64_t q = i % ow, p = i / ow % oh, o = i / (ow * oh) % s->o, n = i / (ow * oh * s->o);
        for (int64_t t = 0; t < cg * s->kh * s->kw; t++) {
            int64_t v = t % s->kw, u = t / s->kw % s->kh, c = t / (s->kw * s->kh);
            int64_t row = element(p * s->stride[0] - pad_low(s, 0) + u * s->dilation[0], s->h, s->mode[0]);
            int64_t col = element(q * s->stride[1] - pad_low(s, 1) + v * s->dilation[1], s->w, s->mode[1]);
            if (row < 0 || col < 0)
                continue;
            double *a = x + ((n * s->c + o / og * cg + c) * s->h + row) * s->w + col, *b = weight + o * cg * s->kh * s->kw + t;
            if (sum == y)
                y[i] += *a * *b;
            else if (sum == x)
                *a += *b * y[i];
            else
                *b += *a * y[i];
        }
    }
}

static const struct shape shapes[] = {
    {1, 2, 7, 6, 3, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1},
    {2, 3, 9, 8, 4, 3, 2, 1, {1, 1}, {-1, -1}, {1, 1}, {0, 0}, 1},
    {2, 4, 8, 9, 4, 2, 4, 2, {1, 1}, {-1, -1}, {2, 1}, {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}, 1},
    {3, 2, 10, 11, 2, 2, 2, 1, {3, 3}, {0, 1}, {1, 1}, {0, 0}, 0},
    {2, 3, 11, 7, 6, 3, 1, 3, {2, 1}, {1, 0}, {2, 3}, {STN_PADDING_REFLECT, 0}, 1},
    {2, 1, 13, 12, 2, 7, 5, 1, {1, 1}, {3, 2}, {1, 1}, {STN_PADDING_REFLECT, STN_PADDING_REPLICATE}, 0},
    {0, 2, 9, 10, 3, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {STN_PADDING_CIRCULAR, STN_PADDING_CIRCULAR}, 1},
    {1, 1, 5, 6, 1, 5, 5, 1, {1, 1}, {4, 5}, {1, 1}, {STN_PADDING_REFLECT, STN_PADDING_REFLECT}, 1},
    {2, 2, 6, 5, 2, 3, 3, 1, {2, 2}, {6, 5}, {1, 1}, {STN_PADDING_CIRCULAR, STN_PADDING_REPLICATE}, 0},
    {1, 2, 4, 4, 2, 1, 1, 1, {1, 1}, {2, 1}, {1, 1}, {STN_PADDING_REPLICATE, 0}, 1},
    {2, 3, 8, 7, 2, 1, 1, 1, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1},
    {1, 2, 9, 7, 2, 1, 1, 1, {3, 2}, {0, 0}, {1, 1}, {0, 0}, 0},
    {2, 6, 12, 5, 6, 3, 3, 6, {1, 1}, {1, 1}, {1, 1}, {0, STN_PADDING_CIRCULAR}, 1},
    {-1, 2, 6, 5, 3, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1},
    {2, 2, 12, 11, 2, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {STN_PADDING_REFLECT, STN_PADDING_REFLECT}, 1},
    {2, 2, 11, 12, 2, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}, 0},
    {1, 1, 23, 3, 1, 4, 2, 1, {4, 1}, {1, 0}, {2, 2}, {0, 0}, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static stn_tensor *call_conv2d(stn_tensor *const *in, const void *arg)
{
    const struct shape *s = arg;
    stn_conv_attrs attrs = attrs_of(s);
    return stn_conv2d(in[0], in[1], s->has_bias ? in[2] : NULL, &attrs);
}

/* One process against plain loops */

static double *zeros(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

/* With the cotangent r: y = conv(x, w) + b and x' = G(r, w), w' = W(x, r) for the loss <r, y>; with directions u, t, s of x', w', b':
 * the derivatives of <u, x'> + <t, w'> + <s, b'> by x are G(r, t), by w W(u, r), by r conv(u, w) + conv(x, t) + s. */
static void check_against_loops(stn_context *context, uint64_t *state, const struct shape *s, stn_dtype dtype, double tolerance)
{
    struct random_shape xs = input_shape(s), ws = weight_shape(s), bs = {1, {s->o}}, ys = xs;
    int nd = xs.ndim;
    ys.shape[nd - 3] = s->o, ys.shape[nd - 2] = out_size(s, 0), ys.shape[nd - 1] = out_size(s, 1);
    int64_t nx = against_one_numel(&xs), nw = against_one_numel(&ws), ny = against_one_numel(&ys), plane = ys.shape[nd - 2] * ys.shape[nd - 1];
    double *x = against_one_draw(state, nx), *w = against_one_draw(state, nw), *b = against_one_draw(state, s->o);
    double *r = against_one_draw(state, ny), *u = against_one_draw(state, nx), *t = against_one_draw(state, nw), *v = against_one_draw(state, s->o);
    double *y = zeros(ny), *dx = zeros(nx), *dw = zeros(nw), *db = zeros(s->o), *ddx = zeros(nx), *ddw = zeros(nw), *dr = zeros(ny);
    plain(s, x, w, y, y);
    plain(s, dx, w, r, dx);
    plain(s, x, dw, r, dw);
    plain(s, ddx, t, r, ddx);
    plain(s, u, ddw, r, ddw);
    plain(s, u, w, dr, dr);
    plain(s, x, t, dr, dr);
    for (int64_t i = 0; i < ny && s->has_bias; i++) {
        y[i] += b[i / plane % s->o];
        db[i / plane % s->o] += r[i];
        dr[i] += v[i / plane % s->o];
    }
    stn_scope_begin(context);
    stn_tensor *in[] = {against_one_local(context, dtype, &xs, x), against_one_local(context, dtype, &ws, w), against_one_local(context, dtype, &bs, b)};
    stn_tensor *cotangent = against_one_local(context, dtype, &ys, r);
    stn_tensor *along[] = {against_one_local(context, dtype, &xs, u), against_one_local(context, dtype, &ws, t), against_one_local(context, dtype, &bs, v)};
    stn_tensor *grad[3] = {NULL}, *second[4] = {NULL}, *leaves[] = {in[0], in[1], in[2], cotangent};
    int n = s->has_bias ? 3 : 2;
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(cotangent, 1), STN_OK);
    leaves[n] = cotangent;
    stn_tensor *out = call_conv2d(in, s);
    CHECK_STATUS(stn_grad(context, 1, &out, &cotangent, n, leaves, 1, 1, grad), STN_OK);
    CHECK_STATUS(stn_grad(context, n, grad, along, n + 1, leaves, 0, 0, second), STN_OK);
    against_one_compare(out, y, tolerance);
    against_one_compare(grad[0], dx, tolerance);
    against_one_compare(grad[1], dw, tolerance);
    against_one_compare(second[0], ddx, tolerance);
    against_one_compare(second[1], ddw, tolerance);
    against_one_compare(second[n], dr, tolerance);
    if (s->has_bias) {
        against_one_compare(grad[2], db, tolerance);
        CHECK(second[2] == NULL);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    double *all[] = {x, w, b, r, u, t, v, y, dx, dw, db, ddx, ddw, dr};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static stn_status loops_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < N_SHAPES; i++) {
        check_against_loops(context, &state, &shapes[i], STN_DTYPE_F64, 1e-13);
        check_against_loops(context, &state, &shapes[i], STN_DTYPE_F32, 2e-6);
    }
    return STN_OK;
}

static void one_process_gives_what_plain_loops_give_to_the_second_derivative(void)
{
    test_ranks(1, loops_body, NULL);
}

/* Random layouts against one process */

static void check_layouts(stn_context *context, uint64_t *state, const stn_mesh *mesh, const struct shape *s, stn_dtype dtype,
                          double tolerance)
{
    struct against_one_op op = {.call = call_conv2d, .arg = s, .n_in = s->has_bias ? 3 : 2, .tolerance = tolerance};
    struct random_shape of[] = {input_shape(s), weight_shape(s), {1, {s->o}}};
    double *values[3];
    for (int i = 0; i < 3; i++) {
        values[i] = against_one_draw(state, against_one_numel(&of[i]));
        op.in[i] = (struct against_one_input){dtype, of[i], values[i], 1u << STN_SUM};
    }
    against_one_check(context, state, mesh, &op);
    for (int i = 0; i < 3; i++)
        free(values[i]);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int round = 0; round < 6; round++)
        for (int i = 0; i < N_SHAPES; i++)
            check_layouts(context, &state, random_mesh(&state, context), &shapes[i], round % 3 ? STN_DTYPE_F64 : STN_DTYPE_F32,
                          round % 3 ? 1e-12 : 1e-4);
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], layouts_body, NULL);
}

/* Rows and columns cut, whatever else: every geometry on meshes of one and two axes, with empty chunks and chunks smaller than a halo. */

static const stn_spec *spec_of(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                               const struct random_shape *shape, const int64_t *const *sizes)
{
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, dtype, shape->ndim, shape->shape, &options, &spec), STN_OK);
    return spec;
}

/* All of n at piece `at` of p but for one element on each of its neighbours. */
static void lopsided(int64_t n, int p, int at, int64_t *sizes)
{
    memset(sizes, 0, (size_t)p * sizeof *sizes);
    for (int i = 0; i < p && n > 1; i++)
        if (i == at - 1 || i == at + 1) {
            sizes[i] = 1;
            n--;
        }
    sizes[at] = n;
}

static void check_cut(stn_context *context, const struct shape *s, int rows, int columns, int form)
{
    struct random_shape xs = input_shape(s), ws = weight_shape(s), bs = {1, {s->o}};
    uint64_t state = 23;
    int height = xs.ndim - 2;
    int64_t cut[2][8];
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    const stn_mesh *mesh = test_mesh(context, rows, columns);
    stn_placement over[] = {stn_shard(height), stn_shard(height + 1)}, both[] = {stn_shard(height), stn_shard(height)};
    if (form > 0) {
        lopsided(xs.shape[height], form == 2 ? rows * columns : rows, form == 3 ? rows - 1 : 0, cut[0]);
        lopsided(xs.shape[height + 1], columns ? columns : 1, columns / 2, cut[1]);
        sizes[height] = cut[0];
        sizes[height + 1] = columns && form != 2 ? cut[1] : NULL;
    }
    const stn_spec *spec = spec_of(context, mesh, form == 2 ? both : over, STN_DTYPE_F64, &xs, sizes);
    double *x = against_one_draw(&state, against_one_numel(&xs)), *w = against_one_draw(&state, against_one_numel(&ws));
    double *b = against_one_draw(&state, s->o);
    stn_scope_begin(context);
    stn_tensor *cut_x = against_one_tensor(context, spec, x), *local[3], *whole[3], *grad[2][3];
    stn_placement replicate[] = {stn_replicate(), stn_replicate()};
    const stn_spec *ws_spec = spec_of(context, mesh, replicate, STN_DTYPE_F64, &ws, NULL), *bs_spec = spec_of(context, mesh, replicate, STN_DTYPE_F64, &bs, NULL);
    local[0] = against_one_local(context, STN_DTYPE_F64, &xs, x), local[1] = against_one_local(context, STN_DTYPE_F64, &ws, w);
    local[2] = against_one_local(context, STN_DTYPE_F64, &bs, b);
    whole[0] = cut_x, whole[1] = against_one_tensor(context, ws_spec, w), whole[2] = against_one_tensor(context, bs_spec, b);
    int n = s->has_bias ? 3 : 2;
    for (int i = 0; i < n; i++) {
        CHECK_STATUS(stn_set_requires_grad(local[i], 1), STN_OK);
        CHECK_STATUS(stn_set_requires_grad(whole[i], 1), STN_OK);
    }
    stn_tensor *want = call_conv2d(local, s), *got = call_conv2d(whole, s);
    int64_t ny = stn_spec_numel(stn_tensor_spec(want));
    double *buffer = zeros(ny + against_one_numel(&xs) + against_one_numel(&ws));
    test_read(want, buffer, ny);
    against_one_compare(got, buffer, 1e-12);
    stn_tensor *squares[] = {stn_mul(want, want), stn_mul(got, got)};
    stn_tensor *loss[] = {stn_sum(squares[0], 0, NULL, 0), stn_sum(squares[1], 0, NULL, 0)};
    CHECK_STATUS(stn_grad(context, 1, &loss[0], NULL, n, local, 0, 0, grad[0]), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &loss[1], NULL, n, whole, 0, 0, grad[1]), STN_OK);
    for (int i = 0; i < n; i++) {
        test_read(grad[0][i], buffer, stn_spec_numel(stn_tensor_spec(grad[0][i])));
        against_one_compare(grad[1][i], buffer, 1e-12);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    stn_spec_release(&ws_spec);
    stn_spec_release(&bs_spec);
    free(x), free(w), free(b), free(buffer);
}

struct cut_case {
    int rows, columns;
};

static stn_status cut_body(stn_context *context, void *arg)
{
    const struct cut_case *c = arg;
    for (int i = 0; i < N_SHAPES; i++)
        for (int form = 0; form < 4; form++)
            if (c->columns || form != 2)
                check_cut(context, &shapes[i], c->rows, c->columns, form);
    return STN_OK;
}

static void cut_rows_and_columns_give_what_one_process_gives(void)
{
    struct cut_case cases[] = {{2, 0}, {3, 0}, {5, 0}, {2, 2}, {2, 3}};
    for (int i = 0; i < 5; i++)
        test_ranks(cases[i].rows * (cases[i].columns ? cases[i].columns : 1), cut_body, &cases[i]);
}

/* Specs of results */

static stn_tensor *filled(stn_context *context, const stn_mesh *mesh, stn_placement placement, int ndim, const int64_t *shape,
                          const int64_t *const *sizes)
{
    return test_tensor(context, mesh, &placement, STN_DTYPE_F32, ndim, shape, sizes, test_value);
}

static int same_placement(stn_placement a, stn_placement b)
{
    return a.kind == b.kind && a.dim == b.dim && a.op == b.op;
}

static stn_status specs_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 6, 9, 5}, w[] = {4, 6, 3, 3}, wg[] = {4, 3, 3, 3}, b[] = {4}, uneven[] = {1, 8}, uneven_o[] = {3, 1};
    const int64_t *const rows[] = {NULL, NULL, uneven, NULL}, *const outs[] = {uneven_o, NULL, NULL, NULL};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement R = stn_replicate(), P = stn_partial(STN_SUM);
    struct {
        stn_placement x, w, want;
        int grouped;
        const int64_t *const *x_sizes, *const *w_sizes;
        int64_t local[4]; /* of rank 0's chunk of y */
    } cases[] = {
        {R, R, R, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_shard(0), R, stn_shard(0), 0, NULL, NULL, {2, 4, 9, 5}},
        {stn_shard(2), R, stn_shard(2), 0, rows, NULL, {4, 4, 1, 5}},
        {stn_shard(3), R, stn_shard(3), 0, NULL, NULL, {4, 4, 9, 3}},
        {R, stn_shard(0), stn_shard(1), 0, NULL, outs, {4, 3, 9, 5}},
        {stn_shard(1), stn_shard(1), P, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_shard(1), R, P, 0, NULL, NULL, {4, 4, 9, 5}},
        {R, stn_shard(1), P, 0, NULL, NULL, {4, 4, 9, 5}},
        {P, R, P, 0, NULL, NULL, {4, 4, 9, 5}},
        {R, P, P, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_partial(STN_AVG), R, R, 0, NULL, NULL, {4, 4, 9, 5}},
        {R, stn_shard(2), R, 0, NULL, NULL, {4, 4, 9, 5}},
        {stn_shard(2), stn_shard(0), stn_shard(2), 0, NULL, NULL, {4, 4, 5, 5}},
        {stn_shard(1), R, stn_shard(1), 1, NULL, NULL, {4, 2, 9, 5}},
        {R, stn_shard(0), stn_shard(1), 1, NULL, outs, {4, 2, 9, 5}},
        {R, stn_shard(1), R, 1, NULL, NULL, {4, 4, 9, 5}},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1, .groups = cases[i].grouped ? 2 : 1};
        stn_scope_begin(context);
        stn_tensor *bias = filled(context, mesh, R, 1, b, NULL);
        stn_tensor *y = stn_conv2d(filled(context, mesh, cases[i].x, 4, x, cases[i].x_sizes),
                                   filled(context, mesh, cases[i].w, 4, cases[i].grouped ? wg : w, cases[i].w_sizes), bias, &attrs);
        const stn_spec *spec = stn_tensor_spec(y);
        if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
            if (!CHECK(same_placement(stn_spec_placement(spec, 0), cases[i].want)))
                fprintf(stderr, "  case %zu\n", i);
            for (int d = 0; d < 4 && stn_context_rank(context) == 0; d++)
                CHECK_I64(stn_spec_local_shape(spec)[d], cases[i].local[d]);
            CHECK_I64(stn_spec_memory_order(spec)[3], 1);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void results_are_placed_as_the_header_says(void)
{
    test_ranks(2, specs_body, NULL);
}

/* An uneven cut is scaled by the ratio of sizes: 9 rows at stride 2 give 5. */
static stn_status strided_body(stn_context *context, void *arg)
{
    const int64_t x[] = {1, 1, 9, 4}, w[] = {1, 1, 3, 3}, uneven[] = {2, 7};
    const int64_t *const rows[] = {NULL, NULL, uneven, NULL};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {2, 1}, .padding = {1, 1}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *y = stn_conv2d(filled(context, mesh, stn_shard(2), 4, x, rows), filled(context, mesh, stn_replicate(), 4, w, NULL), NULL, &attrs);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK_I64(stn_spec_shape(stn_tensor_spec(y))[2], 5);
    CHECK_I64(stn_spec_local_shape(stn_tensor_spec(y))[2], stn_context_rank(context) == 0 ? 2 : 3); /* ceil(2 * 5 / 9) = 2 */
    return stn_scope_end(context);
}

static void uneven_cuts_are_scaled_by_the_sizes(void)
{
    test_ranks(2, strided_body, NULL);
}

/* The input moves nowhere but for two halos of one row each. */
static stn_status bytes_body(stn_context *context, void *arg)
{
    const int64_t x[] = {2, 3, 10, 7}, w[] = {2, 3, 3, 3};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = filled(context, mesh, stn_shard(2), 4, x, NULL), *weight = filled(context, mesh, stn_replicate(), 4, w, NULL);
    stn_context_stats_reset(context);
    stn_conv2d(input, weight, NULL, &attrs);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.messages, 1);
    CHECK_I64(stats.bytes_sent, 2 * 3 * 7 * 4);
    CHECK_I64(stats.fallbacks, 0);
    return stn_scope_end(context);
}

static void one_exchange_carries_the_halo_and_no_more(void)
{
    test_ranks(2, bytes_body, NULL);
}

/* Nor does anything move where each output reads the one element at its place. */
static stn_status pointwise_body(stn_context *context, void *arg)
{
    const int64_t x[] = {2, 3, 10, 7}, w[] = {2, 3, 1, 1};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = filled(context, mesh, stn_shard(2), 4, x, NULL), *weight = filled(context, mesh, stn_replicate(), 4, w, NULL);
    stn_context_stats_reset(context);
    stn_conv2d(input, weight, NULL, NULL);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 0);
    return stn_scope_end(context);
}

static void kernels_of_one_element_exchange_nothing(void)
{
    test_ranks(2, pointwise_body, NULL);
}

/* In the gradient by the weight the cotangent goes to the cut that follows from the input's, though it is the larger one: 5 of 9 rows at
 * stride 2, input rows 2 and 7, so output rows 2 and 3; the cotangent comes with rows 3 and 2 and gives one up. */
static stn_status leading_body(stn_context *context, void *arg)
{
    const int64_t x[] = {1, 1, 9, 4}, y[] = {1, 8, 5, 4}, uneven_x[] = {2, 7}, uneven_y[] = {3, 2};
    const int64_t *const x_rows[] = {NULL, NULL, uneven_x, NULL}, *const y_rows[] = {NULL, NULL, uneven_y, NULL};
    const stn_attr attrs[] = {{"stride", STN_ATTR_INTS, {.ints = {2, {2, 1}}}}, {"padding", STN_ATTR_INT, {.i = 1}}, {"kernel_size", STN_ATTR_INTS, {.ints = {2, {3, 3}}}}};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {filled(context, mesh, stn_shard(2), 4, x, x_rows), filled(context, mesh, stn_shard(2), 4, y, y_rows)}, *out;
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_call(context, "conv2d_grad_weight", 2, in, 3, attrs, 1, &out), STN_OK);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK(same_placement(stn_spec_placement(stn_tensor_spec(out), 0), stn_partial(STN_SUM)));
    /* Rank 0: a row of the cotangent; rank 1: input rows 2 and 3, which output 1 reads beyond row 1. */
    CHECK_I64(stats.bytes_sent, stn_context_rank(context) == 0 ? 8 * 4 * 4 : 2 * 4 * 4);
    return stn_scope_end(context);
}

static void the_input_leads_in_the_gradient_by_the_weight(void)
{
    test_ranks(2, leading_body, NULL);
}

/* Beside the output the op takes memory for strips alone: rows beside the cut and columns beside the edges. */
static stn_status memory_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 16, 256, 128}, w[] = {16, 16, 3, 3};
    const int order[] = {0, 2, 3, 1};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement rows = stn_shard(2);
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *spec;
    (void)arg;
    for (int mode = 0; mode < 4; mode++) {
        stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}, .mode = {(stn_padding_mode)mode, (stn_padding_mode)mode}};
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        CHECK_STATUS(stn_spec_create(context, mesh, &rows, STN_DTYPE_F32, 4, x, &options, &spec), STN_OK);
        int64_t chunk = stn_spec_local_numel(spec) * 4;
        stn_tensor *input = stn_mul_number(stn_empty(context, spec), 0), *weight = filled(context, mesh, stn_replicate(), 4, w, NULL);
        stn_tensor *in[] = {input, weight}, *grad[2];
        CHECK_STATUS(stn_set_requires_grad(weight, 1), STN_OK);
        stn_context_stats(context, &stats);
        int64_t before = stats.live_bytes;
        stn_context_stats_reset(context);
        stn_tensor *y = stn_conv2d(input, weight, NULL, &attrs);
        stn_context_stats(context, &stats);
        CHECK(stats.peak_bytes - before - chunk < chunk / 4);
        before = stats.live_bytes;
        stn_context_stats_reset(context);
        CHECK_STATUS(stn_grad(context, 1, &y, &input, 1, in + 1, 0, 0, grad), STN_OK);
        stn_context_stats(context, &stats);
        CHECK(stats.peak_bytes - before < chunk / 4);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_spec_release(&spec);
    }
    return STN_OK;
}

static void the_input_is_never_copied_to_make_room(void)
{
    test_ranks(2, memory_body, NULL);
}

/* By name, as frameworks call it */

static stn_status names_body(stn_context *context, void *arg)
{
    const int64_t x[] = {2, 4, 9, 8}, w[] = {6, 2, 3, 3};
    struct {
        stn_attr attrs[4];
        int n;
        stn_conv_attrs want;
    } cases[] = {
        {{{"padding", STN_ATTR_STRING, {.s = "same"}}, {"groups", STN_ATTR_INT, {.i = 2}}}, 2, {.same = 1}},
        {{{"padding", STN_ATTR_STRING, {.s = "valid"}}, {"groups", STN_ATTR_INT, {.i = 2}}, {"stride", STN_ATTR_INT, {.i = 2}}}, 3, {.stride = {2, 2}}},
        {{{"padding", STN_ATTR_INTS, {.ints = {2, {2, 1}}}}, {"groups", STN_ATTR_INT, {.i = 2}},
          {"padding_mode", STN_ATTR_STRING, {.s = "replicate"}}, {"last_padding_mode", STN_ATTR_STRING, {.s = "circular"}}},
         4, {.padding = {2, 1}, .mode = {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}}},
        {{{"padding", STN_ATTR_INTS, {.ints = {1, {1}}}}, {"groups", STN_ATTR_INT, {.i = 2}},
          {"padding_mode", STN_ATTR_STRING, {.s = "reflect"}}, {"dilation", STN_ATTR_INTS, {.ints = {2, {1, 2}}}}},
         4, {.padding = {1, 1}, .dilation = {1, 2}, .mode = {STN_PADDING_REFLECT, STN_PADDING_REFLECT}}},
    };
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_scope_begin(context);
        stn_tensor *in[] = {filled(context, mesh, stn_shard(2), 4, x, NULL), filled(context, mesh, stn_replicate(), 4, w, NULL)}, *by_name;
        cases[i].want.size = sizeof cases[i].want;
        cases[i].want.groups = 2;
        CHECK_STATUS(stn_call(context, "conv2d", 2, in, cases[i].n, cases[i].attrs, 1, &by_name), STN_OK);
        stn_tensor *typed = stn_conv2d(in[0], in[1], NULL, &cases[i].want);
        if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
            int64_t n = stn_spec_numel(stn_tensor_spec(typed));
            double *want = zeros(n);
            test_read(typed, want, n);
            against_one_compare(by_name, want, 0);
            free(want);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void attributes_by_name_mean_what_the_struct_means(void)
{
    test_ranks(2, names_body, NULL);
}

/* 16-bit floats: computed in f32, rounded at the end */

static stn_status narrow_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F16, STN_DTYPE_BF16};
    static const double steps[] = {0x1p-11, 0x1p-8};
    uint64_t state = 31;
    (void)arg;
    for (int i = 0; i < N_SHAPES; i++)
        for (int d = 0; d < 2; d++) {
            const struct shape *s = &shapes[i];
            struct random_shape xs = input_shape(s), ws = weight_shape(s);
            int height = xs.ndim - 2;
            double *x = against_one_draw(&state, against_one_numel(&xs)), *w = against_one_draw(&state, against_one_numel(&ws));
            stn_placement over[] = {stn_shard(height)}, everywhere[] = {stn_replicate()};
            const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
            const stn_spec *x_spec = spec_of(context, mesh, over, STN_DTYPE_F32, &xs, NULL), *w_spec = spec_of(context, mesh, everywhere, STN_DTYPE_F32, &ws, NULL);
            stn_scope_begin(context);
            stn_tensor *in[2][2], *out[2], *loss[2], *grad[2][2];
            in[0][0] = stn_cast(against_one_tensor(context, x_spec, x), dtypes[d]);
            in[0][1] = stn_cast(against_one_tensor(context, w_spec, w), dtypes[d]);
            for (int k = 0; k < 2; k++) {
                in[0][k] = stn_detach(in[0][k]);
                in[1][k] = stn_detach(stn_cast(in[0][k], STN_DTYPE_F64));
                CHECK_STATUS(stn_set_requires_grad(in[0][k], 1), STN_OK);
                CHECK_STATUS(stn_set_requires_grad(in[1][k], 1), STN_OK);
            }
            for (int wide = 0; wide < 2; wide++) {
                struct shape no_bias = *s;
                no_bias.has_bias = 0;
                out[wide] = call_conv2d(in[wide], &no_bias);
                loss[wide] = stn_sum(out[wide], 0, NULL, 0);
                CHECK_STATUS(stn_grad(context, 1, &loss[wide], NULL, 2, in[wide], 0, 0, grad[wide]), STN_OK);
            }
            stn_tensor *narrow[] = {out[0], grad[0][0], grad[0][1]}, *full[] = {out[1], grad[1][0], grad[1][1]};
            for (int k = 0; k < 3 && CHECK_STATUS(stn_context_status(context), STN_OK); k++) {
                int64_t n = stn_spec_numel(stn_tensor_spec(full[k]));
                double *want = zeros(n);
                test_read(full[k], want, n);
                CHECK(stn_tensor_dtype(narrow[k]) == dtypes[d]);
                against_one_compare(stn_cast(narrow[k], STN_DTYPE_F32), want, 4 * steps[d]);
                free(want);
            }
            CHECK_STATUS(stn_scope_end(context), STN_OK);
            stn_spec_release(&x_spec), stn_spec_release(&w_spec);
            free(x), free(w);
        }
    return STN_OK;
}

static void narrow_floats_are_those_of_f64_rounded(void)
{
    test_ranks(1, narrow_body, NULL);
    test_ranks(3, narrow_body, NULL);
}

/* Tall images, which f32 takes in blocks of rows and f64 at once */

static stn_status tall_body(stn_context *context, void *arg)
{
    static const struct shape tall[] = {
        {2, 16, 150, 96, 16, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1},
        {1, 16, 301, 96, 24, 4, 3, 1, {2, 1}, {2, 1}, {1, 1}, {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}, 1},
        {2, 24, 181, 70, 16, 3, 5, 2, {1, 1}, {-1, -1}, {3, 1}, {STN_PADDING_REFLECT, 0}, 1},
        {1, 16, 400, 96, 16, 5, 3, 1, {3, 1}, {1, 0}, {1, 1}, {0, 0}, 0},
    };
    uint64_t state = 47;
    (void)arg;
    for (size_t i = 0; i < sizeof tall / sizeof *tall; i++) {
        const struct shape *s = &tall[i];
        struct random_shape of[] = {input_shape(s), weight_shape(s), {1, {s->o}}};
        const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
        stn_placement rows = stn_shard(2), everywhere = stn_replicate();
        stn_tensor *in[2][3], *out[2], *loss[2], *grad[2][3];
        int n = s->has_bias ? 3 : 2;
        stn_scope_begin(context);
        for (int k = 0; k < n; k++) {
            const stn_spec *spec = spec_of(context, mesh, k == 0 ? &rows : &everywhere, STN_DTYPE_F32, &of[k], NULL);
            double *values = against_one_draw(&state, against_one_numel(&of[k]));
            in[0][k] = against_one_tensor(context, spec, values);
            in[1][k] = stn_detach(stn_cast(in[0][k], STN_DTYPE_F64));
            stn_spec_release(&spec);
            free(values);
        }
        for (int wide = 0; wide < 2; wide++) {
            for (int k = 0; k < n; k++)
                CHECK_STATUS(stn_set_requires_grad(in[wide][k], 1), STN_OK);
            out[wide] = call_conv2d(in[wide], s);
            loss[wide] = stn_sum(stn_mul(out[wide], out[wide]), 0, NULL, 0);
            CHECK_STATUS(stn_grad(context, 1, &loss[wide], NULL, n, in[wide], 0, 0, grad[wide]), STN_OK);
        }
        for (int k = -1; k < n && CHECK_STATUS(stn_context_status(context), STN_OK); k++) {
            stn_tensor *full = k < 0 ? out[1] : grad[1][k];
            int64_t count = stn_spec_numel(stn_tensor_spec(full));
            double *want = zeros(count);
            test_read(full, want, count);
            against_one_compare(k < 0 ? out[0] : grad[0][k], want, 2e-5);
            free(want);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void tall_images_in_blocks_of_rows_give_what_f64_gives(void)
{
    test_ranks(1, tall_body, NULL);
    test_ranks(2, tall_body, NULL);
}

/* Refusals */

struct refusal {
    struct shape s;
    stn_status want;
    const char *text;
};

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const struct refusal cases[] = {
        {{1, 3, 7, 6, 3, 3, 3, 2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 0}, STN_ERR_SHAPE, "channels"},
        {{1, 2, 2, 6, 3, 3, 3, 1, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 0}, STN_ERR_SHAPE, "kernel's 3"},
        {{1, 2, 5, 6, 3, 3, 3, 1, {2, 1}, {-1, -1}, {1, 1}, {0, 0}, 0}, STN_ERR_ARGUMENT, "'same'"},
        {{1, 2, 5, 6, 3, 3, 3, 1, {-1, 1}, {0, 0}, {1, 1}, {0, 0}, 0}, STN_ERR_ARGUMENT, "'stride' got -1"},
        {{1, 2, 5, 6, 3, 3, 3, 1, {1, 1}, {5, 1}, {1, 1}, {STN_PADDING_REFLECT, 0}, 0}, STN_ERR_SHAPE, "'reflect' got padding 5"},
        {{1, 2, 5, 6, 3, 3, 3, 1, {1, 1}, {1, 7}, {1, 1}, {0, STN_PADDING_CIRCULAR}, 0}, STN_ERR_SHAPE, "'circular' got padding 7"},
        {{1, 2, 5, 6, 3, 3, 3, 1, {1, 1}, {1, 1}, {1, 1}, {0, (stn_padding_mode)9}, 0}, STN_ERR_ARGUMENT, "attrs.mode got 9"},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct random_shape xs = input_shape(&cases[i].s), ws = weight_shape(&cases[i].s);
        char text[512];
        ws.shape[1] = ws.shape[1] == 0 ? 1 : ws.shape[1];
        stn_scope_begin(context);
        const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
        stn_tensor *in[] = {filled(context, mesh, stn_shard(2), 4, xs.shape, NULL), filled(context, mesh, stn_replicate(), 4, ws.shape, NULL)};
        stn_context_stats_reset(context);
        CHECK(stn_tensor_is_error(call_conv2d(in, &cases[i].s)));
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats(context, &stats);
        CHECK_I64(stats.collectives, 0);
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), cases[i].want);
        if (!CHECK(strstr(text, cases[i].text) != NULL))
            fprintf(stderr, "  got \"%s\", wanted \"%s\" in it\n", text, cases[i].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    const int64_t x[] = {1, 1, 4, 4}, w[] = {1, 1, 3, 3};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_placement everywhere = stn_replicate();
    stn_scope_begin(context);
    stn_tensor *wide = test_tensor(context, mesh, &everywhere, STN_DTYPE_F64, 4, x, NULL, test_value);
    CHECK(stn_tensor_is_error(stn_conv2d(wide, filled(context, mesh, everywhere, 4, w, NULL), NULL, NULL)));
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_DTYPE);
    CHECK(stn_tensor_is_error(stn_conv2d(stn_cast(wide, STN_DTYPE_C64), stn_cast(wide, STN_DTYPE_C64), NULL, NULL)));
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_DTYPE);
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused_before_any_communication(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"one_process_gives_what_plain_loops_give_to_the_second_derivative", one_process_gives_what_plain_loops_give_to_the_second_derivative},
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"cut_rows_and_columns_give_what_one_process_gives", cut_rows_and_columns_give_what_one_process_gives},
        {"results_are_placed_as_the_header_says", results_are_placed_as_the_header_says},
        {"uneven_cuts_are_scaled_by_the_sizes", uneven_cuts_are_scaled_by_the_sizes},
        {"one_exchange_carries_the_halo_and_no_more", one_exchange_carries_the_halo_and_no_more},
        {"kernels_of_one_element_exchange_nothing", kernels_of_one_element_exchange_nothing},
        {"the_input_leads_in_the_gradient_by_the_weight", the_input_leads_in_the_gradient_by_the_weight},
        {"the_input_is_never_copied_to_make_room", the_input_is_never_copied_to_make_room},
        {"attributes_by_name_mean_what_the_struct_means", attributes_by_name_mean_what_the_struct_means},
        {"narrow_floats_are_those_of_f64_rounded", narrow_floats_are_those_of_f64_rounded},
        {"tall_images_in_blocks_of_rows_give_what_f64_gives", tall_images_in_blocks_of_rows_give_what_f64_gives},
        {"what_does_not_fit_is_refused_before_any_communication", what_does_not_fit_is_refused_before_any_communication},
    };
    return TEST_MAIN(argc, argv, cases);
}
