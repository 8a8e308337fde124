#include "autograd/bucket.h"

#include "core/comm/comm.h"
#include "core/tensor/storage.h"

#include <string.h>

enum { BUCKET_BYTES = 4 << 20, ALIGNMENT = 64 };

static size_t size_of(const stn_tensor *t)
{
    return stn_dtype_size(t->spec->layout.dtype);
}

/* Elements, so many that the next tensor begins aligned. */
static int64_t padded(const stn_tensor *t)
{
    const int64_t per_line = ALIGNMENT / (int64_t)size_of(t);
    return (t->spec->local_numel + per_line - 1) / per_line * per_line;
}

int stni_bucket_fill(const struct stni_bucket_item *items, int n)
{
    int64_t elements = padded(items[0].in);
    int taken = 1;
    for (; taken < n; taken++) {
        elements += padded(items[taken].in);
        if (elements * (int64_t)size_of(items[0].in) > BUCKET_BYTES)
            break;
    }
    return taken;
}

static int64_t elements_of(int n, const struct stni_bucket_item *items)
{
    int64_t elements = 0;
    for (int i = 0; i < n; i++)
        elements += padded(items[i].in);
    return elements;
}

static stn_status copy_in(stn_context *context, int n, const struct stni_bucket_item *items, char *buffer)
{
    for (int i = 0; i < n; i++) {
        const stn_tensor *t = items[i].in;
        stn_box from, to;
        stni_tensor_box(t, &from);
        to = from;
        to.data = buffer;
        for (int d = 0; d < to.ndim; d++)
            to.strides[d] = t->spec->strides[d];
        STNI_TRY(stni_box_copy(context->queue, &to, &from, size_of(t)));
        buffer += padded(t) * (int64_t)size_of(t);
    }
    return STN_OK;
}

static stn_status hand_out(stn_context *context, int n, struct stni_bucket_item *items, struct stni_storage *storage)
{
    char *at = storage->data;
    for (int i = 0; i < n; i++) {
        STNI_TRY(stni_tensor_on(context, items[i].spec, storage, at, NULL, 0, &items[i].out));
        at += padded(items[i].in) * (int64_t)size_of(items[i].in);
    }
    return STN_OK;
}

/* A tensor alone is reduced from where it lies, if that is as its spec says. */
static int is_ready(int n, const stn_tensor *t)
{
    return n == 1 && memcmp(t->strides, t->spec->strides, (size_t)t->spec->layout.ndim * sizeof t->strides[0]) == 0;
}

static stn_status reduce(stn_context *context, stn_comm *comm, stn_reduce_op op, int n,
                         const struct stni_bucket_item *items, void *buffer, stn_request **request)
{
    const stn_dtype dtype = items[0].in->spec->layout.dtype;
    const int ready = is_ready(n, items[0].in);
    const void *send = ready ? items[0].in->data : buffer;
    const int64_t elements = ready ? items[0].in->spec->local_numel : elements_of(n, items);
    if (!ready)
        STNI_TRY(copy_in(context, n, items, buffer));
    return request ? stni_comm_all_reduce_begin(comm, send, buffer, elements, dtype, op, NULL, request)
                   : stni_comm_all_reduce(comm, context->queue, send, buffer, elements, dtype, op);
}

int stni_bucket_takes(const struct stni_bucket_item *items, int n, const stn_tensor *in)
{
    return (elements_of(n, items) + padded(in)) * (int64_t)size_of(in) <= BUCKET_BYTES;
}

int stni_bucket_is_full(const struct stni_bucket_item *items, int n)
{
    return elements_of(n, items) * (int64_t)size_of(items[0].in) >= BUCKET_BYTES;
}

stn_status stni_bucket_reduce(stn_context *context, stn_comm *comm, stn_reduce_op op, int n,
                              struct stni_bucket_item *items, stn_request **request)
{
    struct stni_storage *storage = NULL;
    STNI_TRY(stni_storage_create(context, (size_t)elements_of(n, items) * size_of(items[0].in), &storage));
    stn_status status = hand_out(context, n, items, storage);
    if (status == STN_OK)
        status = reduce(context, comm, op, n, items, storage->data, request);
    stni_storage_release(storage);
    return status;
}
