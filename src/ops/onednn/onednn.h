/* oneDNN 2.6, for the CPU. onednn.c and onednn_primitive.c alone know its API; builds without it have another file, in
 * which nothing is available and the kernels of our own serve.
 *
 * Everything here is used by the kernels of one queue, one after the other; only _of is called by the context's
 * thread too. */
#ifndef STNI_OPS_ONEDNN_ONEDNN_H
#define STNI_OPS_ONEDNN_ONEDNN_H

#include "core/context/context.h"
#include "ops/conv/conv_problem.h"

/* Which of context->op_cache are taken. */
enum { STNI_OP_CACHE_ONEDNN, STNI_OP_CACHE_TRANSFORMS };

/* Engine, stream, primitives by problem, and work space: one per context. */
struct stni_onednn;

/* The context's; NULL where oneDNN is not available, or the context does without it. The first call comes from the
 * context's thread and makes it; kernels call again and get the same result. */
struct stni_onednn *stni_onednn_of(stn_context *context);

/* 1 where the processor multiplies bf16 itself, and is faster at it than in f32. */
int stni_onednn_prefers_bf16(const struct stni_onednn *library);

/* Solves a convolution on the calling thread. Dtypes f32 and bf16. No size is 0. Returns STN_ERR_UNSUPPORTED where
 * oneDNN refuses, for whatever reason: it has nothing but its reference code for the problem, does not take its
 * pads, could not make its code, or failed while it ran. `*solved` is the number of images that were solved before;
 * the others are to be solved by our own kernels. STN_ERR_MEMORY where buffers of our own could not be had. */
stn_status stni_onednn_conv(struct stni_onednn *library, const struct stni_conv_problem *problem,
                            const struct stni_conv_data *data, int64_t *solved);

/* The next problem's weight is another one, at whatever address. NULL: nothing. */
void stni_onednn_forget_weight(struct stni_onednn *library);

/* oneDNN's name of the code that solves the problem, "" where it is STN_ERR_UNSUPPORTED. */
const char *stni_onednn_conv_name(struct stni_onednn *library, const struct stni_conv_problem *problem);

/* C (m, n) = A (m, k) B (k, n) for each of `batch` products. Of a factor's two strides (elements) one is 1, and the
 * other is not less than a line's length where there is more than one line; of a single line or product it says
 * nothing. A factor's batch stride may be 0. C's rows are dense. */
struct stni_onednn_product {
    int32_t dtype; /* f32, bf16 */
    int32_t unused;
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row;
};

/* Returns STN_ERR_UNSUPPORTED as above; some of C may be written then. Compared by its bytes. */
stn_status stni_onednn_product(struct stni_onednn *library, const struct stni_onednn_product *product, const void *a,
                               const void *b, void *c);

#endif
