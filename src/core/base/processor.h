/* Facts about the processor that its instruction sets do not tell. */
#ifndef STNI_CORE_BASE_PROCESSOR_H
#define STNI_CORE_BASE_PROCESSOR_H

/* 1 on processors made by Intel. */
int stni_processor_is_intel(void);

#endif
