/* Where a mask is true. */
#ifndef STNI_OPS_INDEX_TRUE_PLACES_H
#define STNI_OPS_INDEX_TRUE_PLACES_H

#include <shardtensor/op.h>

struct stni_true_places_args {
    const uint8_t *mask;
    int64_t n, stride; /* of the mask, in elements */
    int64_t *places;   /* of those that are true, in their order */
    int64_t count;
    void *work; /* of the size that the kernel's row says */
};

stn_status stni_true_places_cpu(stn_queue *queue, const void *args);

/* The places of a local mask of one dim, as many as `count` says. */
stn_tensor *stni_true_places(stn_tensor *mask, int64_t count);

#endif
