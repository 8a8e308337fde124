/* add and mul on ranks: every layout against a plain loop, forward, backward and backward again; placements; in
 * place. */
#include "harness.h"
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shapes {
    int ndim[2];
    int64_t shape[2][4];
};

static const struct shapes pairs[] = {
    {{2, 2}, {{5, 6}, {5, 6}}},   {{3, 2}, {{7, 1, 4}, {3, 1}}}, {{0, 2}, {{0}, {4, 3}}},       {{2, 1}, {{4, 3}, {3}}},
    {{2, 2}, {{0, 3}, {0, 3}}},   {{2, 2}, {{1, 0}, {1, 1}}},    {{1, 1}, {{1}, {1}}},          {{0, 0}, {{0}, {0}}},
    {{1, 3}, {{6}, {2, 5, 6}}},   {{3, 3}, {{2, 3, 5}, {2, 1, 5}}}, {{2, 4}, {{3, 1}, {2, 2, 1, 7}}}, {{1, 1}, {{11}, {11}}},
};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

/* Row-major index of an element of `e` that output index `at` of `out` reads. */
static int64_t source(const struct elements *e, const struct elements *out, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int d = out->ndim - 1; d >= 0; d--) {
        int own = d - (out->ndim - e->ndim);
        if (own >= 0) {
            index += e->shape[own] == 1 ? 0 : at % out->shape[d] * stride;
            stride *= e->shape[own];
        }
        at /= out->shape[d];
    }
    return index;
}

static void set_shape(struct elements *out, const struct elements *x, const struct elements *y, stn_dtype dtype)
{
    out->dtype = dtype;
    out->ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    out->n = 1;
    for (int d = 0; d < out->ndim; d++) {
        int dx = d - (out->ndim - x->ndim), dy = d - (out->ndim - y->ndim);
        int64_t sx = dx >= 0 ? x->shape[dx] : 1, sy = dy >= 0 ? y->shape[dy] : 1;
        out->shape[d] = sx == 1 ? sy : sx;
        out->n *= out->shape[d];
    }
}

/* Sums of products over what each element of `like` was broadcast to: sum of u v* w*, each where it is not NULL. */
static void sum_products(struct elements *to, const struct elements *like, const struct elements *u,
                         const struct elements *v, const struct elements *w, double factor)
{
    *to = *like;
    memset(to->v, 0, sizeof to->v);
    for (int64_t i = 0; i < u->n; i++) {
        double _Complex p = factor * u->v[i];
        p *= v ? conj(v->v[source(v, u, i)]) : 1;
        p *= w ? conj(w->v[source(w, u, i)]) : 1;
        to->v[source(like, u, i)] += stni_dtype_is_complex(like->dtype) ? p : creal(p);
    }
}

static void check_all(int n, stn_tensor *const *got, const struct elements *wanted, const char *what)
{
    char text[96];
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%s, gradient %d", what, i);
        layout_check(got[i], &wanted[i], text);
    }
}

/* All that one drawn call is made of. */
struct drawn {
    struct elements x, y, out, grad, wanted[3];
    stn_tensor *tx, *ty, *tout, *tgrad;
};

