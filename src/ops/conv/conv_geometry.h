/* What a convolution's attributes and shapes mean: the same for every op of the family. */
#ifndef STNI_OPS_CONV_CONV_GEOMETRY_H
#define STNI_OPS_CONV_CONV_GEOMETRY_H

#include "core/shard/spec.h"
#include "ops/conv/conv.h"
#include "ops/exchange/window.h"

/* Texts of stni_boundary, as attributes give them. */
extern const char *const stni_conv_modes[];

/* A convolution y = conv(x, weight) of tensors x (n, c, in…) or (c, in…), weight (o, c / groups, kernel…) and y (n,
 * o, out…) or (o, out…). */
struct stni_conv {
    enum stni_conv_kind kind;
    int dims;    /* windowed ones */
    int batched; /* x and y have the dim n */
    int row_major; /* x and y lie so in memory; else channels-last */
    int joins;     /* a chunk and what it lacks are copied into one buffer and solved as one problem, on a device */
    int64_t n, c, o, groups;
    struct stni_window window[STNI_CONV_MAX_DIMS];
    int64_t pad_high[STNI_CONV_MAX_DIMS]; /* below zero: the last elements of x that no output reads */
};

/* Reads an op's call; checks what does not fit. STN_ERR_ARGUMENT (attributes), STN_ERR_SHAPE (shapes among each
 * other, a kernel that does not fit, a boundary that needs a larger input). */
stn_status stni_conv_read(const stn_op_call *call, struct stni_conv *conv);

/* The shape of x, y or weight. */
void stni_conv_shape(const struct stni_conv *conv, enum stni_conv_role role, stn_meta *meta);

/* f32 f64 bf16 f16 c64 c128, and all inputs alike. */
stn_status stni_conv_check_dtypes(const stn_op_call *call);

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
