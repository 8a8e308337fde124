/* Ops by an index that keeps its routes against the same ops by one that does not: the same bits, gradients too, in
 * drawn layouts; and against one process, with second derivatives. */
#include "ops/against_one.h"
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE, INDEX, SOURCE, ROUNDS = 24, MANY = 40, MAX_BYTES = 8 * LAYOUT_MAX_ELEMENTS };

static stn_tensor *gather(stn_tensor *const *in, int dim) { return stn_gather(in[TABLE], dim, in[INDEX]); }
static stn_tensor *along(stn_tensor *const *in, int dim) { return stn_take_along_dim(in[TABLE], in[INDEX], &dim); }
static stn_tensor *rows(stn_tensor *const *in, int dim) { return stn_index_select(in[TABLE], dim, in[INDEX]); }
static stn_tensor *fill(stn_tensor *const *in, int dim) { return stn_index_fill(in[TABLE], dim, in[INDEX], 0.5); }

static stn_tensor *set(stn_tensor *const *in, int dim)
{
    return stn_scatter_from(in[TABLE], dim, in[INDEX], in[SOURCE]);
}

static stn_tensor *add(stn_tensor *const *in, int dim)
{
    return stn_scatter_add(in[TABLE], dim, in[INDEX], in[SOURCE]);
}

static stn_tensor *most(stn_tensor *const *in, int dim)
{
    return stn_scatter_reduce(in[TABLE], dim, in[INDEX], in[SOURCE], STN_SCATTER_AMAX, 0);
}

static stn_tensor *mean(stn_tensor *const *in, int dim)
{
    return stn_scatter_reduce(in[TABLE], dim, in[INDEX], in[SOURCE], STN_SCATTER_MEAN, 1);
}

static stn_tensor *product(stn_tensor *const *in, int dim)
{
    return stn_scatter_reduce(in[TABLE], dim, in[INDEX], in[SOURCE], STN_SCATTER_PROD, 1);
}

static stn_tensor *add_rows(stn_tensor *const *in, int dim)
{
    return stn_index_add(in[TABLE], dim, in[INDEX], in[SOURCE], -1.5);
}

static stn_tensor *copy_rows(stn_tensor *const *in, int dim)
{
    return stn_index_copy(in[TABLE], dim, in[INDEX], in[SOURCE]);
}

static stn_tensor *put(stn_tensor *const *in, int dim)
{
    (void)dim;
    return stn_index_put(in[TABLE], 1, in + INDEX, in[SOURCE], 1);
}

/* One row is padding: it is read, and gets no gradient. */
static stn_tensor *embedding(stn_tensor *const *in, int dim)
{
    const int64_t padding = stn_tensor_shape(in[TABLE])[0] / 2;
    (void)dim;
    return stn_embedding(in[INDEX], in[TABLE], &padding);
}

static const struct routed_op {
    const char *name;
    stn_tensor *(*call)(stn_tensor *const *in, int dim);
    int n_in, slices, wraps;
    int of_rows; /* by dim 0 of a table of two dims */
    int whole;   /* the index has all of the table's dims but `dim` */
} ops[] = {
    {"gather", gather, 2, 0, 0, 0, 0},        {"take_along_dim", along, 2, 0, 1, 0, 1},
    {"index_select", rows, 2, 1, 0, 0, 0},    {"index_fill", fill, 2, 1, 1, 0, 0},
    {"scatter", set, 3, 0, 0, 0, 0},          {"scatter_add", add, 3, 0, 0, 0, 0},
    {"amax", most, 3, 0, 0, 0, 0},            {"mean", mean, 3, 0, 0, 0, 0},
    {"prod", product, 3, 0, 0, 0, 0},         {"index_add", add_rows, 3, 1, 0, 0, 0},
    {"index_copy", copy_rows, 3, 1, 0, 0, 0}, {"index_put", put, 3, 1, 1, 1, 0},
    {"embedding", embedding, 2, 1, 0, 1, 0},
};
enum { OPS = sizeof ops / sizeof *ops };

struct problem {
    const struct routed_op *op;
    int dim;
    struct elements table, index, source, cotangent;
    stn_tensor *in[3], *kept, *weight; /* `weight`: of the result */
};

/* Numbers whose sums depend on their order. */
static void draw_numbers(struct elements *e, int ndim, const int64_t *shape, uint64_t *seed)
{
    elements_draw(e, STN_DTYPE_F64, ndim, shape, seed);
    for (int64_t i = 0; i < e->n; i++)
        e->v[i] *= 0.37;
}

