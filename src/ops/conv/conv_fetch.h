/* What the parts of a plan read, from whichever ranks hold it. */
#ifndef STNI_OPS_CONV_CONV_FETCH_H
#define STNI_OPS_CONV_CONV_FETCH_H

#include "ops/conv/image.h"
#include "ops/conv/conv_plan.h"
#include "ops/exchange/halo.h"

/* Which positions each rank reads: the same answer on every rank. */
struct stni_conv_reader {
    const struct stni_conv *conv;
    const stn_spec *x, *y;
};

/* Whether ranks exchange. Not where each output reads the one element that stands at its place. */
int stni_conv_exchanges(const struct stni_conv_reader *reader);

/* Makes a buffer for each part of this rank's plan, and begins to fill it with what the source holds at its
 * positions; but with zeros for this rank's own elements where bit i of `own` is not set. stni_halo_begin says what
 * `work` and `way` are. Collective over the ranks that share the source's windowed dims. */
stn_status stni_conv_fetch(const struct stni_conv_images *images, const struct stni_conv_reader *reader,
                           const struct stni_conv_plan *plan, const stn_tensor *source, uint64_t own, int64_t work,
                           struct stni_conv_image *buffers, struct stni_halo_way *way);

#endif
