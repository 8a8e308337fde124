/* Boxes at random places of memory that is compared whole, and a queue that moves them. */
#ifndef SHARDTENSOR_TESTS_CORE_BOX_AREAS_H
#define SHARDTENSOR_TESTS_CORE_BOX_AREAS_H

#include "harness.h"

#include "core/box/box.h"
#include "core/device/device.h"

#include <stdlib.h>

static uint64_t random_state;

static inline int64_t draw(int64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)below);
}

/* Memory with a box inside. */
struct area {
    unsigned char *memory;
    size_t bytes;
    stn_box box;
};

static inline int64_t elements_of(const stn_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* A box of a shape whose dims lie in random order in memory, some with a gap after them, at a random offset. */
static inline struct area area_create(int ndim, const int64_t *shape, int64_t size, int gaps)
{
    struct area area = {.box = {.ndim = ndim}};
    int order[STN_MAX_BOX_NDIM] = {0};
    for (int d = 0; d < ndim; d++) {
        int at = (int)draw(d + 1);
        order[d] = order[at];
        order[at] = d;
    }
    int64_t stride = gaps && draw(4) == 0 ? 3 : 1;
    for (int i = ndim - 1; i >= 0; i--) {
        area.box.shape[order[i]] = shape[order[i]];
        area.box.strides[order[i]] = stride;
        stride *= shape[order[i]] > 0 ? shape[order[i]] : 1;
        stride += gaps && draw(2) ? draw(20) : 0;
    }
    int64_t offset = gaps ? draw(70) : 0;
    area.bytes = (size_t)((stride + offset) * size);
    area.memory = aligned_alloc(64, (area.bytes + 63) / 64 * 64 + 64);
    area.box.data = area.memory + offset * size;
    return area;
}

static inline unsigned char *element(const stn_box *box, const int64_t *index, int64_t size)
{
    int64_t offset = 0;
    for (int d = 0; d < box->ndim; d++)
        offset += index[d] * box->strides[d];
    return (unsigned char *)box->data + offset * size;
}

/* The next index in row-major order; 0 past the last. */
static inline int next(const stn_box *box, int64_t *index)
{
    for (int d = box->ndim - 1; d >= 0; d--) {
        if (++index[d] < box->shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

static stn_device *device; /* of `queue` */
static stn_queue *queue;   /* NULL: the calling thread reduces */

static inline void queue_begin(void)
{
    stn_queue_options options = {.size = sizeof options,
                                 .kind = test_queue() == TEST_QUEUE_WORKER ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE,
                                 .delay_seed = 4};
    CHECK_STATUS(stni_device_create_cpu(NULL, &device), STN_OK);
    CHECK_STATUS(stni_queue_create(device, &options, &queue), STN_OK);
}

static inline void queue_end(void)
{
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

#endif
