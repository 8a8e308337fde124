#include "ops/conv/conv_labels.h"

#include "core/context/context.h"

#include <string.h>

static const uint8_t row_major[STN_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct stni_labels unlabelled(void)
{
    struct stni_labels none = {.memory_order = row_major};
    memset(none.of, STNI_NO_LABEL, sizeof none.of);
    return none;
}

/* Whether a mesh axis cuts a windowed dim of x or y, as they are given. */
static int cuts_windows(const stn_op_call *call, const struct stni_conv *conv)
{
    const struct stni_conv_roles *roles = &stni_conv_roles[conv->kind];
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < conv->dims && roles->in[i] != STNI_CONV_WEIGHT; d++)
            if (call->in_spec[i]->layout.split[stni_conv_dim(conv, d)] != NULL)
                return 1;
    return 0;
}

int stni_conv_wants_row_major(const stn_op_call *call)
{
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    const int is_exact = dtype == STN_DTYPE_F64 || (dtype == STN_DTYPE_F32 && !call->context->allow_tf32);
    return is_exact && !call->context->device->is_cpu;
}

int stni_conv_copies_source(const stn_op_call *call, const struct stni_conv *conv)
{
    for (int d = 0; d < conv->dims; d++)
        if (conv->joins && conv->kind != STNI_CONV_GRAD_INPUT && conv->window[d].boundary != STNI_BOUNDARY_ZERO)
            return 1;
    return conv->joins && cuts_windows(call, conv);
}

/* Labels of the windowed dims follow these. */
enum { BATCH, CHANNEL_IN, CHANNEL_OUT, GROUP, WINDOW };

void stni_conv_label(const struct stni_conv *conv, struct stni_conv_labels *labels)
{
    struct stni_labels *x = &labels->of[STNI_CONV_X], *y = &labels->of[STNI_CONV_Y],
                       *weight = &labels->of[STNI_CONV_WEIGHT];
    int grouped = conv->groups > 1, channel = stni_conv_channel_dim(conv), at = 0;
    *x = *y = *weight = unlabelled();
    labels->group_label = grouped ? GROUP : -1;
    labels->windows = 0;
    x->of[channel] = grouped ? GROUP : CHANNEL_IN;
    y->of[channel] = weight->of[0] = grouped ? GROUP : CHANNEL_OUT;
    if (!grouped)
        weight->of[1] = CHANNEL_IN;
    memset(labels->memory_order, 0, sizeof labels->memory_order);
    if (conv->batched) {
        x->of[0] = y->of[0] = BATCH;
        labels->memory_order[at++] = 0;
    }
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        x->of[dim] = y->of[dim] = (int8_t)(WINDOW + d);
        labels->memory_order[at++] = (uint8_t)dim;
        labels->windows |= 1u << (WINDOW + d);
    }
    labels->memory_order[at] = (uint8_t)channel;
    x->memory_order = y->memory_order = conv->row_major ? row_major : labels->memory_order;
}

struct stni_labels stni_conv_label_bias(const struct stni_conv *conv, const struct stni_labels *out)
{
    struct stni_labels bias = unlabelled();
    bias.of[0] = out->of[stni_conv_channel_dim(conv)];
    return bias;
}
