/* Convolutions as tests draw them: sizes and attributes, the op by its typed function, and plain loops. */
#ifndef SHARDTENSOR_TESTS_OPS_CONV_CASES_H
#define SHARDTENSOR_TESTS_OPS_CONV_CASES_H

#include "ops/against_one.h"

enum { CONV_MAX = 3 };

/** A call. n 0: without a batch dim, -1: an empty batch. pad[0] -1: "same". c, o: channels of the op's input and
 * output. */
struct conv_case {
    int dims, transposed;
    int64_t n, c, o, groups;
    int64_t in[CONV_MAX], kernel[CONV_MAX], stride[CONV_MAX], pad[CONV_MAX], dilation[CONV_MAX],
        output_padding[CONV_MAX];
    int mode[CONV_MAX]; /* stn_padding_mode */
    int has_bias;
};

/** One of each kind of geometry, of one to three dims. */
extern const struct conv_case conv_cases[];
extern const int conv_n_cases;

/** The inputs' shapes and the output's. */
struct random_shape conv_input_shape(const struct conv_case *c);
struct random_shape conv_weight_shape(const struct conv_case *c);
struct random_shape conv_bias_shape(const struct conv_case *c);
struct random_shape conv_output_shape(const struct conv_case *c);

/** The op on input, weight, bias (not read where the case has none); `arg` is the case. For against_one_op. */
stn_tensor *conv_call(stn_tensor *const *in, const void *arg);

/** In double, the boundary followed position by position: for every product out += input weight, the sum of the other
 * two's products is added to the one that `sum` points to. */
void conv_plain(const struct conv_case *c, double *input, double *weight, double *out, double *sum);

/** n zeros; the caller frees them. */
double *conv_zeros(int64_t n);

/** An F32 tensor of test_value on `mesh`. */
stn_tensor *conv_filled(stn_context *context, const stn_mesh *mesh, stn_placement placement, int ndim,
                        const int64_t *shape, const int64_t *const *sizes);

/** The caller owns it. */
const stn_spec *conv_spec(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                          const struct random_shape *shape, const int64_t *const *sizes);

#endif
