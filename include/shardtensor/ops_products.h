/* Matrix products and convolutions. */
#ifndef SHARDTENSOR_OPS_PRODUCTS_H
#define SHARDTENSOR_OPS_PRODUCTS_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Matrix product, batched and broadcast as PyTorch's matmul: vectors are rows on the left, columns on the right.
 *
 * Shapes:     (…, m, k) x (…, k, n) -> (…, m, n). Dtypes are equal: floating, complex, i64 or i32.
 * Placement:  per axis: a batch dim, m or n sharded stays sharded; k sharded on both gives Partial(sum); Partial(sum)
 *             of one with the other Replicate is kept; what fits none of these is redistributed, the smaller operand
 *             first.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_matmul(stn_tensor *input, stn_tensor *other);

/** stn_matmul of exactly (m, k) x (k, n) -> (m, n). Everything else as of stn_matmul. */
STN_API stn_tensor *stn_mm(stn_tensor *input, stn_tensor *mat2);

/** stn_matmul of exactly (b, m, k) x (b, k, n) -> (b, m, n). Everything else as of stn_matmul. */
STN_API stn_tensor *stn_bmm(stn_tensor *input, stn_tensor *mat2);

/** stn_matmul of exactly (m, k) x (k) -> (m). Everything else as of stn_matmul. */
STN_API stn_tensor *stn_mv(stn_tensor *input, stn_tensor *vec);

/** stn_matmul of exactly (k) x (k) -> (), not conjugated. Everything else as of stn_matmul. */
STN_API stn_tensor *stn_dot(stn_tensor *input, stn_tensor *tensor);

/** input[i] vec2[j].
 *
 * Shapes:     (m) x (n) -> (m, n). Dtypes are promoted, bool is taken.
 * Placement, collectivity and gradient are those of stn_mul on (m, 1) and (1, n).
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_outer(stn_tensor *input, stn_tensor *vec2);

/** beta input + alpha (mat1 mat2). Where beta is 0, `input` is not read: NaN in it does not matter. Of 16-bit floats
 *  the product is rounded before it is scaled and added to.
 *
 * Shapes:     mat1 (m, k), mat2 (k, n) -> (m, n); input broadcasts to the product. Dtypes are equal, as of stn_matmul.
 * Placement:  that of the product, as of stn_matmul. The input goes there: beside Partial(sum) it becomes so, which
 *             moves nothing.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @param beta, alpha  whole numbers where the tensors hold integers.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (beta, alpha), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_addmm(stn_tensor *input, stn_tensor *mat1, stn_tensor *mat2, double beta, double alpha);

/** beta input + alpha (batch1 batch2), of batches of matrices: batch1 (b, m, k), batch2 (b, k, n) -> (b, m, n). As
 *  stn_addmm. */
STN_API stn_tensor *stn_baddbmm(stn_tensor *input, stn_tensor *batch1, stn_tensor *batch2, double beta, double alpha);

