/* The ring of ranks among which keys and values go round: chunks of them come from the ranks that have them, one step
 * after another, and what they get goes back.
 *
 * In step t the rank with chunk r attends to chunk r - t, counted around. Chunks are sent by their owners, which keep
 * them: nothing is passed on, so that a chunk goes exactly to the ranks that attend to it, and the next one may be on
 * its way whatever its owner does. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_RING_H
#define STNI_OPS_ATTENTION_ATTENTION_RING_H

#include "core/tensor/tensor.h"
#include "ops/attention/attention.h"

enum { STNI_RING_KEY, STNI_RING_VALUE, STNI_RING_TENSORS };

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
    int is_causal;
    int beside;                        /* exchanges go beside the caller */
    void *chunk[2][STNI_RING_TENSORS]; /* of others: those of odd steps, of even ones */
    struct stni_ring_way fetch;
};

/* Local. `args` are the op's. */
stn_status stni_ring_init(const stn_op_call *call, const stn_spec *rows, const struct stni_attention_args *args,
                          struct stni_attention_ring *ring);

/* Which piece this rank attends to in a step, and whose rank attends to this one's. */
int stni_ring_piece(const struct stni_attention_ring *ring, int step);
int stni_ring_reader(const struct stni_attention_ring *ring, int step);

/* Key rows of a piece. */
int64_t stni_ring_first(const struct stni_attention_ring *ring, int piece);
int64_t stni_ring_length(const struct stni_attention_ring *ring, int piece);

/* Whether any query row of the rank with piece `reader` may attend to any key of a piece. */
int stni_ring_attends(const struct stni_attention_ring *ring, int reader, int piece);

/* Elements of a piece of the keys or values, with this rank's batch. */
int64_t stni_ring_numel(const struct stni_attention_ring *ring, int which, int piece);

/* Such a piece at `data`, dense and row-major, as a box and as an operand. */
stn_box stni_ring_box(const struct stni_attention_ring *ring, int which, int piece, void *data);
struct stni_attention_operand stni_ring_operand(const struct stni_attention_ring *ring, int which, int piece,
                                                void *data);

/* Where the keys and values of a step above 0 are. */
void *const *stni_ring_chunk(const struct stni_attention_ring *ring, int step);

/* Memory for the longest piece that any rank has, of elements of `dtype`. */
stn_status stni_ring_space(const struct stni_attention_ring *ring, int which, stn_dtype dtype, void **out);

/* Begins to fetch the piece of a step above 0; the space of the step before the last is written to. Waits for it.
 * Every rank of the ring begins the same steps. */
stn_status stni_ring_fetch_begin(struct stni_attention_ring *ring, int step);
stn_status stni_ring_finish(const struct stni_attention_ring *ring, struct stni_ring_way *way);

/* Sends what the step's piece has got, `from`, to its owner, and receives in `to` what the step's reader has for this
 * rank's. Elements of `dtype`, dense. */
stn_status stni_ring_return_begin(const struct stni_attention_ring *ring, int step, stn_dtype dtype,
                                  void *const from[STNI_RING_TENSORS], void *const to[STNI_RING_TENSORS],
                                  struct stni_ring_way *way);

/* The op's arguments made those of a step: its part of keys, values and mask, where keys lie behind the first row, and
 * the numbers of dropout. */
void stni_ring_describe(const struct stni_attention_ring *ring, int step, const struct stni_attention_args *whole,
                        struct stni_attention_args *args);

#endif
