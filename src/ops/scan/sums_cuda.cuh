/* Sums along lines on a CUDA device: a warp each short line, a block each longer one. A thread adds up a few elements
 * that follow each other, a warp joins what its lanes found and a block what its warps did, so that a tile of many
 * elements takes one barrier. An element's sum is what stands before the tile, then before its warp, before its thread
 * and in it: the line's length and dtype alone decide the order of additions. */
#ifndef STNI_OPS_SCAN_SUMS_CUDA_CUH
#define STNI_OPS_SCAN_SUMS_CUDA_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/products.cuh"
#include "core/device/cuda/rows.cuh"
#include "ops/scan/scan_kernel.h"

namespace {

enum {
    SUMS_THREADS = 256,
    SUMS_BLOCKS = 3,   /* of a multiprocessor, for enough reads under way */
    SUMS_ELEMENTS = 16 /* of a thread, at most */
};

/* Elements of a piece, which is read and written at once. Narrow integers are stored as i64, in more bytes than they
 * are read in. */
template <class E, class W> constexpr int SUMS_PIECE = sizeof(E) == sizeof(W) ? 16 / sizeof(E) : 4;

/* Pieces of a thread in a tile. */
template <int PIECE> constexpr int SUMS_PIECES = PIECE < 4 ? 4 : SUMS_ELEMENTS / PIECE;

struct line_sums {
    row_offsets<2> lines; /* of x and of the result */
    int64_t n, n_lines, x_step, out_step;
    bool reverse, exclusive;
    bool packed; /* all lines begin where pieces may be read, and their elements follow each other */
    const void *x;
    void *out;
    const void *states; /* of lines, or NULL: two numbers, the first what stands before the line */
};

/* Where a piece of N elements lies in its line, of which it may lack some on the side where the line ends. */
template <int N> struct piece_place {
    int64_t first;
    bool whole;
};

template <int N> STNI_DEVICE piece_place<N> piece_place_of(const line_sums &s, int64_t piece)
{
    const int64_t first = piece * N;
    return {s.reverse ? s.n - first - N : first, s.packed && first + N <= s.n};
}

/* Whether element k of a piece is one of the line. */
template <int N> STNI_DEVICE bool is_in_line(const line_sums &s, const piece_place<N> &place, int k)
{
    return place.first + k >= 0 && place.first + k < s.n;
}

/* The elements of a piece as they lie in memory; 0 where there is none. */
template <class E, int N>
STNI_DEVICE side_by_side<E, N> read_piece(const line_sums &s, const E *line, const piece_place<N> &place)
{
    side_by_side<E, N> read = {};
    if (place.whole)
        read = *reinterpret_cast<const side_by_side<E, N> *>(line + place.first);
    else
        STNI_UNROLL
        for (int k = 0; k < N; k++)
            if (is_in_line(s, place, k))
                read.v[k] = line[(place.first + k) * s.x_step];
    return read;
}

/* The same as numbers in the order in which they are added; returns their sum. */
template <class A, class E, int N>
STNI_DEVICE A sum_piece(const line_sums &s, const side_by_side<E, N> &read, A (&to)[N])
{
    STNI_UNROLL
    for (int k = 0; k < N; k++)
        to[k] = widen(load(s.reverse ? read.v[N - 1 - k] : read.v[k]), &to[k]);
    A sum = to[0];
    STNI_UNROLL
    for (int k = 1; k < N; k++)
        sum = sum + to[k];
    return sum;
}

template <class A, class W, int N>
STNI_DEVICE void write_piece(const line_sums &s, W *line, const piece_place<N> &place, const A (&from)[N])
{
    side_by_side<W, N> written;
    STNI_UNROLL
    for (int k = 0; k < N; k++)
        store(written.v[k], narrow(s.reverse ? from[N - 1 - k] : from[k], &written.v[k]));
    if (place.whole)
        *reinterpret_cast<side_by_side<W, N> *>(line + place.first) = written;
    else
        STNI_UNROLL
        for (int k = 0; k < N; k++)
            if (is_in_line(s, place, k))
                line[(place.first + k) * s.out_step] = written.v[k];
}

/* The sum of the values of this lane and those before it. */
template <class A> STNI_DEVICE A sum_up_to_lane(A value)
{
    const int lane = (int)threadIdx.x % WARP;
    STNI_UNROLL
    for (int by = 1; by < WARP; by *= 2) {
        const A left = __shfl_up_sync(WHOLE_WARP, value, (unsigned)by);
        value = lane >= by ? left + value : value;
    }
    return value;
}

/* Of the lane before; 0 for the first. */
template <class A> STNI_DEVICE A of_lane_before(A value)
{
    const A left = __shfl_up_sync(WHOLE_WARP, value, 1u);
    return threadIdx.x % WARP > 0 ? left : A(0);
}

/* before[j]: the sum of the tile's pieces before this thread's j-th, of which own[j] is the sum; returns that of all of
 * the tile. Piece j of a thread lies WARPS * WARP pieces behind its piece j - 1. `of_warps` has PIECES WARPS elements,
 * and another tile's must lie elsewhere until all threads have read these. */
template <int WARPS, class A, int PIECES>
STNI_DEVICE A sum_tile(A *of_warps, const A (&own)[PIECES], A (&before)[PIECES])
{
    static_assert(WARPS == 1 || PIECES * WARPS <= WARP, "a lane each warp's piece");
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP % WARPS;
    A up_to[PIECES], all = A(0);
    STNI_UNROLL
    for (int j = 0; j < PIECES; j++) {
        up_to[j] = sum_up_to_lane(own[j]);
        before[j] = of_lane_before(up_to[j]);
    }
    if constexpr (WARPS == 1) {
        STNI_UNROLL
        for (int j = 0; j < PIECES; j++) {
            before[j] = all + before[j];
            all = all + __shfl_sync(WHOLE_WARP, up_to[j], WARP - 1);
        }
    } else {
        if (lane == WARP - 1)
            STNI_UNROLL
            for (int j = 0; j < PIECES; j++)
                of_warps[j * WARPS + warp] = up_to[j];
        __syncthreads();
        const A sum = sum_up_to_lane(lane < PIECES * WARPS ? of_warps[lane] : A(0)), left = of_lane_before(sum);
        STNI_UNROLL
        for (int j = 0; j < PIECES; j++)
            before[j] = __shfl_sync(WHOLE_WARP, left, j * WARPS + warp) + before[j];
        all = __shfl_sync(WHOLE_WARP, sum, WARP - 1);
    }
    return all;
}

/* E are summed in A and stored as W; WARPS warps work on a line. */
template <class E, class W, class A, int WARPS>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS) sum_lines(const __grid_constant__ line_sums s)
{
    enum { PIECE = SUMS_PIECE<E, W>, PIECES = SUMS_PIECES<PIECE>, TEAM = WARPS * WARP };
    STNI_SHARED(A, of_warps, 2 * PIECES * WARPS);
    const int me = (int)threadIdx.x % TEAM;
    const int64_t line = (int64_t)blockIdx.x * (SUMS_THREADS / TEAM) + (int)threadIdx.x / TEAM;
    if (line >= s.n_lines) /* of a line alone there is one for every block */
        return;
    const E *const x = static_cast<const E *>(s.x) + row_offset(s.lines, 0, (uint32_t)line);
    W *const out = static_cast<W *>(s.out) + row_offset(s.lines, 1, (uint32_t)line);
    const int64_t pieces = (s.n + PIECE - 1) / PIECE;
    A joined = s.states ? static_cast<const A *>(s.states)[2 * line] : A(0);
    int turn = 0;
    for (int64_t first = 0; first < pieces; first += TEAM * PIECES, turn ^= 1) {
        side_by_side<E, PIECE> read[PIECES]; /* all under way before the first is waited for */
        A v[PIECES][PIECE], own[PIECES], before[PIECES];
        STNI_UNROLL
        for (int j = 0; j < PIECES; j++)
            read[j] = read_piece(s, x, piece_place_of<PIECE>(s, first + j * TEAM + me));
        STNI_UNROLL
        for (int j = 0; j < PIECES; j++)
            own[j] = sum_piece(s, read[j], v[j]);
        const A all = sum_tile<WARPS>(of_warps + turn * PIECES * WARPS, own, before);
        STNI_UNROLL
        for (int j = 0; j < PIECES; j++) {
            A sum = joined + before[j];
            STNI_UNROLL
            for (int k = 0; k < PIECE; k++) {
                const A next = sum + v[j][k];
                v[j][k] = s.exclusive ? sum : next;
                sum = next;
            }
            write_piece(s, out, piece_place_of<PIECE>(s, first + j * TEAM + me), v[j]);
        }
        joined = joined + all;
    }
}

