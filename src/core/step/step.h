/* Captured steps inside the library (capture.h of the public headers tells what they are). */
#ifndef STNI_CORE_STEP_STEP_H
#define STNI_CORE_STEP_STEP_H

#include <shardtensor/capture.h>

#include "core/context/context.h"

/* The end of a context: its steps give back what they hold, and can be run no more; one that is being captured is given up. */
void stni_steps_close(stn_context *context);

#endif
