/* Captured steps: what is called is done and recorded, and may be done again. */
#include "core/step/step.h"

#include "core/base/host_alloc.h"
#include "core/device/recording.h"
#include "core/step/step_memory.h"
#include "core/tensor/copy_on_write.h"

#include <stdio.h>

struct stn_step {
    stn_context *context; /* NULL once that is destroyed */
    struct stni_recording *recording;
    struct stni_step_memory memory;
    void *part; /* of the layer above; NULL: nothing */
    int may_have_values; /* as the context's, once it has run */
    stn_step *prev, *next; /* of the context's list */
};

static void link_step(stn_step *step)
{
    step->next = step->context->steps;
    if (step->next)
        step->next->prev = step;
    step->context->steps = step;
}

static void unlink_step(stn_step *step)
{
    *(step->prev ? &step->prev->next : &step->context->steps) = step->next;
    if (step->next)
        step->next->prev = step->prev;
    step->prev = step->next = NULL;
}

static stn_status hold(stn_context *context, struct stni_storage *storage)
{
    return stni_step_memory_hold(&context->capture->memory, storage);
}

static stn_status begin(stn_step *step)
{
    stn_context *context = step->context;
    STNI_TRY(stni_step_memory_begin(&step->memory, context));
    const stn_status status = stni_recording_begin(context->queue, &step->recording);
    if (status == STN_ERR_MEMORY)
        return stni_fail_memory(context, "the recording of a step", 0);
    if (status != STN_OK)
        return stni_fail(context, status, "capture_begin: the queue of device %s cannot record: %s",
                         context->device->name, stn_status_text(status));
    return STN_OK;
}

/* Gives back all that it has. */
static void clear(stn_step *step)
{
    if (step->part != NULL)
        step->context->step_part->destroy(step->part);
    step->part = NULL;
    stni_recording_destroy(&step->recording);
    stni_step_memory_leave(&step->memory);
    stni_step_memory_fini(&step->memory);
}

void **stni_step_part_of(stn_step *step)
{
    return &step->part;
}

static stn_status check_begin(stn_context *context)
{
    STNI_TRY(stni_context_failed(context));
    if (context->capture)
        return stni_fail(context, STN_ERR_STATE, "capture_begin: a step is being captured already");
    if (context->busy > 0)
        return stni_fail(context, STN_ERR_STATE, "capture_begin: called inside an op, wanted a place between ops");
    return STN_OK;
}

stn_status stn_capture_begin(stn_context *context)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    stni_context_reap(context);
    STNI_TRY(check_begin(context));
    STNI_TRY(stni_copies_own_memory(context));
    stn_step *step = stni_calloc(1, sizeof *step);
    if (step == NULL)
        return stni_fail_memory(context, "a captured step", sizeof *step);
    step->context = context;
    if (begin(step) != STN_OK) {
        clear(step);
        stni_free(step);
        return context->error.status;
    }
    context->capture = step;
    stni_context_name_launches(context);
    context->capture_lost = 0;
    context->hold_for_step = hold;
    if (context->step_part != NULL)
        context->step_part->start(context);
    return STN_OK;
}

/* What was refused alike on all ranks leaves the queue, which is taken back for the agreement. */
static void end_recording(stn_step *step)
{
    stn_context *context = step->context;
    const stn_status status = stni_recording_end(step->recording);
    if (context->error.status == STN_OK && status != STN_OK)
        stni_fail_queue(context, status);
    if (context->error_agreed && atomic_load(&context->queue->failed))
        stni_queue_recover(context->queue);
}

/* The text of what was taken is there until the next failure, which this is. */
static void fail_lost(stn_context *context)
{
    char taken[sizeof context->error.text];
    snprintf(taken, sizeof taken, "%s", context->error.text);
    stni_fail(context, STN_ERR_STATE,
              "capture_end: an error was taken since the capture began, and the step is not complete%s%s",
              taken[0] ? ": " : "", taken);
}

static void finish(stn_step *step)
{
    stn_context *context = step->context;
    context->capture = NULL;
    stni_context_name_launches(context);
    context->hold_for_step = NULL;
    stni_context_reap(context);
    if (context->error.status == STN_OK)
        stni_copies_own_memory(context); /* a part of the step: each repetition copies */
    end_recording(step);
    stni_step_memory_leave(&step->memory);
    if (context->capture_lost)
        fail_lost(context);
    if (context->error.status == STN_OK && step->part != NULL)
        context->step_part->end(step->part);
    if (context->error.status == STN_OK)
        stni_step_memory_note_written(&step->memory);
}

