/* What a convolution's attributes and shapes mean: the same for the convolution and for its two gradients. */
#ifndef STNI_OPS_CONV_GEOMETRY_H
#define STNI_OPS_CONV_GEOMETRY_H

#include "core/shard/spec.h"
#include "ops/util/bilinear.h"
#include "ops/util/conv_problem.h"
#include "ops/util/window.h"

enum stni_conv_padding { STNI_CONV_PADDING_GIVEN, STNI_CONV_PADDING_VALID, STNI_CONV_PADDING_SAME };

/* The attributes of the three ops. `size` is the input's (of the gradient by it) or the kernel's (of the gradient by the weight). */
struct stni_conv_attrs {
    stn_ints stride, padding, dilation, size;
    int64_t groups;
    int64_t auto_padding;          /* stni_conv_padding */
    int64_t mode, last_mode;       /* stni_boundary of all windowed dims; of the last one, -1: the same */
};

extern const struct stni_conv_attrs stni_conv_attrs_init;

/* The schema rows that the three ops share; the last one is `size`, under its name for the gradients. */
enum { STNI_CONV_N_ATTRS = 7 };
extern const stn_attr_schema stni_conv_grad_input_attrs[STNI_CONV_N_ATTRS + 1], stni_conv_grad_weight_attrs[STNI_CONV_N_ATTRS + 1];

/* A convolution y = conv(x, weight) of tensors (n, c, in…) or (c, in…), (o, c / groups, kernel…) and (n, o, out…) or (o, out…). */
struct stni_conv {
    int dims;    /* windowed ones */
    int batched; /* x and y have the dim n */
    int64_t n, c, o, groups;
    struct stni_window window[STNI_CONV_MAX_DIMS];
    int64_t pad_high[STNI_CONV_MAX_DIMS];
};

/* Reads attributes for `dims` windowed dims whose sizes and kernels are given; writes windows and groups. Fails through the call:
 * STN_ERR_ARGUMENT (attributes), STN_ERR_SHAPE (the kernel does not fit, or the boundary needs a larger input). */
stn_status stni_conv_windows(const stn_op_call *call, int dims, const int64_t *in, const int64_t *kernel, struct stni_conv *conv);

/* The channels and windows of the three ops, from the specs of their inputs and their attributes; checks what does not fit. */
stn_status stni_conv_of_forward(const stn_op_call *call, int dims, struct stni_conv *conv);
stn_status stni_conv_of_grad_input(const stn_op_call *call, int dims, struct stni_conv *conv);
stn_status stni_conv_of_grad_weight(const stn_op_call *call, int dims, struct stni_conv *conv);

/* Which shapes the three have. */
void stni_conv_shape_x(const struct stni_conv *conv, stn_meta *meta);
void stni_conv_shape_y(const struct stni_conv *conv, stn_meta *meta);
void stni_conv_shape_weight(const struct stni_conv *conv, stn_meta *meta);

/* f32 f64 bf16 f16, and all inputs alike. */
stn_status stni_conv_check_dtypes(const stn_op_call *call);

/* Placement: labels of x, y, weight and bias, x and y channels-last in memory. */
struct stni_conv_labels {
    struct stni_labels x, y, weight, bias;
    uint8_t memory_order[STN_MAX_NDIM];
    int group_label;  /* whose parts are the groups; -1 for one group */
    uint32_t windows; /* bits of the windowed dims' labels */
};
void stni_conv_label(const struct stni_conv *conv, struct stni_conv_labels *labels);

/* Dim of x and y: of channels, and of windowed dim d. */
static inline int stni_conv_channel_dim(const struct stni_conv *conv)
{
    return conv->batched;
}

static inline int stni_conv_dim(const struct stni_conv *conv, int d)
{
    return conv->batched + 1 + d;
}

#endif
