/* Changing layouts keeps every bit, that of the sign of zero too: where a pending sum is padded, it is with -0,
 * which changes nothing. */
#include "ranks.h"

#include <string.h>

enum { N = 11 };

/* -0, 0, 1, -1, -0, … of a dtype, as bytes. */
static void fill(stn_dtype dtype, unsigned char *bytes)
{
    static const double f64[] = {-0.0, 0.0, 1.0, -1.0};
    static const uint16_t bf16[] = {0x8000, 0, 0x3f80, 0xbf80}, f16[] = {0x8000, 0, 0x3c00, 0xbc00};
    size_t size = stn_dtype_size(dtype);
    for (size_t i = 0; i < N; i++) {
        float f32[2] = {(float)f64[i % 4], (float)f64[(i + 1) % 4]};
        const void *from = dtype == STN_DTYPE_F64    ? (const void *)&f64[i % 4]
                           : dtype == STN_DTYPE_BF16 ? (const void *)&bf16[i % 4]
                           : dtype == STN_DTYPE_F16  ? (const void *)&f16[i % 4]
                                                     : (const void *)f32;
        memcpy(bytes + i * size, from, size);
    }
}

static void there_and_back(stn_context *context, stn_dtype dtype, stn_placement through)
{
    unsigned char want[N * 16], got[N * 16];
    const int64_t n = N;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement replicate = stn_replicate();
    const stn_spec *spec;
    fill(dtype, want);
    CHECK_STATUS(stn_spec_create(context, mesh, &replicate, dtype, 1, &n, NULL, &spec), STN_OK);
    stn_scope_begin(context);
    const stn_placement partial = stn_partial(STN_SUM);
    stn_tensor *x = stn_redistribute_to(stn_from_host(context, spec, want), &through);
    stn_tensor *back = stn_redistribute_to(stn_redistribute_to(x, &partial), &replicate);
    CHECK_STATUS(stn_to_host(back, got, N * stn_dtype_size(dtype)), STN_OK);
    CHECK_BYTES(got, want, N * stn_dtype_size(dtype));
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
}

static stn_status body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16, STN_DTYPE_C64};
    (void)arg;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        there_and_back(context, dtypes[d], stn_replicate());
        there_and_back(context, dtypes[d], stn_shard(0));
    }
    return STN_OK;
}

static void pending_sums_keep_the_sign_of_zero(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, body, NULL);
}

static stn_status zeros_body(stn_context *context, void *arg)
{
    static const float zeros[N];
    float got[N];
    const int64_t n = N;
    const stn_placement replicate = stn_replicate();
    const stn_spec *spec;
    (void)arg;
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, 2, 0), &replicate, STN_DTYPE_F32, 1, &n, NULL, &spec),
                 STN_OK);
    stn_scope_begin(context);
    CHECK_STATUS(stn_to_host(stn_zeros(context, spec), got, sizeof got), STN_OK);
    CHECK_BYTES(got, zeros, sizeof got);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void zeros_are_positive(void)
{
    test_ranks(2, zeros_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pending_sums_keep_the_sign_of_zero", pending_sums_keep_the_sign_of_zero},
        {"zeros_are_positive", zeros_are_positive},
    };
    return TEST_MAIN(argc, argv, cases);
}
