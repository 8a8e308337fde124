/* f32 as tensor cores read it. */
#ifndef STANDIN_TF32_H
#define STANDIN_TF32_H

#include <cstdint>
#include <cstring>

namespace standin {

/* The nearest number of 10 bits of fraction, of two the one away from zero: PTX's cvt.rna.tf32.f32. */
inline float to_tf32(float x)
{
    constexpr uint32_t EXPONENT = 0x7f800000, CUT = 0x1fff, HALF = 0x1000;
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & EXPONENT) == EXPONENT) /* infinity, NaN */
        return x;
    bits = (bits + HALF) & ~CUT;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

}

#endif
