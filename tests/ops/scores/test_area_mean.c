/* Two consumers of one area-weighted mean over uneven shards: a loss, and a value that each rank subtracts from its
 * rows. Gradients are those of one process on 1, 2, 3, 4 and 6 ranks: of sharded tensors whatever the use, of a program
 * per rank by the convention that fits the use. The other convention is off by the number of ranks, or by the term that
 * crosses between them. */
#include "ranks.h"

#include <math.h>

enum { ROWS = 10, COLUMNS = 3, N = ROWS * COLUMNS };

/* Cuts of 10 rows over up to 6 ranks, empty ones among them. */
static const int64_t cuts[7][6] = {{0}, {10}, {7, 3}, {4, 3, 3}, {4, 0, 5, 1}, {0}, {3, 0, 3, 1, 3, 0}};
static const int worlds[] = {1, 2, 3, 4, 6};

static double area(int64_t row)
{
    return cos((double)(row - 4) / 4);
}

static double areas(int64_t i)
{
    return area(i / COLUMNS);
}

static double cost(int64_t i)
{
    return 1 + (double)(i % 7);
}

static double total(double (*w)(int64_t), double (*x)(int64_t))
{
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += w(i) * x(i);
    return sum;
}

static double one(int64_t i)
{
    (void)i;
    return 1;
}

/* Of L = m, and of L = sum c (x - m), in which every element meets every other one. */
static double wanted(int used_locally, int64_t i)
{
    const double share = areas(i) / total(areas, one);
    return used_locally ? cost(i) - share * total(one, cost) : share;
}

static stn_tensor *rows(stn_context *context, int columns, double (*value)(int64_t))
{
    const int p = stn_context_size(context);
    const int64_t shape[] = {ROWS, columns}, *const sizes[] = {cuts[p], NULL};
    const stn_placement shard = stn_shard(0);
    return test_tensor(context, test_mesh(context, p, 0), &shard, STN_DTYPE_F64, 2, shape, sizes, value);
}

static stn_tensor *cost_of(stn_tensor *x, stn_tensor *m, stn_tensor *c)
{
    return stn_sum(stn_mul(stn_sub(x, m), c), 0, NULL, 0);
}

static stn_status sharded_body(stn_context *context, void *arg)
{
    const int used_locally = *(const int *)arg;
    double got[N];
    stn_tensor *grad;
    stn_scope_begin(context);
    stn_tensor *x = rows(context, COLUMNS, test_value), *w = rows(context, 1, area), *c = rows(context, COLUMNS, cost);
    stn_set_requires_grad(x, 1);
    stn_tensor *m = stn_weighted_mean(x, w, 0, NULL, 0);
    CHECK_STATUS(stn_backward(used_locally ? cost_of(x, m, c) : m), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    test_read(grad, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], wanted(used_locally, i), 1e-12);
    return stn_scope_end(context);
}

static void sharded_tensors_give_the_gradient_of_one_process_for_either_use(void)
{
    for (int i = 0; i < 5; i++)
        for (int used_locally = 0; used_locally < 2; used_locally++)
            test_ranks(worlds[i], sharded_body, &used_locally);
}

struct program {
    int used_locally;
    stn_grad_convention convention;
};

static stn_tensor *reduced(stn_tensor *x, const struct program *program)
{
    const stn_mesh *mesh = test_mesh(stn_tensor_context(x), stn_context_size(stn_tensor_context(x)), 0);
    return stn_dist_all_reduce(stn_sum(x, 0, NULL, 0), mesh, STN_SUM, program->convention);
}

/* Largest difference of this rank's gradient from `factor` times what is wanted, relative to what is largest there. */
static double error_of(stn_tensor *grad, int64_t first, int64_t n, int used_locally, double factor)
{
    double got[N + 1], worst = 0, largest = 0;
    CHECK_STATUS(stn_to_host(grad, got, (size_t)(n * COLUMNS) * sizeof *got), STN_OK);
    for (int64_t i = 0; i < n * COLUMNS; i++)
        worst = test_worst(worst, fabs(got[i] - factor * wanted(used_locally, first * COLUMNS + i)));
    for (int64_t i = 0; i < N; i++)
        largest = fmax(largest, fabs(wanted(used_locally, i)));
    return worst / largest;
}

/* The loss is one number that all ranks hold, or each rank's own of its rows. The right convention gives each rank its
 * rows of the gradient. */
static stn_status per_rank_body(stn_context *context, void *arg)
{
    const struct program *program = arg;
    const int p = stn_context_size(context);
    const int right = program->convention == (program->used_locally ? STN_GRAD_PER_RANK : STN_GRAD_REPLICATED);
    stn_tensor *grad;
    stn_scope_begin(context);
    stn_tensor *whole = rows(context, COLUMNS, test_value);
    const int64_t first = stn_spec_local_offset(stn_tensor_spec(whole))[0],
                  n = stn_spec_local_shape(stn_tensor_spec(whole))[0];
    stn_tensor *x = stn_clone(stn_to_local(whole, STN_GRAD_PER_RANK)),
               *w = stn_to_local(rows(context, 1, area), STN_GRAD_PER_RANK);
    stn_tensor *c = stn_to_local(rows(context, COLUMNS, cost), STN_GRAD_PER_RANK);
    stn_set_requires_grad(x, 1);
    stn_tensor *m = stn_div(reduced(stn_mul(x, w), program), reduced(stn_mul_number(w, COLUMNS), program));
    CHECK_STATUS(stn_backward(program->used_locally ? cost_of(x, m, c) : m), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (right || !program->used_locally)
        CHECK(error_of(grad, first, n, program->used_locally, right ? 1 : (double)p) < 1e-12);
    else if (p > 1 && n > 0)
        CHECK(error_of(grad, first, n, 1, 1) > 0.05);
    return stn_scope_end(context);
}

static void programs_per_rank_need_the_convention_that_fits_the_use(void)
{
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++) {
            struct program program = {k / 2, k % 2 ? STN_GRAD_REPLICATED : STN_GRAD_PER_RANK};
            test_ranks(worlds[i], per_rank_body, &program);
        }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sharded_tensors_give_the_gradient_of_one_process_for_either_use",
         sharded_tensors_give_the_gradient_of_one_process_for_either_use},
        {"programs_per_rank_need_the_convention_that_fits_the_use",
         programs_per_rank_need_the_convention_that_fits_the_use},
    };
    return TEST_MAIN(argc, argv, cases);
}
