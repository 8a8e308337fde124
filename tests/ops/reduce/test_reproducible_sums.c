/* reproducible_sums: bits that neither layouts nor numbers of ranks nor the order of ranks change, of values whose sums
 * rounding would change in all digits. */
#include "expansion.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int grids[][2] = {{1, 0}, {2, 0}, {3, 0}, {5, 0}, {2, 3}, {3, 2}};
enum { GRIDS = sizeof grids / sizeof *grids };

static void on_each_grid(stn_rank_main body)
{
    const stn_context_options options = {.size = sizeof options, .reproducible_sums = 1};
    if (getenv("STN_TEST_MODULES")) {
        int one[2] = {0, 0};
        CHECK_STATUS(test_launch(0, &options, body, one), STN_OK);
        return;
    }
    for (size_t g = 0; g < GRIDS; g++) {
        int grid[2] = {grids[g][0], grids[g][1]};
        CHECK_STATUS(test_launch(grid[0] * (grid[1] ? grid[1] : 1), &options, body, grid), STN_OK);
    }
}

static const stn_mesh *mesh_of(stn_context *context, const int *grid)
{
    return test_mesh(context, grid[0] ? grid[0] : stn_context_size(context), grid[1]);
}

/* Ops: values and gradients in many layouts against those of whole local tensors, to the bit. */

static stn_tensor *sum(stn_tensor *x)
{
    return stn_sum(x, 2, (const int[]){0, 2}, 1);
}

static stn_tensor *mean(stn_tensor *x)
{
    return stn_mean(x, 0, NULL, 0);
}

static stn_tensor *euclidean(stn_tensor *x)
{
    return stn_vector_norm(x, 2, 1, (const int[]){1}, 0);
}

static stn_tensor *absolute(stn_tensor *x)
{
    return stn_vector_norm(x, 1, 0, NULL, 0);
}

static stn_tensor *cubic(stn_tensor *x)
{
    return stn_vector_norm(x, 3, 2, (const int[]){1, 0}, 0);
}

/* Its gradient is a sum over all dims but the last. */
static stn_tensor *repeated(stn_tensor *x)
{
    return stn_mul(stn_narrow(stn_narrow(x, 0, 2, 1), 1, 1, 1), stn_detach(x));
}

static stn_tensor *(*const ops[])(stn_tensor *x) = {sum, mean, euclidean, absolute, cubic, repeated};
enum { OPS = sizeof ops / sizeof *ops, ROWS = 7, COLUMNS = 5, DEPTH = 3, NUMEL = ROWS * COLUMNS * DEPTH };

static const int64_t box[] = {ROWS, COLUMNS, DEPTH};
static int spread; /* binades */

/* The same for every rank and layout. */
static double value(int64_t i)
{
    uint64_t state = (uint64_t)i * 77 + 12345;
    for (int k = 0; k < 5; k++)
        expansion_next(&state);
    return ldexp((double)(int64_t)expansion_next(&state), -63 - (int)(expansion_next(&state) % (uint64_t)spread));
}

struct outcome {
    double y[NUMEL], grad[NUMEL];
    int64_t n;
};

static void run_op(stn_tensor *(*op)(stn_tensor *x), stn_tensor *x, struct outcome *out)
{
    stn_tensor *grad = NULL;
    memset(out, 0, sizeof *out);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = op(x);
    out->n = stn_spec_numel(stn_tensor_spec(y));
    test_read(y, out->y, out->n);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(y, stn_detach(y)), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    test_read(grad, out->grad, NUMEL);
}

static const int64_t uneven[2][6] = {{5, 2, 0, 0, 0, 0}, {0, 7, 0, 0, 0, 0}};

