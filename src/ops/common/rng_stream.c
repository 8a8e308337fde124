#include "ops/common/rng_stream.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/device/recording.h"
#include "dispatch/services.h"

#include <string.h>

/* Streams of ops, distinct from the streams of other users of the generator. */
static const uint64_t STREAMS = UINT64_C(1) << 62;

stn_status stni_rng_stream_spec(const stn_op_call *call, const stn_mesh *mesh, const stn_spec **out)
{
    struct stni_layout layout;
    stni_layout_init(&layout, mesh, STN_DTYPE_I64, 0, NULL);
    return stni_spec_intern(call->context, &layout, out);
}

/* What taking a stream needs, now and in each repetition of a captured step. */
struct taking {
    stn_context *context;
    const stn_mesh *mesh;
    const stn_op *op;
    int slot, is_empty; /* the latter: this rank is outside the mesh */
    uint64_t seed;      /* that the op was called with */
    struct stni_remap_fill_args args;
};

static stn_status take(void *arg)
{
    struct taking *t = arg;
    uint64_t stream;
    STNI_TRY(stni_random_draw(t->context, t->mesh, &stream));
    stream |= STREAMS;
    memcpy(t->args.value, &stream, sizeof stream);
    return t->is_empty ? STN_OK : stni_slot_launch(t->op, t->slot, STN_DTYPE_I64, &t->args, sizeof t->args);
}

static stn_status check_seed(void *arg)
{
    const struct taking *t = arg;
    if (t->context->seed == t->seed)
        return STN_OK;
    return stni_fail(t->context, STN_ERR_STATE, "step_run: the seed of random numbers got %llu since the step was captured with %llu",
                     (unsigned long long)t->context->seed, (unsigned long long)t->seed);
}

static stn_status take_recorded(const struct taking *t)
{
    struct taking *kept = stni_malloc(sizeof *kept);
    if (!kept)
        return stni_fail_memory(t->context, "a recorded random stream", sizeof *kept);
    *kept = *t;
    return stni_recording_call(t->context->queue, &(struct stni_recorded_call){take, stni_free, kept, check_seed, "random stream"});
}

stn_status stni_rng_stream_take(const stn_op_call *call, int k, int slot)
{
    stn_context *context = call->context;
    struct taking t;
    memset(&t, 0, sizeof t);
    t.context = context;
    t.mesh = call->out[k]->spec->layout.mesh;
    t.op = call->op;
    t.slot = slot;
    t.is_empty = call->out[k]->spec->local_numel == 0;
    t.seed = context->seed;
    t.args.box.data = call->out[k]->data;
    t.args.element_size = sizeof(uint64_t);
    return stni_recording_is_on(context->queue) ? take_recorded(&t) : take(&t);
}
