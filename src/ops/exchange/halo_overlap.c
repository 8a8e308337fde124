#include "ops/exchange/halo_overlap.h"

/* To wake a worker and to be woken by it costs up to 50 us (docs/decisions.md, "Interior before halo"). Work that is shorter hides less; and so many
 * bytes take a network of 10 Gbit/s about as long. */
int stni_halo_pays(int beside, int64_t bytes, int64_t work)
{
    enum { LEAST_BYTES = 64 << 10, LEAST_WORK = 10 * 1000 * 1000 /* multiplications: about 100 us of one core */ };
    return beside && bytes >= LEAST_BYTES && work >= LEAST_WORK;
}
