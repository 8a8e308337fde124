/* Ranges of a box's elements as boxes. */
#ifndef STNI_CORE_BOX_BOX_RANGE_H
#define STNI_CORE_BOX_BOX_RANGE_H

#include <shardtensor/comm.h>

/* Elements `begin` to `begin` + `length` - 1 of a box along a dim. */
stn_box stni_box_along(const stn_box *box, int dim, int64_t begin, int64_t length, size_t element_size);

/* Visits elements [from, to) of a box in row-major order as at most 2 ndim - 1 boxes; `at`: elements visited before. */
typedef void (*stni_box_visit)(void *arg, const stn_box *part, int64_t at);
void stni_box_range(const stn_box *box, size_t element_size, int64_t from, int64_t to, stni_box_visit visit, void *arg);

#endif