static void draw_call(struct drawn *c, stn_context *context, const stn_mesh *mesh, const struct shapes *pair,
                      stn_dtype a, stn_dtype b, uint64_t *seed)
{
    elements_draw(&c->x, a, pair->ndim[0], pair->shape[0], seed);
    elements_draw(&c->y, b, pair->ndim[1], pair->shape[1], seed);
    set_shape(&c->out, &c->x, &c->y, stn_dtype_promote(a, b));
    elements_draw(&c->grad, c->out.dtype, c->out.ndim, c->out.shape, seed);
    c->tx = layout_tensor_drawn(context, mesh, &c->x, seed);
    c->ty = layout_tensor_drawn(context, mesh, &c->y, seed);
    c->tgrad = layout_tensor_drawn(context, mesh, &c->grad, seed);
    CHECK_STATUS(stn_set_requires_grad(c->tx, 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(c->ty, 1), STN_OK);
}

static void check_add(struct drawn *c, stn_context *context, const char *what)
{
    for (int64_t i = 0; i < c->out.n; i++)
        c->out.v[i] = c->x.v[source(&c->x, &c->out, i)] + 2 * c->y.v[source(&c->y, &c->out, i)];
    c->tout = stn_add_scaled(c->tx, c->ty, 2);
    layout_check(c->tout, &c->out, what);
    stn_tensor *grads[2] = {0};
    CHECK_STATUS(stn_grad(context, 1, &c->tout, &c->tgrad, 2, (stn_tensor *[]){c->tx, c->ty}, 0, 0, grads), STN_OK);
    sum_products(&c->wanted[0], &c->x, &c->grad, NULL, NULL, 1);
    sum_products(&c->wanted[1], &c->y, &c->grad, NULL, NULL, 2);
    check_all(2, grads, c->wanted, what);
}

/* Backward of x y with cotangent g gives gx = sum(g y*) and gy = sum(g x*); backward of gx with the cotangent x
 * itself, taken as a constant u, gives its derivatives by g, sum(u y), and by y, sum(u* g). */
static void check_mul(struct drawn *c, stn_context *context, const char *what)
{
    for (int64_t i = 0; i < c->out.n; i++)
        c->out.v[i] = c->x.v[source(&c->x, &c->out, i)] * c->y.v[source(&c->y, &c->out, i)];
    CHECK_STATUS(stn_set_requires_grad(c->tgrad, 1), STN_OK);
    c->tout = stn_mul(c->tx, c->ty);
    layout_check(c->tout, &c->out, what);
    stn_tensor *grads[2] = {0}, *second[2] = {0};
    CHECK_STATUS(stn_grad(context, 1, &c->tout, &c->tgrad, 2, (stn_tensor *[]){c->tx, c->ty}, 1, 1, grads), STN_OK);
    sum_products(&c->wanted[0], &c->x, &c->grad, &c->y, NULL, 1);
    sum_products(&c->wanted[1], &c->y, &c->grad, &c->x, NULL, 1);
    check_all(2, grads, c->wanted, what);
    stn_tensor *u = stn_detach(c->tx);
    CHECK_STATUS(stn_grad(context, 1, grads, &u, 2, (stn_tensor *[]){c->tgrad, c->ty}, 0, 0, second), STN_OK);
    if (stn_context_status(context) != STN_OK)
        return;
    struct elements conjugate = c->y, product = c->out;
    for (int64_t i = 0; i < conjugate.n; i++)
        conjugate.v[i] = conj(conjugate.v[i]);
    for (int64_t i = 0; i < product.n; i++)
        product.v[i] = conj(c->x.v[source(&c->x, &product, i)]) * c->grad.v[i];
    c->wanted[0] = c->grad;
    for (int64_t i = 0; i < c->grad.n; i++)
        c->wanted[0].v[i] = c->x.v[source(&c->x, &c->grad, i)] * c->y.v[source(&c->y, &c->grad, i)];
    sum_products(&c->wanted[1], &c->y, &product, NULL, NULL, 1);
    check_all(2, second, c->wanted, what);
}

struct plan {
    int rows, columns, rounds;
};

static stn_status drawn_layouts(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[][2] = {{STN_DTYPE_F32, STN_DTYPE_F32}, {STN_DTYPE_F64, STN_DTYPE_F64},
                                          {STN_DTYPE_F32, STN_DTYPE_F64}, {STN_DTYPE_F32, STN_DTYPE_C64},
                                          {STN_DTYPE_C64, STN_DTYPE_C64}, {STN_DTYPE_C128, STN_DTYPE_F32}};
    const struct plan *plan = arg;
    const stn_mesh *mesh = test_mesh(context, plan->rows, plan->columns);
    uint64_t seed = 31;
    struct drawn *call = malloc(sizeof *call);
    for (int round = 0; round < test_draws(plan->rounds) && stn_context_status(context) == STN_OK; round++) {
        const stn_dtype *types = dtypes[draw_below(&seed, 6)];
        char what[64];
        const struct shapes *pair = &pairs[round % N_PAIRS];
        /* A tensor without dims would be promoted otherwise than one with; test_pointwise_check.c has that. */
        stn_dtype other = pair->ndim[0] && pair->ndim[1] ? types[1] : types[0];
        stn_scope_begin(context);
        draw_call(call, context, mesh, pair, types[0], other, &seed);
        snprintf(what, sizeof what, "round %d %s %s", round, stn_dtype_name(types[0]), stn_dtype_name(other));
        CHECK(stn_tensor_spec(stn_add(call->tx, call->tx)) == stn_tensor_spec(call->tx));
        CHECK(stn_tensor_spec(stn_conj(call->tx)) == stn_tensor_spec(call->tx));
        if (draw_below(&seed, 2))
            check_add(call, context, what);
        else
            check_mul(call, context, what);
        stn_status status = stn_scope_end(context);
        if (!CHECK_STATUS(status, STN_OK))
            fprintf(stderr, "%s: %s\n", what, stn_context_error_text(context));
    }
    free(call);
    return STN_OK;
}

static void drawn_layouts_match_a_plain_loop_on_1_2_3_and_2x3_ranks(void)
{
    static const struct plan plans[] = {{1, 0, 60}, {2, 0, 240}, {3, 0, 240}, {2, 3, 120}};
    for (int i = 0; i < 4; i++) {
        struct plan plan = plans[i];
        test_ranks(plan.rows * (plan.columns ? plan.columns : 1), drawn_layouts, &plan);
    }
}

/* Placements */

static struct elements six_by_four(stn_dtype dtype)
{
    struct elements e;
    uint64_t seed = 7;
    elements_draw(&e, dtype, 2, (int64_t[]){6, 4}, &seed);
    return e;
}

static int kind_of(const stn_tensor *t, int axis)
{
    return stn_spec_placement(stn_tensor_spec(t), axis).kind;
}

static int64_t moved(stn_context *context)
{
    return test_stats(context).bytes_sent;
}

static stn_status partial_rules(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements e = six_by_four(STN_DTYPE_F32);
    stn_placement replicate = stn_replicate(), shard = stn_shard(0), partial = stn_partial(STN_SUM);
    stn_scope_begin(context);
    stn_tensor *r = layout_tensor_placed(context, mesh, &e, &replicate),
               *s = layout_tensor_placed(context, mesh, &e, &shard);
    stn_tensor *p = layout_tensor_placed(context, mesh, &e, &partial);
    int64_t before = moved(context);
    CHECK_I64(kind_of(stn_add(p, p), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_mul(p, r), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_mul(r, p), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_mul_number(p, 3), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_conj(p), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_cast(p, STN_DTYPE_F64), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_cast(p, STN_DTYPE_C64), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_add(r, s), 0), STN_PLACE_SHARD);
    CHECK_I64(moved(context), before);
    CHECK_I64(kind_of(stn_mul(p, p), 0), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_add(p, r), 0), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_add(p, s), 0), STN_PLACE_SHARD);
    CHECK_I64(kind_of(stn_mul(p, s), 0), STN_PLACE_SHARD);
    CHECK_I64(kind_of(stn_add_number(p, 1), 0), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_cast(p, STN_DTYPE_BF16), 0), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_cast(p, STN_DTYPE_I64), 0), STN_PLACE_REPLICATE);
    return stn_scope_end(context);
}

