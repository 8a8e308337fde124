/* Causal attention whose query rows are cut among ranks, where no tile's first row is a multiple of anything: results
 * and gradients are those of one process on the CPU. */
#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 2, ROWS = 186 /* 62 a rank */, WIDTH = 16, SIZE = HEADS * ROWS * WIDTH };
enum { LEAVES = 3, RESULTS = LEAVES + 1 };

static const int64_t shape[] = {1, HEADS, ROWS, WIDTH};

struct run {
    stn_dtype dtype;
    double results[RESULTS][SIZE];
};

/* From -1 to 1, so that gradients are of that size, too. */
static stn_tensor *input(stn_context *context, const stn_mesh *mesh, int is_cut, stn_dtype dtype, int seed)
{
    static const stn_placement whole[] = {STN_R}, cut[] = {STN_S(2)};
    const stn_spec *spec = NULL;
    uint32_t state = (uint32_t)seed * 2654435761u + 12345u;
    float data[SIZE];
    for (int i = 0; i < SIZE; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)(state >> 12 & 0xffff) / 32768.0f - 1.0f;
    }
    stn_spec_create(context, mesh, is_cut ? cut : whole, STN_DTYPE_F32, 4, shape, NULL, &spec);
    stn_tensor *x = stn_cast(stn_from_host_global(context, spec, data), dtype);
    stn_spec_release(&spec);
    return x;
}

static void keep(stn_context *context, stn_tensor *t, double *to)
{
    static double of_others[SIZE];
    stn_tensor *whole = stn_cast(stn_full_tensor(t), STN_DTYPE_F64);
    if (stn_context_rank(context) == 0)
        CHECK_STATUS(stn_to_host(whole, to, sizeof of_others), STN_OK);
}

static stn_status attend(stn_context *context, void *arg)
{
    struct run *run = arg;
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = 1};
    const int size = stn_context_size(context);
    const stn_mesh *mesh = NULL;
    stn_tensor *leaves[LEAVES], *grad = NULL;
    stn_mesh_create(context, 1, &size, NULL, NULL, &mesh);
    stn_scope_begin(context);
    for (int i = 0; i < LEAVES; i++) {
        leaves[i] = input(context, mesh, i == 0, run->dtype, i);
        stn_set_requires_grad(leaves[i], 1);
    }
    stn_tensor *result = stn_scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], NULL, &attrs);
    stn_backward(stn_sum(stn_mul(result, input(context, mesh, 1, run->dtype, LEAVES)), 0, NULL, 0));
    keep(context, result, run->results[LEAVES]);
    for (int i = 0; i < LEAVES; i++)
        if (CHECK_STATUS(stn_grad_of(leaves[i], &grad), STN_OK))
            keep(context, grad, run->results[i]);
    return stn_scope_end(context);
}

static void launch(const char *device, int ranks, struct run *run)
{
    const char *folder = getenv("STN_TEST_CUDA_FOLDER");
    const stn_launch_options options = {.size = sizeof options, .ranks = ranks,
        .context = {.size = sizeof options.context, .device = device, .module_path = folder ? folder : CUDA_FOLDER,
                    .deadline_seconds = 60}};
    CHECK_STATUS(stn_launch(&options, attend, run), STN_OK);
}

static void check(stn_dtype dtype, double tolerance)
{
    static struct run want, got;
    want.dtype = got.dtype = dtype;
    launch("cpu", 1, &want);
    launch("cuda:0", 3, &got);
    for (int k = 0; k < RESULTS; k++) {
        double most = 0;
        for (int i = 0; i < SIZE; i++)
            most = fmax(most, fabs(got.results[k][i] - want.results[k][i]) / fmax(1, fabs(want.results[k][i])));
        if (!CHECK(most <= tolerance))
            fprintf(stderr, "%s, result %d: differs by %g, wanted at most %g\n", stn_dtype_name(dtype), k, most,
                    tolerance);
    }
}

static void rows_that_are_cut_attend_as_whole_ones(void)
{
    check(STN_DTYPE_F32, 1e-5);
    check(STN_DTYPE_F64, 1e-11);
    check(STN_DTYPE_BF16, 2e-2);
    check(STN_DTYPE_F16, 2.5e-3);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"rows_that_are_cut_attend_as_whole_ones", rows_that_are_cut_attend_as_whole_ones},
    };
    return TEST_MAIN(argc, argv, cases);
}
