/* Discrete Fourier transforms, and complex numbers as pairs. */
#ifndef SHARDTENSOR_OPS_FFT_H
#define SHARDTENSOR_OPS_FFT_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Where the division by N, the number of elements of a transform, takes place. */
typedef enum stn_fft_norm {
    STN_FFT_BACKWARD, /* by N in the inverse */
    STN_FFT_ORTHO,    /* by sqrt(N) in both */
    STN_FFT_FORWARD   /* by N in the forward transform */
} stn_fft_norm;

/** y_k = sum_j x_j exp(-2 pi i j k / n) along a dim.
 *
 * Shapes:     (…, m, …) -> (…, n, …), complex. Real input too; integers and bool are taken as f32. The line is
 *             truncated, or padded with zeros, to n elements.
 * Placement:  kept, a split of another length in proportion; Partial(sum) is kept for floating and complex input, other
 *             pending reductions are done first. A sharded dim becomes whole by one exchange, which shards other dims
 *             instead, and one leads back. A tensor of one dim is gathered along it.
 * Collective: over the mesh where the dim is sharded or Partial is reduced.
 * Gradient:   yes, differentiable as often as one likes: the adjoint transform.
 * @param n    0: as many as there are.
 * @param dim  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (n, dim), STN_ERR_DTYPE (16-bit floats), STN_ERR_SHAPE (no dims),
 * STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: FFTW 3 where the build has it; else Cooley and Tukey 1965, Bluestein 1970. */
STN_API stn_tensor *stn_fft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm);

/** The inverse: exponents +2 pi i j k / n. As stn_fft. */
STN_API stn_tensor *stn_ifft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm);

/** The first n / 2 + 1 elements of stn_fft of real input: the others are conjugates of these. As stn_fft; complex input
 *  is refused. */
STN_API stn_tensor *stn_rfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm);

/** The real n elements whose stn_rfft the input is: elements beyond n / 2 + 1 are dropped, the imaginary parts of the first and, for an even n, of
 *  the last are not read. As stn_fft. @param n  0: 2 (m - 1). */
STN_API stn_tensor *stn_irfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm);

/** stn_fft of a line of which the input is the first half, the others being conjugates: real. As stn_irfft. */
STN_API stn_tensor *stn_hfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm);

/** Its inverse: the first half of stn_ifft of real input. As stn_rfft. */
STN_API stn_tensor *stn_ihfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm);

/** Over `n` dims. As stn_fft: each dim that is whole is transformed where it is, those that are sharded after one
 * exchange, and one leads back.
 * @param s     sizes, one per dim; -1: as it is. NULL: all as they are.
 * @param dims  distinct. NULL: the last n where `s` is given, else all. */
STN_API stn_tensor *stn_fftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm);

/** The inverse over `n` dims. As stn_fftn. */
STN_API stn_tensor *stn_ifftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm);

/** As stn_fftn of real input, but the last of the dims is halved, as by stn_rfft. */
STN_API stn_tensor *stn_rfftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm);

/** Its inverse: the last of the dims is restored, as by stn_irfft; its size in `s` is that of the result. */
STN_API stn_tensor *stn_irfftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm);

/** stn_fftn, with a result in another layout than the input's.
 *
 * Placement:  `placements`, one per mesh axis, Shard or Replicate; cuts as by stn_spec_like of the input's spec. NULL:
 *             the result stays where the last exchange led, which saves the exchange back: a transform, something done
 *             element by element, and the inverse with the input's placements are two exchanges in place of four. The
 *             layout is a function of the input's spec and the arguments alone; stn_tensor_spec tells it. Pending sums
 *             stay pending then, and where `placements` say otherwise they are added up.
 * Collective: over the input's mesh, unless nothing is cut, pending or asked for.
 * Gradient:   yes, in the input's layout.
 * Everything else as stn_fftn.
 * @return new tensor; as stn_fftn; STN_ERR_ARGUMENT too for placements other than these, or of a local tensor. */
STN_API stn_tensor *stn_fftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                                const stn_placement *placements);

/** stn_ifftn in another layout. As stn_fftn_to. */
STN_API stn_tensor *stn_ifftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                                 const stn_placement *placements);

/** stn_rfftn in another layout. As stn_fftn_to. */
STN_API stn_tensor *stn_rfftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                                 const stn_placement *placements);

/** stn_irfftn in another layout. As stn_fftn_to. */
STN_API stn_tensor *stn_irfftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                                  const stn_placement *placements);

/** stn_fftn over two dims. @param s  two sizes, or NULL.  @param dims  two, or NULL: the last ones. */
STN_API stn_tensor *stn_fft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm);

/** stn_ifftn over two dims. Arguments as of stn_fft2. */
STN_API stn_tensor *stn_ifft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm);

/** stn_rfftn over two dims. Arguments as of stn_fft2. */
STN_API stn_tensor *stn_rfft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm);

/** stn_irfftn over two dims. Arguments as of stn_fft2. */
STN_API stn_tensor *stn_irfft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm);

/** Moves element 0 of each dim to n / 2, around the end; made of stn_roll. Any dtype. @param n_dims  0: all dims. */
STN_API stn_tensor *stn_fftshift(stn_tensor *input, int n_dims, const int *dims);

/** The way back. */
STN_API stn_tensor *stn_ifftshift(stn_tensor *input, int n_dims, const int *dims);

/** Complex numbers as pairs of real ones.
 *
 * Shapes:     (d0, …) c64 or c128 -> (d0, …, 2) f32 or f64.
 * Placement:  kept, Partial(sum) too; no data moves.
 * Collective: where another Partial is reduced.
 * Gradient:   yes, differentiable as often as one likes. The result shares memory: it cannot be changed in place.
 * @return new tensor; STN_ERR_DTYPE, STN_ERR_SHAPE (STN_MAX_NDIM dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_view_as_real(stn_tensor *input);

/** Pairs as complex numbers: the way back. Where the last dim is sharded, its axes shard another dim instead: one
 *  exchange. It shares memory where pairs lie side by side. @return as stn_view_as_real; STN_ERR_SHAPE where the last
 *  dim is not 2. */
STN_API stn_tensor *stn_view_as_complex(stn_tensor *input);

STN_END_DECLS
#endif
