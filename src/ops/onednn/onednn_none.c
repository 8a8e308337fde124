/* In place of onednn.c where oneDNN is not there: nothing is available. */
#include "ops/onednn/onednn.h"

struct stni_onednn *stni_onednn_of(stn_context *context)
{
    (void)context;
    return NULL;
}

int stni_onednn_prefers_bf16(const struct stni_onednn *library)
{
    (void)library;
    return 0;
}

stn_status stni_onednn_conv(struct stni_onednn *library, const struct stni_conv_problem *problem,
                            const struct stni_conv_data *data, int64_t *solved)
{
    (void)library, (void)problem, (void)data;
    *solved = 0;
    return STN_ERR_UNSUPPORTED;
}

void stni_onednn_forget_weight(struct stni_onednn *library)
{
    (void)library;
}

const char *stni_onednn_conv_name(struct stni_onednn *library, const struct stni_conv_problem *problem)
{
    (void)library, (void)problem;
    return "";
}

stn_status stni_onednn_product(struct stni_onednn *library, const struct stni_onednn_product *product, const void *a,
                               const void *b, void *c)
{
    (void)library, (void)product, (void)a, (void)b, (void)c;
    return STN_ERR_UNSUPPORTED;
}
