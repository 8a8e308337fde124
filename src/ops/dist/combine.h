/* What a rank receives, put together: where messages meet they are combined, where none comes there are zeros. */
#ifndef STNI_OPS_DIST_COMBINE_H
#define STNI_OPS_DIST_COMBINE_H

#include "ops/dist/route.h"

#include <shardtensor/op.h>

/* How the parts of a list lie along `length` elements. */
struct stni_cover {
    int has_gaps;    /* some elements are in no part */
    int has_overlap; /* some parts share elements, and are not the same range */
};

/* @return STN_ERR_MEMORY, kept. */
stn_status stni_ranges_cover(stn_context *context, const struct stni_message_range *parts, int64_t n, int64_t length,
                             struct stni_cover *out);

/* out = what the sources bring, sources[i] to the range parts[i] of `out` along `dim`: combined by `op` in the order
 * of the list. On the queue. */
stn_status stni_ranges_combine(stn_context *context, const stn_box *out, int dim,
                               const struct stni_message_range *parts, int64_t n, const stn_box *sources,
                               stn_dtype dtype, stn_reduce_op op);

#endif
