/* Dense rows: a team of threads reads a row once, in pieces that follow each other, and each thread keeps its share in
 * registers.
 *
 * A piece is a pack of 16 bytes where all rows allow it, else one element. How many threads a team has depends on the
 * row's length and on the piece, and with it the order in which what the threads found is joined. */
#ifndef STNI_CORE_DEVICE_CUDA_ROWS_CUH
#define STNI_CORE_DEVICE_CUDA_ROWS_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"

namespace {

/* Where rows begin, for N operands: rows of at most two dims, so that no thread loops over dims. */
template <int N> struct row_offsets {
    divider inner; /* by the size of the inner dim */
    int64_t stride[N][2];
};

/* False where `rows` has more dims or too many elements for 32-bit indices. */
template <int N, int M> bool find_row_offsets(const operands<M> &rows, row_offsets<N> &to)
{
    static_assert(N <= M, "the first operands");
    if (rows.ndim > 2 || !is_small(rows))
        return false;
    const int inner = rows.ndim - 1;
    to.inner = divider_of(rows.ndim > 0 ? rows.shape[inner] : 1);
    for (int k = 0; k < N; k++) {
        to.stride[k][0] = rows.ndim > 1 ? rows.stride[k][0] : 0;
        to.stride[k][1] = rows.ndim > 0 ? rows.stride[k][inner] : 0;
    }
    return true;
}

template <int N> STNI_DEVICE int64_t row_offset(const row_offsets<N> &rows, int operand, uint32_t row)
{
    const uint32_t outer = divide(row, rows.inner);
    return outer * rows.stride[operand][0] + (row - outer * rows.inner.divisor) * rows.stride[operand][1];
}

template <class S> struct single {
    enum { SIZE = 1 }; /* elements */
    S v[SIZE];
};

template <class S> STNI_DEVICE void load_pack(const single<S> &from, typename computed<S>::type (&to)[1])
{
    to[0] = load(from.v[0]);
}

template <class S> STNI_DEVICE void store_pack(single<S> &to, const typename computed<S>::type (&from)[1])
{
    store(to.v[0], from[0]);
}

enum {
    ROW_MOST = 8192,      /* elements of the longest row that is kept */
    ROW_THREADS = 256,    /* of a block of several teams or of a small one */
    ROW_ALONE = 128,      /* of the smallest team that is a block, so that it waits for no other team at barriers */
    ROW_MOST_WARPS = 1024 / WARP
};

/* Elements that a thread keeps, at most, and threads of the largest team, which is then a block. Packs are four, since
 * what a thread does once for a row is as much as it does for some ten elements; but a pack of f32 has four elements
 * and one of 16-bit floats eight. Single elements take more registers for themselves. */
template <class P> constexpr int ROW_KEPT = P::SIZE > 1 ? 4 * P::SIZE : 8;
template <class P> constexpr int ROW_MOST_THREADS = ROW_MOST / ROW_KEPT<P>;

struct row_teams {
    int threads, shift; /* of a team: 2^shift */
    int block;          /* threads of a block */
    int pieces;         /* of a row */
};

/* Up to a warp has a piece a thread; then each keeps as many as it can before there are more threads. */
template <class P> inline row_teams row_teams_of(int64_t n)
{
    int shift = 0;
    while (1 << shift < ROW_MOST_THREADS<P> && (1 << shift) * (1 << shift < WARP ? (int)P::SIZE : ROW_KEPT<P>) < n)
        shift++;
    return {1 << shift, shift, 1 << shift >= ROW_ALONE ? 1 << shift : ROW_THREADS, (int)(n / P::SIZE)};
}

/* Rows of a block. */
STNI_HOST_DEVICE int rows_of_block(const row_teams &t)
{
    return t.block / t.threads;
}

/* The last block may have teams without a row. */
STNI_DEVICE int64_t row_of_thread(const row_teams &t)
{
    return (int64_t)blockIdx.x * (t.block >> t.shift) + ((int)threadIdx.x >> t.shift);
}

/* The pieces of a thread: from `first` on every `step`-th of those before `end`, as many as it can keep. */
struct row_share {
    int first, step, end;
};

STNI_DEVICE row_share row_share_of(const row_teams &t, int begin, int end)
{
    return {begin + ((int)threadIdx.x & (t.threads - 1)), t.threads, end};
}

STNI_DEVICE bool has_piece(const row_share &share, int j)
{
    return share.first + j * share.step < share.end;
}

/* What a thread keeps of a row, computed from elements of S. */
template <class S, class P> struct kept_row {
    enum { PIECES = ROW_KEPT<P> / P::SIZE, SIZE = P::SIZE };
    typename computed<S>::type v[PIECES][SIZE];
};

/* All reads are under way before the first is waited for. */
template <class S, class P> STNI_DEVICE void read_row(kept_row<S, P> &kept, const S *row, const row_share &share)
{
    const P *const from = reinterpret_cast<const P *>(row) + share.first;
    P read[kept_row<S, P>::PIECES] = {};
    STNI_UNROLL
    for (int j = 0; j < kept_row<S, P>::PIECES; j++)
        if (has_piece(share, j))
            read[j] = from[j * share.step];
    STNI_UNROLL
    for (int j = 0; j < kept_row<S, P>::PIECES; j++)
        load_pack(read[j], kept.v[j]);
}

template <class S, class P> STNI_DEVICE void write_row(const kept_row<S, P> &kept, S *row, const row_share &share)
{
    P *const to = reinterpret_cast<P *>(row) + share.first;
    STNI_UNROLL
    for (int j = 0; j < kept_row<S, P>::PIECES; j++) {
        P written;
        store_pack(written, kept.v[j]);
        if (has_piece(share, j))
            to[j * share.step] = written;
    }
}

/* Every thread of a team gets the join of its values; `join` commutes, so that all get the same. `shared` has
 * ROW_MOST_WARPS values; all threads of the block call it. */
template <class T, class J> STNI_DEVICE T reduce_row(T *shared, const row_teams &t, T value, J join)
{
    const int warp = (int)threadIdx.x / WARP, warps = t.threads / WARP;
    STNI_KEEP_LOOP
    for (int by = 1; by < WARP && by < t.threads; by *= 2)
        value = join(value, value_across(value, by));
    if (warps <= 1)
        return value;
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        shared[warp] = value;
    __syncthreads();
    const T *const of_team = shared + warp / warps * warps;
    value = of_team[0];
    STNI_KEEP_LOOP
    for (int w = 1; w < warps; w++)
        value = join(value, of_team[w]);
    return value;
}

}

#endif
