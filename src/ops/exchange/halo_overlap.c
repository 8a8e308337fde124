#include "ops/exchange/halo_overlap.h"

/* To wake a worker and to be woken by it costs up to 50 us (docs/decisions.md, "Interior before halo"). Work that is
 * shorter hides less; and with the time that messages need whatever their length, so many bytes take networks of 1
 * to 10 Gbit/s longer. */
static int pays_on_cpu(const struct stni_halo_terms *t)
{
    enum { LEAST_BYTES = 16 << 10, LEAST_WORK = 10 * 1000 * 1000 /* multiplications: about 100 us of one core */ };
    return t->bytes >= LEAST_BYTES && t->work >= LEAST_WORK;
}

/* What goes beside its halo is solved apart from what needs it, as three problems, which take some 80 us more than one
 * (docs/decisions.md, "Chunk and halo are joined on devices"). So long the network of a cluster takes for 2 MiB, and
 * the fastest GPU for so many multiplications; of 16-bit numbers it has eight times as many. */
static int pays_on_device(const struct stni_halo_terms *t)
{
    enum { LEAST_BYTES = 2 << 20, LEAST_WORK = 1200 * 1000 * 1000, NARROW = 8 };
    const int is_narrow = t->dtype == STN_DTYPE_BF16 || t->dtype == STN_DTYPE_F16;
    return t->bytes >= LEAST_BYTES && t->work >= (int64_t)LEAST_WORK * (is_narrow ? NARROW : 1);
}

int stni_halo_pays(const struct stni_halo_terms *terms)
{
    return terms->beside && (terms->on_device ? pays_on_device : pays_on_cpu)(terms);
}
