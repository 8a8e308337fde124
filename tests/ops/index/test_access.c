/* Ops that read and write by index: random layouts against one process, with gradients and second derivatives, and
 * differences. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE, INDEX, SOURCE };
enum shape_of_index { FULL, LINE };

struct arguments {
    int dim, reduce, include_self;
    int64_t output_size;
};

static stn_tensor *call_gather(stn_tensor *const *in, const void *arg)
{
    return stn_gather(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX]);
}

static stn_tensor *call_select(stn_tensor *const *in, const void *arg)
{
    return stn_index_select(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX]);
}

static stn_tensor *call_scatter(stn_tensor *const *in, const void *arg)
{
    return stn_scatter_from(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX], in[SOURCE]);
}

static stn_tensor *call_number(stn_tensor *const *in, const void *arg)
{
    return stn_scatter_number(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX],
                              ((const struct arguments *)arg)->reduce - 1);
}

static stn_tensor *call_scatter_add(stn_tensor *const *in, const void *arg)
{
    return stn_scatter_add(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX], in[SOURCE]);
}

static stn_tensor *call_reduce(stn_tensor *const *in, const void *arg)
{
    const struct arguments *a = arg;
    return stn_scatter_reduce(in[TABLE], a->dim, in[INDEX], in[SOURCE], (stn_scatter_reduction)a->reduce,
                              a->include_self);
}

static stn_tensor *call_index_add(stn_tensor *const *in, const void *arg)
{
    return stn_index_add(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX], in[SOURCE], -1.5);
}

static stn_tensor *call_index_copy(stn_tensor *const *in, const void *arg)
{
    return stn_index_copy(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX], in[SOURCE]);
}

static stn_tensor *call_index_fill(stn_tensor *const *in, const void *arg)
{
    return stn_index_fill(in[TABLE], ((const struct arguments *)arg)->dim, in[INDEX], 0.5);
}

/* The value is a tensor without dims. */
static stn_tensor *call_fill_by_tensor(stn_tensor *const *in, const void *arg)
{
    const stn_attr dim = {.name = "dim", .type = STN_ATTR_INT, .value.i = ((const struct arguments *)arg)->dim};
    stn_tensor *out = NULL;
    stn_call(stn_tensor_context(in[TABLE]), "index_fill", 3, in, 1, &dim, 1, &out);
    return out;
}

static stn_tensor *call_along(stn_tensor *const *in, const void *arg)
{
    return stn_take_along_dim(in[TABLE], in[INDEX], &((const struct arguments *)arg)->dim);
}

static stn_tensor *call_flat(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_take_along_dim(in[TABLE], in[INDEX], NULL);
}

static stn_tensor *call_diagonal(stn_tensor *const *in, const void *arg)
{
    const struct arguments *a = arg;
    int ndim = stn_tensor_ndim(in[TABLE]);
    return stn_diagonal(in[TABLE], a->reduce - 2, a->dim, (a->dim + 1) % ndim - ndim);
}

/* Reads by an index that is not an input of its own: its first elements as repetitions. */
static stn_tensor *call_repeats(stn_tensor *const *in, const void *arg)
{
    const struct arguments *a = arg;
    return stn_repeat_interleave_each(in[TABLE], in[INDEX], &a->dim, a->output_size);
}

static stn_tensor *call_repeat(stn_tensor *const *in, const void *arg)
{
    const struct arguments *a = arg;
    return stn_repeat_interleave(in[TABLE], a->reduce, a->include_self ? &a->dim : NULL);
}

static const struct access_case {
    stn_tensor *(*call)(stn_tensor *const *in, const void *arg);
    enum shape_of_index shape;
    int n_in, least_dims;
    int unique; /* differences need distinct indices: of several the last one wins, but each gets the gradient */
    double tolerance;
} cases[] = {
    {call_gather, FULL, 2, 1, 0, 1e-14},      {call_select, LINE, 2, 1, 0, 1e-14},   {call_scatter, FULL, 3, 1, 1, 1e-14},
    {call_number, FULL, 2, 1, 0, 1e-14},      {call_scatter_add, FULL, 3, 1, 0, 1e-14}, {call_reduce, FULL, 3, 1, 0, 1e-9},
    {call_index_add, LINE, 3, 1, 0, 1e-14},   {call_index_copy, LINE, 3, 1, 1, 1e-14}, {call_index_fill, LINE, 2, 1, 0, 1e-14},
    {call_along, FULL, 2, 1, 0, 1e-14},       {call_diagonal, LINE, 1, 2, 0, 1e-14},  {call_repeat, LINE, 1, 1, 0, 1e-14},
};

