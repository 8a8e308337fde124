/* The ring of ranks among which keys and values go round: chunks of them come from the ranks that have them, one step
 * after another, and what they get goes back. Query rows of ranks with more work than others go the other way
 * (attention_ring_balance.h): to the ranks that have the keys, which return what they make of them.
 *
 * In step t the rank with chunk r attends to chunk r - t, counted around. Chunks are sent by their owners, which keep
 * them: nothing is passed on, so that a chunk goes exactly to the ranks that attend to it, and the next one may be on
 * its way whatever its owner does. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_RING_H
#define STNI_OPS_ATTENTION_ATTENTION_RING_H

#include "core/tensor/tensor.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_ring_balance.h"

/* Tensors that go between ranks, or whose gradients do: cut along their rows as keys are, the others as queries. */
enum stni_ring_tensor {
    STNI_RING_KEY,
    STNI_RING_VALUE,
    STNI_RING_QUERY,
    STNI_RING_OUT,
    STNI_RING_LSE,
    STNI_RING_GRAD,
    STNI_RING_TENSORS,
    STNI_RING_KEYS = 1 << STNI_RING_KEY | 1 << STNI_RING_VALUE
};

/* The two ends of what a rank does with another in a step: tensors that are the other's, and its own, which the other
 * has meanwhile. */
enum stni_ring_side { STNI_RING_THEIRS, STNI_RING_OWN };

/* An exchange that may be on its way. */
struct stni_ring_way {
    stn_request *request; /* NULL: it is done, or on the queue */
};

struct stni_attention_ring {
    const stn_op_call *call;
    const stn_spec *rows; /* whose rows are those of queries: the result's */
    const stn_tensor *tensor[STNI_RING_TENSORS];
    const stn_mesh *mesh;
    uint32_t axes;
    stn_comm *comm;
    const struct stni_split *split;      /* of key rows: a piece for each rank of the ring */
    int n_axes, axis[STN_MAX_MESH_NDIM]; /* major to minor */
    int own, size;                       /* this rank's piece, and how many there are */
    struct stni_ring_piece *piece;       /* of each rank */
    struct stni_ring_step *step;
    int beside;       /* exchanges go beside the caller */
    unsigned fetched; /* bit t: steps want tensor t of others */
    void *space[2];   /* for what is fetched in odd steps, and in even ones; the same where nothing goes beside */
    struct stni_ring_way fetch;
};

/* Local. `args` are the op's, `tensor` those that the op has; `fetched`: bits of those that steps want of others. */
stn_status stni_ring_init(const stn_op_call *call, const stn_spec *rows, const struct stni_attention_args *args,
                          const stn_tensor *const tensor[STNI_RING_TENSORS], unsigned fetched,
                          struct stni_attention_ring *ring);
void stni_ring_fini(struct stni_attention_ring *ring);

/* The rank that has the keys of a step, and the one that has the rows. */
int stni_ring_owner(const struct stni_attention_ring *ring, int step);
int stni_ring_reader(const struct stni_attention_ring *ring, int step);

/* Rows of a tensor that go in a step between this rank and another: to THEIRS belong keys that this rank reads and rows
 * that it borrows, to OWN those that are read and lent. */
int64_t stni_ring_moved(const struct stni_attention_ring *ring, int which, enum stni_ring_side side, int step);

/* The first `n_rows` rows of a tensor, or of its gradient, at `data`, dense and row-major: as a box, as an operand, and
 * how many elements. */
stn_box stni_ring_box(const struct stni_attention_ring *ring, int which, int64_t n_rows, void *data);
struct stni_attention_operand stni_ring_operand(const struct stni_attention_ring *ring, int which, int64_t n_rows,
                                                void *data);
int64_t stni_ring_numel(const struct stni_attention_ring *ring, int which, int64_t n_rows);

/* Where each of some tensors lies in memory for what moves in a step, side by side; gives the bytes of all. `dtype`
 * COUNT: each has its own. */
size_t stni_ring_lay_out(const struct stni_attention_ring *ring, unsigned tensors, enum stni_ring_side side, int step,
                         stn_dtype dtype, void *data, void *of[STNI_RING_TENSORS]);

/* As many bytes as any step wants. */
size_t stni_ring_most(const struct stni_attention_ring *ring, unsigned tensors, enum stni_ring_side side,
                      stn_dtype dtype);

/* Begins to fetch what a step above 0 wants; nothing for the one behind the last. Waits for it. Every rank of the ring
 * begins the same exchanges in the same order. */
stn_status stni_ring_fetch_begin(struct stni_attention_ring *ring, int step);
stn_status stni_ring_finish(const struct stni_attention_ring *ring, struct stni_ring_way *way);

/* Returns what a step has made for others: for the ranks from which its tensors came. `theirs` is sent, `own` received;
 * both lie as stni_ring_lay_out says, of `dtype`. */
stn_status stni_ring_return_begin(const struct stni_attention_ring *ring, unsigned tensors, int step, stn_dtype dtype,
                                  void *theirs, void *own, struct stni_ring_way *way);

/* The op's arguments made those of this rank's rows that are not lent in a step, or of those it borrows: their part of
 * keys, values and mask, where keys lie behind the first row, and the numbers of dropout. What is written lies as it
 * does in the whole, or is to be set. */
void stni_ring_describe_own(const struct stni_attention_ring *ring, int step, const struct stni_attention_args *whole,
                            struct stni_attention_args *args);
void stni_ring_describe_borrowed(const struct stni_attention_ring *ring, int step,
                                 const struct stni_attention_args *whole, struct stni_attention_args *args);

/* An operand without its first rows. */
struct stni_attention_operand stni_ring_behind(const struct stni_attention_operand *operand, int64_t rows,
                                               stn_dtype dtype);

#endif
