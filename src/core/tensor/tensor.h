/* Tensors inside the library. */
#ifndef STNI_CORE_TENSOR_TENSOR_H
#define STNI_CORE_TENSOR_TENSOR_H

#include "core/box/box.h"
#include "core/tensor/storage.h"

struct stni_node;
struct stni_leaf;
struct stni_under_way;
struct stni_kept;

/* context->dead of a closed context that no thread is freeing handles of. */
#define STNI_NOBODY ((stn_tensor *)(uintptr_t)1)

enum stni_tensor_flags {
    STNI_TENSOR_ERROR = 1,
    STNI_TENSOR_VIEW = 2,          /* shows another tensor's elements, in its memory or not */
    STNI_TENSOR_REQUIRES_GRAD = 4, /* a leaf that requires grad, or the result of a node */
    STNI_TENSOR_DENSE = 8,         /* its strides are its spec's, and never change. Where they are so by chance it may lack the flag */
    STNI_TENSOR_SHARES = 16,       /* of a view: on every rank its elements, each of them once, lie in the memory that it shows */
    STNI_TENSOR_MOVED = 32,        /* the result of a redistribution that was begun: `under_way` is set */
    STNI_TENSOR_UNDER_WAY = 64,    /* its elements are not there yet: stni_tensor_arrive */
    STNI_TENSOR_KEEPS = 128,       /* `kept` is set: something is kept of its elements */
    STNI_TENSOR_COPY_ON_WRITE = 256 /* of a view: a value of its own, copied before a change; `next_copy` is set */
};

/* The error tensor is one per context: its references are never counted, its spec, storage and data are NULL. Its
 * address tells it apart (stni_is_counted), so that releasing it is harmless even when its context is gone. */
struct stn_tensor {
    atomic_int refs;
    uint32_t flags;
    stn_context *context; /* NULL while the slab holds it */
    const stn_spec *spec; /* retained; a local tensor's has no mesh */
    struct stni_storage *storage;
    struct stni_storage *shown; /* of a view: that of the tensor that it shows, which may be the same */
    void *data; /* first element of this rank's chunk */
    int64_t strides[STN_MAX_NDIM]; /* elements */
    /* Autograd's: exactly one of node and leaf, or neither. Handles of the same logical value (redistributed inside a
     * call) share them. */
    struct stni_node *node;
    struct stni_leaf *leaf;
    int output; /* which output of the node */
    int scoped; /* references that scopes own */
    union {
        struct stni_under_way *under_way; /* of a tensor that is STNI_TENSOR_MOVED alone */
        stn_tensor *next_copy; /* of one that is STNI_TENSOR_COPY_ON_WRITE: the next of context->copies */
    };
    struct stni_kept *kept;           /* of one that is STNI_TENSOR_KEEPS alone */
    stn_tensor *next_dead; /* context->dead */
};

/* A dense tensor of `spec`, elements not set, not yet in any scope: one reference, the caller's. */
stn_status stni_tensor_create(stn_context *context, const stn_spec *spec, stn_tensor **out);

/* A tensor of `spec` on existing memory: `data` inside `storage`, which is retained. strides NULL: dense. `flags`:
 * not STNI_TENSOR_DENSE, which follows from the strides. */
stn_status stni_tensor_on(stn_context *context, const stn_spec *spec, struct stni_storage *storage, void *data,
                          const int64_t *strides, uint32_t flags, stn_tensor **out);

/* Makes a tensor a view of `base`, or of what that is a view of; or takes that back. Whether it is one follows from
 * the program and not from the layout: a chunk that had to move, or is empty on this rank, is one in memory of its
 * own. */
void stni_tensor_show(stn_tensor *tensor, const stn_tensor *base);

/* As stni_tensor_show, of what is copied before a change and so hinders none, whether `base` requires grad or not. */
void stni_tensor_show_elements(stn_tensor *tensor, const stn_tensor *base);
void stni_tensor_show_nothing(stn_tensor *tensor);

/* As stni_tensor_show, of a view that shares `base`'s memory on every rank, unless its chunk is empty there: what is
 * changed through one is changed in the other. Layouts and attributes alone may say so. Of a base that is a view
 * apart, so is this one. */
void stni_tensor_share(stn_tensor *tensor, const stn_tensor *base);

/* For a second handle on the elements of `tensor`: shows what that shows, if anything, in the same way, and keeps what
 * is kept of them. */
