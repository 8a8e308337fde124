/* Blocks of ranks: where they go, and what each rank does with each. */
#ifndef STNI_OPS_POINTS_BLOCKS_H
#define STNI_OPS_POINTS_BLOCKS_H

#include <shardtensor/op.h>

#include "ops/points/block_kernel.h"

/* Inputs of ops that search among rows, which a block is made of, for queries. */
enum { STNI_ROWS, STNI_QUERIES };

/* Where rows are cut among p ranks, two ways lead to all of them. Blocks go round: a rank receives what the others
 * have, and searches for its share of the queries. Or each rank searches for all queries among its own: then it
 * receives what every other rank found for each. `row_bytes` and `found_bytes`, of a row and of a query, say which is
 * less.
 *
 * Fills want and out_spec: queries that are cut by rows stay so, and results are cut as they are. What is cut along
 * columns, or pending, becomes rows by one exchange. The note tells run. */
stn_status stni_blocks_place(stn_op_call *call, int64_t row_bytes, double found_bytes);

/* A call in its run. `visit` is called for the block of each rank, this one's first; n may be 0 then alone. */
struct stni_blocks {
    stn_op_call *call;
    int pack_slot;
    struct stni_block_shape shape; /* of this rank's block */
    stn_status (*visit)(void *arg, const struct stni_block_shape *shape, const void *block);
    void *arg;
    /* Set by begin. */
    stn_comm *comm; /* of the ranks among which rows are cut; NULL: they are whole */
    int meet;       /* each searches for all queries, and what they found is to be gathered */
    uint32_t axes;
    void *mine, *theirs;
};

/* Before it: call, pack_slot, visit, arg, shape.dtype and shape.corners. */
stn_status stni_blocks_begin(struct stni_blocks *blocks);

/* Visits the blocks. */
stn_status stni_blocks_search(struct stni_blocks *blocks);

/* How many of m queries meet at once, of each of which every rank has found `bytes`. */
int64_t stni_blocks_at_once(const struct stni_blocks *blocks, int64_t m, int64_t bytes);

/* Every rank's `bytes`, a multiple of 8, of `own` in `all`, in the order of ranks. */
stn_status stni_blocks_gather(const struct stni_blocks *blocks, const void *own, void *all, int64_t bytes);

/* This rank's chunk of an input of two dims. */
struct stni_near_rows stni_near_rows_of(const stn_op_call *call, int input);

#endif
