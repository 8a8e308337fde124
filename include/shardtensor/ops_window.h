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
    STN_INTERPOLATE_AREA           /* means of the inputs that an output covers */
} stn_interpolate_mode;

/** Either the sizes or the factors: an entry for each dim behind the channels. */
typedef struct stn_interpolate_attrs {
    size_t size; /* sizeof(stn_interpolate_attrs) */
    stn_interpolate_mode mode;
    int align_corners;       /* 1: the lines' end points coincide; 0: the ends of their first and last cells do (half-pixel) */
    int64_t output_size[3];  /* output_size[0] 0: by the factors */
    double scale_factor[3];  /* size floor(n f); positions are those of the factor itself */
} stn_interpolate_attrs;

/** Resampling of all dims behind the first two; positions outside are clamped to the edge.
 *
 * Shapes:     (n, c, d0, …) with one to three more dims -> (n, c, e0, …). Floating dtypes; computed in f32, f64 for f64.
 * Placement:  kept, in the input's memory order; cuts: balanced from balanced, else offset' = ceil(offset e / d). Partial(sum) is kept, other
 *             pending reductions are done first.
 * Collective: over the mesh where a resampled dim is cut: the rows that a rank lacks are fetched as a halo.
 * Gradient:   yes, twice differentiable: the adjoint, by global indices.
 * @return new tensor; STN_ERR_SHAPE (dims, empty dims), STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Keys, IEEE Trans. ASSP 29, 1981 for the cubic kernel, with a = -3/4. */
STN_API stn_tensor *stn_interpolate(stn_tensor *input, const stn_interpolate_attrs *attrs);

STN_END_DECLS
#endif
