/* The rows of the lists of arithmetic (pointwise_op.h) as C++ functions: the same expressions as the CPU's blocks.
 *
 * T is a compute type: float, double, int64_t, truth, stni_complex of float or double. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_ROWS_CUH
#define STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_ROWS_CUH

#include "ops/elementwise/kernels/activation_functions.h"
#include "ops/elementwise/pointwise_op.h"

namespace {

/* What the op's numbers and operands are; those that it has not are x. */
template <class T> struct row_operands {
    typedef part_of<T> R;
    T x, y, z;
    R a, b, c;
};

template <class T> STNI_KERNEL_INLINE T product(T x, T y)
{
    if constexpr (is_complex<T>)
        return COMPLEX_MUL(x, y);
    else
        return x * y;
}

/* The conjugate of a complex derivative; a real derivative as it is. */
template <class T> STNI_KERNEL_INLINE T dual(T x)
{
    if constexpr (is_complex<T>)
        return CONJUGATE(x);
    else
        return x;
}

/* Stands where the op's rule lets no operand of the class come. */
#define NONE x

#define ROW(op, floating, integer, boolean, complex_)             \
    if constexpr (OP == STNI_POINTWISE_##op) {                    \
        if constexpr (is_floating<T>)                             \
            return (T)(floating);                                 \
        else if constexpr (is_same<T, int64_t>)                   \
            return (T)(integer);                                  \
        else if constexpr (is_same<T, truth>)                 \
            return (T)(boolean);                                  \
        else                                                      \
            return (T)(complex_);                                 \
    }
#define UNARY(op, value, derivative, second_derivative)           \
    if constexpr (OP == STNI_POINTWISE_##op)                      \
        return (T)(value);                                        \
    if constexpr (OP == STNI_POINTWISE_##op##_backward) {         \
        const T v = y;                                            \
        (void)v;                                                  \
        return product(x, dual((T)(derivative)));                 \
    }                                                             \
    if constexpr (OP == STNI_POINTWISE_##op##_double_backward) {  \
        const T v = z;                                            \
        (void)v;                                                  \
        return product(product(x, y), dual((T)(second_derivative))); \
    }

template <int OP, class T> STNI_KERNEL_INLINE T row_value(const row_operands<T> &in)
{
    typedef part_of<T> R;
    const T x = in.x, y = in.y, z = in.z;
    const R a = in.a, b = in.b, c = in.c;
    (void)y, (void)z, (void)a, (void)b, (void)c;
    STNI_ARITHMETIC_LIST(ROW)
    STNI_COMPARISON_LIST(ROW)
    STNI_EXPONENTIAL_LIST(UNARY)
    STNI_TRIGONOMETRY_LIST(UNARY)
    STNI_ACTIVATION_LIST(UNARY)
}

#undef ROW
#undef UNARY
#undef NONE

}

#endif
