#include "cuda/squares.h"

#include "core/device/cuda/tensor_cores.cuh"

namespace {

enum { LANES = 32, PITCH = SQUARE + 8 };

/* PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type", word by word: the first half of the columns,
 * then the second. */
template <class S> __global__ void multiply_documented(const S *left, const S *right, float *sum)
{
    const int lane = (int)threadIdx.x, group = lane / 4, thread = lane % 4;
    uint16_t a[8], b[4];
    uint32_t a_words[4], b_words[2];
    for (int i = 0; i < 8; i++) {
        const int row = i == 0 || i == 1 || i == 4 || i == 5 ? group : group + 8;
        a[i] = left[row * SQUARE + thread * 2 + i % 2 + (i >= 4 ? 8 : 0)].bits;
    }
    memcpy(a_words, a, sizeof a);
    for (int first = 0; first < SQUARE; first += 8) {
        float c[4];
        for (int i = 0; i < 4; i++) {
            b[i] = right[(thread * 2 + i % 2 + (i >= 2 ? 8 : 0)) * SQUARE + first + group].bits;
            c[i] = sum[(i < 2 ? group : group + 8) * SQUARE + first + thread * 2 + i % 2];
        }
        memcpy(b_words, b, sizeof b);
        multiply_fragments(S{}, c, a_words, b_words);
        for (int i = 0; i < 4; i++)
            sum[(i < 2 ? group : group + 8) * SQUARE + first + thread * 2 + i % 2] = c[i];
    }
}

template <class S, squares_how HOW> __global__ void multiply_read(const S *left, const S *right, float *sum)
{
    struct alignas(16) square {
        S elements[SQUARE * PITCH];
    };
    STNI_SHARED(square, a, 1);
    STNI_SHARED(square, b, 1);
    for (int k = (int)threadIdx.x; k < SQUARE * SQUARE; k += LANES) {
        a->elements[k / SQUARE * PITCH + k % SQUARE] = left[k];
        b->elements[k / SQUARE * PITCH + k % SQUARE] = right[k];
    }
    __syncthreads();
    const left_factor factor = read_left(lane_of_squares(a->elements, PITCH), 0);
    const right_factor other = HOW == SQUARES_TRANSPOSED
                                   ? read_right_transposed(lane_of_transposes(b->elements, PITCH), 0)
                                   : read_right(lane_of_squares(b->elements, PITCH), 0);
    product to;
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 4; i++)
            to.v[half][i] = sum[product_row(i) * SQUARE + product_col(half, i)];
    multiply_add(S{}, to, factor, other);
    if (HOW == SQUARES_TWICE) {
        const left_factor again = rounded(S{}, to);
        clear_product(to);
        multiply_add(S{}, to, again, other);
    }
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 4; i++)
            sum[product_row(i) * SQUARE + product_col(half, i)] = to.v[half][i];
}

/* What the device has of the host's squares. */
struct squares {
    void *left, *right;
    float *sum;
};

template <class S, void (*KERNEL)(const S *, const S *, float *)> void launch(const squares &s, cudaStream_t stream)
{
    STNI_LAUNCH(KERNEL, 1, LANES, stream, static_cast<const S *>(s.left), static_cast<const S *>(s.right), s.sum);
}

template <class S> void launch_of(squares_how how, const squares &s, cudaStream_t stream)
{
    static void (*const launches[])(const squares &, cudaStream_t) = {
        launch<S, multiply_documented<S>>, launch<S, multiply_read<S, SQUARES_READ>>,
        launch<S, multiply_read<S, SQUARES_TRANSPOSED>>, launch<S, multiply_read<S, SQUARES_TWICE>>};
    launches[how](s, stream);
}

}

int squares_multiply(stn_dtype dtype, squares_how how, const uint16_t *left, const uint16_t *right, float *sum)
{
    const size_t factor_bytes = SQUARES_SIZE * sizeof *left, sum_bytes = SQUARES_SIZE * sizeof *sum;
    cudaStream_t stream;
    squares s;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&s.left, factor_bytes);
    cudaMalloc(&s.right, factor_bytes);
    cudaMalloc(reinterpret_cast<void **>(&s.sum), sum_bytes);
    cudaMemcpyAsync(s.left, left, factor_bytes, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(s.right, right, factor_bytes, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(s.sum, sum, sum_bytes, cudaMemcpyHostToDevice, stream);
    if (dtype == STN_DTYPE_BF16)
        launch_of<bf16>(how, s, stream);
    else
        launch_of<f16>(how, s, stream);
    cudaMemcpyAsync(sum, s.sum, sum_bytes, cudaMemcpyDeviceToHost, stream);
    const cudaError_t error = cudaStreamSynchronize(stream);
    cudaFree(s.left);
    cudaFree(s.right);
    cudaFree(s.sum);
    cudaStreamDestroy(stream);
    return error != cudaSuccess;
}
