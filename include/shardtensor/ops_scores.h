/* Scores of sharded fields: of forecasts against what came, on any layout what one process gives. Area-weighted means
 * and variances are stn_weighted_mean and stn_weighted_var (ops_reduce.h); the mean of a score that is a field, as
 * stn_crps_ensemble's, is stn_weighted_mean of it.
 *
 * Weights are areas or those of a quadrature, one per element of the field or broadcast to it: (rows, 1) for one per
 * latitude. They may have both signs and are not normalised. All tensors of a call have one floating dtype; 16-bit
 * floats are computed in f32. Partial is reduced first. */
#ifndef SHARDTENSOR_OPS_SCORES_H
#define SHARDTENSOR_OPS_SCORES_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** sqrt(sum w (input - target)^2 / sum w) over dims.
 *
 * Shapes:     target and weight (NULL: 1) broadcast to input; as of stn_sum.
 * Placement:  Shards of other dims are kept; where a reduced dim is sharded the result is Replicate: one all-gather of
 *             three numbers per result and rank (stn_weighted_mean), without weights one all-reduce of one.
 * Collective: over the mesh where a reduced dim is sharded, or an operand has to move.
 * Gradient:   of all operands, twice differentiable; 0 where the score is 0.
 * @param n_dims  0: all dims.  @param dims  -ndim <= dims[i] < ndim, distinct.
 * @return new tensor, NaN where weights of both signs make the mean less than 0; STN_ERR_SHAPE, STN_ERR_DTYPE,
 *         STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Rasp et al., "WeatherBench 2", 2024. */
STN_API stn_tensor *stn_rmse(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int n_dims, const int *dims,
                             int keepdim);

/** (sum w |input - target|^p)^(1/p) over dims, and with `relative` divided by (sum w |target|^p)^(1/p). As stn_rmse,
 *  but: where a reduced dim is sharded, one all-reduce of a number per result, or of two where it is relative. With
 *  p = 1 the gradient where input equals target is 0.
 *  @param p  finite, above 0.
 *  @return as stn_rmse; STN_ERR_ARGUMENT (p).
 *  Source: Li et al., "Fourier neural operator", 2021; with a quadrature, Bonev et al., "Spherical Fourier neural
 *  operators", 2023. */
STN_API stn_tensor *stn_lp_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, double p, int relative,
                                int n_dims, const int *dims, int keepdim);

/** sum w a b / sqrt(sum w a^2 sum w b^2) over dims, a = input - climatology, b = target - climatology (NULL: 0): not
 *  centred again. As stn_rmse, but: where a reduced dim is sharded, one all-reduce of three numbers per result. NaN
 *  where an anomaly is 0 throughout.
 *  Source: Rasp et al., "WeatherBench 2", 2024; Wilks, "Statistical methods in the atmospheric sciences". */
STN_API stn_tensor *stn_anomaly_correlation(stn_tensor *input, stn_tensor *target, stn_tensor *climatology,
                                            stn_tensor *weight, int n_dims, const int *dims, int keepdim);

/** The continuous ranked probability score of an ensemble at each element: mean_i |x_i - y| - sum_ij |x_i - x_j| /
 *  (2 m^2); `fair`, an unbiased estimate of what infinitely many members would score, divides by 2 m (m - 1).
 *
 * Shapes:     input has m members along `dim`; target has its shape without that dim, and so has the result.
 * Placement:  Shards of other dims are kept. Where members are sharded they are sorted there (stn_sort), and the score
 *             is Partial(sum).
 * Collective: over the mesh where members are sharded, or target has to move.
 * Gradient:   of both, twice differentiable (once it is constant); among members that are equal, that of one order of
 *             them.
 * @return new tensor; STN_ERR_SHAPE (target; less than 1 member, 2 where it is fair), STN_ERR_DTYPE, STN_ERR_ARGUMENT
 *         (dim), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Gneiting and Raftery 2007, equation 21; fair: Ferro 2014; sums by rank: Jordan, Krueger and Lerch 2019. */
STN_API stn_tensor *stn_crps_ensemble(stn_tensor *input, stn_tensor *target, int dim, int fair);

/** The energy score of an ensemble of fields: mean_i ||x_i - y|| - sum_ij ||x_i - x_j|| / (2 m^2), ||v|| =
 *  sqrt(sum w v^2) over the field's dims; `fair` divides by 2 m (m - 1).
 *
 * Shapes:     input has m members along `dim`; target has its shape without that dim, and weight (NULL: 1) broadcasts
 *             to target. The result has input's dims without the members' and the field's.
 * Placement:  Shards of other dims are kept. Sharded members are brought together by one exchange, which shards another
 *             dim instead. Where a dim of the field is sharded the result is Replicate: one all-reduce of a number per
 *             pair of members.
 * Collective: over the mesh where members or the field are sharded, or an operand has to move.
 * Gradient:   of all operands, twice differentiable; 0 of a norm that is 0. For it (m - 1) / 2 times what the ensemble
 *             has is kept.
 * @param dim           of the members.
 * @param n_field_dims  0: all dims but the members'.  @param field_dims  dims of input, without that one.
 * @return new tensor; as stn_crps_ensemble. Source: Gneiting and Raftery 2007, equation 22. */
STN_API stn_tensor *stn_energy_score(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int dim,
                                     int n_field_dims, const int *field_dims, int fair);

/** The power of each wave number along a dim: |y_0|^2, 2 |y_k|^2, and for an even n |y_{n/2}|^2, with y =
 *  stn_rfft(input) / n. They add up to the mean square of the line. A zonal energy spectrum is this along longitudes,
 *  averaged over latitudes and multiplied by each circle's length.
 *
 * Shapes:     (…, n, …) -> (…, n / 2 + 1, …).
 * Placement, collectivity: as stn_rfft.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE (no dims), STN_ERR_DTYPE, STN_ERR_ARGUMENT (dim), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Rasp et al., "WeatherBench 2", 2024; Parseval's theorem. */
STN_API stn_tensor *stn_power_spectrum(stn_tensor *input, int dim);

STN_END_DECLS
#endif
