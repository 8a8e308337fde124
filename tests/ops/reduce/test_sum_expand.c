/* sum and expand on ranks: every layout against a plain loop, forward, backward and backward again; placements. */
#include "harness.h"
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Row-major index in `small` of what element `at` of `large` is summed into: `small` has size 1 along the summed
 * dims, and is aligned at the last dim. */
static int64_t target(const struct elements *small, const struct elements *large, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int d = large->ndim - 1; d >= 0; d--) {
        int own = d - (large->ndim - small->ndim);
        if (own >= 0) {
            index += small->shape[own] == 1 ? 0 : at % large->shape[d] * stride;
            stride *= small->shape[own];
        }
        at /= large->shape[d];
    }
    return index;
}

static void sum_into(struct elements *small, const struct elements *large)
{
    for (int64_t i = 0; i < small->n; i++)
        small->v[i] = 0;
    for (int64_t i = 0; i < large->n; i++)
        small->v[target(small, large, i)] += large->v[i];
}

static void repeat_into(struct elements *large, const struct elements *small)
{
    for (int64_t i = 0; i < large->n; i++)
        large->v[i] = small->v[target(small, large, i)];
}

static void set_shape(struct elements *e, stn_dtype dtype, int ndim, const int64_t *shape)
{
    e->dtype = dtype;
    e->ndim = ndim;
    e->n = 1;
    for (int d = 0; d < ndim; d++) {
        e->shape[d] = shape[d];
        e->n *= shape[d];
    }
}

/* Takes the summed dims out of a shape that has them at size 1: the elements stay in order. */
static void squeeze(struct elements *e, uint32_t summed)
{
    int n = 0;
    for (int d = 0; d < e->ndim; d++)
        if (!(summed >> d & 1))
            e->shape[n++] = e->shape[d];
    e->ndim = n;
}

struct drawn {
    struct elements x, wide, out, grad, wanted;
};

static void draw_shape(uint64_t *seed, int *ndim, int64_t *shape)
{
    *ndim = (int)draw_below(seed, 5);
    for (int d = 0; d < *ndim; d++)
        shape[d] = draw_below(seed, 5) == 0 ? 1 : draw_below(seed, 9) == 0 ? 0 : 1 + draw_below(seed, 6);
}

/* y = sum x, gx = expand g; and gx, summed with a cotangent u, is differentiated by g: sum u. */
static stn_status check_sum(struct drawn *c, stn_context *context, const stn_mesh *mesh, stn_dtype dtype,
                            uint64_t *seed, const char *what)
{
    int64_t shape[STN_MAX_NDIM];
    int ndim, dims[STN_MAX_NDIM], n = 0, keepdim = (int)draw_below(seed, 2);
    draw_shape(seed, &ndim, shape);
    elements_draw(&c->x, dtype, ndim, shape, seed);
    uint32_t summed = (uint32_t)draw_below(seed, 1 << ndim);
    for (int d = 0; d < ndim; d++)
        if (summed >> d & 1) {
            dims[n++] = draw_below(seed, 2) ? d : d - ndim;
            shape[d] = 1;
        }
    if (n == 0) {
        summed = (1u << ndim) - 1;
        for (int d = 0; d < ndim; d++)
            shape[d] = 1;
    }
    set_shape(&c->out, dtype, ndim, shape);
    sum_into(&c->out, &c->x);
    elements_draw(&c->grad, dtype, ndim, shape, seed);
    c->wanted = c->x;
    repeat_into(&c->wanted, &c->grad);
    struct elements *second = &c->wide;
    *second = c->out; /* the sum of u, where u is x */
    if (!keepdim) {
        squeeze(&c->out, summed);
        squeeze(&c->grad, summed);
        squeeze(second, summed);
    }
    stn_tensor *x = layout_tensor_drawn(context, mesh, &c->x, seed),
               *g = layout_tensor_drawn(context, mesh, &c->grad, seed);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(g, 1), STN_OK);
    stn_tensor *y = stn_sum(x, n, dims, keepdim), *gx = NULL, *gg = NULL, *u = stn_detach(x);
    layout_check(y, &c->out, what);
    CHECK_STATUS(stn_grad(context, 1, &y, &g, 1, &x, 1, 1, &gx), STN_OK);
    layout_check(gx, &c->wanted, what);
    CHECK_STATUS(stn_grad(context, 1, &gx, &u, 1, &g, 0, 0, &gg), STN_OK);
    layout_check(gg, second, what);
    return stn_context_status(context);
}

