/* Causal attention whose query rows are cut among ranks, where no tile's first row is a multiple of anything: results
 * and gradients are those of one process on the CPU, by cuDNN where ranks have scores enough. So they are with keys
 * that are cut as queries are, and go round. */
#include "both.h"
#include "harness.h"
#include "on_ranks.h"

#include "core/tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 3, MOST_WIDTH = 17, MOST = 8 * 330 * MOST_WIDTH };
enum { LEAVES = 3, RESULTS = LEAVES + 1 };

struct problem {
    stn_dtype dtype;
    int64_t heads, rows, width;
    int goes_round; /* which keys do, whose kernels are our own */
    double dropout_p;
};

struct run {
    struct problem of;
    int64_t library_runs; /* of the last rank, whose rows attend to all keys */
    double results[RESULTS][MOST];
};

/* From -1 to 1, so that gradients are of that size, too. */
static stn_tensor *input(stn_context *context, const stn_mesh *mesh, int is_cut, const struct run *run, int seed)
{
    static const stn_placement whole[] = {STN_R}, cut[] = {STN_S(2)};
    const int64_t shape[] = {1, run->of.heads, run->of.rows, run->of.width}, n = shape[1] * shape[2] * shape[3];
    const stn_spec *spec = NULL;
    uint32_t state = (uint32_t)seed * 2654435761u + 12345u;
    float *const data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)(state >> 12 & 0xffff) / 32768.0f - 1.0f;
    }
    stn_spec_create(context, mesh, is_cut ? cut : whole, STN_DTYPE_F32, 4, shape, NULL, &spec);
    stn_tensor *x = stn_cast(stn_from_host_global(context, spec, data), run->of.dtype);
    stn_spec_release(&spec);
    free(data);
    return x;
}

static stn_status attend(stn_context *context, void *arg)
{
    enum { MANY = 1000 };
    struct run *run = arg;
    int64_t *const runs_left = &context->foreign.refusals[STNI_LIBRARY_CUDNN].run;
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = 1, .dropout_p = run->of.dropout_p};
    const int last = stn_context_size(context) - 1;
    const stn_mesh *const mesh = on_ranks_line(context);
    stn_tensor *leaves[LEAVES], *grad = NULL;
    stn_scope_begin(context);
    stn_context_set_random_state(context, 17, 5);
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    for (int i = 0; i < LEAVES; i++) {
        leaves[i] = input(context, mesh, i == 0 || run->of.goes_round, run, i);
        stn_set_requires_grad(leaves[i], 1);
    }
    *runs_left = MANY;
    stn_tensor *result = stn_scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], NULL, &attrs);
    stn_backward(stn_sum(stn_mul(result, input(context, mesh, 1, run, LEAVES)), 0, NULL, 0));
    if (stn_context_rank(context) == last)
        run->library_runs = MANY - *runs_left;
    *runs_left = 0;
    on_ranks_keep(context, result, run->results[LEAVES]);
    for (int i = 0; i < LEAVES; i++)
        if (CHECK_STATUS(stn_grad_of(leaves[i], &grad), STN_OK))
            on_ranks_keep(context, grad, run->results[i]);
    return stn_scope_end(context);
}

static void check(struct problem of, int64_t library_runs, double tolerance)
{
    static struct run want, got;
    want.of = got.of = of;
    on_ranks(RANKS, attend, &want, &got);
    if (both_on_standin())
        CHECK_I64(got.library_runs, library_runs);
    else /* which may have no plan for a diagonal that does not begin with the first key */
        printf("the library has run %lld of %lld times\n", (long long)got.library_runs, (long long)library_runs);
    for (int k = 0; k < RESULTS; k++) {
        double most = 0;
        for (int64_t i = 0; i < of.heads * of.rows * of.width; i++)
            most = test_worst(most, fabs(got.results[k][i] - want.results[k][i]) / fmax(1, fabs(want.results[k][i])));
        if (!CHECK(most <= tolerance))
            fprintf(stderr, "%s, result %d: differs by %g, wanted at most %g\n", stn_dtype_name(of.dtype), k, most,
                    tolerance);
    }
}

/* 62 rows a rank, of few scores. */
static void rows_that_are_cut_attend_as_whole_ones(void)
{
    check((struct problem){STN_DTYPE_F32, 2, 186, 16, 0, 0}, 0, 1e-5);
    check((struct problem){STN_DTYPE_F64, 2, 186, 16, 0, 0}, 0, 1e-11);
    check((struct problem){STN_DTYPE_BF16, 2, 186, 16, 0, 0}, 0, 2e-2);
    check((struct problem){STN_DTYPE_F16, 2, 186, 16, 0, 0}, 0, 2.5e-3);
}

/* 110 rows a rank: the last one's scores are enough for the library, which is told where its diagonal ends. */
static void rows_of_the_library_attend_as_whole_ones(void)
{
    check((struct problem){STN_DTYPE_BF16, 8, 330, 16, 0, 0}, 2, 2e-2);
    check((struct problem){STN_DTYPE_F16, 8, 330, 16, 0, 0}, 2, 2.5e-3);
}

/* In f64 a step has scores enough for products of whole matrices, whose rows are aligned to 16 bytes or are not. */
static void keys_that_go_round_are_attended_to_as_whole_ones(void)
{
    check((struct problem){STN_DTYPE_F32, 2, 185, 16, 1, 0}, 0, 1e-5);
    check((struct problem){STN_DTYPE_F64, 8, 185, 16, 1, 0}, 0, 1e-11);
    check((struct problem){STN_DTYPE_F64, 8, 185, 17, 1, 0}, 0, 1e-11);
    check((struct problem){STN_DTYPE_F64, 5, 199, 17, 1, 0}, 0, 1e-11);
    check((struct problem){STN_DTYPE_BF16, 2, 185, 16, 1, 0}, 0, 2e-2);
    check((struct problem){STN_DTYPE_F16, 2, 185, 16, 1, 0}, 0, 2.5e-3);
    check((struct problem){STN_DTYPE_F32, 1, 130, 16, 1, 0.3}, 0, 1e-5);
    check((struct problem){STN_DTYPE_BF16, 1, 130, 16, 1, 0.3}, 0, 2e-2);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"rows_that_are_cut_attend_as_whole_ones", rows_that_are_cut_attend_as_whole_ones},
        {"rows_of_the_library_attend_as_whole_ones", rows_of_the_library_attend_as_whole_ones},
        {"keys_that_go_round_are_attended_to_as_whole_ones", keys_that_go_round_are_attended_to_as_whole_ones},
    };
    return TEST_MAIN(argc, argv, cases);
}
