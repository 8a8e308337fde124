/* Reductions of dense memory give the values of stni_box_reduce_now, on every instruction set that this processor
 * has. */
#include "harness.h"

#include "core/box/box.h"
#include "core/comm/multi_reduce.h"
#include "core/base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 5, N = 3000, GUARD = 64 };

static uint64_t state;

static uint64_t draw(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Where `wild`, any bits that are no NaN of more than one kind: infinities and NaN among them; else small numbers
 * that meet ties. Zeros of both signs, of which a comparison keeps the first. */
static void fill(void *data, stn_dtype dtype, int64_t n, int wild)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = draw();
        float small = (float)((int)(bits % 4001) - 2000) / 64.0f;
        if (bits >> 60 < 6)
            small = bits >> 60 < 3 ? 0.0f : -0.0f;
        switch (dtype) {
        case STN_DTYPE_F32: ((float *)data)[i] = bits % 97 == 0 && wild ? (bits % 2 ? INFINITY : NAN) : small; break;
        case STN_DTYPE_F64: ((double *)data)[i] = bits % 97 == 0 && wild ? (bits % 2 ? -INFINITY : NAN) : small; break;
        case STN_DTYPE_BF16: ((uint16_t *)data)[i] = wild ? (uint16_t)(bits >> 20) : stni_f32_to_bf16(small); break;
        case STN_DTYPE_C64: ((float *)data)[2 * i] = small, ((float *)data)[2 * i + 1] = -small / 3; break;
        case STN_DTYPE_C128: ((double *)data)[2 * i] = small, ((double *)data)[2 * i + 1] = -small / 3; break;
        case STN_DTYPE_I32: ((int32_t *)data)[i] = (int32_t)(bits >> 16); break;
        case STN_DTYPE_I64: ((int64_t *)data)[i] = (int64_t)bits; break;
        default: CHECK(0);
        }
    }
}

/* The bits of a NaN that two others gave are not promised. */
static int same(const char *a, const char *b, stn_dtype dtype)
{
    float x, y;
    double p, q;
    uint16_t h, k;
    if (memcmp(a, b, stn_dtype_size(dtype)) == 0)
        return 1;
    if (dtype == STN_DTYPE_F32)
        return memcpy(&x, a, 4), memcpy(&y, b, 4), isnan(x) && isnan(y);
    if (dtype == STN_DTYPE_F64)
        return memcpy(&p, a, 8), memcpy(&q, b, 8), isnan(p) && isnan(q);
    if (dtype == STN_DTYPE_BF16)
        return memcpy(&h, a, 2), memcpy(&k, b, 2), isnan(stni_bf16_to_f32(h)) && isnan(stni_bf16_to_f32(k));
    return 0;
}

static int64_t differences(const char *a, const char *b, int64_t n, stn_dtype dtype)
{
    int64_t wrong = 0, size = (int64_t)stn_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++)
        wrong += !same(a + i * size, b + i * size, dtype);
    return wrong;
}

struct shape {
    stn_dtype dtype;
    stn_reduce_op op;
    int n_src, n_dst, in_place, wild;
    int64_t n;
};

/* Buffers at odd places, with guards behind their ends. */
static void compare(stni_multi_reduce_fn fold, const struct shape *s)
{
    int64_t size = (int64_t)stn_dtype_size(s->dtype), bytes = s->n * size;
    char *memory[2 * MAX + 1];
    stn_box boxes[MAX], result;
    const void *src[MAX];
    void *dst[MAX];
    for (int i = 0; i < 2 * MAX + 1; i++) {
        memory[i] = malloc((size_t)bytes + 2 * GUARD);
        memset(memory[i], 0x77, (size_t)bytes + 2 * GUARD);
    }
    for (int i = 0; i < s->n_src; i++) {
        char *data = memory[i] + size * (i % 3);
        fill(data, s->dtype, s->n, s->wild);
        src[i] = data;
        boxes[i] = (stn_box){data, 1, {s->n}, {1}};
    }
    result = (stn_box){memory[2 * MAX], 1, {s->n}, {1}};
    if (s->n > 0)
        stni_box_reduce_now(stni_isa_best(), 1, &result, s->n_src, boxes, s->dtype, s->op);
    for (int i = 0; i < s->n_dst; i++)
        dst[i] = s->in_place && i < s->n_src ? (void *)(uintptr_t)src[i] : memory[MAX + i] + size * (i % 2);
    struct stni_multi_reduce f = {s->n_dst, s->n_src, dst, src, s->n, s->op == STN_AVG ? s->n_src : 1};
    fold(&f);
    for (int i = 0; i < s->n_dst; i++) {
        CHECK_I64(differences(dst[i], result.data, s->n, s->dtype), 0);
        CHECK_I64(((unsigned char *)dst[i])[bytes], 0x77);
    }
    for (int i = 0; i < 2 * MAX + 1; i++)
        free(memory[i]);
}