static void check_layout(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, int cut,
                         const struct outcome *want, stn_tensor *(*op)(stn_tensor *x))
{
    const int64_t *const sizes[] = {cut > 0 ? uneven[cut - 1] : NULL, NULL, NULL};
    struct outcome got;
    stn_scope_begin(context);
    run_op(op, test_tensor(context, mesh, placements, STN_DTYPE_F64, 3, box, cut > 0 ? sizes : NULL, value), &got);
    CHECK_I64(got.n, want->n);
    CHECK_BYTES(got.y, want->y, (size_t)want->n * sizeof *got.y);
    CHECK_BYTES(got.grad, want->grad, sizeof got.grad);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* Sizes of rows are given where one axis of two ranks or more cuts them. */
static void check_op(stn_context *context, const stn_mesh *mesh, const struct outcome *want,
                     stn_tensor *(*op)(stn_tensor *x))
{
    const stn_placement choices[] = {stn_replicate(), stn_shard(0), stn_shard(1), stn_shard(2), stn_partial(STN_SUM)};
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            const stn_placement placements[] = {choices[a], choices[b]};
            const int is_line = stn_mesh_ndim(mesh) == 1, cuts = a == 1 && b != 1 && stn_mesh_size(mesh) > 1;
            if (is_line && b > 0)
                continue;
            for (int cut = 0; cut <= 2 * cuts; cut++)
                check_layout(context, mesh, placements, cut, want, op);
        }
}

static stn_status ops_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = mesh_of(context, arg);
    for (size_t k = 0; k < OPS; k++) {
        struct outcome want;
        stn_scope_begin(context);
        run_op(ops[k], test_tensor(context, NULL, NULL, STN_DTYPE_F64, 3, box, NULL, value), &want);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        check_op(context, mesh, &want, ops[k]);
    }
    return STN_OK;
}

static void ops_give_the_same_bits_on_every_layout(void)
{
    for (spread = 3; spread < 100; spread += 60)
        on_each_grid(ops_body);
}

/* Collectives: rank r has the addend (r + by) % p of each element, so that every order of ranks comes up. */

enum { N = 37, MOST = 8 };

struct addends {
    int p;
    double of[MOST][N], sum[N];
};

static void draw(struct addends *a, int p, stn_dtype dtype, uint64_t *state)
{
    a->p = p;
    for (int i = 0; i < N; i++) {
        double list[MOST];
        for (int r = 0; r < p; r++) {
            const double x = ldexp((double)(int64_t)expansion_next(state), -64 - (int)(expansion_next(state) % 90));
            list[r] = dtype == STN_DTYPE_F64 ? x : (double)(float)x;
        }
        if (i % 3 == 0 && p > 1)
            list[p - 1] = -list[0];
        for (int r = 0; r < p; r++)
            a->of[r][i] = list[r];
        a->sum[i] = dtype == STN_DTYPE_F64 ? expansion_sum(p, list) : (double)expansion_sum_f32(p, list);
    }
}

static stn_tensor *local(stn_context *context, stn_dtype dtype, const double *v)
{
    const struct random_shape shape = {1, {N}};
    return stn_cast(against_one_local(context, STN_DTYPE_F64, &shape, v), dtype);
}

static void expect(stn_tensor *got, stn_dtype dtype, const double *sums, int from, int n, int divisor)
{
    double values[N] = {0};
    CHECK_STATUS(stn_to_host(stn_cast(got, STN_DTYPE_F64), values, (size_t)n * sizeof *values), STN_OK);
    for (int i = 0; i < n; i++) {
        const double sum = sums[from + i],
                     want = dtype == STN_DTYPE_F64 ? sum / divisor : (double)((float)sum / (float)divisor);
        CHECK_BYTES(&values[i], &want, sizeof want);
    }
}

