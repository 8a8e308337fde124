/* The tiles of direct convolutions of one instruction set (core/base/isa.h). A part of direct_kernels.c. */
#ifndef STNI_OPS_CONV_DIRECT_TILE_H
#define STNI_OPS_CONV_DIRECT_TILE_H

#include "ops/conv/direct_kernels.h"

/* Where a number of vectors is to be a constant, so that their loops are unrolled and sums stay in registers. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* A tile of WIDE vectors of one output, or of OUTPUTS by half as many, leaves registers for what it is made of and is
 * enough to hide how long an addition takes. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, WIDE = 8, OUTPUTS = 4 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, WIDE = 8, OUTPUTS = 2 };
#else
enum { VECTOR_BYTES = 16, WIDE = 8, OUTPUTS = 2 };
#endif

/* Sums of products that are taken side by side, of two vectors each. */
enum { TERMS = 4 };

#endif
