/* Sorting and merging the dims of boxes. */
#include "core/box/box_walk.h"

#include <stdlib.h>

int64_t stni_box_walk_begin(struct stni_box_walk *walk, const stn_box *order)
{
    int64_t elements = 1;
    walk->ndim = 0;
    for (int d = 0; d < order->ndim; d++) {
        elements *= order->shape[d];
        if (order->shape[d] == 1)
            continue;
        int at = walk->ndim++;
        for (; at > 0 && llabs(order->strides[walk->dim[at - 1]]) < llabs(order->strides[d]); at--)
            walk->dim[at] = walk->dim[at - 1];
        walk->dim[at] = d;
    }
    for (int i = 0; i < walk->ndim; i++)
        walk->shape[i] = order->shape[walk->dim[i]];
    walk->joined = walk->ndim > 1 ? (1u << (walk->ndim - 1)) - 1 : 0;
    return elements;
}

void stni_box_walk_join(struct stni_box_walk *walk, int n, const stn_box *boxes)
{
    for (int b = 0; b < n; b++) {
        const int64_t *strides = boxes[b].strides;
        for (int i = 0; i + 1 < walk->ndim; i++)
            if (strides[walk->dim[i]] != strides[walk->dim[i + 1]] * walk->shape[i + 1])
                walk->joined &= ~(1u << i);
    }
}

void stni_box_walk_end(struct stni_box_walk *walk)
{
    int n = 0;
    for (int i = 0; i < walk->ndim; i++) {
        int64_t shape = walk->shape[i];
        for (; walk->joined >> i & 1; i++)
            shape *= walk->shape[i + 1];
        walk->shape[n] = shape;
        walk->dim[n++] = walk->dim[i];
    }
    walk->ndim = n;
    walk->joined = 0;
}
