/* The block of a rank holds its rows and their indices. Where blocks go round, each step brings that of the rank one
 * further on, from its owner: no rank holds more than its own and one other. */
#include "ops/points/blocks.h"

#include "core/base/clamp.h"
#include "core/base/host_alloc.h"
#include "core/tensor/tensor.h"
#include "ops/exchange/messages.h"
#include "ops/placement/splits.h"

#include <string.h>

/* In the note, beside the axes that cut rows. */
#define MEET (UINT64_C(1) << 32)

/* Returns the axes that cut rows then. */
static uint32_t cut_rows(struct stni_layout *layout)
{
    uint32_t axes = 0;
    for (int a = 0; layout->mesh && a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind != STN_PLACE_REPLICATE) {
            layout->placement[a] = stn_shard(0);
            axes |= 1u << a;
        }
    return axes;
}

/* The layout with its placements set wants its rows cut as they were, where the same axes cut them. */
static stn_status want(stn_op_call *call, int input, struct stni_layout *layout)
{
    memset(layout->split, 0, sizeof layout->split);
    if (layout->mesh)
        stni_splits_take(layout, 0, &call->in_spec[input]->layout, 0, 1);
    return stni_spec_intern(call->context, layout, &call->want[input]);
}

static stn_status give(stn_op_call *call, int output)
{
    const struct stni_layout *queries = &call->want[STNI_QUERIES]->layout;
    const stn_meta *meta = &call->out_meta[output];
    struct stni_layout out;
    stni_layout_init(&out, queries->mesh, meta->dtype, meta->ndim, meta->shape);
    memcpy(out.placement, queries->placement, sizeof out.placement);
    memcpy(out.axis_order, queries->axis_order, sizeof out.axis_order);
    out.split[0] = queries->split[0];
    return stni_spec_intern(call->context, &out, &call->out_spec[output]);
}

stn_status stni_blocks_place(stn_op_call *call, int64_t row_bytes, double found_bytes)
{
    struct stni_layout rows = call->in_spec[STNI_ROWS]->layout, queries = call->in_spec[STNI_QUERIES]->layout;
    const double round = (double)rows.shape[0] * (double)row_bytes;
    const uint32_t axes = cut_rows(&rows);
    double met = found_bytes * (double)queries.shape[0];
    for (int a = 0; rows.mesh && a < rows.mesh->ndim; a++)
        met *= axes >> a & 1 ? rows.mesh->sizes[a] : 1;
    const int meet = axes && met <= round;
    cut_rows(&queries);
    for (int a = 0; queries.mesh && a < queries.mesh->ndim; a++)
        if (axes >> a & 1)
            queries.placement[a] = meet ? stn_replicate() : stn_shard(0);
    STNI_TRY(want(call, STNI_ROWS, &rows));
    STNI_TRY(want(call, STNI_QUERIES, &queries));
    for (int k = 0; k < call->n_out; k++)
        STNI_TRY(give(call, k));
    call->note = axes | (meet ? MEET : 0);
    return STN_OK;
}

struct stni_near_rows stni_near_rows_of(const stn_op_call *call, int input)
{
    const stn_tensor *t = call->in[input];
    return (struct stni_near_rows){t->data, t->spec->local_shape[0], t->strides[0], t->strides[1]};
}

/* Rows of a rank of the communicator, and where it is. */
static int64_t rows_of_rank(const struct stni_blocks *b, int rank, int *coordinate)
{
    const stn_spec *spec = b->call->in[STNI_ROWS]->spec;
    const stn_mesh *mesh = spec->layout.mesh;
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    memcpy(coordinate, mesh->coordinate, sizeof mesh->coordinate);
    for (int a = mesh->ndim - 1; a >= 0; a--)
        if (b->axes >> a & 1) {
            coordinate[a] = rank % mesh->sizes[a];
            rank /= mesh->sizes[a];
        }
    stni_spec_chunk_at(spec, coordinate, shape, offset);
    return shape[0];
}

/* What a device's block of n rows takes. */
static int64_t block_bytes(const struct stni_blocks *b, int64_t n)
{
    struct stni_block_pack_args args = {.shape = b->shape};
    args.shape.n = n;
    return n > 0 ? (int64_t)stn_op_workspace(b->call, b->pack_slot, args.shape.dtype, &args) : 0;
}

