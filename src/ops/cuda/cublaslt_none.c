/* Builds without cuBLASLt's header. */
#include "ops/cuda/cublaslt.h"

stn_status stni_cublaslt_workspace(stn_queue *queue, const struct stni_cublaslt_product *product, size_t *bytes)
{
    (void)queue, (void)product, (void)bytes;
    return STN_ERR_UNSUPPORTED;
}

stn_status stni_cublaslt_multiply(stn_queue *queue, const struct stni_cublaslt_product *product, const void *a,
                                  const void *b, void *c, void *workspace)
{
    (void)queue, (void)product, (void)a, (void)b, (void)c, (void)workspace;
    return STN_ERR_UNSUPPORTED;
}
