/* Products of squares of 16-bit floats by a warp are those of a plain loop, however the lanes come to their parts.
 * All numbers are small integers, so that sums are exact in any order. */
#include "squares.h"

#include "core/base/dtype.h"
#include "harness.h"

enum { SIDE = SQUARES_SIDE, SIZE = SQUARES_SIZE };

static float narrowed(stn_dtype dtype, float x)
{
    return dtype == STN_DTYPE_BF16 ? stni_bf16_to_f32(stni_f32_to_bf16(x)) : stni_f16_to_f32(stni_f32_to_f16(x));
}

static void fill(uint32_t seed, float *x)
{
    uint32_t state = seed * 2654435761u + 12345u;
    for (int i = 0; i < SIZE; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int)(state >> 20 & 31) - 15.0f;
    }
}

static void narrow(stn_dtype dtype, const float *x, int transposed, uint16_t *to)
{
    for (int i = 0; i < SIZE; i++) {
        const float value = transposed ? x[i % SIDE * SIDE + i / SIDE] : x[i];
        to[i] = dtype == STN_DTYPE_BF16 ? stni_f32_to_bf16(value) : stni_f32_to_f16(value);
    }
}

static void add_product(const float *a, const float *b, float *sum)
{
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            for (int k = 0; k < SIDE; k++)
                sum[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
}

static void multiply_again(stn_dtype dtype, const float *b, float *sum)
{
    float rounded[SIZE];
    for (int i = 0; i < SIZE; i++) {
        rounded[i] = narrowed(dtype, sum[i]);
        sum[i] = 0;
    }
    add_product(rounded, b, sum);
}

static void check(stn_dtype dtype, enum squares_how how)
{
    float a[SIZE], b[SIZE], got[SIZE], want[SIZE];
    uint16_t left[SIZE], right[SIZE];
    int wrong = 0;
    fill(1, a);
    fill(2, b);
    fill(3, want);
    fill(3, got);
    narrow(dtype, a, 0, left);
    narrow(dtype, b, how == SQUARES_TRANSPOSED, right);
    add_product(a, b, want);
    if (how == SQUARES_TWICE)
        multiply_again(dtype, b, want);
    CHECK_I64(squares_multiply(dtype, how, left, right, got), 0);
    for (int i = 0; i < SIZE; i++)
        wrong += got[i] != want[i];
    CHECK_I64(wrong, 0);
}

static void check_dtypes(enum squares_how how)
{
    check(STN_DTYPE_BF16, how);
    check(STN_DTYPE_F16, how);
}

static void documented_fragments_give_the_product(void)
{
    check_dtypes(SQUARES_DOCUMENTED);
}

static void squares_of_shared_memory_give_the_product(void)
{
    check_dtypes(SQUARES_READ);
    check_dtypes(SQUARES_TRANSPOSED);
}

static void a_rounded_product_is_a_left_factor(void)
{
    check_dtypes(SQUARES_TWICE);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"documented_fragments_give_the_product", documented_fragments_give_the_product},
        {"squares_of_shared_memory_give_the_product", squares_of_shared_memory_give_the_product},
        {"a_rounded_product_is_a_left_factor", a_rounded_product_is_a_left_factor},
    };
    return TEST_MAIN(argc, argv, cases);
}
