/* Operations that read around an element: resampling, padding, shifting. */
#ifndef SHARDTENSOR_OPS_WINDOW_H
#define SHARDTENSOR_OPS_WINDOW_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

typedef enum stn_interpolate_mode {
    STN_INTERPOLATE_NEAREST,       /* input floor(o in / out) */
    STN_INTERPOLATE_NEAREST_EXACT, /* input floor((o + 1/2) in / out) */
    STN_INTERPOLATE_LINEAR,        /* linear, bilinear or trilinear, by the number of dims */
    STN_INTERPOLATE_CUBIC,         /* bicubic: two dims */
    STN_INTERPOLATE_AREA,          /* means of the inputs that an output covers */
    STN_INTERPOLATE_LANCZOS        /* of three lobes, antialiased alone */
} stn_interpolate_mode;

/** Either the sizes or the factors: an entry for each dim behind the channels. */
typedef struct stn_interpolate_attrs {
    size_t size; /* sizeof(stn_interpolate_attrs) */
    stn_interpolate_mode mode;
    int align_corners;       /* 1: the lines' end points coincide; 0: the ends of their first and last cells do (half-pixel) */
    int64_t output_size[3];  /* output_size[0] 0: by the factors */
    double scale_factor[3];  /* size floor(n f); positions are those of the factor itself */
    int antialias;           /* a filter that is wider where the result is smaller; linear, cubic, Lanczos */
} stn_interpolate_attrs;

/** Resampling of all dims behind the first two; positions outside are clamped to the edge.
 *
 * Shapes:     (n, c, d0, …) with one to three more dims -> (n, c, e0, …). Floating dtypes; computed in f32, f64 for
 *             f64.
 * Placement:  kept, in the input's memory order; splits: balanced from balanced, else offset' = ceil(offset e / d).
 *             Partial(sum) is kept, other pending reductions are done first.
 * Collective: over the mesh where a resampled dim is sharded: the rows that a rank lacks are fetched as a halo.
 * Gradient:   yes, twice differentiable: the adjoint, by global indices.
 * @return new tensor; STN_ERR_SHAPE (dims, empty dims), STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY,
 * STN_ERR_COMM.
 * Source: Keys, IEEE Trans. ASSP 29, 1981 for the cubic kernel, with a = -3/4, antialiased -1/2 (Pillow, PyTorch);
 *             Duchon, J. Appl. Meteor. 18, 1979 for Lanczos'. */
STN_API stn_tensor *stn_interpolate(stn_tensor *input, const stn_interpolate_attrs *attrs);

typedef enum stn_pad_mode {
    STN_PAD_CONSTANT,
    STN_PAD_REFLECT,   /* without repeating the end */
    STN_PAD_REPLICATE, /* the end again and again */
    STN_PAD_CIRCULAR   /* around */
} stn_pad_mode;

/** Margins along dims; negative ones remove elements.
 *
 * Shapes:     (…, n, …) -> (…, n + below + above, …). Any dtype.
 * Placement:  kept; splits of padded dims: balanced from balanced, else offset' = ceil(offset n' / n). Partial(sum) is
 *             kept unless `value` is other than 0; other pending reductions are done first.
 * Collective: over the mesh where a padded dim is sharded: one exchange of what changes ranks.
 * Gradient:   yes, twice differentiable: what margins repeat is added up at its place.
 * @param n        of `padding`: two for each padded dim, at most STN_MAX_NDIM.
 * @param padding  below and above the last dim, then those of the one before, … Of other elements than `value`, not
 *                 more than the tensor has: n - 1 where it reflects, n around.
 * @param value    of constant margins; of integers cut towards 0, and one that the dtype has (stn_full).
 * @return new tensor; STN_ERR_SHAPE (padding), STN_ERR_ARGUMENT (n, mode), STN_ERR_DTYPE (value), STN_ERR_MEMORY,
 * STN_ERR_COMM. */
STN_API stn_tensor *stn_pad(stn_tensor *input, int n, const int64_t *padding, stn_pad_mode mode, double value);

/** Margins of a grid of latitudes and longitudes, around the globe and over its poles: a convolution of the result
 * without padding of its own is one of the whole sphere. Row -1 - k is row k, or 1 + k where the poles are on rows,
 * with its columns turned by half of their number, as one meets it who walks on over the pole; columns go around. It
 * is for whole tensors what stn_halo_pad over poles is for chunks.
 *
 * Components of vectors change their sign beyond a pole, which is the caller's affair: multiply those channels of the
 * result by a column of rows + 2 lat numbers, -1 in its first and last `lat` and 1 between them.
 *
 * Shapes:     (…, rows, …, columns, …) -> (…, rows + 2 lat, …, columns + 2 lon, …), in either order. Any dtype.
 * Placement:  kept, pending reductions too; splits of padded dims: balanced from balanced, else
 *             offset' = ceil(offset n' / n).
 * Collective: over the mesh where one of both dims is sharded and padded, or the columns are and `lat` is not 0: one
 *             exchange of what changes ranks.
 * Gradient:   yes, twice differentiable: what margins repeat is added up at its place.
 * @param lat      rows beyond either pole: at most as many as there are, less one where the poles are on rows.
 * @param lon      columns at either end: at most as many as there are.
 * @param lat_dim  of the rows, from the end where negative; so `lon_dim`, of the columns, an even number of them.
 * @param poles    STN_POLES_BETWEEN_ROWS or STN_POLES_ON_ROWS.
 * @return new tensor; STN_ERR_SHAPE (lat, lon, less than two dims, odd columns), STN_ERR_ARGUMENT (lat_dim, lon_dim,
 * poles), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: the "earth" padding of NCAR's CREDIT, of which it has the values where the poles lie between rows. */
STN_API stn_tensor *stn_pad_sphere(stn_tensor *input, int64_t lat, int64_t lon, int lat_dim, int lon_dim,
                                   stn_poles poles);

/** Element i of dim dims[k] goes to place i + shifts[k], around the end.
 *
 * Shapes:     kept. Any dtype.
 * Placement:  kept, pending reductions too.
 * Collective: over the mesh where a shifted dim is sharded: one exchange of what changes ranks.
 * Gradient:   yes, twice differentiable.
 * @param n     of `shifts` and `dims`, at least 1. Dims may be named again.
 * @param dims  NULL: one shift of the flat tensor, in row-major order.
 * @return new tensor; STN_ERR_ARGUMENT (n, dims), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_roll(stn_tensor *input, int n, const int64_t *shifts, const int *dims);

/** The elements of some dims in reverse order. As stn_roll. @param dims  `n` distinct ones. */
STN_API stn_tensor *stn_flip(stn_tensor *input, int n, const int *dims);

STN_END_DECLS
#endif
