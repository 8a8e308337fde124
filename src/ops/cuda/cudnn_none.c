/* Builds without cuDNN's header. */
#include "ops/cuda/cudnn.h"

stn_status stni_cudnn_conv_workspace(stn_queue *queue, const struct stni_cudnn_conv *conv, size_t *bytes)
{
    (void)queue, (void)conv, (void)bytes;
    return STN_ERR_UNSUPPORTED;
}

stn_status stni_cudnn_attention_workspace(stn_queue *queue, const struct stni_cudnn_attention *attention, size_t *bytes)
{
    (void)queue, (void)attention, (void)bytes;
    return STN_ERR_UNSUPPORTED;
}

stn_status stni_cudnn_conv_run(stn_queue *queue, const struct stni_cudnn_conv *conv, void *x, void *weight, void *y,
                               void *workspace)
{
    (void)queue, (void)conv, (void)x, (void)weight, (void)y, (void)workspace;
    return STN_ERR_UNSUPPORTED;
}

stn_status stni_cudnn_attention_run(stn_queue *queue, const struct stni_cudnn_attention *attention, float scale,
                                    void *const *data, void *workspace)
{
    (void)queue, (void)attention, (void)scale, (void)data, (void)workspace;
    return STN_ERR_UNSUPPORTED;
}
