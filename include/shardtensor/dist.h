/* Differentiable collectives under per-rank semantics: local tensors, one program per rank. docs/gradients.md tells
 * them apart from ops on sharded tensors. In grad mode, on or off on all its ranks alike, every collective is recorded
 * on every rank, and backward is then collective over the ranks that their meshes join, with as many losses as each
 * rank has, none too (stn_backward_many). Groups on slices of a mesh may record others, or none. A rank that has failed
 * since goes backward as the others do: all get its failure. Chunks that stn_to_local took join the ranks of their
 * meshes likewise.
 *
 * All collectives: every rank of `mesh` makes the call. One outside may make it, too: nobody waits for it, and it gets
 * its input back. Along some axes of a mesh: pass stn_mesh_slice's mesh of these axes, each rank its own. Ranks are
 * numbered row-major in the mesh; roots, peers and sizes mean these numbers.
 *
 * Before a collective moves anything its ranks agree, host to host, on 24 bytes: where one of them has failed before,
 * passes what cannot be, or calls something else than the others, all get the same status and a text that names the
 * rank and what differs; nothing has been moved, and the mesh stays usable. Backward agrees for all of them together.
 * What each rank sends and its peer expects (all_to_all, exchange) is compared in the same agreement, by a sum that is
 * 0 where all lists meet. By name it is the same, also of attributes that the schema does not have. A rank that has no
 * mesh to pass (NULL, another context's, by name the number of none) cannot know who waits for it: it is refused, and
 * where all ranks are nothing is lost. Peers of one that is alone with it are told where it comes next: its text at a
 * collective with a mesh while it keeps the error; else STN_ERR_MISMATCH, with the number of calls that it was refused;
 * STN_ERR_PEER with its text where it ends without another collective.
 *
 * Sums are in the order of ranks, the same bits in each run. Gradients: STN_GRAD_PER_RANK differentiates the sum over
 * ranks of each rank's own loss, STN_GRAD_REPLICATED one loss that every rank holds a replica of; the convention
 * changes the collectives that make replicas. All but reductions by PROD, MIN and MAX are linear, and as often
 * differentiable as wanted.
 *
 * Errors of all collectives: STN_ERR_ARGUMENT (mesh, dim, root, op, convention, sizes), STN_ERR_SHAPE (sizes that do
 * not fit the input), STN_ERR_LAYOUT (a tensor on a mesh), STN_ERR_DTYPE, STN_ERR_MISMATCH (ranks differ),
 * STN_ERR_MEMORY, STN_ERR_COMM, STN_ERR_PEER. */
#ifndef SHARDTENSOR_DIST_H
#define SHARDTENSOR_DIST_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** y = op over the ranks of `mesh` of each rank's `input`, on every one of them.
 *
 * Shapes:     local (d0, …), the same on each rank -> the same.
 * Collective: over `mesh`; ranks outside of it get their input back.
 * Gradient:   yes, by `convention`. SUM: PER_RANK the sum of the ranks' cotangents, REPLICATED the rank's own. AVG:
 *             that / n.
 *             PROD: g times the product of the OTHERS. MIN, MAX: g to the holder of the extreme, split evenly on ties.
 * @return new tensor; errors of all collectives.
 * Source: docs/gradients.md, cases C1 to C14. */
STN_API stn_tensor *stn_dist_all_reduce(stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op,
                                        stn_grad_convention convention);

/** The same on `root` alone; zeros of the same shape elsewhere.
 *
 * Shapes:     local (d0, …), the same on each rank -> the same.
 * Collective: over `mesh`.
 * Gradient:   yes: the root's cotangent is broadcast, under both conventions; AVG, PROD, MIN and MAX as
 *             stn_dist_all_reduce's.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_reduce(stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op, int root,
                                    stn_grad_convention convention);

/** The root's `input` on every rank.
 *
 * Shapes:     local (d0, …), the same on each rank, which lends its shape alone where it is not the root -> the same.
 * Collective: over `mesh`.
 * Gradient:   yes: to the root's input the sum of the ranks' cotangents (PER_RANK) or the root's own (REPLICATED),
 *             zeros to the others'.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_broadcast(stn_tensor *input, const stn_mesh *mesh, int root,
                                       stn_grad_convention convention);

/** The ranks' tensors joined along `dim`, in the order of ranks, on every rank.
 *
 * Shapes:     local (…, sizes[rank], …) -> (…, sum of sizes, …).
 * Collective: over `mesh`.
 * Gradient:   yes: a reduce-scatter of the cotangents (PER_RANK), or this rank's part of its own (REPLICATED).
 * @param sizes  elements along `dim` of each rank's tensor, the same list on all ranks, 0 allowed; NULL: all alike.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md, case C12. */
STN_API stn_tensor *stn_dist_all_gather(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                                        stn_grad_convention convention);

