/* Operations on windows of a tensor: pools, windows laid out, sampling at given points. */
#ifndef SHARDTENSOR_OPS_POOL_H
#define SHARDTENSOR_OPS_POOL_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Windows along the last one to three dims, an entry for each. Output o reads positions o stride - padding + k
 *  dilation, 0 <= k < kernel_size. */
typedef struct stn_pool_attrs {
    size_t size; /* sizeof(stn_pool_attrs) */
    int64_t kernel_size[3];
    int64_t stride[3];        /* 0: the window's size (of im2col and fold: 1) */
    int64_t padding[3];       /* on both sides, at most half of a window */
    int64_t dilation[3];      /* 0: 1. Average pools have no other */
    int ceil_mode;            /* 1: a last window may reach beyond the end */
    int exclude_pads;         /* average pools: divide by how many elements a window has, not by what it would have with the pads */
    int64_t divisor_override; /* average pools of two and three dims: divide by this; 0: by the number of elements.
                                 Average pools of one dim have no other */
} stn_pool_attrs;

/** Averages over windows of the last dim.
 *
 * Shapes:     (n, c, d0) or (c, d0) -> (…, e0), e = floor((d + 2 padding - kernel_size) / stride) + 1. Floating dtypes;
 *             computed in f32, f64 for f64.
 * Placement:  kept, in the input's memory order; splits: balanced from balanced, else offset' = ceil(offset e / d).
 *             Partial(sum) is kept, other pending reductions are done first.
 * Collective: over the mesh where a pooled dim is sharded: what a rank lacks is fetched as a halo.
 * Gradient:   yes, to any order: the adjoint, by global indices.
 * @return new tensor; STN_ERR_SHAPE (dims, empty dims, windows that do not fit), STN_ERR_DTYPE, STN_ERR_ARGUMENT
 *         (attrs), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: PyTorch's definition, of ceil_mode too: a window that would begin in the pad behind the end is left out. */
STN_API stn_tensor *stn_avg_pool1d(stn_tensor *input, const stn_pool_attrs *attrs);

/** Averages over windows of the last two dims: (n, c, d0, d1) or (c, d0, d1). As stn_avg_pool1d. */
STN_API stn_tensor *stn_avg_pool2d(stn_tensor *input, const stn_pool_attrs *attrs);

/** Averages over windows of the last three dims: (n, c, d0, d1, d2) or (c, d0, d1, d2). As stn_avg_pool1d. */
STN_API stn_tensor *stn_avg_pool3d(stn_tensor *input, const stn_pool_attrs *attrs);

/** Averages of `output_size` parts of the last dim: output o is the mean of elements floor(o d / e) to ceil((o + 1) d /
 * e).
 *
 * As stn_avg_pool1d but for the attributes, and for one part along every pooled dim: that is stn_mean, which moves
 * nothing and leaves a pending sum where ranks share it.
 * @param output_size  e, at least 0; -1: d. */
STN_API stn_tensor *stn_adaptive_avg_pool1d(stn_tensor *input, int64_t output_size);

/** The same of the last two dims. @param output_size  two sizes. */
STN_API stn_tensor *stn_adaptive_avg_pool2d(stn_tensor *input, const int64_t *output_size);

/** The same of the last three dims. @param output_size  three sizes. */
STN_API stn_tensor *stn_adaptive_avg_pool3d(stn_tensor *input, const int64_t *output_size);

/** Maxima over windows of the last dim. Pads count for nothing; of equal elements the first in row-major order counts,
 * of NaNs the last.
 *
 * Shapes:     as stn_avg_pool1d, a window's extent being (kernel_size - 1) dilation + 1. Floating dtypes, i64, i32, u8.
 * Placement:  as stn_avg_pool1d; pending reductions are done first.
 * Collective: over the mesh where a pooled dim is sharded: what a rank lacks is fetched as a halo.
 * Gradient:   yes, to any order: to the maxima, by their places.
 * @param indices  NULL, or where to put a new i64 tensor that lies as the result does: the maxima's places in the
 *                 pooled dims of the whole input, row-major.
 * @return new tensor; errors as stn_avg_pool1d. */
STN_API stn_tensor *stn_max_pool1d(stn_tensor *input, const stn_pool_attrs *attrs, stn_tensor **indices);

/** Maxima over windows of the last two dims. As stn_max_pool1d. */
STN_API stn_tensor *stn_max_pool2d(stn_tensor *input, const stn_pool_attrs *attrs, stn_tensor **indices);

/** Maxima over windows of the last three dims. As stn_max_pool1d. */
STN_API stn_tensor *stn_max_pool3d(stn_tensor *input, const stn_pool_attrs *attrs, stn_tensor **indices);

/** Maxima of `output_size` parts of the last dim, those of stn_adaptive_avg_pool1d. As stn_max_pool1d, but where there
 * is one part along all pooled dims, of which one is sharded: ranks gather a maximum and a place for each window, and
 * the result is Replicate along the axes that shard pooled dims. */
