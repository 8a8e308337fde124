/* Stages of a pipeline on slices of one grid: each runs its own program and its own backwards, and knows the other
 * stage by what it sends it. What comes out is what one process would have. */
#include "ranks.h"

enum { N = 7, BATCHES = 3, FIRST = 0, SECOND = 1 };

struct stage {
    int number;
    const stn_mesh *row, *column; /* its ranks; this rank and its peer of the other stage */
    stn_tensor *weight;
};

static stn_tensor *vector(stn_context *context, const stn_mesh *mesh, double (*value)(int64_t))
{
    const stn_placement shard = stn_shard(0);
    return test_tensor(context, mesh, mesh ? &shard : NULL, STN_DTYPE_F64, 1, (int64_t[]){N}, NULL, value);
}

static double weight_of(int64_t i)
{
    return 0.3 * test_value(i + 40);
}

static stn_tensor *sample(stn_context *context, const stn_mesh *mesh, int batch)
{
    return stn_add_number(vector(context, mesh, test_value), 0.1 * batch);
}

static stn_tensor *first_program(stn_tensor *x, stn_tensor *w)
{
    return stn_tanh(stn_mul(x, w));
}

/* Another one for odd batches. */
static stn_tensor *second_program(stn_tensor *a, stn_tensor *w, int batch)
{
    stn_tensor *loss = stn_sum(stn_exp(stn_mul(a, w)), 0, NULL, 0);
    return batch % 2 ? stn_add(loss, stn_sum(stn_mul(a, a), 0, NULL, 0)) : loss;
}

/* The chunks of a tensor of one stage, as a tensor of the other one; NULL on those who gave it. Nothing is recorded. */
static stn_tensor *pass_on(stn_context *context, const struct stage *s, int from, stn_tensor *tensor)
{
    const int gives = s->number == from;
    stn_tensor *shape = vector(context, s->row, test_value), *out = NULL;
    const stn_spec *spec = stn_tensor_spec(shape);
    const stn_dist_part part = {gives ? 1 - from : from, 0, stn_spec_local_numel(spec)};
    const stn_dist_messages messages = {sizeof messages, gives, !gives, &part, &part, gives ? 0 : part.length};
    stn_no_grad_begin(context);
    stn_tensor *chunk = stn_to_local(gives ? tensor : shape, STN_GRAD_PER_RANK);
    stn_tensor *got = stn_dist_exchange(chunk, s->column, 0, &messages, STN_GRAD_PER_RANK);
    if (!gives)
        out = stn_from_local(got, spec, STN_GRAD_PER_RANK);
    stn_no_grad_end(context);
    return out;
}

/* The second stage's part of a batch: forward and backward at once; the gradient of what it was given. */
static stn_tensor *finish(stn_tensor *a, const struct stage *s, int batch)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_set_requires_grad(a, 1), STN_OK);
    CHECK_STATUS(stn_backward(second_program(a, s->weight, batch)), STN_OK);
    CHECK_STATUS(stn_grad_of(a, &grad), STN_OK);
    return grad;
}

/* Forwards run one batch ahead of the backwards. */
static void run(stn_context *context, const struct stage *s)
{
    stn_tensor *h[BATCHES + 1] = {NULL}, *back = NULL;
    for (int b = 0; b <= BATCHES; b++) {
        if (b < BATCHES && s->number == FIRST)
            h[b] = first_program(sample(context, s->row, b), s->weight);
        stn_tensor *a = b < BATCHES ? pass_on(context, s, FIRST, h[b]) : NULL;
        stn_tensor *grad = b > 0 ? pass_on(context, s, SECOND, back) : NULL;
        if (b > 0 && s->number == FIRST)
            CHECK_STATUS(stn_backward_many(context, 1, &h[b - 1], &grad, 0), STN_OK);
        if (a)
            back = finish(a, s, b);
    }
}

static void expect_gradient(const struct stage *s, stn_tensor *const *one)
{
    stn_tensor *grad = NULL, *whole = NULL;
    double want[N];
    CHECK_STATUS(stn_grad_of(one[s->number], &whole), STN_OK);
    CHECK_STATUS(stn_grad_of(s->weight, &grad), STN_OK);
    if (!CHECK_PTR(grad) || !CHECK_PTR(whole))
        return;
    test_read(whole, want, N);
    test_compare(grad, want, N, 1e-14);
}

static stn_status body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, *(const int *)arg);
    const int rows = 0, columns = 1;
    struct stage s = {.number = stn_mesh_coordinate(grid, 0)};
    CHECK_STATUS(stn_mesh_slice(grid, 1, &columns, &s.row), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, &rows, &s.column), STN_OK);
    stn_scope_begin(context);
    stn_tensor *one[] = {vector(context, NULL, test_value), vector(context, NULL, weight_of)};
    s.weight = vector(context, s.row, s.number == FIRST ? test_value : weight_of);
    CHECK_STATUS(stn_set_requires_grad(s.weight, 1), STN_OK);
    run(context, &s);
    for (int k = 0; k < 2; k++)
        CHECK_STATUS(stn_set_requires_grad(one[k], 1), STN_OK);
    for (int b = 0; b < BATCHES; b++)
        CHECK_STATUS(stn_backward(second_program(first_program(sample(context, NULL, b), one[FIRST]), one[SECOND], b)),
                     STN_OK);
    expect_gradient(&s, one);
    return stn_scope_end(context);
}

static void stages_that_run_other_programs_train_as_one_process(void)
{
    for (int columns = 1; columns <= 3; columns++)
        test_ranks(2 * columns, body, &columns);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"stages_that_run_other_programs_train_as_one_process", stages_that_run_other_programs_train_as_one_process},
    };
    return TEST_MAIN(argc, argv, cases);
}
