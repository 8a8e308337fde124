/* Vectors of the widest kind, four at a time: with their operands they stay in registers. */
#include "core/comm/multi_reduce.h"

#include "core/base/dtype.h"

#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

/* PAIRS: of each pair of 16-bit lanes, the first of `even` and the second of `odd`. SUBTRACT_SATURATED: a - b, 0 where b is larger. */
#if defined(__AVX512F__)
enum { WIDTH = 64 };
#define PAIRS(even, odd) ((u16_vector)_mm512_mask_blend_epi16(0xaaaaaaaa, (__m512i)(even), (__m512i)(odd)))
#define SUBTRACT_SATURATED(a, b) ((u16_vector)_mm512_subs_epu16((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__)
enum { WIDTH = 32 };
#define PAIRS(even, odd) ((u16_vector)_mm256_blend_epi16((__m256i)(even), (__m256i)(odd), 0xaa))
#define SUBTRACT_SATURATED(a, b) ((u16_vector)_mm256_subs_epu16((__m256i)(a), (__m256i)(b)))
#else
enum { WIDTH = 16 };
#define PAIRS(even, odd) ((u16_vector)(((u32_vector)(even) & 0xffffu) | ((u32_vector)(odd) & 0xffff0000u)))
#define SUBTRACT_SATURATED(a, b) (((a) - (b)) & (u16_vector)((a) >= (b)))
#endif

enum { VECTORS = 4 };

typedef float f32_vector __attribute__((vector_size(WIDTH)));
typedef double f64_vector __attribute__((vector_size(WIDTH)));
typedef int32_t i32_vector __attribute__((vector_size(WIDTH)));
typedef int64_t i64_vector __attribute__((vector_size(WIDTH)));
typedef int16_t i16_vector __attribute__((vector_size(WIDTH)));
typedef uint16_t u16_vector __attribute__((vector_size(WIDTH)));
typedef uint32_t u32_vector __attribute__((vector_size(WIDTH)));
typedef uint64_t u64_vector __attribute__((vector_size(WIDTH)));

/* Anywhere in memory, over any type. */
typedef i64_vector memory_vector __attribute__((aligned(1), may_alias));

/* The ops must become constants and the vectors stay in registers, whatever the compiler thinks of the size. */
#define INLINE static inline __attribute__((always_inline))

INLINE i64_vector load(const char *from)
{
    return *(const memory_vector *)from;
}

INLINE void store(char *to, i64_vector v)
{
    *(memory_vector *)to = v;
}

/* Of a vector that is used twice: gcc would read it twice from memory, which this loop has no time for. */
#ifdef __SSE2__
#define IN_REGISTER(v) __asm__("" : "+x"(v))
#else
#define IN_REGISTER(v) ((void)(v))
#endif

/* VECTORS vectors as they are in memory. */
INLINE void unpack_plain(i64_vector *acc, const char *from)
{
    for (int i = 0; i < VECTORS; i++)
        acc[i] = load(from + i * WIDTH);
}

INLINE void pack_plain(i64_vector *acc)
{
    (void)acc;
}

/* bf16 is the upper half of an f32: of each pair of elements, the first and the second become lanes of two vectors. */
INLINE void unpack_bf16(i64_vector *acc, const char *from)
{
    for (int i = 0; i < VECTORS; i += 2) {
        u32_vector pairs = (u32_vector)load(from + i / 2 * WIDTH);
        IN_REGISTER(pairs);
        acc[i] = (i64_vector)(pairs << 16);
        acc[i + 1] = (i64_vector)(pairs & 0xffff0000u);
    }
}

/* To the nearest, ties to even: one up where the lower half, less one beside an even upper half, is one half or more. A NaN comes from a bf16 or
 * is the processor's own: its lower half is 0, and it stays what it is. */
INLINE i64_vector round_bf16(i64_vector even, i64_vector odd)
{
    u16_vector upper = PAIRS((u32_vector)even >> 16, odd), lower = PAIRS(even, (u32_vector)odd << 16);
    return (i64_vector)(upper - (u16_vector)((i16_vector)SUBTRACT_SATURATED(lower, ~upper & 1) < 0));
}

/* The stored form takes the first half of acc. */
INLINE void pack_bf16(i64_vector *acc)
{
    for (int i = 0; i < VECTORS / 2; i++)
        acc[i] = round_bf16(acc[2 * i], acc[2 * i + 1]);
}

#define SELECT(mask, a, b) (((i64_vector)(a) & (i64_vector)(mask)) | ((i64_vector)(b) & ~(i64_vector)(mask)))

#define VECTOR f32_vector
#define ACC float
#define NAME(x) x##_f32
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

#define VECTOR f64_vector
#define ACC double
#define NAME(x) x##_f64
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

#define VECTOR f32_vector
#define ACC float
#define T uint16_t
#define LOAD(x) stni_bf16_to_f32(x)
#define STORE(x) stni_f32_to_bf16(x)
#define NAME(x) x##_bf16
#define UNPACK unpack_bf16
#define PACK pack_bf16
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED (VECTORS / 2)
#include "core/comm/multi_reduce_tmpl.h"

/* Integers add and multiply without sign, so that they wrap. */
#define VECTOR i32_vector
#define ACC int32_t
#define NAME(x) x##_i32
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((u32_vector)(a) + (u32_vector)(b))
#define MULTIPLY(a, b) ((u32_vector)(a) * (u32_vector)(b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

#define VECTOR i64_vector
#define ACC int64_t
#define NAME(x) x##_i64
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((u64_vector)(a) + (u64_vector)(b))
#define MULTIPLY(a, b) ((u64_vector)(a) * (u64_vector)(b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

/* Sums of complex numbers are those of their parts. */
static void twice(const struct stni_multi_reduce *c, stni_multi_reduce_fn real)
{
    struct stni_multi_reduce parts = *c;
    parts.n *= 2;
    real(&parts);
}

static void sum_c64(const struct stni_multi_reduce *c)
{
    twice(c, sum_f32);
}

static void sum_c128(const struct stni_multi_reduce *c)
{
    twice(c, sum_f64);
}

extern const struct stni_multi_reduce_kernels STNI_ISA_NAME(stni_multi_reduce_kernels);
const struct stni_multi_reduce_kernels STNI_ISA_NAME(stni_multi_reduce_kernels) = {{
    [STN_DTYPE_F32] = {sum_f32, sum_f32, prod_f32, min_f32, max_f32},
    [STN_DTYPE_F64] = {sum_f64, sum_f64, prod_f64, min_f64, max_f64},
    [STN_DTYPE_BF16] = {sum_bf16, sum_bf16, prod_bf16, min_bf16, max_bf16},
    [STN_DTYPE_I32] = {sum_i32, sum_i32, prod_i32, min_i32, max_i32},
    [STN_DTYPE_I64] = {sum_i64, sum_i64, prod_i64, min_i64, max_i64},
    [STN_DTYPE_C64] = {sum_c64, sum_c64},
    [STN_DTYPE_C128] = {sum_c128, sum_c128},
}};