STN_API stn_tensor *stn_adaptive_max_pool1d(stn_tensor *input, int64_t output_size, stn_tensor **indices);

/** The same of the last two dims. @param output_size  two sizes. */
STN_API stn_tensor *stn_adaptive_max_pool2d(stn_tensor *input, const int64_t *output_size, stn_tensor **indices);

/** The same of the last three dims. @param output_size  three sizes. */
STN_API stn_tensor *stn_adaptive_max_pool3d(stn_tensor *input, const int64_t *output_size, stn_tensor **indices);

/** Windows of a dim: window w holds elements w step, w step + 1, …
 *
 * Shapes:     (…, n, …) -> (…, (n - size) / step + 1, …, size). Any dtype. A tensor without dims counts as one of a
 *             single element.
 * Placement:  kept, pending reductions too; the split of `dimension`: balanced from balanced, else offset' =
 *             ceil(offset windows / n).
 * Memory:     a view; where `dimension` is sharded and windows reach beyond a chunk, of a run of elements that holds
 *             them all.
 * Collective: over the mesh where `dimension` is sharded: what a rank lacks is fetched as a halo.
 * Gradient:   yes, to any order.
 * @param dimension  -ndim <= dimension < ndim.
 * @param size  0 <= size <= n. @param step  at least 1.
 * @return new tensor; STN_ERR_ARGUMENT, STN_ERR_SHAPE (too many dims), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_unfold(stn_tensor *input, int dimension, int64_t size, int64_t step);

/** The windows of images as columns: with pads of zeros, a channel's elements of a window after each other.
 *
 * Shapes:     (n, c, h, w) or (c, h, w) -> (…, c k0 k1, e0 e1), e as for stn_avg_pool1d; of `attrs` kernel_size, stride
 *             (0: 1), padding (any) and dilation are read.
 * Placement:  kept for batch and channels; sharded rows stay sharded, in proportion; columns are exchanged to a Shard
 *             of the merged dim. Partial is kept.
 * Collective: over the mesh where rows or columns are sharded.
 * Gradient:   yes, to any order: stn_fold.
 * @return new tensor; STN_ERR_SHAPE (dims, windows that do not fit), STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY,
 * STN_ERR_COMM. */
STN_API stn_tensor *stn_im2col(stn_tensor *input, const stn_pool_attrs *attrs);

/** Columns added up to images, each element at its place: the adjoint of stn_im2col. Floating and complex dtypes.
 *
 * Shapes:     (n, c k0 k1, e0 e1) or (c k0 k1, e0 e1) -> (…, c, h, w).
 * Placement, collectivity, errors: as stn_im2col. Gradient: stn_im2col.
 * @param output_size  h and w. */
STN_API stn_tensor *stn_fold(stn_tensor *input, const int64_t *output_size, const stn_pool_attrs *attrs);

typedef enum stn_sample_mode {
    STN_SAMPLE_BILINEAR, /* with three dims trilinear */
    STN_SAMPLE_NEAREST,
    STN_SAMPLE_BICUBIC /* two dims */
} stn_sample_mode;

/** What stands beyond an input's ends. */
typedef enum stn_sample_padding {
    STN_SAMPLE_ZEROS,
    STN_SAMPLE_BORDER,    /* the end again and again */
    STN_SAMPLE_REFLECTION /* at the ends' centres where corners are aligned, else at their outer ends */
} stn_sample_padding;

/** An input read at the points of a grid: coordinates x, y (and z) from -1 to 1 over the last, the last but one (and
 * the first) of its dims. A point with a coordinate that is NaN lies outside, whatever the padding, and reads 0.
 *
 * Shapes:     (n, c, h, w), (n, p, q, 2) -> (n, c, p, q); (n, c, d, h, w), (n, o, p, q, 3) -> (n, c, o, p, q). Floating
 *             dtypes, both the same; positions are computed in f64, sums in f32, f64 for f64.
 * Placement:  per mesh axis what is sharded of batch, channels or points stays so, the larger operand's first; sharded
 *             channels bring the whole grid to each rank, sharded points the whole input. A Shard of the input's pixels
 *             is exchanged for one of channels or batch; where these are too few, or the points much fewer than the
 *             pixels, it stays, each rank sums over its own pixels, and the result is Partial(sum). A Partial(sum)
 *             input is kept, other pending reductions are done first.
 * Memory:     nothing but inputs and result; the result lies in the input's memory order.
 * Collective: over the mesh where operands move.
 * Gradient:   yes, of both, once differentiable; that of the grid is 0 where positions were moved to an end, and for
 *             the nearest element.
 * @param align_corners  1: -1 and 1 are the centres of the first and last elements; 0: their outer ends.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT, STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Jaderberg et al., Spatial transformer networks, 2015; Keys, IEEE Trans. ASSP 29, 1981 for the cubic kernel,
 * with a = -3/4. */
STN_API stn_tensor *stn_grid_sample(stn_tensor *input, stn_tensor *grid, stn_sample_mode mode,
                                    stn_sample_padding padding, int align_corners);

STN_END_DECLS
#endif