/** Sums of products by an equation, as PyTorch reads it: "bij,bjk->bik". Letters name dims, "..." stands for any number
 *  of dims that broadcast, a letter that a term has twice takes a diagonal, a letter that the result lacks is summed
 *  over. Without "->" the result has the ellipsis and, in the order of the alphabet (capitals first), the letters that
 *  stand once. Spaces mean nothing. A dim of size 1 broadcasts.
 *
 * Shapes:     as the equation says; every product on the way has at most STN_MAX_NDIM dims. Dtypes are equal, as of
 *             stn_matmul; where nothing is summed over they are those of stn_mul.
 * Placement:  two operands at a time, those with the smallest product first; per axis: a label of the product stays
 *             sharded, one that is summed over gives Partial(sum), Partial(sum) of one with the other Replicate is
 *             kept, what fits none of these is redistributed, the smaller factor first. No dims are merged across
 *             ranks, but for diagonals: a view and a slice.
 * Collective: over the mesh where an operand has to move.
 * Gradient:   yes, twice differentiable.
 * @param n  operands, 1 to STN_MAX_INPUTS.
 * @return new tensor, or one more handle on the operand where nothing is to do; STN_ERR_ARGUMENT (equation),
 *         STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_UNSUPPORTED (too many dims), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_einsum(const char *equation, int n, stn_tensor *const *operands);

/** input weight^T + bias, row by row. Of 16-bit floats the product is rounded before the bias is added.
 *
 * Shapes:     input (…, in), weight (out, in), bias (out) or NULL -> (…, out). Dtypes are equal, as of stn_matmul.
 * Placement:  per axis: a leading dim of input, or out in weight, sharded stays sharded; in sharded in both gives
 *             Partial(sum); Partial(sum) as in matmul. The bias goes to where the result is: beside Partial(sum) it
 *             becomes so, which moves nothing.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_linear(stn_tensor *input, stn_tensor *weight, stn_tensor *bias);

/** The vector product along a dim of size 3.
 *
 * Shapes:     (…, 3, …) x (…, 3, …) -> the shape that they broadcast to; equal numbers of dims. Every dtype but bool;
 *             promoted.
 * Placement:  that of stn_mul and stn_roll: dims stay sharded, and where `dim` is, its elements come from neighbours.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @param dim  NULL: the first dim of size 3.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_ARGUMENT (dim), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cross(stn_tensor *input, stn_tensor *other, const int *dim);

/** Cosine of the angle between vectors along `dim`: x1 x2 / (max(|x1|, eps) max(|x2|, eps)).
 *
 * Shapes:     x1 and x2 broadcast; `dim` of their shape goes. Dtypes are promoted, integers to f32.
 * Placement:  that of stn_mul and stn_sum. Partial is reduced first, and so are the norms where `dim` is sharded; the
 *             sum of products is left pending then, but of 16-bit floats.
 * Collective: over the mesh where a reduction is done.
 * Gradient:   yes, twice differentiable; a norm's is its own where eps stands for it, and 0 where it is 0.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_ARGUMENT (dim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cosine_similarity(stn_tensor *x1, stn_tensor *x2, int dim, double eps);

/** input / max(|input|_p, eps) with norms along `n_dims` dims (0: all).
 *
 * Shapes:     (d0, …) -> same shape and dtype, a floating or complex one.
 * Placement:  kept; Partial is reduced first, and so are the norms where one of the dims is sharded.
 * Collective: over the mesh where a reduction is done.
 * Gradient:   yes, twice differentiable, of complex numbers once; a norm's is 0 where eps stands for it.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_normalize(stn_tensor *input, double p, int n_dims, const int *dims, double eps);

/** Distances between rows: out[i, j] = (sum over m of |x1[i, m] - x2[j, m]|^p)^(1 / p); for p = 0 how many differ, for
 *  infinity the largest difference. Differences are taken before anything is squared, whatever the size, so that close
 *  rows keep their distance.
 *
 * Shapes:     x1 (…, r1, m), x2 (…, r2, m) -> (…, r1, r2); batches broadcast. Dtypes are equal, floating.
 * Placement:  per axis: a batch dim or rows sharded stay sharded, the larger operand's first; what is sharded along m,
 *             or Partial, goes to a Shard of its rows (of a batch dim where these are fewer) by one exchange, and the
 *             other operand follows the result.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, once; a distance of 0 has the gradient 0.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (p < 0), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cdist(stn_tensor *x1, stn_tensor *x2, double p);

/** All zero but `size`: no mask, no dropout, not causal, scale 1 / sqrt(e), as many heads on both sides. */
typedef struct stn_attention_attrs {
    size_t size; /* sizeof(stn_attention_attrs) */
    double dropout_p;
    int is_causal;
    int has_scale;
    double scale;
    int enable_gqa; /* query may have k times as many heads (the third dim from the end) as key and value */
} stn_attention_attrs;