static void check_collectives(stn_context *context, const stn_mesh *mesh, const struct addends *a, stn_dtype dtype,
                              int by)
{
    const int p = a->p, rank = stn_context_rank(context), root = by % p;
    int64_t sizes[MOST] = {0};
    int from = 0;
    sizes[p - 1] = N / 3;
    sizes[0] += N - N / 3;
    for (int r = 0; r < rank; r++)
        from += (int)sizes[r];
    stn_scope_begin(context);
    stn_tensor *x = local(context, dtype, a->of[(rank + by) % p]);
    expect(stn_dist_all_reduce(x, mesh, STN_SUM, STN_GRAD_PER_RANK), dtype, a->sum, 0, N, 1);
    expect(stn_dist_all_reduce(x, mesh, STN_AVG, STN_GRAD_PER_RANK), dtype, a->sum, 0, N, p);
    stn_tensor *reduced = stn_dist_reduce(x, mesh, STN_SUM, root, STN_GRAD_PER_RANK);
    if (rank == root)
        expect(reduced, dtype, a->sum, 0, N, 1);
    expect(stn_dist_reduce_scatter(x, mesh, 0, sizes, STN_SUM, STN_GRAD_PER_RANK), dtype, a->sum, from,
           (int)sizes[rank], 1);
    stn_dist_request *request = NULL;
    CHECK_STATUS(stn_dist_all_reduce_in_place(x, mesh, STN_SUM, &request), STN_OK);
    CHECK_STATUS(stn_dist_wait(&request), STN_OK);
    expect(x, dtype, a->sum, 0, N, 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* What is pending, made replicated and sharded: on all axes of the mesh at once. */
static void check_pending(stn_context *context, const stn_mesh *mesh, const struct addends *a, stn_dtype dtype, int by)
{
    const stn_placement pending[] = {stn_partial(STN_SUM), stn_partial(STN_SUM)},
                        whole[] = {stn_replicate(), stn_replicate()};
    const stn_placement cut[] = {stn_shard(0), stn_replicate()}, rest[] = {stn_replicate(), stn_shard(0)};
    const stn_placement *const to[] = {whole, cut, stn_mesh_ndim(mesh) > 1 ? rest : cut};
    const int64_t line[] = {N};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, pending, dtype, 1, line, NULL, &spec), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x =
        stn_from_local(local(context, dtype, a->of[(stn_context_rank(context) + by) % a->p]), spec, STN_GRAD_PER_RANK);
    for (int k = 0; k < 3; k++)
        expect(stn_full_tensor(stn_redistribute_to(x, to[k])), dtype, a->sum, 0, N, 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
}

static stn_status collectives_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F64, STN_DTYPE_F32};
    const int p = stn_context_size(context);
    const stn_mesh *mesh = mesh_of(context, arg), *line = test_mesh(context, p, 0);
    uint64_t state = 0xabcd;
    for (int round = 0; round < test_draws(12); round++) {
        const stn_dtype dtype = dtypes[round % 2];
        struct addends a;
        draw(&a, p, dtype, &state);
        check_collectives(context, line, &a, dtype, round % p);
        check_pending(context, mesh, &a, dtype, round % p);
    }
    return STN_OK;
}

static void collectives_give_the_nearest_number_in_any_order_of_ranks(void)
{
    on_each_grid(collectives_body);
}

/* Clipping by the norm of all gradients: the number and the clipped gradients, of parameters in many layouts. */

static int turn; /* which values */

static double slope(int64_t i)
{
    return ldexp(test_value(i + 1000 * turn), (int)(i % 5));
}

static double norm_of(int n)
{
    double *squares = malloc((size_t)n * sizeof *squares);
    for (int i = 0; i < n; i++)
        squares[i] = slope(i) * slope(i);
    const double norm = sqrt(expansion_sum(n, squares));
    free(squares);
    return norm;
}