/* y = expand x, gx = sum g. */
static stn_status check_expand(struct drawn *c, stn_context *context, const stn_mesh *mesh, stn_dtype dtype,
                               uint64_t *seed, const char *what)
{
    int64_t shape[STN_MAX_NDIM], wide[STN_MAX_NDIM], asked[STN_MAX_NDIM];
    int ndim, lead = (int)draw_below(seed, 3);
    draw_shape(seed, &ndim, shape);
    elements_draw(&c->x, dtype, ndim, shape, seed);
    for (int d = 0; d < lead + ndim; d++) {
        int64_t own = d < lead ? 1 : shape[d - lead];
        wide[d] = own == 1 ? draw_below(seed, 4) : own;
        asked[d] = d >= lead && wide[d] == own && draw_below(seed, 2) ? -1 : wide[d];
    }
    set_shape(&c->wide, dtype, lead + ndim, wide);
    repeat_into(&c->wide, &c->x);
    elements_draw(&c->grad, dtype, lead + ndim, wide, seed);
    c->wanted = c->x;
    sum_into(&c->wanted, &c->grad);
    stn_tensor *x = layout_tensor_drawn(context, mesh, &c->x, seed),
               *g = layout_tensor_drawn(context, mesh, &c->grad, seed);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_expand(x, lead + ndim, asked), *gx = NULL;
    layout_check(y, &c->wide, what);
    CHECK_STATUS(stn_grad(context, 1, &y, &g, 1, &x, 0, 0, &gx), STN_OK);
    layout_check(gx, &c->wanted, what);
    return stn_context_status(context);
}

struct plan {
    int rows, columns, rounds;
};

static stn_status drawn_layouts(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_C64};
    const struct plan *plan = arg;
    const stn_mesh *mesh = test_mesh(context, plan->rows, plan->columns);
    uint64_t seed = 41;
    struct drawn *call = malloc(sizeof *call);
    for (int round = 0; round < test_draws(plan->rounds); round++) {
        stn_dtype dtype = dtypes[draw_below(&seed, 3)];
        char what[64];
        int sums = (int)draw_below(&seed, 2);
        snprintf(what, sizeof what, "round %d %s %s", round, sums ? "sum" : "expand", stn_dtype_name(dtype));
        stn_scope_begin(context);
        (sums ? check_sum : check_expand)(call, context, mesh, dtype, &seed, what);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
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

static int kind_of(const stn_tensor *t, int axis)
{
    return stn_spec_placement(stn_tensor_spec(t), axis).kind;
}

static int64_t moved(stn_context *context)
{
    return test_stats(context).bytes_sent;
}

static stn_status placements(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements e, column;
    uint64_t seed = 42;
    elements_draw(&e, STN_DTYPE_F32, 2, (int64_t[]){7, 4}, &seed);
    elements_draw(&column, STN_DTYPE_F32, 2, (int64_t[]){7, 1}, &seed);
    const int64_t uneven[] = {5, 0, 2}, *sizes[] = {uneven, NULL};
    const stn_spec_options cut = {.size = sizeof cut, .sizes = sizes};
    stn_placement shard = stn_shard(0), partial = stn_partial(STN_SUM);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, 2, e.shape, &cut, &spec), STN_OK);
    stn_scope_begin(context);
    stn_tensor *s = layout_tensor(context, spec, &e), *p = layout_tensor_placed(context, mesh, &e, &partial);
    int64_t before = moved(context);
    CHECK_I64(kind_of(stn_sum(s, 1, (int[]){0}, 0), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_sum(s, 0, NULL, 0), 0), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_sum(p, 0, NULL, 0), 0), STN_PLACE_PARTIAL);
    stn_tensor *rows = stn_sum(s, 1, (int[]){-1}, 0);
    CHECK_I64(kind_of(rows, 0), STN_PLACE_SHARD);
    CHECK_I64(stn_tensor_local_shape(rows)[0], uneven[stn_context_rank(context)]);
    stn_tensor *wide = stn_expand(stn_sum(s, 1, (int[]){1}, 1), 3, (int64_t[]){2, -1, 5});
    CHECK_I64(stn_spec_placement(stn_tensor_spec(wide), 0).dim, 1);
    CHECK_I64(stn_tensor_local_shape(wide)[1], uneven[stn_context_rank(context)]);
    CHECK_I64(stn_tensor_strides(wide)[0], 0);
    CHECK_I64(kind_of(stn_expand(p, 3, (int64_t[]){2, 7, 4}), 0), STN_PLACE_PARTIAL);
    CHECK_I64(moved(context), before);
    stn_placement columns = stn_shard(1);
    stn_tensor *c = layout_tensor_placed(context, mesh, &column, &columns);
    CHECK_I64(kind_of(stn_expand(c, 2, (int64_t[]){7, 4}), 0), STN_PLACE_REPLICATE);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void sums_and_views_keep_data_where_it_is(void)
{
    test_ranks(3, placements, NULL);
}