/** The same on `root` alone; elsewhere a tensor without elements, of size 0 along `dim`.
 *
 * Shapes:     local (…, sizes[rank], …) -> root: (…, sum of sizes, …).
 * Collective: over `mesh`.
 * Gradient:   yes: the root's cotangent is scattered, under both conventions.
 * @param sizes  as in stn_dist_all_gather.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_gather(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes, int root,
                                    stn_grad_convention convention);

/** op over the ranks' tensors, cut along `dim`: rank r gets the part r.
 *
 * Shapes:     local (…, sum of sizes, …), the same on each rank -> (…, sizes[rank], …).
 * Collective: over `mesh`.
 * Gradient:   yes: an all-gather of the cotangents, under both conventions; AVG, PROD, MIN and MAX as
 *             stn_dist_all_reduce's.
 * @param sizes  elements along `dim` of each rank's part, the same list on all ranks, 0 allowed; NULL: the balanced
 *               cut, as Shard's.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_reduce_scatter(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                                            stn_reduce_op op, stn_grad_convention convention);

/** The root's tensor cut along `dim`: rank r gets the part r.
 *
 * Shapes:     root: local (…, sum of sizes, …) -> (…, sizes[rank], …). Elsewhere the input lends its dtype and its
 *             other dims, and its size along `dim` where `sizes` is NULL: one without elements will do, as
 *             stn_dist_gather gives it.
 * Collective: over `mesh`.
 * Gradient:   yes: the cotangents are gathered to the root's input, under both conventions; zeros to the others'.
 * @param sizes  as in stn_dist_reduce_scatter.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_scatter(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes, int root,
                                     stn_grad_convention convention);

/** Each rank's tensor cut along `dim`, the part s to rank s; what comes is joined along `dim` in the order of ranks.
 *
 * Shapes:     local (…, sum of send_sizes, …) -> (…, sum of receive_sizes, …).
 * Collective: over `mesh`.
 * Gradient:   yes: an all-to-all of the cotangents with the lists exchanged, under both conventions.
 * @param send_sizes     elements along `dim` for each rank; what rank s expects of this one. Both NULL: the ranks'
 *                       inputs are alike, and each is cut evenly, as Shard's.
 * @param receive_sizes  elements along `dim` from each rank.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_all_to_all(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *send_sizes,
                                        const int64_t *receive_sizes, stn_grad_convention convention);

/** A range of elements along a dim that goes to, or comes from, a rank of the mesh, which may be this one. */
typedef struct stn_dist_part {
    int peer;
    int64_t begin, length; /* elements; a part of length 0 stands for no message */
} stn_dist_part;

/** What one rank sends and receives. The k-th part from rank r to rank s in r's list meets the k-th from r in s's,
 * and is as long. */
typedef struct stn_dist_messages {
    size_t size; /* sizeof(stn_dist_messages) */
    int n_send, n_receive;
    const stn_dist_part *send;    /* ranges of the input: any, overlapping ones too */
    const stn_dist_part *receive; /* ranges of the result: what several bring to one element is added, by rank */
    int64_t length;               /* of the result along the dim; what no part brings is 0 */
} stn_dist_messages;

/** Sends and receives between any pairs of ranks, at once: no order of the ranks' calls can deadlock, and the backward
 * of a ring shift or of a halo of one's own is one call too.
 *
 * Shapes:     local (…, n, …) -> (…, messages->length, …); the other dims are alike on all ranks.
 * Collective: over `mesh`, also for a rank without messages.
 * Gradient:   yes: each cotangent goes the way back and is added where its elements came from, under both conventions.
 * @param messages  this rank's; borrowed for the call.
 * @return new tensor; errors of all collectives. Source: docs/gradients.md. */
STN_API stn_tensor *stn_dist_exchange(stn_tensor *input, const stn_mesh *mesh, int dim,
                                      const stn_dist_messages *messages, stn_grad_convention convention);

/** Widths of margins, in elements, and what stands beyond the ends of the line that the ranks' chunks make up. */
typedef struct stn_dist_margin {
    size_t size; /* sizeof(stn_dist_margin) */
    int64_t below, above;
    stn_padding_mode mode;
} stn_dist_margin;

/** This rank's chunk with margins that other ranks fill: chunks stand along `dim` in the order of ranks, and those
 * narrower than a margin let it reach several ranks away. For a grid of ranks call it once for each dim with the slice
 * of that axis: corners come with the second.
 *
 * Shapes:     local (…, sizes[rank], …) -> (…, below + sizes[rank] + above, …); without elements where sizes[rank] is
 *             0.
 * Collective: over `mesh`.
 * Gradient:   yes: margins are sent back and added, under both conventions.
 * @param sizes  elements along `dim` of each rank's chunk, the same list on all ranks, 0 allowed; NULL: all alike.
 * @return new tensor; errors of all collectives; STN_ERR_SHAPE (REFLECT with a width of all elements or more). Source:
 * docs/gradients.md. */
