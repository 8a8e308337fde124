/* Where a mask is true, on the CPU. */
#include "ops/index/true_places.h"

/* Each place is written where the next true one belongs, and stays if it is one: no branch depends on the mask. */
stn_status stni_true_places_cpu(stn_queue *queue, const void *args)
{
    const struct stni_true_places_args *a = args;
    (void)queue;
    for (int64_t i = 0, found = 0; i < a->n && found < a->count; i++) {
        a->places[found] = i;
        found += a->mask[i * a->stride] != 0;
    }
    return STN_OK;
}