static void partial_stays_where_the_op_is_linear(void)
{
    test_ranks(3, partial_rules, NULL);
}

static stn_status cuts(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    struct elements large = six_by_four(STN_DTYPE_F32), column, row;
    uint64_t seed = 8;
    elements_draw(&column, STN_DTYPE_F32, 2, (int64_t[]){6, 1}, &seed);
    elements_draw(&row, STN_DTYPE_F32, 1, (int64_t[]){4}, &seed);
    const int64_t uneven[] = {5, 1}, *sizes[] = {uneven, NULL};
    const int order[] = {1, 0};
    const stn_spec_options cut = {.size = sizeof cut, .sizes = sizes},
                           reversed = {.size = sizeof reversed, .memory_order = order};
    stn_placement shard = stn_shard(0), replicate = stn_replicate();
    const stn_spec *explicit_spec, *reversed_spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, 2, column.shape, &cut, &explicit_spec), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &replicate, STN_DTYPE_F32, 2, large.shape, &reversed, &reversed_spec),
                 STN_OK);
    stn_scope_begin(context);
    /* The large one is Replicate: the column's cut is taken. The large one's memory order is. */
    stn_tensor *c = layout_tensor(context, explicit_spec, &column), *l = layout_tensor(context, reversed_spec, &large);
    stn_tensor *sum = stn_add(c, l);
    CHECK_I64(stn_tensor_local_shape(sum)[0], uneven[stn_context_rank(context)]);
    CHECK_I64(stn_spec_memory_order(stn_tensor_spec(sum))[0], 1);
    /* A larger operand's cut wins over the first's. */
    stn_tensor *balanced = layout_tensor_placed(context, mesh, &large, &shard);
    CHECK_I64(stn_tensor_local_shape(stn_add(c, balanced))[0], 3);
    /* A Shard of a dim that is broadcast counts as Replicate. */
    stn_tensor *r = layout_tensor_placed(context, mesh, &row, &shard);
    stn_placement other = stn_shard(1);
    stn_tensor *columns = layout_tensor_placed(context, mesh, &large, &other);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(stn_add(c, columns)), 0).dim, 1);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(stn_add(r, balanced)), 0).dim, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(stn_add(r, l)), 0).dim, 1);
    stn_spec_release(&explicit_spec);
    stn_spec_release(&reversed_spec);
    return stn_scope_end(context);
}

