/* Functions defined in headers that C, C++ and CUDA compilers read. */
#ifndef STNI_CORE_BASE_INLINE_H
#define STNI_CORE_BASE_INLINE_H

/* Stands before a function that a CUDA device may call as well as its host. */
#if defined(__CUDACC__)
#define STNI_ANY_DEVICE __host__ __device__
#else
#define STNI_ANY_DEVICE
#endif

#define STNI_INLINE static inline STNI_ANY_DEVICE

/* For what loops call: a loop with a call that is not inlined is not vectorised, and compilers stop inlining large
 * functions. */
#if defined(__CUDACC__)
#define STNI_KERNEL_INLINE static STNI_ANY_DEVICE __forceinline__
#elif defined(__GNUC__)
#define STNI_KERNEL_INLINE static inline __attribute__((always_inline))
#else
#define STNI_KERNEL_INLINE static inline
#endif

/* Of which callers deduce nothing. gcc 12 has taken functions that store through a pointer for ones that only read,
 * and left out calls of them: those that were seen to suffer are marked. */
#if defined(__GNUC__) && !defined(__clang__)
#define STNI_NO_DEDUCTION __attribute__((noipa))
#else
#define STNI_NO_DEDUCTION
#endif

#endif
