/* What the products of a matrix and a vector have in common, whatever their dtype. */
#ifndef STNI_OPS_CPU_GEMV_TILE_H
#define STNI_OPS_CPU_GEMV_TILE_H

#include "ops/cpu/gemv_kernels.h"

#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

enum { CHAIN = 32, UNROLL = 4 };

#endif