static stn_status clip_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = mesh_of(context, arg);
    const stn_placement layouts[][2] = {
        {stn_shard(0), stn_shard(1)}, {stn_shard(1), stn_replicate()}, {stn_replicate(), stn_shard(0)}};
    for (int k = 0; k < 3; k++) {
        double norm = 0, want = norm_of(ROWS * COLUMNS), got[ROWS * COLUMNS] = {0};
        stn_tensor *grad;
        stn_scope_begin(context);
        stn_tensor *w = test_tensor(context, mesh, layouts[k], STN_DTYPE_F64, 2, box, NULL, test_value);
        stn_tensor *x = test_tensor(context, mesh, layouts[(k + 1) % 3], STN_DTYPE_F64, 2, box, NULL, slope);
        CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
        CHECK_STATUS(stn_backward(stn_sum(stn_mul(w, x), 0, NULL, 0)), STN_OK);
        CHECK_STATUS(stn_clip_grad_norm(context, 1, &w, want / 2, &norm), STN_OK);
        CHECK_BYTES(&norm, &want, sizeof norm);
        CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
        test_read(grad, got, ROWS * COLUMNS);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            CHECK_NEAR(got[i], slope(i) / 2, 1e-6);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void the_norm_of_gradients_is_the_same_on_every_layout(void)
{
    for (turn = 0; turn < 8; turn++)
        on_each_grid(clip_body);
}

/* Complex numbers and 16-bit floats: the parts' sums, and f32's rounded. */
static stn_status dtypes_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), rank = stn_context_rank(context);
    const stn_mesh *mesh = mesh_of(context, arg);
    const double big = rank == 0       ? 0x1p60
                       : rank == p - 1 ? -0x1p60
                       : rank == 1     ? 3
                                       : 0,
                 left = p == 1   ? 0x1p60
                        : p == 2 ? 0
                                 : 3;
    const struct random_shape one = {1, {1}};
    double got[2] = {0};
    stn_scope_begin(context);
    const double small = rank == p / 2 ? 3 : 0;
    stn_tensor *x = stn_complex(against_one_local(context, STN_DTYPE_F64, &one, &big),
                                against_one_local(context, STN_DTYPE_F64, &one, &small));
    stn_tensor *y = stn_dist_all_reduce(x, mesh, STN_SUM, STN_GRAD_PER_RANK);
    CHECK_STATUS(stn_to_host(y, got, sizeof got), STN_OK);
    CHECK_NEAR(got[0], left, 0);
    CHECK_NEAR(got[1], 3, 0);
    const double values[] = {256, 1, 1};
    const struct random_shape three = {1, {3}};
    CHECK_STATUS(stn_item(stn_sum(stn_cast(against_one_local(context, STN_DTYPE_F64, &three, values), STN_DTYPE_BF16),
                                  0, NULL, 0),
                          got),
                 STN_OK);
    CHECK_NEAR(got[0], 258, 0);
    stn_tensor *z = stn_complex(against_one_local(context, STN_DTYPE_F64, &three, values),
                                against_one_local(context, STN_DTYPE_F64, &three, values));
    CHECK_STATUS(stn_to_host(stn_mean(z, 0, NULL, 0), got, sizeof got), STN_OK);
    CHECK_NEAR(got[0], 86, 0);
    CHECK_NEAR(got[1], 86, 0);
    return stn_scope_end(context);
}

static void parts_of_complex_numbers_and_narrow_floats_are_summed_exactly(void)
{
    on_each_grid(dtypes_body);
}

static void what_is_no_choice_is_refused(void)
{
    char text[256] = "";
    stn_context *context = NULL;
    const stn_context_options options = {
        .size = sizeof options, .reproducible_sums = 2, .error_text = text, .error_text_size = sizeof text};
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_ARGUMENT);
    CHECK_STR(text, "context: reproducible_sums got 2, wanted 0 or 1");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ops_give_the_same_bits_on_every_layout", ops_give_the_same_bits_on_every_layout},
        {"collectives_give_the_nearest_number_in_any_order_of_ranks",
         collectives_give_the_nearest_number_in_any_order_of_ranks},
        {"the_norm_of_gradients_is_the_same_on_every_layout", the_norm_of_gradients_is_the_same_on_every_layout},
        {"parts_of_complex_numbers_and_narrow_floats_are_summed_exactly",
         parts_of_complex_numbers_and_narrow_floats_are_summed_exactly},
        {"what_is_no_choice_is_refused", what_is_no_choice_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
