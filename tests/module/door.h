/* What the tests of the modules' door share. */
#ifndef SHARDTENSOR_TESTS_MODULE_DOOR_H
#define SHARDTENSOR_TESTS_MODULE_DOOR_H

#include "core/context/context.h"

/* The queue that the run asks for. */
stn_queue_options door_queue(uint64_t seed);

/* Device memory with a copy of host memory, its way back, and its end. */
void *door_upload(stn_context *context, const void *host, size_t bytes);
void door_download(stn_context *context, void *data, void *host, size_t bytes);
void door_discard(stn_context *context, void *data, size_t bytes);

/* A test: the last one of a program, when all devices are gone. */
void door_gave_all_memory_back(void);

#endif
