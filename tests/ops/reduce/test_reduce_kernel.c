/* The CPU's reduction kernel on raw memory against a plain loop: all dtypes, every set of dims, strides, short and
 * long runs. */
#include "harness.h"

#include "core/device/device.h"
#include "every_isa.h"
#include "ops/elements.h"
#include "ops/reduce/reduce_kernel.h"
#include "ops/cpu/strided.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct problem {
    stn_dtype dtype, out_dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM], in[STN_MAX_NDIM], out[STN_MAX_NDIM]; /* strides; out 0 along summed dims */
    uint32_t summed;
    void *data, *result;
    int64_t size, out_size; /* elements of memory */
};

/* By each instruction set in turn. */
static void run_kernel(const struct stni_reduce_args *args)
{
    stn_queue queue = {.isa = next_isa()};
    CHECK_STATUS(stni_reduce_cpu(&queue, args), STN_OK);
}

static stn_dtype sum_dtype(stn_dtype dtype)
{
    return stn_dtype_is_differentiable(dtype) ? dtype : STN_DTYPE_I64;
}

/* Dense strides with the dims in a drawn order; `unit` between elements. Returns the elements spanned. */
static int64_t order_strides(int ndim, const int64_t *shape, uint32_t skip, uint64_t *seed, int64_t unit,
                             int64_t *strides)
{
    int order[STN_MAX_NDIM];
    for (int d = 0; d < ndim; d++)
        order[d] = d;
    for (int d = ndim - 1; d > 0; d--) {
        int other = seed ? (int)draw_below(seed, d + 1) : d, held = order[d];
        order[d] = order[other];
        order[other] = held;
    }
    int64_t step = unit;
    for (int k = ndim - 1; k >= 0; k--) {
        strides[order[k]] = skip >> order[k] & 1 ? 0 : step;
        step *= skip >> order[k] & 1 ? 1 : shape[order[k]];
    }
    return step;
}

static void make(struct problem *p, uint64_t *seed, int shuffle, int64_t unit)
{
    p->out_dtype = sum_dtype(p->dtype);
    p->size = order_strides(p->ndim, p->shape, 0, shuffle ? seed : NULL, unit, p->in);
    p->out_size = order_strides(p->ndim, p->shape, p->summed, shuffle ? seed : NULL, 1, p->out);
    p->data = malloc((size_t)p->size * stn_dtype_size(p->dtype) + 1);
    p->result = malloc((size_t)p->out_size * stn_dtype_size(p->out_dtype) + 1);
    memset(p->result, 0x5a, (size_t)p->out_size * stn_dtype_size(p->out_dtype));
    for (int64_t i = 0; i < p->size; i++)
        element_set(p->dtype, p->data, i, element_draw(p->dtype, seed));
}

static void run(const struct problem *p)
{
    struct stni_reduce_args args = {
        .op = STNI_REDUCTION_sum, .in_dtype = p->dtype, .out_dtype = p->out_dtype, .in = p->data, .out = p->result};
    for (int d = 0; d < p->ndim; d++) {
        args.empty |= p->shape[d] == 0;
        if (p->summed >> d & 1) {
            args.reduced[args.n_reduced] = p->shape[d];
            args.reduced_in[args.n_reduced++] = p->in[d];
        } else {
            args.kept[args.n_kept] = p->shape[d];
            args.kept_in[args.n_kept] = p->in[d];
            args.kept_out[args.n_kept++] = p->out[d];
        }
    }
    args.n_kept = stni_merge_dims(args.n_kept, args.kept, 2, (int64_t *[]){args.kept_in, args.kept_out});
    args.n_reduced = args.empty ? 0 : stni_merge_dims(args.n_reduced, args.reduced, 1, (int64_t *[]){args.reduced_in});
    run_kernel(&args);
}

/* Sums of small whole numbers are exact in the accumulator; the result is rounded once to the output's dtype. */
static void compare(const struct problem *p, const char *what)
{
    double _Complex *wanted = calloc((size_t)p->out_size, sizeof *wanted);
    int64_t index[STN_MAX_NDIM] = {0}, from = 0, to = 0, wrong = -1;
    int done = 0;
    for (int d = 0; d < p->ndim; d++)
        done |= p->shape[d] == 0;
    while (!done) {
        wanted[to] += element_get(p->dtype, p->data, from);
        int d = p->ndim - 1;
        for (; d >= 0; d--) {
            from += p->in[d];
            to += p->out[d];
            if (++index[d] < p->shape[d])
                break;
            from -= p->in[d] * p->shape[d];
            to -= p->out[d] * p->shape[d];
            index[d] = 0;
        }
        done = d < 0;
    }
    for (int64_t i = 0; i < p->out_size && wrong < 0; i++) {
        char rounded[16];
        element_set(p->out_dtype, rounded, 0, wanted[i]);
        if (element_get(p->out_dtype, rounded, 0) != element_get(p->out_dtype, p->result, i))
            wrong = i;
    }
    free(wanted);
    test_check_i64(wrong, -1, __FILE__, __LINE__, what);
}

