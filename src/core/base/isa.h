/* Kernels compiled once per instruction set. A context chooses its set when it is made (stn_context_options.isa);
 * whoever runs a kernel finds the choice in its queue.
 *
 * A source in `stn_isa_sources` is compiled for each set with STNI_ISA_NAME(x) standing for x_base, x_avx2 or x_avx512.
 * Either it defines kernels of ops, which their header declares with STNI_ISA_KERNEL and their op's rows name with
 * STNI_ISA_ROWS, so that the registry chooses; or a constant table of functions, which its header declares and the
 * caller picks:
 *
 *     extern const struct copy_kernels stni_copy_kernels_base, stni_copy_kernels_avx2, stni_copy_kernels_avx512;
 *     const struct copy_kernels *kernels = STNI_ISA_PICK(stni_copy_kernels, queue->isa);
 *
 * Contraction is off in all of them, so arithmetic agrees bit for bit; code that evaluates polynomials fuses explicitly
 * (ops/cpu/fused.h), so that there the base set differs in the last places; a kernel that sums must fix its order
 * itself. gcc 12 has one gap: where a loop holds the products and sums of a complex product, it contracts them into one
 * rounding all the same (fmaddsub); compute the products in a loop of their own. */
#ifndef STNI_CORE_BASE_ISA_H
#define STNI_CORE_BASE_ISA_H

#include "core/base/status.h"

/* Each includes those before it. */
enum stni_isa { STNI_ISA_BASE, STNI_ISA_AVX2, STNI_ISA_AVX512, STNI_ISA_COUNT };

/** The widest set that this processor and its operating system offer, whatever the build has kernels for. Queries the
 * processor. */
enum stni_isa stni_isa_of_processor(void);

/** The widest set that the processor offers and that the build has kernels for; the narrowest of the build where the
 * processor lacks them all, which stni_isa_choose refuses. */
enum stni_isa stni_isa_best(void);

/** 1 where the build has kernels for the set. */
int stni_isa_is_built(enum stni_isa isa);

const char *stni_isa_name(enum stni_isa isa);

/** The set of a context: the best one, or the one that is called `name` where that is not NULL.
 *  @return STN_ERR_ARGUMENT (no set has the name), STN_ERR_UNSUPPORTED (the processor or the build lacks it). */
stn_status stni_isa_choose(const char *name, enum stni_isa *out, struct stni_error *error);

#if !defined(__x86_64__) && !defined(STNI_WITHOUT_AVX2)
#define STNI_WITHOUT_AVX2
#endif
#if !defined(__x86_64__) && !defined(STNI_WITHOUT_AVX512)
#define STNI_WITHOUT_AVX512
#endif

/* The set whose name is linked for a set: itself, or another one where the build lacks it. */
#define STNI_ISA_JOIN(name, isa) name##_##isa
#define STNI_ISA_JOIN_EXPANDED(name, isa) STNI_ISA_JOIN(name, isa)
#define STNI_ISA_NAME(name) STNI_ISA_JOIN_EXPANDED(name, STNI_ISA_SUFFIX)
#if !defined(STNI_WITHOUT_BASE)
#define STNI_ISA_BASE_OF(name) name##_base
#elif !defined(STNI_WITHOUT_AVX2)
#define STNI_ISA_BASE_OF(name) name##_avx2
#else
#define STNI_ISA_BASE_OF(name) name##_avx512
#endif
#if !defined(STNI_WITHOUT_AVX2)
#define STNI_ISA_AVX2_OF(name) name##_avx2
#else
#define STNI_ISA_AVX2_OF(name) STNI_ISA_BASE_OF(name)
#endif
#if !defined(STNI_WITHOUT_AVX512)
#define STNI_ISA_AVX512_OF(name) name##_avx512
#else
#define STNI_ISA_AVX512_OF(name) STNI_ISA_AVX2_OF(name)
#endif

#define STNI_ISA_PICK(name, isa)                         \
    ((isa) == STNI_ISA_AVX512 ? &STNI_ISA_AVX512_OF(name) \
     : (isa) == STNI_ISA_AVX2 ? &STNI_ISA_AVX2_OF(name)   \
                              : &STNI_ISA_BASE_OF(name))

/* In a source of `stn_isa_sources`: the set that it is compiled for. */
#define STNI_ISA_VALUE_base STNI_ISA_BASE
#define STNI_ISA_VALUE_avx2 STNI_ISA_AVX2
#define STNI_ISA_VALUE_avx512 STNI_ISA_AVX512
#define STNI_ISA_THIS STNI_ISA_JOIN_EXPANDED(STNI_ISA_VALUE, STNI_ISA_SUFFIX)

/* Declares a kernel of an op for every set. */
#define STNI_ISA_KERNEL(name)                                        \
    stn_status name##_base(stn_queue *queue, const void *args);      \
    stn_status name##_avx2(stn_queue *queue, const void *args);      \
    stn_status name##_avx512(stn_queue *queue, const void *args)

/* Rows in an op's table of kernels (stn_kernel), `args` a type, `workspace` NULL or a function. STNI_CPU_ROW: of a
 * kernel that is compiled once. STNI_ISA_ROWS: of one that is compiled for every set, STNI_ISA_COUNT of them; the
 * registry takes the one of the context's set. */
#define STNI_CPU_ROW(slot, dtypes, args, function, workspace) {sizeof(stn_kernel), slot, "cpu", dtypes, sizeof(args), function, workspace}
#define STNI_ISA_ROWS(slot, dtypes, args, function, workspace)                                              \
    {sizeof(stn_kernel), slot, "cpu", dtypes, sizeof(args), STNI_ISA_BASE_OF(function), workspace},         \
    {sizeof(stn_kernel), slot, "cpu/avx2", dtypes, sizeof(args), STNI_ISA_AVX2_OF(function), workspace},    \
    {sizeof(stn_kernel), slot, "cpu/avx512", dtypes, sizeof(args), STNI_ISA_AVX512_OF(function), workspace}

#endif
