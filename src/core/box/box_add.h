/* dst += src where several elements of src may go to one of dst. */
#ifndef STNI_CORE_BOX_BOX_ADD_H
#define STNI_CORE_BOX_BOX_ADD_H

#include "core/box/box.h"

/* The dims along which dst stands still: all of their elements of src go to one. */
struct stni_box_repeats {
    int ndim;
    int64_t count, shape[STN_MAX_BOX_NDIM], strides[STN_MAX_BOX_NDIM]; /* strides: of src */
};

/* Takes them out of both boxes, whose elements are the first ones along these dims then. */
struct stni_box_repeats stni_box_take_repeats(stn_box *dst, stn_box *src);

/* How far the i-th of the repeated elements lies from the first, in elements. */
int64_t stni_box_repeat_at(const struct stni_box_repeats *repeats, int64_t i);

/* stni_box_add_now on the queue. A device adds up as many elements in one go as its kernel of reductions takes, 33 to
 * 127, and sums of more than those as sums of such sums: 16-bit floats are rounded twice up to a thousand at least. */
stn_status stni_box_add(stn_queue *queue, const stn_box *dst, const stn_box *src, stn_dtype dtype, void *scratch);

/* Bytes of the device's memory that this needs beside. */
size_t stni_box_add_scratch(const stn_queue *queue, const stn_box *dst, const stn_box *src, stn_dtype dtype);

#endif
