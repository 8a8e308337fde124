/* A convolution in blocks of rows of its target, as the CPU likes it. */
#ifndef STNI_OPS_CONV_CONV_BLOCKS_H
#define STNI_OPS_CONV_CONV_BLOCKS_H

#include "ops/conv/conv_kernel.h"

/* Terms of a gradient by the weight that oneDNN is given at once: it adds up all of them in a few chains of f32, and
 * 50,000 equal ones were 4e-4 off. What is computed at once is added to the gradient in f32. */
enum { STNI_CONV_TERMS_AT_ONCE = 1 << 12 };

/* Rows of the target: of y, or for GRAD_INPUT of x. */
int64_t stni_conv_target_rows(const struct stni_conv_problem *p);

/* How many rows of the target `threads` threads had better compute at once; all of them where blocks gain nothing. */
int64_t stni_conv_block_rows(const struct stni_conv_problem *p, int threads);

/* Images of a problem, whether they are a dense batch or have steps between them. */
int64_t stni_conv_block_images(const struct stni_conv_args *whole);

/* The part of a problem that gives rows [begin, end) of the target of one image. */
void stni_conv_block(const struct stni_conv_args *whole, int64_t image, int64_t begin, int64_t end,
                     struct stni_conv_args *block);

#endif
