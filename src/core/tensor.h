/* Tensors inside the library. */
#ifndef STNI_CORE_TENSOR_H
#define STNI_CORE_TENSOR_H

#include "core/box.h"
#include "core/storage.h"

struct stni_node;
struct stni_leaf;
struct stni_margin;

enum stni_tensor_flags {
    STNI_TENSOR_ERROR = 1,
    STNI_TENSOR_VIEW = 2,          /* made on another tensor's memory by a view op */
    STNI_TENSOR_REQUIRES_GRAD = 4  /* a leaf that requires grad, or the result of a node */
};

struct stn_tensor {
    atomic_int refs;
    uint32_t flags;
    stn_context *context;
    const stn_spec *spec; /* retained; a local tensor's has no mesh */
    struct stni_storage *storage;
    void *data; /* first element of this rank's chunk */
    int64_t strides[STN_MAX_NDIM]; /* elements */
    /* Autograd's: exactly one of node and leaf, or neither. Handles of the same logical value (redistributed inside a
     * call) share them. */
    struct stni_node *node;
    struct stni_leaf *leaf;
    int output; /* which output of the node */
    int scoped; /* a scope owns one reference */
    struct stni_margin *margin; /* NULL: none */
    stn_tensor *prev, *next; /* context->live; next also chains context->dead */
};

/* Margins: extra elements around a chunk inside its storage, `low` before and `high` after along each dim; strides include them.
 * The tag tells what they hold: a reader whose tag differs fetches again. */
struct stni_margin {
    int64_t low[STN_MAX_NDIM], high[STN_MAX_NDIM];
    int64_t valid_low[STN_MAX_NDIM], valid_high[STN_MAX_NDIM]; /* how much of them holds neighbours' elements */
    uint8_t boundary[STN_MAX_NDIM];
    uint32_t version; /* storage version at which they were filled; differs: stale */
};

/* A dense tensor of `spec`, elements not set, not yet in any scope: one reference, the caller's. */
stn_status stni_tensor_create(stn_context *context, const stn_spec *spec, stn_tensor **out);

/* The same with margins of the given widths (elements, per dim). */
stn_status stni_tensor_create_margin(stn_context *context, const stn_spec *spec, const int64_t *low, const int64_t *high,
                                     stn_tensor **out);

/* A tensor of `spec` on existing memory: `data` inside `storage`, which is retained. strides NULL: dense. */
stn_status stni_tensor_on(stn_context *context, const stn_spec *spec, struct stni_storage *storage, void *data,
                          const int64_t *strides, uint32_t flags, stn_tensor **out);

/* Hands a new tensor's reference to the innermost scope if one is open; returns it for the caller to return. */
stn_tensor *stni_tensor_publish(stn_tensor *tensor);

/* 1 if the chunk is dense in its spec's memory order. */
int stni_tensor_is_dense(const stn_tensor *tensor);

/* The chunk as a box of `ndim` dims. */
void stni_tensor_box(const stn_tensor *tensor, stn_box *box);

static inline int stni_is_error(const stn_tensor *t) { return (t->flags & STNI_TENSOR_ERROR) != 0; }

/* Dense in the spec's memory order: `tensor` itself, retained, or a dense copy. */
stn_status stni_tensor_dense(stn_tensor *tensor, stn_tensor **out);

#endif
