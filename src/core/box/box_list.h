/* Copies of boxes in the making: on a device that has core.box_copies, many become one launch. Elsewhere each is made
 * when it is added.
 *
 * No copy of a list may write what another one of it reads or writes. */
#ifndef STNI_CORE_BOX_BOX_LIST_H
#define STNI_CORE_BOX_BOX_LIST_H

#include "core/box/box.h"

#include <shardtensor/module.h>

struct stni_box_list {
    stn_queue *queue;   /* NULL: copies are made at once, on the calling thread */
    enum stni_isa isa;  /* of those */
    int n_dims;         /* that the copies in `args` have together */
    stn_box_copies_args args;
};

void stni_box_list_begin(struct stni_box_list *list, stn_queue *queue);
void stni_box_list_begin_now(struct stni_box_list *list, enum stni_isa isa);

/* dst = src as stni_box_copy; a list that is full is launched before. */
stn_status stni_box_list_add(struct stni_box_list *list, const stn_box *dst, const stn_box *src, size_t element_size);

/* Launches what is left; the list is empty then, and may be added to again. */
stn_status stni_box_list_launch(struct stni_box_list *list);

#endif
