/* The rows of arithmetic as a C++ compiler reads them, over dense runs: for test_rows_languages.c. Compiled once per
 * instruction set. */
#include "ops/elementwise/kernels/pointwise_rows.cuh"
#include "ops/elementwise/kernels/pointwise_kernel.h"

namespace {

template <class T> part_of<T> number_of(const struct stni_pointwise_number &number)
{
    if constexpr (is_same<T, int64_t>)
        return number.i;
    else if constexpr (is_same<T, truth>)
        return number.f != 0;
    else
        return (part_of<T>)number.f;
}

template <int OP, class T> void run_in(const struct stni_pointwise_block &block)
{
    const T *x = (const T *)block.in[0], *y = (const T *)block.in[1], *z = (const T *)block.in[2];
    const auto a = number_of<T>(block.a), b = number_of<T>(block.b), c = number_of<T>(block.c);
    for (int64_t i = 0; i < block.n; i++)
        ((T *)block.out)[i] = row_value<OP, T>({x[i], y[i], z[i], a, b, c});
}

template <int OP> void run_real(const struct stni_pointwise_block &block, stn_dtype compute)
{
    if (compute == STN_DTYPE_F32)
        run_in<OP, float>(block);
    else
        run_in<OP, double>(block);
}

template <int OP> void run_analytic(const struct stni_pointwise_block &block, stn_dtype compute)
{
    if (compute == STN_DTYPE_C64)
        run_in<OP, stni_complex<float>>(block);
    else if (compute == STN_DTYPE_C128)
        run_in<OP, stni_complex<double>>(block);
    else
        run_real<OP>(block, compute);
}

template <int OP> void run_any(const struct stni_pointwise_block &block, stn_dtype compute)
{
    if (compute == STN_DTYPE_I64)
        run_in<OP, int64_t>(block);
    else if (compute == STN_DTYPE_BOOL)
        run_in<OP, truth>(block);
    else
        run_analytic<OP>(block, compute);
}

}

extern "C" void STNI_ISA_NAME(test_rows_cxx)(const struct stni_pointwise_block *block, stn_dtype compute);

extern "C" void STNI_ISA_NAME(test_rows_cxx)(const struct stni_pointwise_block *block, stn_dtype compute)
{
#define CASE(op, run) \
    case STNI_POINTWISE_##op: run<STNI_POINTWISE_##op>(*block, compute); break;
#define ROW(op, ...) CASE(op, run_any)
#define UNARY(op, run) CASE(op, run) CASE(op##_backward, run) CASE(op##_double_backward, run)
#define ANALYTIC_UNARY(op, ...) UNARY(op, run_analytic)
#define REAL_UNARY(op, ...) UNARY(op, run_real)
    switch (block->op) {
        STNI_ARITHMETIC_LIST(ROW)
        STNI_COMPARISON_LIST(ROW)
        STNI_EXPONENTIAL_LIST(ANALYTIC_UNARY)
        STNI_TRIGONOMETRY_LIST(ANALYTIC_UNARY)
        STNI_ACTIVATION_LIST(REAL_UNARY)
    case STNI_POINTWISE_COUNT: break;
    }
}