static void compare_all(const struct stni_multi_reduce_kernels *kernels)
{
    static const int64_t sizes[] = {0, 1, 7, 31, 32, 33, 64, 129, 1000, N};
    state = 1;
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++)
        for (int op = 0; op < STN_REDUCE_OP_COUNT; op++) {
            stni_multi_reduce_fn fold = kernels->run[dtype][op];
            if (!fold)
                continue;
            for (int n_src = 2; n_src <= MAX; n_src++)
                for (int n_dst = 1; n_dst <= 3; n_dst++)
                    for (int k = 0; k < 10; k++) {
                        struct shape s = {(stn_dtype)dtype, (stn_reduce_op)op, n_src, n_dst, k % 2,
                                          k % 3 == 0,       sizes[k]};
                        compare(fold, &s);
                    }
        }
}

static void base_kernels_agree_with_box_reductions(void)
{
    compare_all(STNI_ISA_PICK(stni_multi_reduce_kernels, STNI_ISA_BASE));
}

static void avx2_kernels_agree_with_box_reductions(void)
{
    if (stni_isa_best() < STNI_ISA_AVX2)
        SKIP("no AVX2");
    compare_all(STNI_ISA_PICK(stni_multi_reduce_kernels, STNI_ISA_AVX2));
}

static void avx512_kernels_agree_with_box_reductions(void)
{
    if (stni_isa_best() < STNI_ISA_AVX512)
        SKIP("no AVX-512");
    compare_all(STNI_ISA_PICK(stni_multi_reduce_kernels, STNI_ISA_AVX512));
}

/* Each upper half with the lower halves around a tie: rounding, carries into the exponent, infinities, every NaN. */
static void bf16_sums_round_as_the_scalar_conversion(void)
{
    stni_multi_reduce_fn fold = stni_multi_reduce_for(stni_isa_best(), STN_DTYPE_BF16, STN_SUM);
    uint16_t a[256], b[256], got[256];
    const void *src[] = {a, b};
    void *dst[] = {got};
    struct stni_multi_reduce f = {1, 2, dst, src, 256, 1};
    int64_t wrong = 0;
    for (uint32_t high = 0; high < 0x10000; high += 256) {
        for (uint32_t shift = 1; shift < 20; shift += 3) {
            for (uint32_t i = 0; i < 256; i++) {
                a[i] = (uint16_t)(high + i);
                b[i] = (uint16_t)(a[i] - (shift << 7)); /* a power of two smaller: its bits are what is rounded */
            }
            fold(&f);
            for (int i = 0; i < 256; i++) {
                uint16_t want = stni_f32_to_bf16(stni_bf16_to_f32(a[i]) + stni_bf16_to_f32(b[i]));
                wrong += !same((char *)&got[i], (char *)&want, STN_DTYPE_BF16);
            }
        }
    }
    CHECK_I64(wrong, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"base_kernels_agree_with_box_reductions", base_kernels_agree_with_box_reductions},
        {"avx2_kernels_agree_with_box_reductions", avx2_kernels_agree_with_box_reductions},
        {"avx512_kernels_agree_with_box_reductions", avx512_kernels_agree_with_box_reductions},
        {"bf16_sums_round_as_the_scalar_conversion", bf16_sums_round_as_the_scalar_conversion},
    };
    return TEST_MAIN(argc, argv, cases);
}
