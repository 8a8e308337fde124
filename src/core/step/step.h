/* Captured steps inside the library (capture.h of the public headers tells what they are). */
#ifndef STNI_CORE_STEP_STEP_H
#define STNI_CORE_STEP_STEP_H

#include <shardtensor/capture.h>

#include "core/context/context.h"

/* What a layer above keeps of a step: what of its own the step finds, and what it leaves. The context has one of
 * them (stni_step_part). */
struct stni_step_part {
    void (*start)(stn_context *context);      /* a capture begins */
    stn_status (*end)(void *part);            /* the capture ends: fails it where a repetition could not do the same */
    stn_status (*check)(const void *part);    /* whether a repetition will find what it needs; changes nothing */
    stn_status (*begin)(const void *part);    /* before a repetition: on the queue */
    stn_status (*leave)(const void *part);    /* and when all of it is on the queue */
    void (*destroy)(void *part);
};

/* Where that of the step that is being captured is; NULL at first. */
void **stni_step_part_of(stn_step *step);

/* The end of a context: its steps give back what they hold, and can be run no more; one that is being captured is
 * given up. */
void stni_steps_close(stn_context *context);

#endif
