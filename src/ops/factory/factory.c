/* full, arange, linspace, eye: tensors made in the layout that the caller gives; each rank makes its own chunk,
 * without communication. */
#include "ops/factory/factory.h"

#include "core/base/dtype.h"
#include "core/tensor/scope.h"
#include "core/redistribute/redistribute.h"
#include "dispatch/services.h"
#include "ops/common/promote.h"
#include "ops/common/rng_stream.h"
#include "ops/table.h"

#include <shardtensor/ops_factory.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

stn_tensor *stni_factory_fail(stn_context *context, stn_status status, const char *format, ...)
{
    char text[STNI_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stni_fail(context, status, "%s", text);
    return context->error_tensor;
}

int stni_factory_ready(stn_context *context, const char *name, const stn_spec *spec)
{
    stni_context_reap(context);
    if (context->error.status != STN_OK)
        return 0;
    if (!spec || spec->context != context)
        stni_fail(context, STN_ERR_ARGUMENT, "%s: 'spec' got %s, wanted one of the context", name,
                  spec ? "one of another context" : "NULL");
    return context->error.status == STN_OK;
}

int stni_factory_ready_floating(stn_context *context, const char *name, const stn_spec *spec)
{
    if (!stni_factory_ready(context, name, spec))
        return 0;
    if (!stni_dtype_is_floating(spec->layout.dtype))
        stni_fail(context, STN_ERR_DTYPE, "%s: 'spec' got %s, wanted a floating dtype", name,
                  stn_dtype_name(spec->layout.dtype));
    return context->error.status == STN_OK;
}

int stni_factory_takes(const stn_spec *spec, const char *name, const char *argument, double value)
{
    const stn_dtype dtype = spec->layout.dtype;
    const stn_number number = stni_number(value);
    if (stni_number_fits(&number, dtype))
        return 1;
    stni_fail(spec->context, STN_ERR_DTYPE, "%s: '%s' got %g, wanted a number that %s has", name, argument, value,
              stn_dtype_name(dtype));
    return 0;
}

/* The spec with replicas where reductions are to be pending. */
static stn_status without_partial(const stn_spec *spec, const stn_spec **out)
{
    struct stni_layout layout = spec->layout;
    *out = spec;
    if (!stni_layout_reduce(&layout, 0))
        return STN_OK;
    return stni_spec_intern(spec->context, &layout, out);
}

static stn_status launch(stn_tensor *tensor, struct stni_factory_args *args)
{
    const stn_spec *spec = tensor->spec;
    const stn_op *op = tensor->context->registry->ops[STNI_OP_factory];
    const int is_empty = spec->local_numel == 0;
    args->dtype = spec->layout.dtype;
    memcpy(args->shape, spec->layout.shape, sizeof spec->layout.shape);
    memcpy(args->offset, spec->local_offset, sizeof spec->local_offset);
    stni_tensor_box(tensor, &args->dst);
    if (args->value < STNI_FACTORY_UNIFORM)
        return is_empty ? STN_OK : stni_slot_launch(op, 0, args->dtype, args, sizeof *args);
    return stni_rng_launch(&(struct stni_rng_use){.context = tensor->context,
                                                  .mesh = spec->layout.mesh,
                                                  .op = op,
                                                  .dtype = args->dtype,
                                                  .is_empty = is_empty,
                                                  .args = args,
                                                  .args_size = sizeof *args,
                                                  .stream_at = offsetof(struct stni_factory_args, stream)});
}

/* A replica becomes a pending reduction by itself: no rank sends anything. */
static stn_status make(stn_context *context, const stn_spec *spec, struct stni_factory_args *args, stn_tensor **out)
{
    const stn_spec *complete;
    stn_tensor *made;
    STNI_TRY(without_partial(spec, &complete));
    STNI_TRY(stni_tensor_create(context, complete, &made));
    stn_status status = launch(made, args);
    if (status == STN_OK)
        status = stni_redistribute(made, spec, out);
    stni_tensor_drop(&made);
    return status;
}

stn_tensor *stni_factory_make(stn_context *context, const stn_spec *spec, struct stni_factory_args *args)
{
    stn_tensor *tensor;
    args->seed = context->seed;
    args->stream = 0;
    context->busy++; /* what is interned on the way is kept */
    const stn_status status = make(context, spec, args, &tensor);
    context->busy--;
    if (status == STN_OK)
        return stni_tensor_publish(tensor);
    if (context->error.status == STN_OK) /* ranks that were to compare their streams did not come */
        stni_fail_rank(context, status, "random numbers: %s", stni_context_failure_text(context, status));
    return context->error_tensor;
}

stn_tensor *stn_full(stn_context *context, const stn_spec *spec, double value)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_CONSTANT, .a = value};
    if (!context)
        return NULL;
    if (!stni_factory_ready(context, "full", spec) || !stni_factory_takes(spec, "full", "value", value))
        return context->error_tensor;
    return stni_factory_make(context, spec, &args);
}

