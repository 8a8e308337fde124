/* Products of matrices of 16-bit floats by a warp, on tensor cores, with sums in f32.
 *
 * The matrices are squares of 16 x 16, of which each lane holds a part: with g = lane / 4 and t = lane % 4
 *
 *   word[0]  row g      columns 2t, 2t + 1          word[2]  row g      columns 2t + 8, 2t + 9
 *   word[1]  row g + 8  columns 2t, 2t + 1          word[3]  row g + 8  columns 2t + 8, 2t + 9
 *
 * of a left factor; of a right factor the same with columns for rows, and words 1 and 2 exchanged; of a product in
 * f32 as of a left factor, two numbers for each word. So a product becomes a left factor without leaving its lanes. A
 * right factor holds two of PTX's B operands, a product two of its C operands.
 * Source: PTX ISA, "Matrix fragments for mma.m16n8k16", "ldmatrix". For compute capability 8.0 and later. */
#ifndef STNI_CORE_DEVICE_CUDA_TENSOR_CORES_CUH
#define STNI_CORE_DEVICE_CUDA_TENSOR_CORES_CUH

#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/shared_address.cuh"

namespace {

enum { SQUARE = 16 /* rows of a factor or a product, and columns */ };

}

/* lane_of_warp() is the lane of a block of one dim. multiply_fragments(S{}, c, a, b) adds the product of A (16 x 16)
 * and B (16 x 8) to C. read_matrices and read_transposed_matrices read four matrices of 8 x 8 elements from shared
 * memory: lane l has the address of row l % 8 of matrix l / 8, 16 bytes at a multiple of 16, `bytes` behind `row`.
 * All lanes of a warp call them together. */
#ifdef __CUDACC__

namespace {

/* From its register each time: as a remainder the compiler would keep it, and what follows from it, in registers. */
STNI_DEVICE int lane_of_warp()
{
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

STNI_DEVICE void multiply_fragments(bf16, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

STNI_DEVICE void multiply_fragments(f16, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

STNI_DEVICE void read_matrices(shared_address row, int bytes, uint32_t (&to)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row + (uint32_t)bytes)
                 : "memory");
}

STNI_DEVICE void read_transposed_matrices(shared_address row, int bytes, uint32_t (&to)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row + (uint32_t)bytes)
                 : "memory");
}

}

#else

#include <tensor_cores_cpu.h>

#endif

namespace {

struct left_factor {
    uint32_t word[4];
};

struct right_factor {
    uint32_t word[2][2]; /* of columns 0 … 7, of columns 8 … 15 */
};

struct product {
    float v[2][4]; /* the same */
};

/* Where number i of half `half` of a lane's product is. */
STNI_DEVICE int product_row(int i)
{
    return lane_of_warp() / 4 + i / 2 * 8;
}

STNI_DEVICE int product_col(int half, int i)
{
    return lane_of_warp() % 4 * 2 + i % 2 + half * 8;
}

STNI_DEVICE void clear_product(product &to)
{
    STNI_UNROLL
    for (int half = 0; half < 2; half++)
        STNI_UNROLL
        for (int i = 0; i < 4; i++)
            to.v[half][i] = 0;
}

template <class S> STNI_DEVICE void multiply_add(S, product &to, const left_factor &left, const right_factor &right)
{
    multiply_fragments(S{}, to.v[0], left.word, right.word[0]);
    multiply_fragments(S{}, to.v[1], left.word, right.word[1]);
}

/* A product, rounded, as a left factor. */
template <class S> STNI_DEVICE left_factor rounded(S, const product &from)
{
    return {{store_two(S{}, from.v[0][0], from.v[0][1]), store_two(S{}, from.v[0][2], from.v[0][3]),
             store_two(S{}, from.v[1][0], from.v[1][1]), store_two(S{}, from.v[1][2], from.v[1][3])}};
}

/* Where in shared memory a lane reads its parts of squares of a matrix whose rows are `pitch` elements apart: as left
 * and right factors, and as right factors of which the matrix has the transposes. Eight rows are read at once: with a
 * pitch of an odd number of 16 bytes they are in different banks. */
STNI_DEVICE shared_address lane_of_squares(const void *matrix, int pitch)
{
    return address_in_shared(matrix) + 2 * (lane_of_warp() % 16 * pitch + lane_of_warp() / 16 * 8);
}

STNI_DEVICE shared_address lane_of_transposes(const void *matrix, int pitch)
{
    const int row = lane_of_warp() % 8 + lane_of_warp() / 16 * 8;
    return address_in_shared(matrix) + 2 * (row * pitch + lane_of_warp() / 8 % 2 * 8);
}

/* The square that begins `offset` elements behind the matrix: a number that is known to the compiler is a part of the
 * instruction, and needs no register. */
STNI_DEVICE left_factor read_left(shared_address lane, int offset)
{
    left_factor to;
    read_matrices(lane, 2 * offset, to.word);
    return to;
}

STNI_DEVICE right_factor read_right(shared_address lane, int offset)
{
    uint32_t word[4];
    read_transposed_matrices(lane, 2 * offset, word);
    return {{{word[0], word[1]}, {word[2], word[3]}}};
}

STNI_DEVICE right_factor read_right_transposed(shared_address lane, int offset)
{
    uint32_t word[4];
    read_matrices(lane, 2 * offset, word);
    return {{{word[0], word[1]}, {word[2], word[3]}}};
}

}

#endif
