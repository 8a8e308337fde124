/* The family of convolutions. One trilinear form <y, conv(x, weight)> stands behind all of them: each op reads two of
 * the three and gives what stands beside the third. So one set of functions serves every op, each is the others'
 * derivative, and derivatives of every order are right. Nothing is conjugated in it: derivatives conjugate what they
 * multiply a cotangent with.
 *
 *     convNd              y from x and weight, plus a bias
 *     conv_transposeNd    x from y and weight, plus a bias: the input is y, and x the output
 *     convNd_grad_input   x from y and weight; `input_size` says which of the sizes that y may come from
 *     convNd_grad_weight  weight from x and y; `kernel_size` likewise */
#ifndef STNI_OPS_CONV_CONV_H
#define STNI_OPS_CONV_CONV_H

#include "ops/table.h"
#include "ops/conv/conv_problem.h"

/* What tells the ops apart: the `arg` of their descriptors. */
struct stni_conv_rule {
    int dims; /* windowed ones: 1, 2, 3 */
    enum stni_conv_kind kind;
    int transposed; /* GRAD_INPUT, sizes of x by the transposed convolution's formula */
};

/* Which of the three the op's first two inputs and its output are, by kind. */
struct stni_conv_roles {
    enum stni_conv_role in[2], out;
};
extern const struct stni_conv_roles stni_conv_roles[];

enum stni_conv_padding { STNI_CONV_PADDING_GIVEN, STNI_CONV_PADDING_VALID, STNI_CONV_PADDING_SAME };

/* The attributes of all ops; those that an op's schema does not have keep their defaults, but in derivatives. */
struct stni_conv_attrs {
    stn_ints stride, padding, dilation;
    stn_ints output_padding; /* elements at the upper end of x that lack padding, or are not read */
    stn_ints size;           /* input_size, kernel_size */
    int64_t groups;
    int64_t auto_padding;                  /* stni_conv_padding */
    int64_t mode;                          /* stni_boundary of all windowed dims */
    int64_t dim_mode[STNI_CONV_MAX_DIMS]; /* of the last one, of the one before, …; -1: `mode` */
};
extern const struct stni_conv_attrs stni_conv_attrs_init;

#endif
