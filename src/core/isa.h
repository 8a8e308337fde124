/* Kernels compiled once per instruction set and chosen at run time.
 *
 * A source in `stn_isa_sources` is compiled for each set with STNI_ISA_NAME(x) standing for x_base, x_avx2 or x_avx512. It defines
 * one constant table of its kernels under such a name; its header declares the tables, and the caller picks one:
 *
 *     extern const struct copy_kernels stni_copy_kernels_base, stni_copy_kernels_avx2, stni_copy_kernels_avx512;
 *     const struct copy_kernels *kernels = STNI_ISA_PICK(stni_copy_kernels, stni_isa_best());
 *
 * Contraction is off in all of them, so arithmetic agrees bit for bit; what works out polynomials fuses them by name (ops/util/fused.h), so
 * that there the base set differs in the last places; a kernel that sums must fix its order itself. gcc 12 has one
 * gap: where a loop holds the products and sums of a complex product, it makes them one rounding all the same (fmaddsub); compute the
 * products in a loop of their own. */
#ifndef STNI_CORE_ISA_H
#define STNI_CORE_ISA_H

enum stni_isa { STNI_ISA_BASE, STNI_ISA_AVX2, STNI_ISA_AVX512 };

/** The widest set that this processor and its operating system offer and that the build has kernels for. */
enum stni_isa stni_isa_best(void);

#define STNI_ISA_JOIN(name, isa) name##_##isa
#define STNI_ISA_JOIN_EXPANDED(name, isa) STNI_ISA_JOIN(name, isa)
#define STNI_ISA_NAME(name) STNI_ISA_JOIN_EXPANDED(name, STNI_ISA_SUFFIX)

#if defined(__x86_64__) && !defined(STNI_WITHOUT_AVX512)
#define STNI_ISA_PICK(name, isa) \
    ((isa) == STNI_ISA_AVX512 ? &name##_avx512 : (isa) == STNI_ISA_AVX2 ? &name##_avx2 : &name##_base)
#elif defined(__x86_64__)
#define STNI_ISA_PICK(name, isa) ((isa) == STNI_ISA_AVX2 ? &name##_avx2 : &name##_base)
#else
#define STNI_ISA_PICK(name, isa) ((void)(isa), &name##_base)
#endif

#endif