void stni_tensor_show_as(stn_tensor *handle, const stn_tensor *tensor);

/* Before a tensor's elements are used: waits for those that are under way. Refused (STN_ERR_STATE, on every rank)
 * where what they come from was changed in place meanwhile; the failure is kept. Afterwards the elements are as they
 * are. */
stn_status stni_tensor_arrive(stn_tensor *tensor);

/* As a part of freeing it. That nobody has waited is kept as an error of the caller. */
void stni_tensor_drop_under_way(stn_tensor *tensor);

/* 1 for a view that neither shares memory on every rank nor is a value of its own. */
static inline int stni_tensor_is_apart(const stn_tensor *tensor)
{
    const uint32_t flags = STNI_TENSOR_VIEW | STNI_TENSOR_SHARES | STNI_TENSOR_COPY_ON_WRITE;
    return (tensor->flags & flags) == STNI_TENSOR_VIEW;
}

/* Where the elements lie that a tensor has or shows. */
static inline struct stni_storage *stni_tensor_root(const stn_tensor *tensor)
{
    return tensor->flags & STNI_TENSOR_VIEW ? tensor->shown : tensor->storage;
}

/* 1 if views that would not follow hinder a change of the elements that a tensor has or shows. */
static inline int stni_tensor_has_views_apart(const stn_tensor *tensor)
{
    return tensor->context->stale_views == 0 &&
           atomic_load_explicit(&stni_tensor_root(tensor)->apart, memory_order_relaxed) > 0;
}

/* Drops a reference on the context's thread; the last one frees at once, its memory is the next tensor's. Accepts
 * NULL. (The public stn_tensor_release may run on any thread, so that it leaves the handle to stni_context_reap.) */
void stni_tensor_release_here(stn_tensor *tensor);

/* The same for a variable: accepts NULL and sets it to NULL. */
static inline void stni_tensor_drop(stn_tensor **tensor)
{
    if (*tensor)
        stni_tensor_release_here(*tensor);
    *tensor = NULL;
}

/* Frees a handle whatever its references. */
void stni_tensor_free(stn_tensor *tensor);

/* Handles begin at multiples of 16 bytes, error tensors in the middle between two. */
enum { STNI_ERROR_TENSOR_OFFSET = 8 };

static inline int stni_is_counted(const stn_tensor *tensor)
{
    return ((uintptr_t)tensor & STNI_ERROR_TENSOR_OFFSET) == 0;
}

/* For actions on a tensor that `what` names ("to_host: tensor"): the kept error of its context, or STN_ERR_STATE,
 * then kept, for an error tensor whose failure was taken. STN_ERR_ARGUMENT for NULL, which no context can keep. */
stn_status stni_tensor_require(const stn_tensor *tensor, const char *what);

/* Hands a new tensor's reference to the innermost scope if one is open; returns it for the caller to return. Where
 * the scope cannot grow the tensor is released, and the error tensor returned. */
stn_tensor *stni_tensor_publish(stn_tensor *tensor);

/* 1 if the chunk is dense in its spec's memory order. */
int stni_tensor_is_dense(const stn_tensor *tensor);

/* 1 if a caller's memory stands for the same elements again and again: a change would be made to each as often. What
 * lies on a mesh in such memory is a view apart. */
int stni_tensor_repeats_elements(const stn_tensor *tensor);

/* 1 if the host may take the chunk for a row-major array: it is one, of the CPU. Once the queue has come so far. */
int stni_tensor_is_host_array(const stn_tensor *tensor);

/* The chunk as a box of the tensor's dims; outside the mesh, of a tensor without dims, one dim of no elements. */
void stni_tensor_box(const stn_tensor *tensor, stn_box *box);

/* Queues a copy of the chunk's elements, of one local shape and dtype. A failure is the queue's: not kept here. */
stn_status stni_tensor_copy_elements(const stn_tensor *to, const stn_tensor *from);

static inline int stni_is_error(const stn_tensor *t) { return (t->flags & STNI_TENSOR_ERROR) != 0; }

/* Copies the chunk from host memory, row-major, and waits for it. */
stn_status stni_tensor_fill(stn_tensor *tensor, const void *data);

/* Dense in the spec's memory order: `tensor` itself, retained, or a dense copy (without history). */
stn_status stni_tensor_dense(stn_tensor *tensor, stn_tensor **out);

#endif