static double *draw_indices(uint64_t *state, int64_t n, int64_t below)
{
    double *values = calloc((size_t)n + 1, sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (double)world_random(state, (uint64_t)below);
    return values;
}

/* Shapes and indices of a case. Values are never 0, where products have no second derivative. */
static struct against_one_op draw_case(uint64_t *state, const struct access_case *c, struct arguments *a)
{
    struct against_one_op op = {.call = c->call, .arg = a, .n_in = c->n_in, .tolerance = c->tolerance};
    struct random_shape table = {.ndim = c->least_dims + (int)world_random(state, 4 - (unsigned)c->least_dims)}, index,
                        source;
    for (int d = 0; d < table.ndim; d++)
        table.shape[d] = 1 + (int64_t)world_random(state, 6);
    a->dim = (int)world_random(state, (unsigned)table.ndim);
    a->reduce = (int)world_random(state, 5);
    a->include_self = (int)world_random(state, 2);
    int64_t n =
        c->unique ? (int64_t)world_random(state, (uint64_t)table.shape[a->dim] + 1) : (int64_t)world_random(state, 9);
    index = table;
    for (int d = 0; d < table.ndim && c->call != call_along; d++)
        index.shape[d] = d == a->dim ? n : (int64_t)world_random(state, (uint64_t)table.shape[d]) + 1;
    if (c->call == call_along)
        index.shape[a->dim] = n;
    source = c->shape == FULL ? index : table;
    source.shape[a->dim] = n + (c->shape == FULL && world_random(state, 3) == 0);
    if (c->shape == LINE)
        index = (struct random_shape){1, {n}};
    op.in[TABLE] = (struct against_one_input){STN_DTYPE_F64, table, against_one_draw(state, against_one_numel(&table)),
                                              1u << STN_SUM};
    op.in[INDEX] = (struct against_one_input){STN_DTYPE_I64, index, NULL, 0};
    op.in[INDEX].values = draw_indices(state, against_one_numel(&index), table.shape[a->dim]);
    if (c->unique) { /* the same along `dim` for all other positions */
        double *values = (double *)(uintptr_t)op.in[INDEX].values;
        int64_t inner = 1;
        for (int d = (c->shape == FULL ? a->dim : 0) + 1; d < index.ndim; d++)
            inner *= index.shape[d];
        for (int64_t i = 0; i < against_one_numel(&index); i++)
            values[i] = (double)((i / inner % (n > 0 ? n : 1) + 2) % table.shape[a->dim]);
    }
    op.in[SOURCE] = (struct against_one_input){STN_DTYPE_F64, source,
                                               against_one_draw(state, against_one_numel(&source)), 1u << STN_SUM};
    a->dim -= world_random(state, 2) && c->call != call_diagonal ? table.ndim : 0;
    return op;
}

static void free_case(struct against_one_op *op)
{
    for (int i = 0; i < 3; i++)
        free((void *)(uintptr_t)op->in[i].values);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 31;
    (void)arg;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int i = 0; i < (cases[k].call == call_reduce ? 40 : 12); i++) {
            struct arguments a = {0};
            struct access_case c = cases[k];
            c.unique = 0;
            struct against_one_op op = draw_case(&state, &c, &a);
            against_one_check(context, &state, random_mesh(&state, context), &op);
            free_case(&op);
        }
    return STN_OK;
}

static void every_layout_gives_what_one_process_gives(void)
{
    static const int worlds[] = {1, 3, 6};
    for (int i = 0; i < 3; i++)
        test_ranks(worlds[i], layouts_body, NULL);
}

