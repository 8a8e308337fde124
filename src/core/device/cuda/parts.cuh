/* Few lines of many elements, divided among blocks: how many parts a line has depends on the shape alone, and with it
 * the order in which what the parts found is joined. */
#ifndef STNI_CORE_DEVICE_CUDA_PARTS_CUH
#define STNI_CORE_DEVICE_CUDA_PARTS_CUH

#include "core/device/cuda/grid.h"

namespace {

enum {
    PARTS_BLOCKS = 1024,  /* about as many as fill a device: no more parts than give these */
    PARTS_PER_THREAD = 16 /* elements that a thread of a part has at least */
};

struct parts {
    int64_t count, each; /* elements of a part; of the last one fewer */
};

/* Of lines of `elements` elements, on each of which so many threads work; one part a line takes `blocks` blocks. */
inline parts parts_of(int64_t elements, int64_t threads, int64_t blocks)
{
    const int64_t enough = threads * PARTS_PER_THREAD, wanted = (elements + enough - 1) / enough;
    const int64_t most = blocks < PARTS_BLOCKS ? PARTS_BLOCKS / blocks : 1;
    const int64_t count = wanted < 1 ? 1 : wanted < most ? wanted : most, each = (elements + count - 1) / count;
    return {each > 0 ? (elements + each - 1) / each : 1, each};
}

/* Where a part ends. */
STNI_HOST_DEVICE int64_t part_end(const parts &p, int64_t elements, int64_t part)
{
    const int64_t end = (part + 1) * p.each;
    return end < elements ? end : elements;
}

}

#endif
