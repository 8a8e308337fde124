#include "ops/exchange/halo_overlap.h"

/* To wake a worker and to be woken by it costs up to 50 us (docs/decisions.md, "Interior before halo"). Work that is
 * shorter hides less; and with the time that messages need whatever their length, so many bytes take networks of 1
 * to 10 Gbit/s longer. */
static int pays_on_cpu(const struct stni_halo_terms *t)
{
    enum { LEAST_BYTES = 16 << 10, LEAST_WORK = 10 * 1000 * 1000 /* multiplications: about 100 us of one core */ };
    return t->bytes >= LEAST_BYTES && t->work >= LEAST_WORK;
}

/* Two streams more to wait for each other cost some 5 us (docs/decisions.md, "Halos over NCCL go beside the
 * interior"). A group of sends takes 10 us and more whatever its length, so that the work alone decides: 10 us of
 * the fastest GPU's, which multiplies 16-bit numbers eight times as fast. */
static int pays_on_device(const struct stni_halo_terms *t)
{
    enum { LEAST_WORK = 200 * 1000 * 1000, NARROW = 8 };
    const int is_narrow = t->dtype == STN_DTYPE_BF16 || t->dtype == STN_DTYPE_F16;
    return t->bytes > 0 && t->work >= (int64_t)LEAST_WORK * (is_narrow ? NARROW : 1);
}

int stni_halo_pays(const struct stni_halo_terms *terms)
{
    return terms->beside && (terms->on_device ? pays_on_device : pays_on_cpu)(terms);
}
