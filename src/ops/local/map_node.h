/* The node of a local_map with a backward of its own: between chunks that were taken and chunks that are given. */
#ifndef STNI_OPS_LOCAL_MAP_NODE_H
#define STNI_OPS_LOCAL_MAP_NODE_H

#include <shardtensor/local.h>

#include "core/tensor/tensor.h"

/* Makes a tensor that holds the caller's argument and functions, and gives them up with its last reference. One
 * reference, the caller's; where this fails the argument has been given up. */
stn_status stni_map_holder_create(stn_context *context, const stn_local_map_options *map, const stn_mesh *mesh,
                                  stn_tensor **out);

/* Records out = function(in) where an input requires grad. The outputs have no other history. */
stn_status stni_map_record(stn_tensor *holder, int n_in, stn_tensor *const *in, int n_out, stn_tensor **out);

/* All ranks of the mesh come with what they found; all get the first failure. `histories`: bit k: output k depends on
 * what requires grad. */
stn_status stni_map_agree(const stn_mesh *mesh, stn_status status, const char *what, uint64_t histories);

#endif