static int64_t redistributions(stn_context *context)
{
    return test_stats(context).redistributions;
}

/* What the gradient of a sum along `dim`, or all dims, is to be like. */
struct repeated {
    const stn_spec *spec;
    int all, dim;
};

static stn_status look_at(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    const struct repeated *wanted = arg;
    (void)instead;
    CHECK(stn_tensor_spec(gradient) == wanted->spec);
    for (int d = 0; d < 3; d++)
        CHECK((wanted->all || d == wanted->dim) == (stn_tensor_strides(gradient)[d] == 0));
    return STN_OK;
}

/* x in a drawn layout, y = sum x along one dim or all; the cotangent lies as y's gradient does. What stn_grad gives out
 * is a copy, so that a hook looks at what was there. */
static stn_status check_gradient_in_place(stn_context *context, const stn_mesh *mesh, uint64_t *seed, const char *what)
{
    struct elements x, grad, wanted;
    const int all = draw_below(seed, 3) == 0, dim = (int)draw_below(seed, 3), keepdim = (int)draw_below(seed, 2);
    int64_t shape[] = {7, 4, 5};
    const stn_spec *spec, *grad_spec, *wanted_spec;
    elements_draw(&x, STN_DTYPE_F32, 3, shape, seed);
    wanted = x;
    for (int d = 0; d < 3; d++)
        shape[d] = all || d == dim ? 1 : shape[d];
    elements_draw(&grad, STN_DTYPE_F32, 3, shape, seed);
    repeat_into(&wanted, &grad);
    if (!keepdim)
        squeeze(&grad, all ? 7 : 1u << dim);
    spec = layout_draw(context, mesh, &x, seed);
    stn_tensor *tensor = layout_tensor(context, spec, &x), *gradient = NULL;
    CHECK_STATUS(stn_set_requires_grad(tensor, 1), STN_OK);
    stn_tensor *same = stn_clone(tensor), *y = stn_sum(same, all ? 0 : 1, &dim, keepdim);
    CHECK_STATUS(stn_gradient_spec(stn_tensor_spec(y), &grad_spec), STN_OK);
    CHECK_STATUS(stn_gradient_spec(spec, &wanted_spec), STN_OK);
    struct repeated repeated = {wanted_spec, all, dim};
    CHECK_STATUS(stn_add_tensor_hook(same, look_at, &repeated, NULL), STN_OK);
    stn_tensor *g = layout_tensor(context, grad_spec, &grad);
    const int64_t before = redistributions(context);
    CHECK_STATUS(stn_grad(context, 1, &y, &g, 1, &tensor, 0, 0, &gradient), STN_OK);
    CHECK_I64(redistributions(context), before);
    CHECK(stn_tensor_spec(gradient) == wanted_spec);
    layout_check(gradient, &wanted, what);
    stn_spec_release(&spec);
    stn_spec_release(&grad_spec);
    stn_spec_release(&wanted_spec);
    return stn_context_status(context);
}

static stn_status gradients_in_place(stn_context *context, void *arg)
{
    const struct plan *plan = arg;
    const stn_mesh *mesh = test_mesh(context, plan->rows, plan->columns);
    uint64_t seed = 45;
    for (int round = 0; round < test_draws(plan->rounds); round++) {
        char what[32];
        snprintf(what, sizeof what, "round %d", round);
        stn_scope_begin(context);
        check_gradient_in_place(context, mesh, &seed, what);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            fprintf(stderr, "%s: %s\n", what, stn_context_error_text(context));
    }
    return STN_OK;
}

static void gradients_of_sums_are_views_in_the_inputs_layout(void)
{
    static const struct plan plans[] = {{1, 0, 10}, {3, 0, 60}, {2, 3, 120}};
    for (int i = 0; i < 3; i++) {
        struct plan plan = plans[i];
        test_ranks(plan.rows * (plan.columns ? plan.columns : 1), gradients_in_place, &plan);
    }
}

