/* Thread ranks whose data is in a device's memory: the events between their queues (threads.h tells how they go round).
 *
 * A peer's event is used under its slot's lock, because its owner may record it anew or destroy its communicator
 * meanwhile. An owner that is gone has waited for its queue first, so that there is nothing left to wait for. */
#include "core/comm/threads/threads.h"

static struct stni_thread_slot *own_slot(const struct stni_thread_member *member)
{
    return &member->group->slots[member->rank];
}

static stn_status create_points(struct stni_thread_member *member)
{
    struct stni_thread_slot *slot = own_slot(member);
    stn_event *points[STNI_POINT_COUNT] = {NULL};
    stn_status status = STN_OK;
    for (int i = 0; i < STNI_POINT_COUNT && status == STN_OK; i++)
        status = stni_event_create(member->queue->device, &points[i]);
    for (int i = 0; i < STNI_POINT_COUNT && status != STN_OK; i++)
        stni_event_destroy(&points[i]);
    pthread_mutex_lock(&slot->points_lock);
    for (int i = 0; i < STNI_POINT_COUNT; i++)
        slot->points[i] = points[i];
    pthread_mutex_unlock(&slot->points_lock);
    return status;
}

void stni_thread_drop_points(struct stni_thread_member *member)
{
    struct stni_thread_slot *slot = own_slot(member);
    pthread_mutex_lock(&slot->points_lock);
    for (int i = 0; i < STNI_POINT_COUNT; i++)
        stni_event_destroy(&slot->points[i]);
    pthread_mutex_unlock(&slot->points_lock);
}

static stn_status mark(struct stni_thread_member *member, enum stni_thread_point point)
{
    struct stni_thread_slot *slot = own_slot(member);
    pthread_mutex_lock(&slot->points_lock);
    stn_status status = stni_event_record(slot->points[point], member->queue);
    pthread_mutex_unlock(&slot->points_lock);
    return status == STN_OK ? STN_OK
                            : stni_thread_fail_agreed(member, status, "an event of device %s was not recorded",
                                                      member->queue->device->name);
}

stn_status stni_thread_mark_done(struct stni_thread_member *member)
{
    return mark(member, STNI_POINT_DONE);
}

stn_status stni_thread_follow(struct stni_thread_member *member, int rank, enum stni_thread_point point)
{
    struct stni_thread_slot *slot = &member->group->slots[rank];
    const stn_device *device = member->queue->device;
    const int *world = member->group->world_ranks;
    stn_status status = STN_OK;
    pthread_mutex_lock(&slot->points_lock);
    const stn_event *event = slot->points[point];
    int other = event && event->device->ops->queue_wait != device->ops->queue_wait; /* each device has a copy of its module's table */
    if (event && !other)
        status = device->ops->queue_wait(device->impl, member->queue->impl, event->impl);
    pthread_mutex_unlock(&slot->points_lock);
    if (other)
        return stni_thread_fail_agreed(member, STN_ERR_MISMATCH,
                                       "rank %d and rank %d are on devices of different modules", world[rank],
                                       world[member->rank]);
    if (status == STN_OK)
        return STN_OK;
    const char *why = device->ops->failure ? device->ops->failure(device->impl) : NULL;
    return stni_thread_fail_agreed(member, status, "a queue of device %s does not wait%s%s", device->name,
                                   why ? ": " : "", why ? why : "");
}

stn_status stni_thread_copy_on_device(const struct stni_thread_view *view)
{
    struct stni_thread_member *member = view->member;
    stn_status status = STN_OK;
    for (int r = 0; r < view->size && status == STN_OK; r++)
        if (r != view->rank)
            status = stni_thread_follow(member, r, STNI_POINT_READY);
    if (status == STN_OK)
        status = stni_thread_copy(view, 1);
    if (status == STN_OK)
        stni_thread_launch_copies(member);
    if (status == STN_OK && member->launched != STN_OK)
        status = stni_thread_fail_launch(member);
    stn_status marked = stni_thread_mark_done(member); /* also after a failure: some kernels may have been launched */
    return status == STN_OK ? marked : status;
}

stn_status stni_thread_fail_launch(struct stni_thread_member *member)
{
    const char *text = stn_queue_error_text(member->queue);
    return stni_thread_fail_agreed(member, member->launched, "%s", text[0] ? text : stn_status_text(member->launched));
}

static stn_status begin(struct stni_thread_member *member)
{
    stn_status status = own_slot(member)->points[0] ? STN_OK : create_points(member);
    if (status != STN_OK)
        return stni_thread_fail(member, status, "no events of device %s: %s", member->queue->device->name,
                                stn_status_text(status));
    return mark(member, STNI_POINT_READY) == STN_OK ? STN_OK : stni_thread_fail_kept(member);
}

stn_status stni_thread_run_on_device(struct stni_thread_member *member, stn_queue *queue, const struct stni_coll *coll)
{
    const int64_t inline_bytes = member->inline_bytes, memcpy_bytes = member->memcpy_bytes;
    struct stni_box_list copies;
    stni_box_list_begin(&copies, queue);
    member->queue = queue;
    member->copies = &copies;
    member->launched = STN_OK;
    member->large = STNI_THREAD_LARGE | STNI_THREAD_ON_DEVICE;
    member->inline_bytes = member->memcpy_bytes = -1;
    stn_status status = begin(member);
    if (status == STN_OK)
        status =
            coll->kind == STNI_COLL_GROUP ? stni_thread_group_coll(member, coll) : stni_thread_collective(member, coll);
    if (status != STN_OK)
        stn_queue_sync(queue); /* a failed queue skips kernels, and those launched here may be what peers that did not fail wait for */
    member->queue = NULL;
    member->copies = NULL;
    member->large = STNI_THREAD_LARGE;
    member->inline_bytes = inline_bytes;
    member->memcpy_bytes = memcpy_bytes;
    return status;
}
