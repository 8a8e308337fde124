/* Rows of elements of one dtype join accumulators. A template of core/box/each_float.h and its like, with WIDE and
 * OWN the types of accumulators (reduce_kernel.h) and COMBINED(real, complex) choosing its column. */
#ifndef NAME /* read alone */
#include "core/box/box_kernel.h"
#include "core/box/as_f32.h"
#include "ops/reduce/reduce_kernel.h"
#include <string.h>
#define WIDE double
#define OWN ACC
#define COMBINED(real, complex) real
#endif

#define JOIN(acc_type, element, combined, row)                                 \
    {                                                                          \
        acc_type v = (acc_type)LOAD(x[(r + (row)) * row_stride + i]);          \
        v = (acc_type)(element);                                               \
        p = (acc_type)(combined);                                              \
    }

/* Four rows at a time, so that accumulators are read and written a quarter as often. */
#define CASE(name, acc_type, floating, integer, element, real, complex)          \
    case STNI_REDUCTION_##name: {                                                \
        acc_type *restrict acc = accumulators;                                   \
        for (; r + 4 <= rows; r += 4) {                                          \
            _Pragma("omp simd")                                                  \
            for (int64_t i = 0; i < n; i++) {                                    \
                acc_type p = acc[i];                                             \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 0) \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 1) \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 2) \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 3) \
                acc[i] = p;                                                      \
            }                                                                    \
        }                                                                        \
        for (; r < rows; r++) {                                                  \
            _Pragma("omp simd")                                                  \
            for (int64_t i = 0; i < n; i++) {                                    \
                acc_type p = acc[i];                                             \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 0) \
                acc[i] = p;                                                      \
            }                                                                    \
        }                                                                        \
        break;                                                                   \
    }

static void NAME(join_rows)(enum stni_reduction op, void *accumulators, const T *restrict x, int64_t rows,
                            int64_t row_stride, int64_t n)
{
    int64_t r = 0;
    switch (op) {
        STNI_REDUCTION_LIST(CASE)
    case STNI_REDUCTION_COUNT:
        break;
    }
}

#define SMALL(row) (counts ? LOAD(x[(r + (row)) * row_stride + i]) != 0 : (int)LOAD(x[(r + (row)) * row_stride + i]))

/* Sums of numbers that are small, in 32 bits first: whether elements are not 0, or elements of a byte. */
static inline __attribute__((always_inline)) void NAME(tally)(int counts, void *accumulators, const T *restrict x,
                                                              int64_t rows, int64_t row_stride, int64_t n)
{
    enum { MOST = 1 << 20 }; /* rows, so that nothing wraps */
    WIDE *restrict acc = accumulators;
    uint32_t part[STNI_REDUCE_LANES];
    for (int64_t r = 0, end; r < rows; r = end) {
        end = rows - r < MOST ? rows : r + MOST;
        memset(part, 0, (size_t)n * sizeof *part);
        for (; r + 4 <= end; r += 4) {
            _Pragma("omp simd")
            for (int64_t i = 0; i < n; i++)
                part[i] += (uint32_t)(SMALL(0) + SMALL(1) + SMALL(2) + SMALL(3));
        }
        for (; r < end; r++) {
            _Pragma("omp simd")
            for (int64_t i = 0; i < n; i++)
                part[i] += (uint32_t)SMALL(0);
        }
        for (int64_t i = 0; i < n; i++)
            acc[i] += part[i];
    }
}

static void NAME(join)(enum stni_reduction op, void *acc, const T *x, int64_t rows, int64_t row_stride, int64_t n)
{
    if (op == STNI_REDUCTION_nonzero)
        NAME(tally)(1, acc, x, rows, row_stride, n);
    else if (op == STNI_REDUCTION_sum && sizeof(T) == 1)
        NAME(tally)(0, acc, x, rows, row_stride, n);
    else
        NAME(join_rows)(op, acc, x, rows, row_stride, n);
}

#define SIZE(name, acc_type, floating, integer, element, real, complex) [STNI_REDUCTION_##name] = sizeof(acc_type),

/* Elements with a step between them are put next to each other first: of four rows where the buffer holds them
 * whole, else of one at a time, since memory is read in long pieces best. */
static void NAME(join_apart)(enum stni_reduction op, char *acc, const T *x, int64_t rows, int64_t row_stride, int64_t n,
                             int64_t stride)
{
    enum {
        ALL = 32768 / sizeof(T),
        LOG = sizeof(T) == 1   ? 0
              : sizeof(T) == 2 ? 1
              : sizeof(T) == 4 ? 2
              : sizeof(T) == 8 ? 3
                               : 4
    };
    static const uint8_t acc_size[] = {STNI_REDUCTION_LIST(SIZE)};
    const int64_t size = sizeof(T), together = 4 * n <= ALL ? 4 : 1;
    T near[ALL];
    for (int64_t i = 0; i < n; i += ALL) {
        const int64_t cols = n - i < ALL ? n - i : ALL;
        for (int64_t r = 0; r < rows; r += together) {
            const int64_t some = rows - r < together ? rows - r : together;
            for (int64_t j = 0; j < some; j++)
                STNI_ISA_NAME(stni_copy_kernels)
                    .elements[LOG]((char *)(near + j * cols), size,
                                   (const char *)(x + (r + j) * row_stride + i * stride), stride * size, cols);
            NAME(join)(op, acc + i * acc_size[op], near, some, cols, cols);
        }
    }
}

static void NAME(accumulate)(enum stni_reduction op, void *acc, const void *x, int64_t rows, int64_t row_stride,
                             int64_t n, int64_t stride)
{
    if (stride == 1)
        NAME(join)(op, acc, x, rows, row_stride, n);
    else
        NAME(join_apart)(op, acc, x, rows, row_stride, n, stride);
}

#undef SIZE
#undef CASE
#undef JOIN
#undef SMALL