static void draw_index(struct problem *p, int ndim, const int64_t *shape, uint64_t *seed)
{
    const int64_t n = p->table.shape[p->dim], low = p->op->wraps ? -n : 0;
    elements_draw(&p->index, draw_below(seed, 2) ? STN_DTYPE_I64 : STN_DTYPE_I32, ndim, shape, seed);
    for (int64_t i = 0; i < p->index.n; i++)
        p->index.v[i] = (double)(low + draw_below(seed, n - low));
}

static void draw_problem(struct problem *p, const struct routed_op *op, uint64_t *seed)
{
    int64_t table[STN_MAX_NDIM], index[STN_MAX_NDIM], source[STN_MAX_NDIM];
    const int ndim = op->of_rows ? 2 : 1 + (int)draw_below(seed, 3);
    p->op = op;
    p->dim = op->of_rows ? 0 : (int)draw_below(seed, ndim);
    const int64_t many = draw_below(seed, MANY);
    for (int d = 0; d < ndim; d++) {
        table[d] = 1 + draw_below(seed, d == p->dim ? 12 : 4);
        index[d] = d == p->dim ? many : op->whole ? table[d] : 1 + draw_below(seed, table[d]);
        source[d] = d == p->dim ? many : op->slices ? table[d] : index[d];
    }
    draw_numbers(&p->table, ndim, table, seed);
    draw_index(p, op->slices ? 1 : ndim, op->slices ? &many : index, seed);
    draw_numbers(&p->source, ndim, source, seed);
}

static void make_tensors(stn_context *context, const stn_mesh *mesh, struct problem *p, uint64_t *seed)
{
    const stn_spec *spec = layout_draw(context, mesh, &p->index, seed);
    p->in[TABLE] = layout_tensor_drawn(context, mesh, &p->table, seed);
    p->in[INDEX] = layout_tensor(context, spec, &p->index);
    p->in[SOURCE] = layout_tensor_drawn(context, mesh, &p->source, seed);
    p->kept = layout_tensor(context, spec, &p->index);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_set_requires_grad(p->in[TABLE], 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(p->in[SOURCE], 1), STN_OK);
    stn_tensor *y = stn_detach(p->op->call(p->in, p->dim));
    draw_numbers(&p->cotangent, stn_tensor_ndim(y), stn_tensor_shape(y), seed);
    p->weight = layout_tensor_drawn(context, mesh, &p->cotangent, seed);
}

/* Chunks of the result and of the gradients, one behind the other. */
struct bits {
    size_t n;
    char data[3 * MAX_BYTES];
    int64_t collectives;
};

static void append(struct bits *bits, stn_tensor *t)
{
    const size_t n = t ? (size_t)stn_spec_local_numel(stn_tensor_spec(t)) * stn_dtype_size(stn_tensor_dtype(t)) : 0;
    CHECK(bits->n + n <= sizeof bits->data);
    if (t)
        CHECK_STATUS(stn_to_host(t, bits->data + bits->n, n), STN_OK);
    bits->n += n;
}

static void run(stn_context *context, const struct problem *p, stn_tensor *index, struct bits *out)
{
    stn_tensor *in[] = {p->in[TABLE], index, p->in[SOURCE]}, *grads[2] = {NULL, NULL};
    stn_tensor *differentiated[] = {in[TABLE], in[SOURCE]};
    stn_scope_begin(context);
    test_stats_reset(context);
    stn_tensor *y = p->op->call(in, p->dim);
    CHECK_STATUS(stn_grad(context, 1, &y, &p->weight, p->op->n_in - 1, differentiated, 0, 0, grads), STN_OK);
    out->collectives = test_stats_reset(context).collectives;
    out->n = 0;
    append(out, y);
    append(out, grads[0]);
    append(out, grads[1]);
    if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
        fprintf(stderr, "    %s: %s\n", p->op->name, stn_context_error_text(context));
}

/* Returns how many collectives a call by kept routes is spared. */
static int64_t check_problem(stn_context *context, const struct problem *p)
{
    static _Thread_local struct bits plain, kept;
    run(context, p, p->in[INDEX], &plain);
    CHECK_STATUS(stn_tensor_keep_routes(p->kept, 1), STN_OK);
    for (int i = 0; i < 3; i++) {
        run(context, p, p->kept, &kept);
        CHECK_I64((int64_t)kept.n, (int64_t)plain.n);
        if (plain.n > 0 && !CHECK_BYTES(kept.data, plain.data, plain.n))
            fprintf(stderr, "    %s along %d, call %d\n", p->op->name, p->dim, i);
    }
    return plain.collectives - kept.collectives;
}