/* Integers and bool: the pending "or" of a bool is taken first, that of an i64 stays. */
static stn_status whole_numbers(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_BOOL, STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_U8};
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    uint64_t seed = 43;
    for (int k = 0; k < 4; k++) {
        struct elements e, wanted;
        elements_draw(&e, dtypes[k], 2, (int64_t[]){9, 5}, &seed);
        set_shape(&wanted, STN_DTYPE_I64, 2, (int64_t[]){1, 5});
        sum_into(&wanted, &e);
        for (int kind = 0; kind < 3; kind++) {
            stn_placement placement = kind == 0 ? stn_replicate() : kind == 1 ? stn_shard(0) : stn_shard(1);
            stn_scope_begin(context);
            stn_tensor *x = layout_tensor_placed(context, mesh, &e, &placement);
            layout_check(stn_sum(x, 1, (int[]){0}, 1), &wanted, stn_dtype_name(dtypes[k]));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    }
    /* Both ranks hold true: the pending value is true, once. */
    stn_placement partial = stn_partial(STN_SUM);
    struct elements e, wanted;
    elements_draw(&e, STN_DTYPE_BOOL, 1, (int64_t[]){5}, &seed);
    for (int i = 0; i < 5; i++)
        e.v[i] = 1 + (stn_mesh_coordinate(mesh, 0) == 0);
    set_shape(&wanted, STN_DTYPE_I64, 0, NULL);
    wanted.v[0] = 5;
    stn_scope_begin(context);
    stn_tensor *or = layout_tensor_placed(context, mesh, &e, &partial);
    layout_check(stn_sum(or, 0, NULL, 0), &wanted, "bool, pending");
    return stn_scope_end(context);
}

static void integers_and_bool_sum_to_i64(void)
{
    test_ranks(2, whole_numbers, NULL);
}

/* Errors */

static stn_status errors(stn_context *context, void *arg)
{
    (void)arg;
    struct elements e;
    uint64_t seed = 44;
    elements_draw(&e, STN_DTYPE_F32, 2, (int64_t[]){2, 3}, &seed);
    stn_tensor *x = layout_tensor_placed(context, NULL, &e, NULL);
    CHECK_REFUSED(context, stn_sum(x, 1, (int[]){2}, 0), STN_ERR_ARGUMENT, "sum: 'dim' got 2, wanted -2 <= dim < 2");
    CHECK_REFUSED(context, stn_sum(x, 2, (int[]){1, -1}, 0), STN_ERR_ARGUMENT,
                "sum: 'dim' got -1 for a dim that it names already, wanted distinct dims");
    CHECK_REFUSED(context, stn_expand(x, 1, (int64_t[]){3}), STN_ERR_SHAPE,
                  "expand: 'shape' got 1 dims, wanted at least the 2 of 'input'");
    CHECK_REFUSED(context, stn_expand(x, 2, (int64_t[]){2, 6}), STN_ERR_SHAPE,
                "expand: 'shape' got (2, 6), which 'input' of shape (2, 3) cannot be repeated to");
    CHECK_REFUSED(context, stn_expand(x, 3, (int64_t[]){-1, 2, 3}), STN_ERR_SHAPE,
                "expand: 'shape' got (-1, 2, 3), which 'input' of shape (2, 3) cannot be repeated to");
    stn_tensor *wide = stn_expand(x, 3, (int64_t[]){2, 2, 3}), *one = stn_sum(x, 0, NULL, 0);
    CHECK_REFUSED(context, stn_add_(wide, x, 1), STN_ERR_STATE,
                  "add_: 'input' is a view that need not share memory and cannot be changed in place");
    stn_tensor_release(&wide);
    stn_tensor_release(&one);
    stn_tensor_release(&x);
    return STN_OK;
}

static void bad_dims_and_shapes_are_named(void)
{
    test_ranks(1, errors, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"drawn_layouts_match_a_plain_loop_on_1_2_3_and_2x3_ranks",
         drawn_layouts_match_a_plain_loop_on_1_2_3_and_2x3_ranks},
        {"sums_and_views_keep_data_where_it_is", sums_and_views_keep_data_where_it_is},
        {"gradients_of_sums_are_views_in_the_inputs_layout", gradients_of_sums_are_views_in_the_inputs_layout},
        {"integers_and_bool_sum_to_i64", integers_and_bool_sum_to_i64},
        {"bad_dims_and_shapes_are_named", bad_dims_and_shapes_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
