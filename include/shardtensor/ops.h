/* Operations. Each gives on every layout what one process would have given, forward and backward.
 *
 * All: inputs are borrowed; the result is a new handle that the scope owns (the caller, outside a scope). A failure is
 * kept by the context, and the result is its error tensor. Inputs of one call share a context and a mesh; a local
 * tensor goes with local ones. "Partial is reduced first" means inside the call: one exchange where the result stays
 * sharded, one all-reduce where every rank gets it.
 *
 * By family; each header may be included alone. */
#ifndef SHARDTENSOR_OPS_H
#define SHARDTENSOR_OPS_H

#include <shardtensor/ops_factory.h>
#include <shardtensor/ops_fft.h>
#include <shardtensor/ops_in_place.h>
#include <shardtensor/ops_index.h>
#include <shardtensor/ops_loss.h>
#include <shardtensor/ops_norm.h>
#include <shardtensor/ops_order.h>
#include <shardtensor/ops_pointwise.h>
#include <shardtensor/ops_points.h>
#include <shardtensor/ops_pool.h>
#include <shardtensor/ops_products.h>
#include <shardtensor/ops_random.h>
#include <shardtensor/ops_reduce.h>
#include <shardtensor/ops_scan.h>
#include <shardtensor/ops_scores.h>
#include <shardtensor/ops_shape.h>
#include <shardtensor/ops_sht.h>
#include <shardtensor/ops_window.h>

#endif
