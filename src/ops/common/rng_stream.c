#include "ops/common/rng_stream.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/device/recording.h"
#include "dispatch/services.h"

#include <stddef.h>
#include <string.h>

/* Streams of ops, distinct from the streams of other users of the generator. */
static const uint64_t STREAMS = UINT64_C(1) << 62;

stn_meta stni_rng_stream_meta(void)
{
    return (stn_meta){.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {2}};
}

stn_status stni_rng_stream_spec(const stn_op_call *call, const stn_mesh *mesh, const stn_spec **out)
{
    struct stni_layout layout;
    const stn_meta meta = stni_rng_stream_meta();
    stni_layout_init(&layout, mesh, meta.dtype, meta.ndim, meta.shape);
    return stni_spec_intern(call->context, &layout, out);
}

/* A kernel that draws, as repetitions of a captured step launch it. */
struct recorded {
    struct stni_rng_use use;
    uint64_t seed; /* that the kernel was called with */
    max_align_t args[];
};

static stn_status draw(const struct stni_rng_use *use)
{
    uint64_t stream;
    STNI_TRY(stni_random_draw(use->context, use->mesh, &stream));
    stream |= use->mark;
    memcpy((char *)use->args + use->stream_at, &stream, sizeof stream);
    return use->is_empty ? STN_OK : stni_slot_launch(use->op, use->slot, use->dtype, use->args, use->args_size);
}

static stn_status draw_again(void *arg)
{
    const struct recorded *recorded = arg;
    return draw(&recorded->use);
}

/* The seed is in arguments of recorded kernels. */
static stn_status check_seed(void *arg)
{
    const struct recorded *recorded = arg;
    stn_context *context = recorded->use.context;
    if (context->seed == recorded->seed)
        return STN_OK;
    return stni_fail(context, STN_ERR_STATE,
                     "step_run: the seed of random numbers got %llu since the step was captured with %llu",
                     (unsigned long long)context->seed, (unsigned long long)recorded->seed);
}

static stn_status record(const struct stni_rng_use *use)
{
    struct recorded *kept = stni_malloc(sizeof *kept + use->args_size);
    if (!kept)
        return stni_fail_memory(use->context, "recorded random numbers", sizeof *kept + use->args_size);
    kept->use = *use;
    kept->use.args = memcpy(kept->args, use->args, use->args_size);
    kept->seed = use->context->seed;
    return stni_recording_call(use->context->queue,
                               &(struct stni_recorded_call){draw_again, stni_free, kept, check_seed, "random numbers"});
}

stn_status stni_rng_launch(const struct stni_rng_use *use)
{
    return stni_recording_is_on(use->context->queue) ? record(use) : draw(use);
}

stn_status stni_rng_stream_take(const stn_op_call *call, int k, int slot)
{
    const stn_tensor *out = call->out[k];
    struct stni_remap_fill_args args;
    /* Both numbers as one element. */
    memset(&args, 0, sizeof args);
    args.box.data = out->data;
    args.element_size = 2 * sizeof(uint64_t);
    memcpy(args.value + sizeof(uint64_t), &call->context->seed, sizeof(uint64_t));
    return stni_rng_launch(&(struct stni_rng_use){.context = call->context,
                                                  .mesh = out->spec->layout.mesh,
                                                  .op = call->op,
                                                  .slot = slot,
                                                  .dtype = STN_DTYPE_I64,
                                                  .is_empty = out->spec->local_numel == 0,
                                                  .mark = STREAMS,
                                                  .args = &args,
                                                  .args_size = sizeof args,
                                                  .stream_at = offsetof(struct stni_remap_fill_args, value)});
}
