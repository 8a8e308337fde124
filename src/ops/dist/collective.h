/* What the collectives of dist.h share: from the arguments of each rank to a route.
 *
 * A collective is an op made of others. Its page has a `plan` that checks what this rank passes, says what all ranks
 * must pass alike, and lists what this rank sends and receives. Then the ranks agree, and the op dist_route moves the
 * data: it is what a graph records. */
#ifndef STNI_OPS_DIST_COLLECTIVE_H
#define STNI_OPS_DIST_COLLECTIVE_H

#include "ops/common/call.h"
#include "ops/dist/facts.h"
#include "ops/dist/native.h"
#include "ops/dist/route.h"

#include <shardtensor/dist.h>

/* Attributes of all collectives; each one's schema has those that it reads. */
struct stni_dist_attrs {
    int64_t mesh; /* its number in the context */
    int64_t dim, root, op, convention;
    int64_t length;             /* of an exchange's result */
    int64_t below, above, mode; /* of a halo */
};

enum { STNI_DIST_LISTS = 2 }; /* inputs behind the first, at most */

struct stni_dist {
    stn_op_call *call;
    const struct stni_dist_attrs *attrs;
    stn_context *context;
    const stn_mesh *mesh;
    const struct stni_layout *in; /* the input's */
    int p, me;                    /* ranks of the mesh; this one's place */
    int dim;
    int64_t n; /* elements of the input along the dim */
    struct stni_facts facts;
    struct {
        int is_read;
        const int64_t *words; /* NULL: absent */
        int64_t n;
    } lists[STNI_DIST_LISTS];
    int64_t *owned[2 * STNI_DIST_LISTS]; /* lists and their offsets, freed when the call is done */
    int n_owned;
    /* The plan. */
    struct stni_ranges send, receive;
    int64_t length; /* of the result along the dim */
    stn_reduce_op op;
    enum stni_route_kind kind;
};

/* What a page says of its collective: a descriptor's arg. */
struct stni_dist_page {
    stn_status (*plan)(struct stni_dist *d);
    int along_dim;                            /* the collective joins or cuts a dim: its size may differ between ranks */
    enum stni_native native;                  /* the collective that does the same along the first dim */
    int meets;                                /* enum stni_route_meets */
    int pairs;                                /* each rank says what it sends and expects: the two ends are compared */
    const char *lists[STNI_DIST_LISTS];       /* names of the inputs behind the first; NULL: none */
    stn_status (*apply)(struct stni_dist *d); /* NULL: by a route */
};

/* For the descriptor of a collective with a page. */
stn_status stni_dist_compose(stn_op_call *call);

struct stni_dist_list {
    const int64_t *words; /* n of them; NULL: absent */
    int64_t n;            /* below 0: the caller's list is bad */
};

/* Calls a collective. Where this rank cannot even begin, because it has failed before or an argument is bad, it tells
 * the others, who wait for it. */
stn_tensor *stni_dist_call(enum stni_op_index index, stn_tensor *input, const stn_mesh *mesh,
                           const struct stni_dist_attrs *attrs, int n_lists, const struct stni_dist_list *lists);

/* Helpers of plans */

/* The numbers of the i-th list that the call came with; NULL if it is absent. */
stn_status stni_dist_list(struct stni_dist *d, int i, const int64_t **out, int64_t *n);

/* One size per rank from such a list; where it is absent, the input's own for each, or with `cut` the balanced cut
 * of it. offsets[r] is the sum of those before r, offsets[p] of all. */
stn_status stni_dist_sizes(struct stni_dist *d, int i, int cut, const int64_t **offsets);

/* The same as what all ranks pass alike. */
stn_status stni_dist_same_sizes(struct stni_dist *d, int i, int cut, const int64_t **offsets);

static inline stn_status stni_dist_send(struct stni_dist *d, int peer, int64_t begin, int64_t length)
{
    return stni_ranges_add(d->context, &d->send, peer, begin, length);
}

static inline stn_status stni_dist_receive(struct stni_dist *d, int peer, int64_t begin, int64_t length)
{
    return stni_ranges_add(d->context, &d->receive, peer, begin, length);
}

/* The root of the attributes, as all ranks name it. @return STN_ERR_ARGUMENT. */
stn_status stni_dist_root(struct stni_dist *d, int *out);

/* The reduction of the attributes, if the input's dtype has it. */
stn_status stni_dist_op(struct stni_dist *d);

/* `kind` under STN_GRAD_REPLICATED, plain under STN_GRAD_PER_RANK. */
void stni_dist_set_kind(struct stni_dist *d, enum stni_route_kind kind);

/* Schema of all collectives: the attributes' texts. */
extern const char *const stni_dist_op_names[], *const stni_dist_convention_names[];

#endif