static void drop(struct problem *p)
{
    free(p->data);
    free(p->result);
}

static void every_dtype_sums_rows_and_columns(void)
{
    uint64_t seed = 21;
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        for (uint32_t summed = 0; summed < 4; summed++) {
            struct problem p = {.dtype = (stn_dtype)d, .ndim = 2, .shape = {67, 1301}, .summed = summed};
            make(&p, &seed, 0, 1);
            run(&p);
            char what[32];
            snprintf(what, sizeof what, "%s dims %u", stn_dtype_name((stn_dtype)d), summed);
            compare(&p, what);
            drop(&p);
        }
}

static void every_set_of_dims_of_drawn_shapes_matches_a_plain_loop(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64,  STN_DTYPE_BF16,
                                       STN_DTYPE_I32, STN_DTYPE_BOOL, STN_DTYPE_C64};
    uint64_t seed = 22;
    for (int round = 0; round < 1500; round++) {
        struct problem p = {.dtype = dtypes[draw_below(&seed, 6)], .ndim = (int)draw_below(&seed, 6)};
        for (int d = 0; d < p.ndim; d++)
            p.shape[d] = draw_below(&seed, 5)   ? 1 + draw_below(&seed, 6)
                         : draw_below(&seed, 3) ? 1 + draw_below(&seed, 30)
                                                : draw_below(&seed, 2);
        if (p.ndim == 2)
            p.shape[draw_below(&seed, 2)] = 1 + draw_below(&seed, 4000);
        p.summed = (uint32_t)draw_below(&seed, 1 << p.ndim);
        for (int d = 0; d < p.ndim; d++)
            if (!(p.summed >> d & 1) && p.shape[d] == 0)
                p.shape[d] = 1; /* an empty output launches no kernel */
        make(&p, &seed, (int)draw_below(&seed, 2), 1 + draw_below(&seed, 2));
        run(&p);
        char what[32];
        snprintf(what, sizeof what, "round %d", round);
        compare(&p, what);
        drop(&p);
    }
}

static void long_f32_sum_is_rounded_once(void)
{
    enum { N = 3000001 };
    float *x = malloc(N * sizeof *x), sum;
    double wanted = 0;
    for (int i = 0; i < N; i++) {
        x[i] = 1.0f + (float)(i % 7) * 0.1f;
        wanted += x[i];
    }
    struct stni_reduce_args args = {.op = STNI_REDUCTION_sum,
                                    .in_dtype = STN_DTYPE_F32,
                                    .out_dtype = STN_DTYPE_F32,
                                    .in = x,
                                    .out = &sum,
                                    .n_reduced = 1,
                                    .reduced = {N},
                                    .reduced_in = {1}};
    run_kernel(&args);
    CHECK_NEAR(sum, wanted, 6e-8);
    args.n_reduced = 1;
    args.n_kept = 1;
    args.kept[0] = 1;
    run_kernel(&args);
    CHECK_NEAR(sum, wanted, 6e-8);
    free(x);
}

static void nan_and_infinity_reach_the_sum(void)
{
    float x[5] = {1, INFINITY, 2, 3, 4}, sum;
    struct stni_reduce_args args = {.op = STNI_REDUCTION_sum,
                                    .in_dtype = STN_DTYPE_F32,
                                    .out_dtype = STN_DTYPE_F32,
                                    .in = x,
                                    .out = &sum,
                                    .n_reduced = 1,
                                    .reduced = {5},
                                    .reduced_in = {1}};
    run_kernel(&args);
    CHECK(isinf(sum) && sum > 0);
    x[4] = NAN;
    run_kernel(&args);
    CHECK(isnan(sum));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_dtype_sums_rows_and_columns", every_dtype_sums_rows_and_columns},
        {"every_set_of_dims_of_drawn_shapes_matches_a_plain_loop",
         every_set_of_dims_of_drawn_shapes_matches_a_plain_loop},
        {"long_f32_sum_is_rounded_once", long_f32_sum_is_rounded_once},
        {"nan_and_infinity_reach_the_sum", nan_and_infinity_reach_the_sum},
    };
    return TEST_MAIN(argc, argv, cases);
}
