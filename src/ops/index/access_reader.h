/* What elements are read from and to by index, on the CPU. */
#ifndef STNI_OPS_INDEX_ACCESS_READER_H
#define STNI_OPS_INDEX_ACCESS_READER_H

#include "ops/index/access_gather.h"
#include "ops/index/access_walk.h"

#include <string.h>

struct reader {
    void *values;
    const void *table;
};

#endif