/** Attention: softmax(query key^T scale + mask) value, row by row, with nothing of the size of query rows times key
 * rows in memory.
 *
 * Shapes:     query (…, l, e), key (…, s, e), value (…, s, v) -> (…, l, v); batch dims broadcast. attn_mask broadcasts
 *             to (…, l, s): bool says where one may attend, a floating one is added. Dtypes are equal, floating; a
 *             floating mask has the same. is_causal: query row i sees key rows 0 … i, whatever l and s. A row that may
 *             attend to nothing gives zeros.
 * Placement:  per axis: a batch dim, heads or query rows sharded stay sharded, and key, value and mask follow: whole
 *             along s. What is sharded otherwise, or Partial, goes to a Shard of the longest of these dims. Where an
 *             axis shards rows of queries, keys and values alike, and these are long (stn_set_ring_attention), they
 *             stay sharded: their chunks come one after another, from their owners, and at most two are held at a time.
 *             Causal, a chunk goes only to ranks of which some row sees it. Without a mask ranks with more work than
 *             others send these query rows, so that all work equally long whatever the cuts.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, once, also of a floating mask; products are computed again by blocks of rows.
 * Numbers:    dropout takes a stream of the mesh, and its numbers belong to global elements of (…, l, s): the same in
 *             any layout.
 * @param attn_mask  NULL: none.
 * @param attrs      NULL: defaults.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Vaswani et al. 2017; online softmax: Milakov and Gimelshein 2018; the backward from row sums: Dao et al.
 * 2022. */
STN_API stn_tensor *stn_scaled_dot_product_attention(stn_tensor *query, stn_tensor *key, stn_tensor *value,
                                                     stn_tensor *attn_mask, const stn_attention_attrs *attrs);

/** Of neighborhood attention; entry d is for the d-th dim of space. All zero but `size` and kernel_size: dilation 1,
 *  not causal, scale 1 / sqrt(e). */
typedef struct stn_neighborhood_attrs {
    size_t size;            /* sizeof(stn_neighborhood_attrs) */
    int64_t kernel_size[3]; /* keys that a query attends to along the dim, at least 1 */
    int64_t dilation[3];    /* 0: 1 */
    int is_causal[3];       /* 1: keys at the query's position and before it */
    int has_scale;
    double scale;
} stn_neighborhood_attrs;

/** Neighborhood attention in 1, 2 or 3 dims of space, as NATTEN's na1d, na2d and na3d: softmax(query key^T scale) value
 *  over the window of keys around each query. A window has kernel_size keys along each dim, `dilation` apart, from
 *  kernel_size / 2 before the query on; where it would reach beyond an end it is moved inward, so that every query
 *  attends to as many. Along a causal dim it ends at the query, and keys before the dim's begin are left out.
 *
 * Shapes:     query (b, space…, heads, e), key (b, space…, key heads, e), value (b, space…, key heads, v)
 *             -> (b, space…, heads, v). Query heads are a multiple of key heads; consecutive ones share a head. Dtypes
 *             are equal, floating; 16-bit floats are computed in f32. kernel_size times dilation is at most the dim's
 *             size.
 * Placement:  per axis: b, heads or a dim of space sharded stay sharded. Along space keys and values keep cuts of keys'
 *             own by the same axes; what windows need of other ranks' is fetched as a halo, of any width. What is
 *             sharded along e or v, or Partial, goes to a Shard of the longest of the other dims.
 * Collective: over the mesh where a dim of space is sharded, or an input has to move.
 * Gradient:   yes, once. Probabilities are computed again from a number of each query; keys gather theirs from the
 *             queries that attend to them, of which those of other ranks come as a halo.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Hassani et al. 2023, "Neighborhood attention transformer"; Hassani and Shi 2022; the backward from row sums:
 *  Dao et al. 2022. */
STN_API stn_tensor *stn_neighborhood_attention(stn_tensor *query, stn_tensor *key, stn_tensor *value,
                                               const stn_neighborhood_attrs *attrs);

/** Of convolutions; entry d is windowed dim d's. All zero but `size`: stride 1, no padding, dilation 1, one group,
 *  zeros. */