static stn_status check_end(stn_context *context, stn_step **out)
{
    if (context->closed)
        return context->error.status;
    if (context->capture == NULL)
        return stni_fail(context, STN_ERR_STATE, "capture_end: no step is being captured");
    if (context->busy > 0)
        return stni_fail(context, STN_ERR_STATE, "capture_end: called inside an op, wanted a place between ops");
    return out != NULL ? STN_OK : stni_fail(context, STN_ERR_ARGUMENT, "capture_end: out got NULL");
}

stn_status stn_capture_end(stn_context *context, stn_step **out)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    stn_step *step = context->capture;
    check_end(context, out);
    if (context->busy > 0)
        return context->error.status;
    if (step != NULL)
        finish(step);
    if (step != NULL)
        step->may_have_values = context->may_have_values;
    const stn_status status = stn_agree(context, STN_OK, NULL);
    if (status == STN_OK) {
        link_step(step);
        *out = step;
    } else if (step != NULL) {
        if (!context->queue->immediate) /* what ran while it was recorded names memory that goes with it */
            stni_queue_sync_for(context->queue, STN_SYNC_MEMORY);
        clear(step);
        stni_free(step);
    }
    return status;
}

static stn_status check_run(const stn_step *step)
{
    stn_context *context = step->context;
    STNI_TRY(stni_context_failed(context));
    if (context->capture)
        return stni_fail(context, STN_ERR_STATE, "step_run: not while a step is being captured");
    if (context->busy > 0)
        return stni_fail(context, STN_ERR_STATE, "step_run: called inside an op, wanted a place between ops");
    const struct stni_storage *frozen = stni_step_memory_frozen(&step->memory);
    if (frozen)
        return stni_fail(context, STN_ERR_STATE,
                         "step_run: memory of %zu bytes that the step writes has become immutable", frozen->bytes);
    STNI_TRY(stni_recording_check(step->recording));
    return step->part != NULL ? context->step_part->check(step->part) : STN_OK;
}

static stn_status run(const stn_step *step)
{
    const struct stni_step_part *above = step->context->step_part;
    if (step->part != NULL)
        STNI_TRY(above->begin(step->part));
    STNI_TRY(stni_recording_run(step->recording));
    return step->part != NULL ? above->leave(step->part) : STN_OK;
}

stn_status stn_step_run(stn_step *step)
{
    if (step == NULL)
        return STN_ERR_ARGUMENT;
    if (step->context == NULL)
        return STN_ERR_STATE;
    stn_context *context = step->context;
    stni_context_reap(context);
    STNI_TRY(check_run(step));
    context->may_have_values |= step->may_have_values;
    const stn_status status = run(step);
    stni_step_memory_changed(&step->memory);
    if (status != STN_OK && context->error.status == STN_OK)
        stni_fail_rank(context, status, "step_run: %s", stni_context_failure_text(context, status));
    return context->error.status;
}

/* NULL once it has none, of a context that is gone. */
static const struct stni_recording *recording_of(const stn_step *step)
{
    return step != NULL ? step->recording : NULL;
}

int stn_step_graphs(const stn_step *step)
{
    return recording_of(step) != NULL ? stni_recording_graphs(step->recording) : 0;
}

int stn_step_calls(const stn_step *step)
{
    return recording_of(step) != NULL ? stni_recording_calls(step->recording) : 0;
}

const char *stn_step_call_name(const stn_step *step, int i)
{
    return recording_of(step) != NULL ? stni_recording_call_name(step->recording, i) : NULL;
}

/* Waits for repetitions that are under way. */
static void close_step(stn_step *step)
{
    stn_context *context = step->context;
    if (!context->queue->immediate)
        stni_queue_sync_for(context->queue, STN_SYNC_MEMORY);
    unlink_step(step);
    clear(step);
    step->context = NULL;
}

void stn_step_destroy(stn_step **step)
{
    if (step == NULL || *step == NULL)
        return;
    if ((*step)->context != NULL)
        close_step(*step);
    stni_free(*step);
    *step = NULL;
}

void stni_steps_close(stn_context *context)
{
    stn_step *given_up = context->capture;
    if (given_up != NULL) {
        context->capture = NULL;
        stni_context_name_launches(context);
        context->hold_for_step = NULL;
        stni_recording_end(given_up->recording);
        link_step(given_up);
    }
    while (context->steps != NULL)
        close_step(context->steps);
    stni_free(given_up);
}
