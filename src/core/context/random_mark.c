#include "core/context/random_mark.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/device/recording.h"

struct stni_random_mark {
    int refs; /* the caller's, and one of each call that was recorded */
    stn_context *context;
    struct stni_random_place place;
};

static stn_status set(void *arg)
{
    struct stni_random_mark *mark = arg;
    stni_random_place_fini(&mark->place);
    return stni_random_keep(mark->context, &mark->place);
}

static stn_status go_back(void *arg)
{
    const struct stni_random_mark *mark = arg;
    stni_random_return(mark->context, &mark->place);
    return STN_OK;
}

static void release(void *arg)
{
    stni_random_mark_release(arg);
}

/* Now, and in each repetition of a step that is being captured. */
static stn_status call(struct stni_random_mark *mark, stn_status (*run)(void *arg))
{
    stn_queue *queue = mark->context->queue;
    if (!stni_recording_is_on(queue))
        return run(mark);
    mark->refs++;
    return stni_fail_queue(mark->context, stni_recording_call(queue, &(struct stni_recorded_call){
                                                                         run, release, mark, NULL, "random streams"}));
}

stn_status stni_random_mark_set(stn_context *context, struct stni_random_mark **out)
{
    struct stni_random_mark *mark = stni_calloc(1, sizeof *mark);
    if (mark == NULL)
        return stni_fail_memory(context, "a place in streams of random numbers", sizeof *mark);
    mark->refs = 1;
    mark->context = context;
    const stn_status status = call(mark, set);
    if (status != STN_OK)
        stni_random_mark_release(mark);
    else
        *out = mark;
    return status;
}

stn_status stni_random_mark_return(struct stni_random_mark *mark)
{
    return call(mark, go_back);
}

void stni_random_mark_release(struct stni_random_mark *mark)
{
    if (mark == NULL || --mark->refs > 0)
        return;
    stni_random_place_fini(&mark->place);
    stni_free(mark);
}
