/* How to walk through boxes of equal shape: which dims remain once those of size 1 are dropped, the others are
 * sorted by the strides of one box, and neighbours that are one dim in every box are merged. */
#ifndef STNI_CORE_BOX_BOX_WALK_H
#define STNI_CORE_BOX_BOX_WALK_H

#include <shardtensor/comm.h>

struct stni_box_walk {
    int ndim;
    uint32_t joined; /* bit i: dims i and i + 1 are one dim so far */
    /* Outermost first. The stride of dim i in a box is that of the box's own dim[i]. */
    int64_t shape[STN_MAX_BOX_NDIM];
    int dim[STN_MAX_BOX_NDIM];
};

/* Begins with the dims of `order`, largest stride first. Returns the number of elements; where it is 0 there is
 * nothing to walk. */
int64_t stni_box_walk_begin(struct stni_box_walk *walk, const stn_box *order);

/* Keeps dims joined only where they are one in these boxes too. Called for every box that is walked. */
void stni_box_walk_join(struct stni_box_walk *walk, int n, const stn_box *boxes);

/* Merges what is joined. */
void stni_box_walk_end(struct stni_box_walk *walk);

#endif