/* An index without elements may be longer than the values, and than the table, in its other dims. */
static stn_status nothing_body(stn_context *context, void *arg)
{
    static const struct random_shape shapes[][3] = {{{2, {4, 3}}, {2, {3, 0}}, {2, {1, 0}}},
                                                    {{2, {4, 3}}, {2, {0, 5}}, {2, {1, 1}}},
                                                    {{2, {2, 5}}, {2, {8, 0}}, {2, {1, 2}}}};
    uint64_t state = 41;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct arguments a = {.dim = i / 3 % 2, .reduce = i / 6, .include_self = 1};
        struct against_one_op op = {.arg = &a, .n_in = 3, .tolerance = 1e-14};
        for (int k = 0; k < 3; k++)
            op.in[k] = (struct against_one_input){k == INDEX ? STN_DTYPE_I64 : STN_DTYPE_F64, shapes[i % 3][k],
                                                  against_one_draw(&state, against_one_numel(&shapes[i % 3][k])), 0};
        for (int k = 0; k < 3; k++) {
            op.call = (stn_tensor *(*[])(stn_tensor *const *, const void *)){call_scatter, call_scatter_add,
                                                                             call_reduce}[k];
            against_one_check(context, &state, random_mesh(&state, context), &op);
        }
        free_case(&op);
    }
    return STN_OK;
}

static void an_index_without_elements_writes_nothing(void)
{
    test_ranks(3, nothing_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 37;
    (void)arg;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int i = 0; i < (cases[k].call == call_reduce ? 30 : 6); i++) {
            struct arguments a = {0};
            struct against_one_op op = draw_case(&state, &cases[k], &a);
            against_one_differences(context, &state, &op);
            free_case(&op);
        }
    return STN_OK;
}

static void derivatives_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

static stn_tensor *call_put(stn_tensor *const *in, const void *arg)
{
    return stn_index_put(in[0], 2, in + 1, in[3], ((const struct arguments *)arg)->include_self);
}

/* Two indices that broadcast, negative ones among them, and values that are repeated. */
static stn_status put_body(stn_context *context, void *arg)
{
    uint64_t state = 41;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct arguments a = {.include_self = i % 2};
        struct random_shape table = {3,
                                     {1 + (int64_t)world_random(&state, 5), 1 + (int64_t)world_random(&state, 4),
                                      (int64_t)world_random(&state, 4)}};
        struct random_shape first = {2, {3, 1}}, second = {1, {(int64_t)world_random(&state, 4)}},
                            values = {2, {second.shape[0], 1}};
        struct against_one_op op = {.call = call_put, .arg = &a, .n_in = 4, .tolerance = 1e-14};
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, table, against_one_draw(&state, against_one_numel(&table)),
                                              1u << STN_SUM};
        op.in[1] = (struct against_one_input){STN_DTYPE_I64, first, draw_indices(&state, 3, table.shape[0]), 0};
        op.in[2] =
            (struct against_one_input){STN_DTYPE_I64, second, draw_indices(&state, second.shape[0], table.shape[1]), 0};
        op.in[3] = (struct against_one_input){STN_DTYPE_F64, values,
                                              against_one_draw(&state, against_one_numel(&values)), 1u << STN_SUM};
        ((double *)(uintptr_t)op.in[1].values)[1] -= (double)table.shape[0];
        against_one_check(context, &state, random_mesh(&state, context), &op);
        if (a.include_self)
            against_one_differences(context, &state, &op);
        free_case(&op);
        free((void *)(uintptr_t)op.in[3].values);
    }
    return STN_OK;
}

static void several_indices_are_as_one(void)
{
    test_ranks(1, put_body, NULL);
    test_ranks(3, put_body, NULL);
    test_ranks(6, put_body, NULL);
}

static stn_status repeats_body(stn_context *context, void *arg)
{
    uint64_t state = 43;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct arguments a = {.dim = (int)world_random(&state, 2)};
        struct random_shape table = {2, {1 + (int64_t)world_random(&state, 5), 1 + (int64_t)world_random(&state, 5)}},
                            each = {1, {table.shape[a.dim]}};
        struct against_one_op op = {.call = call_repeats, .arg = &a, .n_in = 2, .tolerance = 1e-14};
        op.in[TABLE] = (struct against_one_input){STN_DTYPE_F64, table,
                                                  against_one_draw(&state, against_one_numel(&table)), 1u << STN_SUM};
        op.in[INDEX] = (struct against_one_input){STN_DTYPE_I64, each, draw_indices(&state, each.shape[0], 4), 0};
        for (int64_t k = 0; k < each.shape[0]; k++)
            a.output_size += (int64_t)op.in[INDEX].values[k];
        against_one_check(context, &state, random_mesh(&state, context), &op);
        a.output_size = -1; /* read from the numbers, by the mesh's ranks */
        against_one_check(context, &state, test_mesh(context, stn_context_size(context), 0), &op);
        against_one_differences(context, &state, &op);
        free_case(&op);
    }
    return STN_OK;
}

