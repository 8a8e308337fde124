/* One access as a rank sees it, and its exchange with the owners of what it names: what reading and writing share at
 * run time. */
#ifndef STNI_OPS_INDEX_ACCESS_ROUTE_H
#define STNI_OPS_INDEX_ACCESS_ROUTE_H

#include "ops/index/access.h"
#include "ops/exchange/row_router.h"

struct stni_access_here {
    const stn_op_call *call;
    const stn_tensor *table, *index;
    const stn_tensor *values; /* NULL: a number stands for them */
    struct stni_access_dims dims;
    uint32_t axes;            /* along which indices go to the owners of what they name; 0: everything is here */
    int apart;                /* 1: what is here is reached without them, and only the rest goes to its owners */
    struct stni_access all;   /* the chunks that are here */
};

void stni_access_make(const stn_op_call *call, const stn_tensor *table, const stn_tensor *index,
                      const stn_tensor *values, struct stni_access_here *out);

/* Tells the owners which elements, or slices, are named. Close it with stni_rows_close. Collective over the axes. */
stn_status stni_access_open(const struct stni_access_here *here, struct stni_rows_route *route);

/* Reports bad indices of slices without elements, which name nothing that a read or a write would move: where
 * indices stay here and nothing else looks at them. */
stn_status stni_access_check_unmoved(const struct stni_access_here *here);

/* Elements of a routed row: 1, or those of a slice. */
int64_t stni_access_width(const struct stni_access_here *here);

/* Between the chunk of the table and the values that are here, where `apart`; bad indices were reported by `open`, or
 * are here, by a route that was kept. */
struct stni_access stni_access_at_home(const struct stni_access_here *here, const struct stni_rows_route *route);

/* Between the chunk of the table and `rows`, dense, one per index that came. */
struct stni_access stni_access_at_owner(const struct stni_access_here *here, const struct stni_rows_route *route,
                                        void *rows);

/* Between `rows`, dense, one per distinct index that was sent, for the table, and the values that are here. */
struct stni_access stni_access_at_asker(const struct stni_access_here *here, const struct stni_rows_route *route,
                                        void *rows);

#endif
