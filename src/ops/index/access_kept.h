/* Routes that an index keeps (stn_tensor_keep_routes): what was found out of which rank asks which other one for what,
 * for the next access by the same index to a table that is cut alike. */
#ifndef STNI_OPS_INDEX_ACCESS_KEPT_H
#define STNI_OPS_INDEX_ACCESS_KEPT_H

#include "ops/index/access_route.h"

/* Whether the route of this access is one to keep. */
int stni_access_keeps(const struct stni_access_here *here);

/* Opens a route that was kept, if there is one for this access; else returns 0. All ranks find the same, since it
 * follows from the index's version and from specs. */
int stni_access_recall(const struct stni_access_here *here, struct stni_rows_route *route);

/* Keeps a route that was opened to last, in place of the one that was not used for longest. */
void stni_access_keep(const struct stni_access_here *here, struct stni_rows_route *route);

#endif
