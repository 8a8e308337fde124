/* The ops of one dtype. Included with ACC, the type that is computed in, VECTOR, a vector of these, NAME(x), UNPACK,
 * PACK and STORED (vectors of a block in memory), ADD, MULTIPLY; where memory holds another type, with that, T, and
 * LOAD and STORE between them. A comparison keeps the first operand where it is NaN, as core/box/box_reduce_kernel.c
 * does. */
#ifndef NAME /* read alone */
#include "core/comm/multi_reduce_vector.h"
#define VECTOR f32_vector
#define ACC float
#define NAME(x) x##_f32
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED VECTORS
#endif

#ifndef T
#define T ACC
#define LOAD(x) (x)
#define STORE(x) (x)
#endif

enum { NAME(BLOCK) = STORED * WIDTH }; /* bytes */

INLINE i64_vector NAME(step)(i64_vector x, i64_vector y, enum stn_reduce_op op)
{
    VECTOR a = (VECTOR)x, b = (VECTOR)y;
    if (op == STN_SUM)
        return (i64_vector)(ADD(a, b));
    if (op == STN_PROD)
        return (i64_vector)(MULTIPLY(a, b));
    return op == STN_MIN ? SELECT((a <= b) | (a != a), a, b) : SELECT((a >= b) | (a != a), a, b);
}

INLINE void NAME(add)(i64_vector *acc, const char *from, enum stn_reduce_op op)
{
    i64_vector next[VECTORS];
    UNPACK(next, from);
    for (int i = 0; i < VECTORS; i++)
        acc[i] = NAME(step)(acc[i], next[i], op);
}

/* From accumulators to the form that is stored. */
INLINE void NAME(finish)(i64_vector *acc, int64_t divisor)
{
    if (divisor != 1)
        for (int i = 0; i < VECTORS; i++)
            acc[i] = (i64_vector)((VECTOR)acc[i] / (ACC)divisor);
    PACK(acc);
}

/* The block at byte `at` of everything. `n_src` and `n_dst` are f's, as constants where speed counts. */
INLINE void NAME(block)(const struct stni_multi_reduce *f, int64_t at, int n_src, int n_dst, enum stn_reduce_op op)
{
    i64_vector acc[VECTORS];
    UNPACK(acc, (const char *)f->src[0] + at);
    for (int s = 1; s < n_src; s++)
        NAME(add)(acc, (const char *)f->src[s] + at, op);
    NAME(finish)(acc, f->divisor);
    for (int d = 0; d < n_dst; d++) {
        char *to = (char *)f->dst[d] + at;
        for (int i = 0; i < STORED; i++)
            store(to + i * WIDTH, acc[i]);
    }
}

INLINE ACC NAME(load_one)(const void *from, int64_t i)
{
    T element;
    memcpy(&element, (const char *)from + i * (int64_t)sizeof element, sizeof element);
    return LOAD(element);
}

INLINE ACC NAME(step_one)(ACC a, ACC b, enum stn_reduce_op op)
{
    return ((VECTOR)NAME(step)((i64_vector)(VECTOR){a}, (i64_vector)(VECTOR){b}, op))[0];
}

/* The last elements, fewer than a block, one by one; all there is where ranks reduce a number or two. */
INLINE void NAME(rest)(const struct stni_multi_reduce *f, int64_t from, enum stn_reduce_op op)
{
    for (int64_t i = from; i < f->n; i++) {
        __asm__ volatile(""); /* as vectors they would be twice the code for nothing */
        ACC acc = NAME(load_one)(f->src[0], i);
        for (int s = 1; s < f->n_src; s++)
            acc = NAME(step_one)(acc, NAME(load_one)(f->src[s], i), op);
        if (f->divisor != 1)
            acc /= (ACC)f->divisor;
        const T result = STORE(acc);
        for (int d = 0; d < f->n_dst; d++)
            memcpy((char *)f->dst[d] + i * (int64_t)sizeof result, &result, sizeof result);
    }
}

INLINE void NAME(blocks)(const struct stni_multi_reduce *f, int64_t bytes, int n_src, int n_dst, enum stn_reduce_op op)
{
    for (int64_t at = 0; at + NAME(BLOCK) <= bytes; at += NAME(BLOCK))
        NAME(block)(f, at, n_src, n_dst, op);
}

/* With pointers of its own, which no store can change, and no divisor. `n_src` and `n_dst` are constants. */
INLINE void NAME(few_blocks)(const struct stni_multi_reduce *f, int64_t bytes, int n_src, int n_dst,
                             enum stn_reduce_op op)
{
    const void *src[2];
    void *dst[2];
    struct stni_multi_reduce few = *f;
    memcpy(src, f->src, (size_t)n_src * sizeof *src);
    memcpy(dst, f->dst, (size_t)n_dst * sizeof *dst);
    few.src = src;
    few.dst = dst;
    few.divisor = 1;
    NAME(blocks)(&few, bytes, n_src, n_dst, op);
}

INLINE void NAME(all)(const struct stni_multi_reduce *fold, enum stn_reduce_op op)
{
    struct stni_multi_reduce f = *fold; /* nothing that is stored can change it */
    const int64_t bytes = f.n * (int64_t)sizeof(T);
    const int pair = op == STN_SUM && f.n_src == 2 && f.divisor == 1;
    if (pair && f.n_dst == 2)
        NAME(few_blocks)(&f, bytes, 2, 2, op);
    else if (pair && f.n_dst == 1)
        NAME(few_blocks)(&f, bytes, 2, 1, op);
    else
        NAME(blocks)(&f, bytes, f.n_src, f.n_dst, op);
    NAME(rest)(&f, bytes / NAME(BLOCK) * (NAME(BLOCK) / (int64_t)sizeof(T)), op);
}

static void NAME(sum)(const struct stni_multi_reduce *f)
{
    NAME(all)(f, STN_SUM);
}

static void NAME(prod)(const struct stni_multi_reduce *f)
{
    NAME(all)(f, STN_PROD);
}

static void NAME(min)(const struct stni_multi_reduce *f)
{
    NAME(all)(f, STN_MIN);
}

static void NAME(max)(const struct stni_multi_reduce *f)
{
    NAME(all)(f, STN_MAX);
}

#undef VECTOR
#undef ACC
#undef T
#undef LOAD
#undef STORE
#undef NAME
#undef UNPACK
#undef PACK
#undef ADD
#undef MULTIPLY
#undef STORED