static void largest_operand_decides_the_cut_and_first_full_one_the_memory_order(void)
{
    test_ranks(2, cuts, NULL);
}

/* In place */

static stn_status in_place(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements e = six_by_four(STN_DTYPE_F32), row, doubled = e, product;
    uint64_t seed = 9;
    elements_draw(&row, STN_DTYPE_F32, 1, (int64_t[]){4}, &seed);
    product = e;
    for (int64_t i = 0; i < e.n; i++) {
        doubled.v[i] = e.v[i] + 2 * row.v[i % 4];
        product.v[i] = 3 * doubled.v[i] * row.v[i % 4];
    }
    for (int round = 0; round < test_draws(40); round++) {
        stn_scope_begin(context);
        stn_tensor *x = layout_tensor_drawn(context, mesh, &e, &seed),
                   *y = layout_tensor_drawn(context, mesh, &row, &seed);
        const stn_spec *spec = stn_tensor_spec(x);
        CHECK(stn_add_(x, y, 2) == x);
        layout_check(x, &doubled, "add_");
        CHECK(stn_mul_(x, y) == x);
        CHECK(stn_mul_number_(x, 3) == x);
        layout_check(x, &product, "mul_");
        CHECK(stn_tensor_spec(x) == spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void in_place_keeps_handle_and_spec_on_every_layout(void)
{
    test_ranks(3, in_place, NULL);
}

static stn_status in_place_gradient(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    struct elements e = six_by_four(STN_DTYPE_F32), wanted = e, other = e;
    stn_placement shard = stn_shard(0), replicate = stn_replicate();
    stn_scope_begin(context);
    stn_tensor *x = layout_tensor_placed(context, mesh, &e, &shard),
               *y = layout_tensor_placed(context, mesh, &e, &replicate);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(y, 1), STN_OK);
    /* z = (2 x + 5 y) c; its cotangent g: gx = 2 g c, gy = 5 g c. */
    stn_tensor *c = stn_detach(y), *z = stn_mul_number(x, 2), *grads[2];
    stn_mul_(stn_add_(z, y, 5), c);
    for (int64_t i = 0; i < e.n; i++) {
        wanted.v[i] = 2 * e.v[i] * e.v[i];
        other.v[i] = 5 * e.v[i] * e.v[i];
    }
    CHECK_STATUS(stn_grad(context, 1, &z, &c, 2, (stn_tensor *[]){x, y}, 0, 0, grads), STN_OK);
    layout_check(grads[0], &wanted, "gradient of what was changed in place");
    layout_check(grads[1], &other, "gradient of what was added in place");
    /* z = 2 x, z = z y, z = z z: what each multiplication read is overwritten by it. z = 4 x^2 y^2 with x = y. */
    z = stn_mul_number(x, 2);
    stn_mul_(z, y);
    stn_mul_(z, z);
    for (int64_t i = 0; i < e.n; i++)
        wanted.v[i] = 8 * e.v[i] * e.v[i] * e.v[i] * e.v[i];
    CHECK_STATUS(stn_grad(context, 1, &z, &c, 2, (stn_tensor *[]){x, y}, 0, 0, grads), STN_OK);
    layout_check(grads[0], &wanted, "gradient of a factor that was overwritten");
    layout_check(grads[1], &wanted, "gradient of a factor of what was overwritten");
    return stn_scope_end(context);
}

static void gradients_pass_through_changes_in_place(void)
{
    test_ranks(2, in_place_gradient, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"drawn_layouts_match_a_plain_loop_on_1_2_3_and_2x3_ranks",
         drawn_layouts_match_a_plain_loop_on_1_2_3_and_2x3_ranks},
        {"partial_stays_where_the_op_is_linear", partial_stays_where_the_op_is_linear},
        {"largest_operand_decides_the_cut_and_first_full_one_the_memory_order",
         largest_operand_decides_the_cut_and_first_full_one_the_memory_order},
        {"in_place_keeps_handle_and_spec_on_every_layout", in_place_keeps_handle_and_spec_on_every_layout},
        {"gradients_pass_through_changes_in_place", gradients_pass_through_changes_in_place},
    };
    return TEST_MAIN(argc, argv, cases);
}
