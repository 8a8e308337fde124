#include "train/update.h"

#include "core/base/host_alloc.h"
#include "core/device/recording.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/copy_on_write.h"
#include "dispatch/services.h"

#include <shardtensor/autograd.h>

#include <string.h>

void stni_update_begin(struct stni_update *update, stn_context *context, enum stni_update_kind kind)
{
    update->context = context;
    update->renewal = NULL;
    update->index = 0;
    memset(&update->args, 0, sizeof update->args); /* numbers are compared by their bytes */
    update->args.kind = kind;
}

static const stn_op *update_op(const stn_context *context)
{
    return stni_registry_find(context, stni_op_update.name);
}

static void drop(struct stni_update *update)
{
    for (int i = 0; i < update->args.n; i++)
        stni_tensor_drop(&update->held[i]);
    update->args.n = 0;
}

/* One kernel updates, averages and clips; which of these a launch does, the enclosing span of the trace says. */
static stn_status launch_list(stn_context *context, struct stni_update_args *args)
{
    const stn_op *op = update_op(context);
    const size_t bytes = stni_slot_workspace(op, 0, args->dtype, args);
    size_t capacity;
    if (stni_mempool_take(context->pool, bytes, &args->workspace, &capacity) != STN_OK)
        return stni_fail_memory(context, "workspace of an update", bytes);
    stn_status status = stni_slot_launch(op, 0, args->dtype, args, sizeof *args);
    stni_mempool_release(context->pool, args->workspace, capacity);
    return status;
}

/* A list of a captured step. */
struct recorded {
    stn_context *context;
    struct stni_update_renewal renewal;
    int indices[STNI_UPDATE_CHUNKS];
    struct stni_update_args args;
};

static int fits(const struct stni_update_args *args, stn_dtype dtype, const struct stni_update_numbers *numbers)
{
    return args->n < STNI_UPDATE_CHUNKS && args->dtype == dtype &&
           memcmp(&args->numbers, numbers, sizeof *numbers) == 0;
}

/* Chunks whose numbers were the same may differ now: each stretch that has the same ones still is a list. */
static stn_status launch_again(void *arg)
{
    const struct recorded *recorded = arg;
    const struct stni_update_renewal *renewal = &recorded->renewal;
    struct stni_update_args args = {.kind = recorded->args.kind, .dtype = recorded->args.dtype};
    for (int i = 0; i < recorded->args.n; i++) {
        struct stni_update_numbers numbers;
        renewal->numbers(renewal->owner, recorded->indices[i], &numbers);
        if (args.n > 0 && !fits(&args, args.dtype, &numbers)) {
            STNI_TRY(launch_list(recorded->context, &args));
            args.n = 0;
        }
        args.numbers = numbers;
        args.chunk[args.n++] = recorded->args.chunk[i];
    }
    return launch_list(recorded->context, &args);
}

static stn_status check_again(void *arg)
{
    const struct recorded *recorded = arg;
    return recorded->renewal.check(recorded->renewal.owner);
}

static void forget(void *arg)
{
    struct recorded *recorded = arg;
    recorded->renewal.release(recorded->renewal.owner);
    stni_free(recorded);
}

static stn_status launch_recorded(const struct stni_update *update)
{
    struct recorded *recorded = stni_malloc(sizeof *recorded);
    if (!recorded)
        return stni_fail_memory(update->context, "a recorded update", sizeof *recorded);
    *recorded = (struct recorded){.context = update->context, .renewal = *update->renewal, .args = update->args};
    memcpy(recorded->indices, update->indices, sizeof recorded->indices);
    recorded->renewal.retain(recorded->renewal.owner);
    return stni_recording_call(update->context->queue,
                               &(struct stni_recorded_call){launch_again, forget, recorded, check_again, "update"});
}

static stn_status launch(struct stni_update *update)
{
    stn_context *context = update->context;
    if (update->args.n == 0)
        return STN_OK;
    const int records = update->renewal != NULL && stni_recording_is_on(context->queue);
    stn_status status = records ? launch_recorded(update) : launch_list(context, &update->args);
    drop(update);
    return status;
}

