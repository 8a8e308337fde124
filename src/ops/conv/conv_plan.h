/* How one rank's share of a convolution is put together (contract 19). On the CPU its chunk as it lies gives most of
 * the result; what needs elements of other chunks or of the boundary is computed from small buffers. On a device, where
 * a small problem takes as long as a larger one, chunk and halo are joined in one buffer. Pure functions: a rank
 * computes the plan of any other. */
#ifndef STNI_OPS_CONV_CONV_PLAN_H
#define STNI_OPS_CONV_CONV_PLAN_H

#include "ops/conv/conv_geometry.h"

/* The result ("target") is y for the convolution, positions of x for the gradient by the input. For the gradient by
 * the weight the parts are those of the convolution, and their results are added up. The other tensor is the
 * "source". */
struct stni_conv_part {
    struct stni_range target[STNI_CONV_MAX_DIMS];
    struct stni_range source[STNI_CONV_MAX_DIMS]; /* positions, brought into a buffer */
    /* Gradient by the input: which elements of x the target's positions are. Those of an image of the boundary are
     * added. */
    struct stni_run place[STNI_CONV_MAX_DIMS];
    int adds;
    int dim; /* along which the part stands beside the base, -1 without a base. 0: rows in full width */
};

enum { STNI_CONV_MAX_PARTS = 64 };

struct stni_conv_plan {
    int has_base; /* most of the target comes from the chunk itself */
    /* What the base computes rightly, and where the source's and the target's own chunks lie. */
    struct stni_range interior[STNI_CONV_MAX_DIMS], own_source[STNI_CONV_MAX_DIMS], own_target[STNI_CONV_MAX_DIMS];
    int n_parts;
    struct stni_conv_part parts[STNI_CONV_MAX_PARTS];
};

/* The plan of a rank whose chunks of x and y are these ranges. */
void stni_conv_plan(const struct stni_conv *conv, const struct stni_range *x, const struct stni_range *y,
                    struct stni_conv_plan *plan);

/* The plan without joining: its strips read nothing that the joined part does not, and its images are the same. */
void stni_conv_plan_apart(const struct stni_conv *conv, const struct stni_range *x, const struct stni_range *y,
                          struct stni_conv_plan *plan);

/* Pads of a problem that has these ranges of x and y along windowed dim d. */
static inline int64_t stni_conv_pad_low(const struct stni_conv *conv, int d, struct stni_range x, struct stni_range y)
{
    return x.begin - stni_window_reads(&conv->window[d], y).begin;
}

static inline int64_t stni_conv_pad_high(const struct stni_conv *conv, int d, struct stni_range x, struct stni_range y)
{
    return stni_window_reads(&conv->window[d], y).end - x.end;
}

/* Whether a problem of these ranges reads x from its first element on, and to its last but for what a stride leaves
 * over: a longer chunk would have to be cropped, and only rows (dim 0) can be. */
static inline int stni_conv_fits(const struct stni_conv *conv, int d, struct stni_range x, struct stni_range y)
{
    return stni_conv_pad_low(conv, d, x, y) >= 0 && stni_conv_pad_high(conv, d, x, y) > -conv->window[d].stride;
}

/* The rows (dim 0) of the source that the base's rows `target` read, as far as they are this rank's. */
struct stni_range stni_conv_base_rows(const struct stni_conv *conv, const struct stni_conv_plan *plan,
                                      struct stni_range target);

#endif
