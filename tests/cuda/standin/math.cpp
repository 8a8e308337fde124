/* The C library's functions as a GPU may have them: its own differ from these in their last bits, and so do those here,
 * of every other result that is no whole number. So a test that wants a device to have the bits of the CPU's functions
 * fails on the stand-in too. The linker has the module's calls come here (--wrap). What both round correctly, as square
 * roots, is not among them. */
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

/* Of the result alone: equal ones stay equal, in every run. Toward 0, so that no bound is passed. */
template <class T, class BITS> T nudged(T result)
{
    BITS bits;
    memcpy(&bits, &result, sizeof bits);
    const bool moves = static_cast<BITS>(bits * static_cast<BITS>(0x9e3779b97f4a7c15u)) >> (8 * sizeof bits - 1);
    return moves && std::isfinite(result) && result != std::floor(result) ? std::nextafter(result, T(0)) : result;
}

}

#define STANDIN_OF_ONE(name, type, bits)                \
    extern "C" type __real_##name(type x);              \
    extern "C" type __wrap_##name(type x)               \
    {                                                   \
        return nudged<type, bits>(__real_##name(x));    \
    }
#define STANDIN_OF_TWO(name, type, bits)                \
    extern "C" type __real_##name(type x, type y);      \
    extern "C" type __wrap_##name(type x, type y)       \
    {                                                   \
        return nudged<type, bits>(__real_##name(x, y)); \
    }
#define ONE(name) STANDIN_OF_ONE(name, double, uint64_t) STANDIN_OF_ONE(name##f, float, uint32_t)
#define TWO(name) STANDIN_OF_TWO(name, double, uint64_t) STANDIN_OF_TWO(name##f, float, uint32_t)

ONE(exp)
ONE(exp2)
ONE(expm1)
ONE(log)
ONE(log1p)
ONE(log2)
ONE(log10)
ONE(sin)
ONE(cos)
ONE(tan)
ONE(asin)
ONE(acos)
ONE(atan)
ONE(sinh)
ONE(cosh)
ONE(tanh)
ONE(asinh)
ONE(acosh)
ONE(atanh)
ONE(erf)
ONE(erfc)
TWO(atan2)
TWO(pow)
TWO(hypot)

/* What compilers make of a sine and a cosine of one number. */
extern "C" void __wrap_sincos(double x, double *sine, double *cosine)
{
    *sine = __wrap_sin(x);
    *cosine = __wrap_cos(x);
}

extern "C" void __wrap_sincosf(float x, float *sine, float *cosine)
{
    *sine = __wrap_sinf(x);
    *cosine = __wrap_cosf(x);
}
