/* Facts about the processor that its instruction sets do not tell. */
#ifndef STNI_CORE_BASE_PROCESSOR_H
#define STNI_CORE_BASE_PROCESSOR_H

/* 1 on processors made by Intel. */
int stni_processor_is_intel(void);

/* 1 where the processor's own prefetchers follow long dense runs so well that instructions for it only take their
 * place: Zen 4. Others gain by them. No result depends on it. It takes a virtual machine as long as a small op. */
int stni_processor_follows_runs(void);

/* Of AMD's processors by their family and model, as CPUID has them; Zen 3 is of the same family. */
static inline int stni_processor_is_zen4(unsigned family, unsigned model)
{
    const unsigned sixteen = model >> 4; /* models are given out by sixteens */
    return family == 25 && (sixteen == 0x1 || sixteen == 0x6 || sixteen == 0x7 || sixteen == 0xa);
}

#endif