static stn_status bits_body(stn_context *context, void *arg)
{
    const int columns = *(const int *)arg, n = stn_context_size(context);
    const stn_mesh *mesh = columns ? test_mesh(context, n / columns, columns) : test_mesh(context, n, 0);
    static _Thread_local struct problem p;
    uint64_t seed = 91 + (uint64_t)(10 * n + columns);
    int64_t spared = 0;
    for (int i = 0; i < test_draws(ROUNDS) * OPS / (n < 3 ? 2 : 1); i++) {
        stn_scope_begin(context);
        draw_problem(&p, &ops[i % OPS], &seed);
        make_tensors(context, mesh, &p, &seed);
        spared += check_problem(context, &p);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK(n == 1 ? spared == 0 : spared > test_draws(50));
    return STN_OK;
}

static void check_ranks(int ranks, int columns)
{
    test_ranks(ranks, bits_body, &columns);
}

static void bits_and_gradients_are_the_same_on_one_rank(void) { check_ranks(1, 0); }
static void bits_and_gradients_are_the_same_on_two_ranks(void) { check_ranks(2, 0); }
static void bits_and_gradients_are_the_same_on_three_ranks(void) { check_ranks(3, 0); }
static void bits_and_gradients_are_the_same_on_four_ranks(void) { check_ranks(4, 0); }
static void bits_and_gradients_are_the_same_on_2_x_2_ranks(void) { check_ranks(4, 2); }
static void bits_and_gradients_are_the_same_on_2_x_3_ranks(void) { check_ranks(6, 3); }

/* By fresh routes, then by kept ones. */
static stn_tensor *call_twice(stn_tensor *const *in, const void *arg)
{
    const struct problem *p = arg;
    CHECK_STATUS(stn_tensor_keep_routes(in[INDEX], 1), STN_OK);
    p->op->call(in, p->dim);
    return p->op->call(in, p->dim);
}

/* Of numbers other values than in the problem: sums of them are exact, and none ties. */
static struct against_one_input input_of(const struct elements *e, uint64_t *state)
{
    struct against_one_input in = {.dtype = e->dtype, .shape.ndim = e->ndim};
    double *values = against_one_draw(state, e->n);
    memcpy(in.shape.shape, e->shape, sizeof in.shape.shape);
    for (int64_t i = 0; i < e->n && e->dtype == STN_DTYPE_I64; i++)
        values[i] = creal(e->v[i]);
    in.ops = e->dtype == STN_DTYPE_F64 ? 1u << STN_SUM : 0;
    in.values = values;
    return in;
}

static stn_status whole_body(stn_context *context, void *arg)
{
    static _Thread_local struct problem p;
    const int n = stn_context_size(context);
    const stn_mesh *mesh = n == 6 ? test_mesh(context, 2, 3) : test_mesh(context, n, 0);
    uint64_t seed = 7, state = 8;
    (void)arg;
    for (int i = 0; i < test_draws(6) * OPS; i++) {
        draw_problem(&p, &ops[i % OPS], &seed);
        p.index.dtype = STN_DTYPE_I64;
        struct against_one_op op = {.call = call_twice, .arg = &p, .n_in = p.op->n_in, .tolerance = 1e-9,
                                    .in = {input_of(&p.table, &state), input_of(&p.index, &state),
                                           input_of(&p.source, &state)}};
        against_one_check(context, &state, mesh, &op);
        for (int k = 0; k < 3; k++)
            free((double *)(uintptr_t)op.in[k].values);
    }
    return STN_OK;
}

static void kept_routes_give_what_one_process_gives(void)
{
    test_worlds(whole_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"bits_and_gradients_are_the_same_on_one_rank", bits_and_gradients_are_the_same_on_one_rank},
        {"bits_and_gradients_are_the_same_on_two_ranks", bits_and_gradients_are_the_same_on_two_ranks},
        {"bits_and_gradients_are_the_same_on_three_ranks", bits_and_gradients_are_the_same_on_three_ranks},
        {"bits_and_gradients_are_the_same_on_four_ranks", bits_and_gradients_are_the_same_on_four_ranks},
        {"bits_and_gradients_are_the_same_on_2_x_2_ranks", bits_and_gradients_are_the_same_on_2_x_2_ranks},
        {"bits_and_gradients_are_the_same_on_2_x_3_ranks", bits_and_gradients_are_the_same_on_2_x_3_ranks},
        {"kept_routes_give_what_one_process_gives", kept_routes_give_what_one_process_gives},
    };
    return TEST_MAIN(argc, argv, tests);
}
