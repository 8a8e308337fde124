/* What the files of knn and radius_search share. */
#ifndef STNI_OPS_POINTS_NEIGHBOURS_H
#define STNI_OPS_POINTS_NEIGHBOURS_H

#include <shardtensor/op.h>

enum { STNI_NEAR_INDICES, STNI_NEAR_DISTANCES, STNI_NEAR_COUNTS };
enum { STNI_NEAR_PACK, STNI_NEAR_SEARCH, STNI_NEAR_FINISH };

struct stni_near_attrs {
    int64_t k;     /* at most so many for each query */
    double radius; /* NaN: however far */
};

stn_status stni_near_run(stn_op_call *call);
uint64_t stni_near_saves(const stn_op_call *call, uint32_t needs);
stn_status stni_near_backward(stn_backward_call *call);

#endif
