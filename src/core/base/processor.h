/* Facts about the processor that its instruction sets do not tell. */
#ifndef STNI_CORE_BASE_PROCESSOR_H
#define STNI_CORE_BASE_PROCESSOR_H

#include <stdint.h>

/* 1 on processors made by Intel. */
int stni_processor_is_intel(void);

/* 1 on AMD's Zen 4. */
int stni_processor_is_zen4(void);

/* AMD's families and models as CPUID has them; Zen 3 is of the same family. */
static inline int stni_processor_model_is_zen4(unsigned family, unsigned model)
{
    const unsigned sixteen = model >> 4; /* models are given out by sixteens */
    return family == 25 && (sixteen == 0x1 || sixteen == 0x6 || sixteen == 0x7 || sixteen == 0xa);
}

/* 1 where the processor's own prefetchers follow long dense runs so well that instructions for it only take their
 * place: Zen 4. Others gain by them. No result depends on it. */
int stni_processor_follows_runs(void);

/* Whatever this processor is, for tests. */
void stni_processor_assume_follows_runs(int follows);

/* How far ahead a loop over such a run prefetches, bytes; 0: not at all. */
static inline int64_t stni_processor_run_ahead(int64_t wanted)
{
    return stni_processor_follows_runs() ? 0 : wanted;
}

#endif