static void elements_are_repeated_as_often_as_they_say(void)
{
    test_ranks(1, repeats_body, NULL);
    test_ranks(3, repeats_body, NULL);
    test_ranks(6, repeats_body, NULL);
}

/* index_fill by a tensor, of slices that are named twice and from the end, whose cotangents count once. */
static stn_status fills_body(stn_context *context, void *arg)
{
    static const double index[] = {1, 3, -3, 1, 0}, value[] = {0.25};
    const struct random_shape table = {2, {4, 3}}, across = {2, {3, 4}}, line = {1, {5}}, one = {0, {0}};
    uint64_t state = 47;
    (void)arg;
    for (int i = 0; i < 8; i++) {
        const struct arguments a = {.dim = i % 2 ? 1 : -2};
        struct against_one_op op = {.call = call_fill_by_tensor, .arg = &a, .n_in = 3, .tolerance = 1e-14};
        const double *values = against_one_draw(&state, 12);
        op.in[TABLE] = (struct against_one_input){STN_DTYPE_F64, i % 2 ? across : table, values, 1u << STN_SUM};
        op.in[INDEX] = (struct against_one_input){STN_DTYPE_I64, line, index, 0};
        op.in[SOURCE] = (struct against_one_input){STN_DTYPE_F64, one, value, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        against_one_differences(context, &state, &op);
        free((void *)(uintptr_t)op.in[TABLE].values);
    }
    return STN_OK;
}

static void slices_named_twice_count_once_in_the_gradient_of_what_fills_them(void)
{
    test_ranks(1, fills_body, NULL);
    test_ranks(3, fills_body, NULL);
    test_ranks(6, fills_body, NULL);
}

/* take_along_dim by negative indices, along a dim and of flat tensors, as numpy. */
static stn_status from_the_end_body(stn_context *context, void *arg)
{
    static const double index[] = {-1, 0, -2, 1, -2, -1}, along[] = {3, 1, 2, 3, 1, 5}, flat[] = {5, 0, 4, 1, 4, 5};
    const struct random_shape table = {2, {2, 3}};
    uint64_t state = 53;
    (void)arg;
    for (int i = 0; i < 8; i++) {
        const struct arguments a = {.dim = i % 4 / 2 ? 0 : -2};
        struct against_one_op op = {.call = i % 2 ? call_flat : call_along, .arg = &a, .n_in = 2, .tolerance = 1e-14};
        double *values = against_one_draw(&state, 6), got[6];
        op.in[TABLE] = (struct against_one_input){STN_DTYPE_F64, table, values, 1u << STN_SUM};
        op.in[INDEX] = (struct against_one_input){STN_DTYPE_I64, table, index, 0};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        against_one_differences(context, &state, &op);
        stn_scope_begin(context);
        test_read(op.call((stn_tensor *[]){against_one_local(context, STN_DTYPE_F64, &table, values),
                                           against_one_local(context, STN_DTYPE_I64, &table, index)}, &a), got, 6);
        for (int k = 0; k < 6; k++)
            CHECK_NEAR(got[k], values[(int)(i % 2 ? flat : along)[k]], 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(values);
    }
    return STN_OK;
}

static void take_along_dim_counts_negative_indices_from_the_end(void)
{
    test_ranks(1, from_the_end_body, NULL);
    test_ranks(3, from_the_end_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"every_layout_gives_what_one_process_gives", every_layout_gives_what_one_process_gives},
        {"an_index_without_elements_writes_nothing", an_index_without_elements_writes_nothing},
        {"derivatives_are_those_of_differences", derivatives_are_those_of_differences},
        {"several_indices_are_as_one", several_indices_are_as_one},
        {"elements_are_repeated_as_often_as_they_say", elements_are_repeated_as_often_as_they_say},
        {"slices_named_twice_count_once_in_the_gradient_of_what_fills_them",
         slices_named_twice_count_once_in_the_gradient_of_what_fills_them},
        {"take_along_dim_counts_negative_indices_from_the_end", take_along_dim_counts_negative_indices_from_the_end},
    };
    return TEST_MAIN(argc, argv, tests);
}