stn_status stni_update_add(struct stni_update *update, const struct stni_update_numbers *numbers, int n,
                           stn_tensor *const *tensors, uint32_t written, stn_tensor *hold)
{
    struct stni_update_args *args = &update->args;
    const stn_spec *spec = tensors[0]->spec;
    struct stni_update_chunk chunk = {.n = spec->local_numel};
    stn_status status = fits(args, spec->layout.dtype, numbers) ? STN_OK : launch(update);
    for (int i = 0; i < n; i++) {
        if (status == STN_OK && (written >> i & 1))
            status = stni_tensor_before_write(tensors[i]);
        chunk.at[i] = tensors[i]->data;
        if (written >> i & 1)
            tensors[i]->storage->version++; /* of an empty chunk too: ranks refuse alike what has saved it */
    }
    if (status != STN_OK || chunk.n == 0) {
        stni_tensor_drop(&hold);
        return status;
    }
    args->dtype = spec->layout.dtype;
    args->numbers = *numbers;
    args->chunk[args->n] = chunk;
    update->indices[args->n] = update->index;
    update->held[args->n++] = hold;
    return STN_OK;
}

stn_status stni_update_end(struct stni_update *update, stn_status status)
{
    if (status == STN_OK)
        status = launch(update);
    drop(update);
    return status;
}

stn_status stni_update_check_writable(stn_context *context, const char *what, const char *name,
                                      const stn_tensor *tensor)
{
    if (!tensor->storage->frozen)
        return STN_OK;
    return stni_fail(context, STN_ERR_STATE, "%s: '%s' is immutable, wanted a tensor that may be changed", what, name);
}

stn_status stni_update_check(stn_context *context, const char *what, const char *name, stn_tensor *tensor)
{
    if (!tensor)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: '%s' got NULL, wanted a tensor", what, name);
    STNI_TRY(stni_tensor_require(tensor, what));
    if (tensor->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: '%s' belongs to another context", what, name);
    const struct stni_layout *layout = &tensor->spec->layout;
    if (layout->dtype != STN_DTYPE_F32 && layout->dtype != STN_DTYPE_F64)
        return stni_fail(context, STN_ERR_DTYPE, "%s: '%s' is %s, wanted f32 or f64", what, name,
                         stn_dtype_name(layout->dtype));
    for (int a = 0; layout->mesh && a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind == STN_PLACE_PARTIAL)
            return stni_fail(context, STN_ERR_PARTIAL, "%s: '%s' is Partial on mesh axis %d, wanted Shard or Replicate",
                             what, name, a);
    STNI_TRY(stni_tensor_own_memory(tensor));
    if (tensor->flags & STNI_TENSOR_VIEW || !stni_tensor_is_dense(tensor))
        return stni_fail(context, STN_ERR_STATE, "%s: '%s' is a view, wanted a tensor with memory of its own", what,
                         name);
    STNI_TRY(stni_update_check_writable(context, what, name, tensor));
    if (!update_op(context)->slots[0].winner[layout->dtype].function)
        return stni_fail(context, STN_ERR_UNSUPPORTED, "%s: no kernel for device %s", what, context->device->name);
    return STN_OK;
}

stn_status stni_update_gradient(stn_tensor *leaf, stn_tensor **out)
{
    stn_tensor *grad, *placed;
    *out = NULL;
    STNI_TRY(stn_grad_of(leaf, &grad));
    if (!grad)
        return STN_OK;
    STNI_TRY(stni_redistribute(grad, leaf->spec, &placed));
    stn_status status = stni_tensor_dense(placed, out);
    stni_tensor_drop(&placed);
    return status;
}

static const stn_kernel_slot slots[] = {{"chunks", sizeof(struct stni_update_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("chunks", 1u << STN_DTYPE_F32 | 1u << STN_DTYPE_F64, struct stni_update_args, stni_update_cpu, NULL)};

const stn_op_desc stni_op_update = {
    .size = sizeof(stn_op_desc),
    .name = "update",
    .impl = &(const stn_op_impl){STN_SLOTS(slots), STN_KERNELS(kernels)},
    .flags = STN_OP_INTERNAL,
};
