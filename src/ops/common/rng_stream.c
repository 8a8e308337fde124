#include "ops/common/rng_stream.h"

#include "core/context/context.h"

#include <string.h>

/* Streams of ops, distinct from the streams of other users of the generator. */
static const uint64_t STREAMS = UINT64_C(1) << 62;

stn_status stni_rng_stream_spec(const stn_op_call *call, const stn_mesh *mesh, const stn_spec **out)
{
    struct stni_layout layout;
    stni_layout_init(&layout, mesh, STN_DTYPE_I64, 0, NULL);
    return stni_spec_intern(call->context, &layout, out);
}

stn_status stni_rng_stream_take(const stn_op_call *call, int k, int slot)
{
    uint64_t stream;
    struct stni_remap_fill_args a;
    STNI_TRY(stni_random_draw(call->context, call->out[k]->spec->layout.mesh, &stream));
    stream |= STREAMS;
    if (call->out[k]->spec->local_numel == 0)
        return STN_OK; /* outside the mesh */
    memset(&a, 0, sizeof a);
    a.box.data = call->out[k]->data;
    a.element_size = sizeof stream;
    memcpy(a.value, &stream, sizeof stream);
    return stn_op_launch(call, slot, STN_DTYPE_I64, &a, sizeof a);
}
