/* a b + c for kernels: rounded once where the processor does that in one instruction, else twice. Written out, and
 * not left to the compiler, so that both compilers, and the vectors of a loop and what is left over of it, give the
 * same bits; AVX2 and AVX-512 do too, only sets without the instruction differ in the last places. */
#ifndef STNI_OPS_CPU_FUSED_H
#define STNI_OPS_CPU_FUSED_H

#if defined(__CUDACC__)
#define STNI_SQUARE_REST_F32(a, square) fmaf(a, a, -(square))
#define STNI_FMA_F32(a, b, c) fmaf(a, b, c)
#define STNI_FMA_F64(a, b, c) fma(a, b, c)
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define STNI_FMA_IS_ONE_INSTRUCTION
#define STNI_FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#define STNI_FMA_F64(a, b, c) __builtin_fma(a, b, c)
/* Of a square, rounded, what rounding took from it. */
#define STNI_SQUARE_REST_F32(a, square) __builtin_fmaf(a, a, -(square))
#else
#define STNI_SQUARE_REST_F32(a, square) ((float)((double)(a) * (double)(a) - (double)(square)))
#define STNI_FMA_F32(a, b, c) ((a) * (b) + (c))
#define STNI_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

#endif
