/* Halos: boxes of positions around and inside a tensor's chunks, brought to the ranks that read them (contracts 18 and
 * 19).
 *
 * Each rank reads some boxes of positions along the windowed dims (window.h), and along the other dims its own
 * chunk. A box is filled from wherever its elements lie: this rank's chunk, other ranks' (any number of hops away,
 * corners, wrapped around), or the boundary. One exchange moves it straight from the owners' chunks into the
 * readers' buffers; no more of the input is copied than boxes have of it. */
#ifndef STNI_OPS_EXCHANGE_HALO_H
#define STNI_OPS_EXCHANGE_HALO_H

#include "core/tensor/tensor.h"
#include "ops/exchange/window.h"

#include <shardtensor/op.h>

enum { STNI_HALO_MAX_DIMS = 3, STNI_HALO_MAX_BOXES = 64, STNI_HALO_MAX_RANGES = 8 };

struct stni_halo_box {
    struct stni_range range[STNI_HALO_MAX_DIMS]; /* positions along each windowed dim */
};

/* How a tensor is read. The functions are pure and give the same on every rank: a sender finds by them what its
 * readers want. */
struct stni_halo {
    const stn_tensor *source;
    int n_dims; /* windowed ones */
    struct {
        int dim; /* of the tensor */
        enum stni_boundary boundary;
    } dims[STNI_HALO_MAX_DIMS];
    const void *arg;
    /* The boxes that the rank at mesh coordinates `coordinate` reads, at most STNI_HALO_MAX_BOXES; returns how many. */
    int (*boxes)(const void *arg, const int *coordinate, struct stni_halo_box *boxes);
    /* Ranges of readers along windowed dim `d`, by their place among the pieces into which the same axes cut what
     * they write, outside of which nobody reads the elements; at most STNI_HALO_MAX_RANGES; returns how many. */
    int (*readers)(const void *arg, int d, struct stni_range elements, struct stni_range *pieces);
};

/* Fills buffers[b], which has a dim for each of the tensor's in its order, with what box b of this rank holds. Where
 * bit b of `own` is not set, elements of this rank's own chunk are left out and read 0, but not where a boundary
 * repeats them. Collective over the ranks that share the windowed dims, unless the source is local or no axis cuts
 * them. */
stn_status stni_halo_fetch(const stn_op_call *call, const struct stni_halo *halo, const stn_box *buffers, uint64_t own);

/* A fetch that may still be on its way. All zero: none. */
struct stni_halo_way {
    stn_context *context;
    stn_comm *comm;
    stn_request *request; /* NULL: the buffers are full */
};

/* The same, but it may go on beside the caller, who has `work` multiplications to do that need none of it: as
 * stn_set_halo_overlap says, where it pays (ops/exchange/halo_overlap.h). While work is recorded to be repeated
 * nothing goes beside it. Until stni_halo_finish, which is called whatever happens in between, the buffers and the
 * source's memory stay as they are. Ranks may differ in what they choose. */
stn_status stni_halo_begin(const stn_op_call *call, const struct stni_halo *halo, const stn_box *buffers, uint64_t own,
                           int64_t work, struct stni_halo_way *way);
stn_status stni_halo_finish(struct stni_halo_way *way);

/* The adjoint of a fetch with all bits of `own` set: each element of this rank's chunk of `halo->source`, which is
 * written, becomes the sum of all buffers' elements, on whatever rank, that a fetch would fill with it: this rank's
 * own first, then those of peers in the order in which their boxes are met. Zeros beyond a boundary go nowhere.
 * Collective as stni_halo_fetch. */
stn_status stni_halo_add(const stn_op_call *call, const struct stni_halo *halo, const stn_box *buffers);

#endif
