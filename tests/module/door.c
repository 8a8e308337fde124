#include "door.h"

#include "harness.h"

#include <dlfcn.h>
#include <stdatomic.h>

stn_queue_options door_queue(uint64_t seed)
{
    stn_queue_options options = {.size = sizeof options};
    if (test_queue() == TEST_QUEUE_WORKER)
        options = (stn_queue_options){.size = sizeof options, .kind = STN_QUEUE_WORKER, .delay_seed = seed};
    return options;
}

void *door_upload(stn_context *context, const void *host, size_t bytes)
{
    void *data = NULL;
    CHECK_STATUS(stni_device_allocate(context->device, bytes + 1, &data), STN_OK);
    CHECK_STATUS(stni_queue_copy(context->queue, data, host, bytes, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    return data;
}

void door_download(stn_context *context, void *data, void *host, size_t bytes)
{
    CHECK_STATUS(stni_queue_copy(context->queue, host, data, bytes, STNI_COPY_TO_HOST), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
}

void door_discard(stn_context *context, void *data, size_t bytes)
{
    stni_device_deallocate(context->device, data, bytes + 1);
}

void door_gave_all_memory_back(void)
{
    void *object = dlopen(PROBE_FOLDER "/libshardtensor-probe.so", RTLD_NOW | RTLD_NOLOAD);
    if (!CHECK_PTR(object))
        return;
    atomic_long *leaks = dlsym(object, "probe_leaks");
    if (CHECK_PTR(leaks))
        CHECK_I64(atomic_load(leaks), 0);
    dlclose(object);
}
