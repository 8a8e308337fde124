/* Factories: tensors made in a given layout, and the usual initialisers of weights.
 *
 * All: `spec` is one of the context's, of any layout; under Partial the values are those of the reduced tensor. Local,
 * nothing is communicated, but every rank of the world calls it. The result is no leaf that requires grad until it is
 * made one. Failures: the error tensor with STN_ERR_ARGUMENT, STN_ERR_DTYPE, STN_ERR_SHAPE or STN_ERR_MEMORY; NULL
 * without a context.
 *
 * Random numbers are counter-based and belong to global elements: the same on any number of ranks, for any layout. Each
 * call that draws uses one stream of the mesh (stn_mesh_random_stream), on every rank of it alike. */
#ifndef SHARDTENSOR_OPS_FACTORY_H
#define SHARDTENSOR_OPS_FACTORY_H

#include <shardtensor/tensor.h>

STN_BEGIN_DECLS

/** Every element is `value` (of integers cut towards 0; real for complex dtypes). STN_ERR_DTYPE: a dtype of integers
 *  has not the number, here and wherever one becomes an element; u8 takes those down to -255, as 256 more. */
STN_API stn_tensor *stn_full(stn_context *context, const stn_spec *spec, double value);
STN_API stn_tensor *stn_zeros(stn_context *context, const stn_spec *spec); /**< 0 */
STN_API stn_tensor *stn_ones(stn_context *context, const stn_spec *spec);  /**< 1 */

/** start, start + step, …: as many as the only dim of `spec` has. */
STN_API stn_tensor *stn_arange(stn_context *context, const stn_spec *spec, double start, double step);

/** From `start` to `end`, both included, in equal steps along the only dim of `spec`. */
STN_API stn_tensor *stn_linspace(stn_context *context, const stn_spec *spec, double start, double end);

/** 1 where row and column are equal, else 0: of a `spec` of two dims. */
STN_API stn_tensor *stn_eye(stn_context *context, const stn_spec *spec);

/** Uniform numbers x, low <= x < high but for rounding to the dtype, a floating one. */
STN_API stn_tensor *stn_uniform(stn_context *context, const stn_spec *spec, double low, double high);
STN_API stn_tensor *stn_rand(stn_context *context, const stn_spec *spec); /**< From 0 to 1, of which 1 is never drawn. */

/** Normal numbers; floating. @param std  standard deviation, at least 0. */
STN_API stn_tensor *stn_normal(stn_context *context, const stn_spec *spec, double mean, double std);
STN_API stn_tensor *stn_randn(stn_context *context, const stn_spec *spec); /**< Mean 0, standard deviation 1. */

/** Normal numbers of which only those between `low` and `high` are drawn; floating. */
STN_API stn_tensor *stn_trunc_normal(stn_context *context, const stn_spec *spec, double mean, double std, double low,
                                     double high);

/** Whole numbers low, …, high - 1, each as often; any real dtype that holds them. -2^52 <= low < high <= 2^52. */
STN_API stn_tensor *stn_randint(stn_context *context, const stn_spec *spec, int64_t low, int64_t high);

/* Initialisers of a weight (outputs, inputs, …): of a window every place counts. `spec` has at least two dims and a
 * floating dtype. */

/** Which of the two the variance is to be kept over. */
typedef enum stn_fan { STN_FAN_IN, STN_FAN_OUT } stn_fan;

typedef enum stn_nonlinearity {
    STN_GAIN_LINEAR, /* matrix products, convolutions, sigmoid: 1 */
    STN_GAIN_TANH,   /* 5/3 */
    STN_GAIN_RELU,   /* sqrt(2) */
    STN_GAIN_LEAKY_RELU, /* sqrt(2 / (1 + slope^2)) */
    STN_GAIN_SELU    /* 3/4 */
} stn_nonlinearity;

/** The factor that keeps the variance through a nonlinearity. Pure. @param slope  of leaky_relu; else not read. @return NaN: none of these. */
STN_API double stn_gain(stn_nonlinearity nonlinearity, double slope);

/** Evenly between bounds that give the variance 2 gain^2 / (inputs + outputs). Source: Glorot and Bengio, AISTATS
 *  2010. */
STN_API stn_tensor *stn_xavier_uniform(stn_context *context, const stn_spec *spec, double gain);

/** The same variance, normally distributed. */
STN_API stn_tensor *stn_xavier_normal(stn_context *context, const stn_spec *spec, double gain);

/** Evenly between bounds that give the variance gain^2 / fan. Source: He, Zhang, Ren and Sun, ICCV 2015. */
STN_API stn_tensor *stn_kaiming_uniform(stn_context *context, const stn_spec *spec, double gain, stn_fan fan);

/** The same variance, normally distributed. */
STN_API stn_tensor *stn_kaiming_normal(stn_context *context, const stn_spec *spec, double gain, stn_fan fan);

STN_END_DECLS
#endif