typedef struct stn_conv_attrs {
    size_t size;         /* sizeof(stn_conv_attrs) */
    int64_t stride[3];   /* 0: 1 */
    int64_t padding[3];  /* at both ends */
    int64_t dilation[3]; /* 0: 1 */
    int64_t groups;      /* 0: 1 */
    int same;            /* 1: as much padding as keeps the size; stride must be 1, `padding` is not read */
    stn_padding_mode mode[3]; /* per dim: latitudes may replicate while longitudes wrap */
} stn_conv_attrs;

/** 2-d convolution (cross-correlation).
 *
 * Shapes:     input (n, c, h, w) or (c, h, w), weight (o, c / groups, kh, kw), bias (o) or NULL -> (n, o, h', w'), h' =
 *             floor((h + 2 p - d (kh - 1) - 1) / s) + 1. Floating and complex dtypes, all equal.
 * Placement:  n, h and w stay sharded, with rows and columns of neighbours' chunks fetched as halos, of any width, over
 *             any split; o sharded in weight (and bias) stays sharded; c sharded in both gives Partial(sum);
 *             Partial(sum) as in matmul. The split of h', w': balanced from balanced, else offset' = ceil(offset h' /
 *             h). Memory order: channels last; on a CUDA device row-major of f64, and of f32 without allow_tf32, where
 *             h and w are whole and padded by zeros.
 * Collective: over the mesh where halos or inputs have to move.
 * Gradient:   yes, twice differentiable.
 * @param attrs  NULL: defaults.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_conv2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv_attrs *attrs);

/** 1-d convolution: as stn_conv2d on (n, c, w) or (c, w) with weight (o, c / groups, kw). */
STN_API stn_tensor *stn_conv1d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv_attrs *attrs);

/** 3-d convolution: as stn_conv2d on (n, c, d, h, w) or (c, d, h, w) with weight (o, c / groups, kd, kh, kw). */
STN_API stn_tensor *stn_conv3d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv_attrs *attrs);

/** Of transposed convolutions; entry d is windowed dim d's. All zero but `size`: as above. */
typedef struct stn_conv_transpose_attrs {
    size_t size;               /* sizeof(stn_conv_transpose_attrs) */
    int64_t stride[3];         /* of the convolution whose adjoint this is. 0: 1 */
    int64_t padding[3];        /* likewise: elements that the output lacks at both ends */
    int64_t output_padding[3]; /* elements more at the upper end; fewer than the stride or the dilation */
    int64_t dilation[3];       /* 0: 1 */
    int64_t groups;            /* 0: 1 */
} stn_conv_transpose_attrs;

/** Transposed 2-d convolution: the transpose of stn_conv2d in its input, whose output is the input here; plus a bias.
 *
 * Shapes:     input (n, c, h, w) or (c, h, w), weight (c, o / groups, kh, kw), bias (o) or NULL -> (n, o, h', w'), h' =
 *             (h - 1) s - 2 p + d (kh - 1) + 1 + output_padding. Floating and complex dtypes, all equal.
 * Placement:  as stn_conv2d: an output gathers from the inputs that reach it, which come as halos; c sharded in both
 *             gives Partial(sum), a sharded dim 1 of weight a sharded o (with groups: dim 0 of weight).
 * Collective: over the mesh where halos or inputs have to move.
 * Gradient:   yes, twice differentiable.
 * @param attrs  NULL: defaults.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016, chapter 4. */
STN_API stn_tensor *stn_conv_transpose2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias,
                                         const stn_conv_transpose_attrs *attrs);

/** Transposed 1-d convolution: as stn_conv_transpose2d on (n, c, w) or (c, w). */
STN_API stn_tensor *stn_conv_transpose1d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias,
                                         const stn_conv_transpose_attrs *attrs);

/** Transposed 3-d convolution: as stn_conv_transpose2d on (n, c, d, h, w) or (c, d, h, w). */
STN_API stn_tensor *stn_conv_transpose3d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias,
                                         const stn_conv_transpose_attrs *attrs);

STN_END_DECLS
#endif
