/* Calls of collectives by name, beside those by their functions. */
#ifndef STNI_OPS_DIST_BY_NAME_H
#define STNI_OPS_DIST_BY_NAME_H

#include <shardtensor/op.h>

/* For stni_registry's `refused`: the ranks of the mesh that the call named get this rank's failure, as where its
 * collective had begun. Where it named none that there is, nobody can be told. */
void stni_dist_refused(const stn_op *op, int n_attrs, const stn_attr *attrs);

#endif
