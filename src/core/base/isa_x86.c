/* Which instruction sets an x86-64 processor offers; AVX2 stands for AVX2, FMA and F16C, AVX-512 for its F, BW, DQ
 * and VL parts. */
#include "core/base/isa.h"

#include <stdbool.h>

/* clang 14 has no "f16c" in __builtin_cpu_supports. The C library has queried the processor once; querying it again
 * takes 9 us in a virtual machine. That the system saves the registers follows from avx2. */
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>

static bool has_f16c(void)
{
    return x86_cpu_active(x86_cpu_F16C);
}
#else
#include <cpuid.h>

static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

enum stni_isa stni_isa_of_processor(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return STNI_ISA_BASE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return STNI_ISA_AVX512;
    return STNI_ISA_AVX2;
}