/* False where there are no lines, or too many, or they have too many dims. */
inline bool find_line_sums(const stni_scan_args &a, line_sums &s)
{
    const stni_lines &l = a.lines;
    operands<2> lines = no_dims<2>();
    for (int d = 0; d < l.ndim; d++)
        add_dim(lines, l.shape[d], {l.strides[SCAN_X][d], l.strides[SCAN_OUT][d]});
    s = {{},    l.n, lines.count, l.step[SCAN_X], l.step[SCAN_OUT], a.reverse != 0, a.exclusive != 0,
         false, a.x, a.out,       a.states};
    return lines.count > 0 && find_row_offsets(lines, s.lines);
}

/* Whether every line begins where `piece` elements of so many bytes may be read or written at once. */
inline bool are_pieces(const line_sums &s, int operand, const void *data, int64_t step, size_t piece_bytes, int piece)
{
    const size_t unit = piece_bytes < 16 ? piece_bytes : 16;
    const int64_t by = (int64_t)(piece * unit / piece_bytes); /* elements of a unit */
    return (step == 1 || s.n == 1) && (uintptr_t)data % unit == 0 && s.lines.stride[operand][0] % by == 0 &&
           s.lines.stride[operand][1] % by == 0;
}

template <class E, class W, class A> void launch_line_sums(line_sums s, cudaStream_t stream)
{
    enum { PIECE = SUMS_PIECE<E, W>, WARPS = SUMS_THREADS / WARP };
    s.packed = (!s.reverse || s.n % PIECE == 0) && are_pieces(s, 0, s.x, s.x_step, PIECE * sizeof(E), PIECE) &&
               are_pieces(s, 1, s.out, s.out_step, PIECE * sizeof(W), PIECE);
    if (s.n == 0)
        return;
    if (s.n <= WARP * PIECE * SUMS_PIECES<PIECE>)
        STNI_LAUNCH((sum_lines<E, W, A, 1>), blocks_for(s.n_lines, WARPS), SUMS_THREADS, stream, s);
    else
        STNI_LAUNCH((sum_lines<E, W, A, WARPS>), grid_of(s.n_lines), SUMS_THREADS, stream, s);
}

}

#endif
