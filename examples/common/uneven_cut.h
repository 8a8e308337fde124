/* For examples: cuts of which the balanced one is no special case. */
#ifndef SHARDTENSOR_EXAMPLES_UNEVEN_CUT_H
#define SHARDTENSOR_EXAMPLES_UNEVEN_CUT_H

#include <shardtensor/shardtensor.h>

/** As stn_spec_of on f64, but that the last placement, "S" and a dim, is cut unevenly: of the ranks along the last axis
 *  the second has nothing, the others share the dim, and the last of them has the most. */
const stn_spec *uneven_spec(const stn_mesh *mesh, const char *placements, int ndim, const int64_t *shape);

#endif
