/* The tiles of matrix products of one instruction set (core/base/isa.h). A part of gemm_kernels.c. */
#ifndef STNI_OPS_CPU_GEMM_TILE_H
#define STNI_OPS_CPU_GEMM_TILE_H

#include "core/base/isa.h"
#include "core/box/box_kernel.h"
#include "ops/cpu/gemm_kernels.h"

#include <string.h>

/* A tile of R rows by two vectors, and for complex numbers half of the rows, leaves registers for a row of B and an
 * element of A. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, R = 12 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, R = 6 };
#else
enum { VECTOR_BYTES = 16, R = 4 };
#endif

#endif
