/* The choice of an instruction set, for any processor. */
#ifndef STNI_CORE_BASE_ISA_CHOICE_H
#define STNI_CORE_BASE_ISA_CHOICE_H

#include "core/base/isa.h"

/** stni_isa_choose on a processor that offers `widest`. */
stn_status stni_isa_choose_on(enum stni_isa widest, const char *name, enum stni_isa *out, struct stni_error *error);

#endif
