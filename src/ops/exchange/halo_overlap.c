#include "ops/exchange/halo_overlap.h"

/* To wake a worker and to be woken by it costs up to 50 us (docs/decisions.md, "Interior before halo"). Work that is shorter hides less; and with the
 * time that messages need whatever their length, so many bytes take networks of 1 to 10 Gbit/s longer. */
int stni_halo_pays(int beside, int64_t bytes, int64_t work)
{
    enum { LEAST_BYTES = 16 << 10, LEAST_WORK = 10 * 1000 * 1000 /* multiplications: about 100 us of one core */ };
    return beside && bytes >= LEAST_BYTES && work >= LEAST_WORK;
}
