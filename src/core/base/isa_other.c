/* Processors for which only the base kernels are compiled. */
#include "core/base/isa.h"

enum stni_isa stni_isa_of_processor(void)
{
    return STNI_ISA_BASE;
}