stn_tensor *stn_zeros(stn_context *context, const stn_spec *spec)
{
    return stn_full(context, spec, 0);
}

stn_tensor *stn_ones(stn_context *context, const stn_spec *spec)
{
    return stn_full(context, spec, 1);
}

/* One of `ndim` dims. */
static stn_tensor *make_of(stn_context *context, const char *name, const stn_spec *spec, int ndim,
                           struct stni_factory_args *args)
{
    if (!context)
        return NULL;
    if (!stni_factory_ready(context, name, spec))
        return context->error_tensor;
    if (spec->layout.ndim != ndim)
        return stni_factory_fail(context, STN_ERR_SHAPE, "%s: 'spec' got %d dims, wanted %d", name, spec->layout.ndim,
                                 ndim);
    return stni_factory_make(context, spec, args);
}

/* Steps go one way, so that what the first and the last element fit, all do. */
static int takes_steps(const stn_spec *spec, double start, double step)
{
    const int64_t n = spec->layout.ndim == 1 ? spec->layout.shape[0] : 0;
    const double last = start + step * (double)(n - 1);
    const stn_number ends[] = {stni_number(start), stni_number(last)};
    if (n <= 0 || (stni_number_fits(&ends[0], spec->layout.dtype) && stni_number_fits(&ends[1], spec->layout.dtype)))
        return 1;
    stni_fail(spec->context, STN_ERR_DTYPE, "arange: got %g to %g, wanted numbers that %s has", start, last,
              stn_dtype_name(spec->layout.dtype));
    return 0;
}

stn_tensor *stn_arange(stn_context *context, const stn_spec *spec, double start, double step)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_RAMP, .a = start, .b = step};
    if (!context)
        return NULL;
    if (!stni_factory_ready(context, "arange", spec) || !takes_steps(spec, start, step))
        return context->error_tensor;
    return make_of(context, "arange", spec, 1, &args);
}

stn_tensor *stn_linspace(stn_context *context, const stn_spec *spec, double start, double end)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_LINE, .a = start, .b = end};
    if (!context)
        return NULL;
    if (!stni_factory_ready(context, "linspace", spec) || !stni_factory_takes(spec, "linspace", "start", start) ||
        !stni_factory_takes(spec, "linspace", "end", end))
        return context->error_tensor;
    return make_of(context, "linspace", spec, 1, &args);
}

stn_tensor *stn_eye(stn_context *context, const stn_spec *spec)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_DIAGONAL};
    return make_of(context, "eye", spec, 2, &args);
}

/* Factories have no inputs, so that no op is called: the descriptor gives their kernel a name under which each
 * device brings its own. */
static const stn_kernel_slot slots[] = {{"values", sizeof(struct stni_factory_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("values", (1u << STN_DTYPE_COUNT) - 1, struct stni_factory_args, stni_factory_cpu, NULL)};

const stn_op_desc stni_op_factory = {
    .size = sizeof(stn_op_desc),
    .name = "factory",
    .impl = &(const stn_op_impl){STN_SLOTS(slots), STN_KERNELS(kernels)},
    .flags = STN_OP_INTERNAL,
};
