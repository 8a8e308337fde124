/* Copies in which all channels of a point or element are one row, next to each other. Points lie anywhere in an image,
 * and where channels are far apart each read fetches 32 bytes for one element. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_ROWS_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_ROWS_CUH

#include "core/device/cuda/block.cuh"
#include "ops/resample/sample_jumps.cuh"

namespace {

enum { ROWS_THREADS = 256, ROWS_TILE = WARP /* places, and channels, of a block */ };

/* Some places of some batch entries, of a field of n channels. */
template <class S> struct row_copy {
    const S *from; /* of the first entry, channel 0, place 0 */
    int64_t batch, channel, n_channels;
    operands<1> places;
    int64_t first, n_places, lines;
    unsigned tiles, groups; /* blocks along places and along channels */
    int64_t width;          /* of a row, in elements: what is beyond the channels is zero */
    S *to;
    const unsigned *jumps; /* where it is copied only if points jump (sample_jumps.cuh); else NULL */
};

template <class S> __global__ void __launch_bounds__(ROWS_THREADS) copy_rows(const __grid_constant__ row_copy<S> r)
{
    enum { WARPS = ROWS_THREADS / WARP };
    STNI_SHARED(S, tile, ROWS_TILE * (ROWS_TILE + 1));
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const unsigned group = blockIdx.x % r.groups, rest = blockIdx.x / r.groups;
    const int64_t line = rest / r.tiles, first = (int64_t)(rest % r.tiles) * ROWS_TILE;
    const int64_t column = (int64_t)group * ROWS_TILE;
    const bool is_place = first + lane < r.n_places;
    int64_t at[1] = {0};
    if (r.jumps && !jumps_are_many(r.jumps))
        return;
    if (is_place)
        any_offsets_of(r.places, r.first + first + lane, at);
    const S *from = r.from + line * r.batch + at[0];
    STNI_UNROLL
    for (int k = warp; k < ROWS_TILE; k += WARPS)
        tile[k * (ROWS_TILE + 1) + lane] = is_place && column + k < r.n_channels ? from[(column + k) * r.channel] : S{};
    __syncthreads();
    STNI_UNROLL
    for (int k = warp; k < ROWS_TILE; k += WARPS)
        if (first + k < r.n_places && column + lane < r.width)
            r.to[(line * r.n_places + first + k) * r.width + column + lane] = tile[lane * (ROWS_TILE + 1) + k];
}

template <class S> void launch_rows(row_copy<S> r, cudaStream_t stream)
{
    r.tiles = (unsigned)stni_ceil_div(r.n_places, ROWS_TILE);
    r.groups = (unsigned)stni_ceil_div(r.width, ROWS_TILE);
    STNI_LAUNCH(copy_rows<S>, blocks_for(r.lines * r.tiles * r.groups, 1), ROWS_THREADS, stream, r);
}

/* Of these batch entries all that is here of the input. */
template <class S>
void copy_input(const stni_sample_args &a, int64_t first_line, int64_t lines, int64_t width, S *to,
                const unsigned *jumps, cudaStream_t stream)
{
    row_copy<S> r = {};
    r.from = (const S *)a.input.data + first_line * a.input.batch;
    r.batch = a.input.batch;
    r.channel = a.input.channel;
    r.n_channels = a.n_channels;
    r.places = elements_in(a, a.input);
    r.n_places = elements_of(a);
    r.lines = lines;
    r.width = width;
    r.to = to;
    r.jumps = jumps;
    launch_rows(r, stream);
}

}

#endif