STN_API stn_tensor *stn_dist_halo(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                                  const stn_dist_margin *margin, stn_grad_convention convention);

/* Without gradients, in the caller's memory. (Any collective above is without gradients in no-grad mode; it makes
 * its result.)
 *
 * What they write counts as a change in place: a backward that has saved it fails with STN_ERR_STATE and names it.
 * Refused are results that are views or have views, and results that require grad while grad mode is on
 * (STN_ERR_STATE); tensors on a mesh, or with gaps in memory (STN_ERR_LAYOUT). Collective over `mesh`, whose ranks
 * agree first as those of a collective; ranks outside do nothing.
 *
 * `request` NULL: the result is there on return. Else the collective runs beside the caller until stn_dist_wait, and
 * neither tensor is touched before; both are held, and may be released. Several may be under way, and run in the
 * order of their calls. One that is begun for later does not begin with an agreement, which would wait for those
 * before it: peers of a rank whose arguments are refused alone wait until it comes to another collective or leaves, at
 * most for the deadline, and that and arguments that differ end the family.
 *
 * Gradient of these forms: none. Their errors: STN_ERR_ARGUMENT (mesh, root, op, sizes, messages, margin, a missing
 * tensor), STN_ERR_SHAPE (rows or dtypes of the two tensors do not fit), STN_ERR_DTYPE (it does not have the op),
 * STN_ERR_LAYOUT and STN_ERR_STATE (as above; a request in a captured step), STN_ERR_MISMATCH (ranks differ),
 * STN_ERR_MEMORY, STN_ERR_COMM, STN_ERR_PEER, STN_ERR_TIMEOUT; stn_dist_wait returns those of a request's transfer. */

/** A collective that is under way. */
typedef struct stn_dist_request stn_dist_request;

/** tensor = op over the ranks' tensors, on every one of them. @return errors of these forms. */
STN_API stn_status stn_dist_all_reduce_in_place(stn_tensor *tensor, const stn_mesh *mesh, stn_reduce_op op,
                                                stn_dist_request **request);

/** tensor = the root's, on every rank. @return errors of these forms. */
STN_API stn_status stn_dist_broadcast_in_place(stn_tensor *tensor, const stn_mesh *mesh, int root,
                                               stn_dist_request **request);

/** result = op over the ranks' inputs, on `root`. Both are row-major and of one shape.
 *  @param result  elsewhere not looked at: NULL will do.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_reduce_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op,
                                        int root, stn_dist_request **request);

/** result = the ranks' inputs joined along the first dim. Both are row-major.
 *  @param sizes  rows of each rank's input; NULL: all alike. The result's rows are their sum.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_all_gather_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                            const int64_t *sizes, stn_dist_request **request);

/** The same on `root` alone.
 *  @param result  elsewhere not looked at: NULL will do.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_gather_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                        const int64_t *sizes, int root, stn_dist_request **request);

/** result = this rank's rows of op over the ranks' inputs. Both are row-major.
 *  @param sizes  rows of each rank's result; NULL: the balanced cut.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_reduce_scatter_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                                const int64_t *sizes, stn_reduce_op op, stn_dist_request **request);

/** result = this rank's rows of the root's input. Both are row-major.
 *  @param input  elsewhere than on `root` not looked at: NULL will do.
 *  @param sizes  rows of each rank's result; their sum is the rows of the root's input. Not NULL: ranks without an
 *                input could not tell.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_scatter_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                         const int64_t *sizes, int root, stn_dist_request **request);

/** send_sizes[s] rows of the input go to rank s, receive_sizes[r] rows of the result come from rank r. Both tensors
 * are row-major.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_all_to_all_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                            const int64_t *send_sizes, const int64_t *receive_sizes,
                                            stn_dist_request **request);

/** result = what stn_dist_exchange would give along the first dim: rows that several messages bring are added, by rank,
 * rows that none brings are 0. Both tensors are row-major; the result has messages->length rows.
 *  @param messages  this rank's; borrowed for the call. Where ranges that are received overlap and are not the same,
 *                   they come into memory beside the result, and a request adds them up when it is waited for.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_exchange_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                          const stn_dist_messages *messages, stn_dist_request **request);

/** result = the input's rows with margins that other ranks fill, as stn_dist_halo's along the first dim. Both tensors
 * are row-major; the result has below + rows + above rows, none where the input has none.
 *  @param sizes  rows of each rank's input; NULL: all alike.
 *  @return errors of these forms. */
STN_API stn_status stn_dist_halo_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, const int64_t *sizes,
                                      const stn_dist_margin *margin, stn_dist_request **request);

/** Waits for a collective, frees the request and sets it to NULL, which it may have been: on ranks outside of the
 * mesh. On a device other than the CPU the queue waits, not the host. @return the collective's status. */
STN_API stn_status stn_dist_wait(stn_dist_request **request);

STN_END_DECLS
#endif
