/* How far a box is, of one dtype: a template of core/box/each_float.h.
 *
 * A box is as near to a query as its nearest corner, edge or side: a sum of the same squares in the same order as
 * distances are, each of which is at most that of any point within, after rounding too. So a box that is farther than
 * what has been found holds nothing that is nearer, or as near. */
#ifndef NAME /* read alone */
#include "core/box/as_f32.h"
#endif

/* Of box number `node` of a tree. */
static inline ACC NAME(box_square)(const ACC *boxes, int64_t node, const ACC *query, int64_t d)
{
    const ACC *box = boxes + node * 2 * d;
    ACC sum = 0;
    for (int64_t c = 0; c < d; c++) {
        const ACC below = box[c] - query[c], above = query[c] - box[d + c];
        const ACC t = below > 0 ? below : above > 0 ? above : 0;
        sum += t * t;
    }
    return sum;
}
