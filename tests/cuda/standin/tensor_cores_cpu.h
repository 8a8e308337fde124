/* Tensor cores without a GPU (core/device/cuda/tensor_cores.cuh): lanes meet, and the last one computes what all get,
 * with elements where PTX has them in the lanes' registers. Needs elements.cuh. */
#ifndef STANDIN_TENSOR_CORES_CPU_H
#define STANDIN_TENSOR_CORES_CPU_H

#include <grid_cpu.h>

namespace standin {

inline uint16_t half_of(uint32_t word, int which)
{
    return static_cast<uint16_t>(word >> 16 * which);
}

struct fragments {
    float *c;
    const uint32_t *a, *b;
};

/* PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type". */
template <class S> void multiply_lanes(void *const (&given)[32])
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const fragments &of = *static_cast<const fragments *>(given[lane]);
        const int group = lane / 4, thread = lane % 4;
        for (int i = 0; i < 8; i++) {
            const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
            const int col = thread * 2 + (i & 1) + (i < 4 ? 0 : 8);
            a[row][col] = load(S{half_of(of.a[i / 2], i % 2)});
        }
        for (int i = 0; i < 4; i++) {
            const int row = thread * 2 + (i & 1) + (i < 2 ? 0 : 8), col = group;
            b[row][col] = load(S{half_of(of.b[i / 2], i % 2)});
        }
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = i < 2 ? lane / 4 : lane / 4 + 8, col = lane % 4 * 2 + (i & 1);
            float &sum = static_cast<const fragments *>(given[lane])->c[i];
            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[k][col];
        }
}

struct matrix_row {
    const uint16_t *at;
    uint32_t *to;
};

/* PTX ISA, "ldmatrix", .m8n8.x4 of .b16. */
template <bool TRANSPOSED> void read_lanes(void *const (&given)[32])
{
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < 4; m++) {
            uint32_t word = 0;
            for (int i = 0; i < 2; i++) {
                const int group = lane / 4, of_pair = lane % 4 * 2 + i;
                const int row = TRANSPOSED ? of_pair : group, col = TRANSPOSED ? group : of_pair;
                word |= static_cast<uint32_t>(static_cast<const matrix_row *>(given[m * 8 + row])->at[col]) << 16 * i;
            }
            static_cast<const matrix_row *>(given[lane])->to[m] = word;
        }
}

template <bool TRANSPOSED> void read(const char *row, int bytes, uint32_t (&to)[4], line at)
{
    matrix_row mine = {reinterpret_cast<const uint16_t *>(row + bytes), to};
    if (reinterpret_cast<uintptr_t>(mine.at) % 16 != 0)
        refuse("a row of a matrix is not at a multiple of 16 bytes", at);
    together(read_lanes<TRANSPOSED>, &mine, at);
}

}

/* The line is the caller's: arguments by default are evaluated there. */
namespace {

inline int lane_of_warp()
{
    return static_cast<int>(standin::here->lane);
}

template <class S>
inline void multiply_fragments(S, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const char *file = __builtin_FILE(), int number = __builtin_LINE())
{
    standin::fragments mine = {c, a, b};
    standin::together(standin::multiply_lanes<S>, &mine, {file, number});
}

inline void read_matrices(const char *row, int bytes, uint32_t (&to)[4], const char *file = __builtin_FILE(),
                          int number = __builtin_LINE())
{
    standin::read<false>(row, bytes, to, {file, number});
}

inline void read_transposed_matrices(const char *row, int bytes, uint32_t (&to)[4], const char *file = __builtin_FILE(),
                                     int number = __builtin_LINE())
{
    standin::read<true>(row, bytes, to, {file, number});
}

}

#endif