stn_status stni_blocks_begin(struct stni_blocks *b)
{
    const stn_spec *rows = b->call->in[STNI_ROWS]->spec;
    b->axes = (uint32_t)b->call->note;
    b->meet = (b->call->note & MEET) != 0;
    b->shape.n = rows->local_shape[0];
    b->shape.d = rows->layout.shape[1];
    return b->axes ? stni_mesh_comm(rows->layout.mesh, b->axes, &b->comm) : STN_OK;
}

static stn_status pack(struct stni_blocks *b)
{
    struct stni_block_pack_args args = {.shape = b->shape, .rows = stni_near_rows_of(b->call, STNI_ROWS)};
    if (b->shape.n == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(b->call, (size_t)block_bytes(b, b->shape.n), &b->mine));
    args.first = b->call->in[STNI_ROWS]->spec->local_offset[0];
    args.block = b->mine;
    return stn_op_launch(b->call, b->pack_slot, args.shape.dtype, &args, sizeof args);
}

static stn_status add_message(struct stni_messages *messages, struct stni_message_list *list, const int *coordinate,
                              void *data, int64_t bytes)
{
    const stn_box box = {data, 1, {bytes}, {1}};
    return bytes > 0 ? stni_messages_add(messages, list, coordinate, &box) : STN_OK;
}

/* This rank's block goes `step` ranks back, and that of the rank `step` further on comes. */
static stn_status step_round(struct stni_blocks *b, int step)
{
    const int ranks = b->comm->size, own = b->comm->rank;
    struct stni_messages messages = {.context = b->call->context, .axes = b->axes};
    struct stni_block_shape shape = b->shape;
    int to[STN_MAX_MESH_NDIM], from[STN_MAX_MESH_NDIM];
    messages.mesh = b->call->in[STNI_ROWS]->spec->layout.mesh;
    rows_of_rank(b, (own - step + ranks) % ranks, to);
    shape.n = rows_of_rank(b, (own + step) % ranks, from);
    stn_status status = add_message(&messages, &messages.send, to, b->mine, block_bytes(b, b->shape.n));
    if (status == STN_OK)
        status = add_message(&messages, &messages.recv, from, b->theirs, block_bytes(b, shape.n));
    if (status == STN_OK)
        status = stni_messages_exchange(&messages, STN_DTYPE_U8);
    stni_messages_fini(&messages);
    return status == STN_OK && shape.n > 0 ? b->visit(b->arg, &shape, b->theirs) : status;
}

stn_status stni_blocks_search(struct stni_blocks *b)
{
    int coordinate[STN_MAX_MESH_NDIM];
    int64_t largest = 0;
    STNI_TRY(pack(b));
    STNI_TRY(b->visit(b->arg, &b->shape, b->mine));
    if (!b->comm || b->meet)
        return STN_OK;
    for (int r = 0; r < b->comm->size; r++) {
        const int64_t n = r == b->comm->rank ? 0 : rows_of_rank(b, r, coordinate);
        largest = n > largest ? n : largest;
    }
    STNI_TRY(stn_op_scratch(b->call, (size_t)block_bytes(b, largest), &b->theirs));
    for (int step = 1; step < b->comm->size; step++)
        STNI_TRY(step_round(b, step));
    return STN_OK;
}

/* On the CPU what a core's cache holds; a device is given more at a time to do. */
int64_t stni_blocks_at_once(const struct stni_blocks *b, int64_t m, int64_t bytes)
{
    const int64_t buffer = b->call->context->device->is_cpu ? 1 << 18 : 1 << 24;
    return stni_clamp(buffer / (bytes * b->comm->size), 1, m);
}

stn_status stni_blocks_gather(const struct stni_blocks *b, const void *own, void *all, int64_t bytes)
{
    const size_t counts_bytes = (size_t)b->comm->size * sizeof(int64_t);
    int64_t *counts = stni_malloc(counts_bytes);
    if (!counts)
        return stni_fail_memory(b->call->context, "counts of candidates", counts_bytes);
    for (int r = 0; r < b->comm->size; r++)
        counts[r] = bytes / (int64_t)sizeof(int64_t);
    const stn_status status = stni_comm_all_gather(b->comm, b->call->context->queue, own, all, counts, STN_DTYPE_I64);
    stni_free(counts);
    return status;
}
