/* Calls by handle and by name. */
#include "core/context.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "dispatch/schema.h"

static void fill_with_error(stn_context *context, int n, stn_tensor **outputs)
{
    for (int k = 0; k < n; k++)
        outputs[k] = context->error_tensor;
}

stn_status stn_op_apply(const stn_op *op, int n_inputs, stn_tensor *const *inputs, const void *attrs, int n_outputs,
                        stn_tensor **outputs)
{
    return op ? stni_dispatch(op, n_inputs, inputs, attrs, n_outputs, outputs) : STN_ERR_ARGUMENT;
}

stn_status stn_op_invoke(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs, const stn_attr *attrs,
                         int n_outputs, stn_tensor **outputs)
{
    uint64_t filled[STNI_MAX_ATTRS_SIZE / 8];
    struct stni_error error = {0};
    if (!op)
        return STN_ERR_ARGUMENT;
    if (stni_schema_fill(op->desc, n_attrs, attrs, filled, &error) != STN_OK) {
        fill_with_error(op->context, n_outputs, outputs);
        return stni_fail(op->context, error.status, "%s", error.text);
    }
    return stni_dispatch(op, n_inputs, inputs, filled, n_outputs, outputs);
}

static const char *nearest_op(const struct stni_registry *registry, const char *name)
{
    const char *best = NULL;
    int least = 4; /* further away is no suggestion */
    for (int i = 0; i < registry->n_ops; i++) {
        int d = stni_name_distance(name, registry->ops[i]->desc->name);
        if (d < least) {
            least = d;
            best = registry->ops[i]->desc->name;
        }
    }
    return best;
}

static stn_status unknown_op(stn_context *context, const char *name)
{
    const char *near = nearest_op(context->registry, name);
    if (near)
        return stni_fail(context, STN_ERR_NOT_FOUND, "stn_call: no op '%s'; nearest is '%s'", name, near);
    return stni_fail(context, STN_ERR_NOT_FOUND, "stn_call: no op '%s'", name);
}

stn_status stn_call(stn_context *context, const char *name, int n_inputs, stn_tensor *const *inputs, int n_attrs,
                    const stn_attr *attrs, int n_outputs, stn_tensor **outputs)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    const stn_op *op = stn_op_find(context, name);
    if (op)
        return stn_op_invoke(op, n_inputs, inputs, n_attrs, attrs, n_outputs, outputs);
    fill_with_error(context, n_outputs, outputs);
    return unknown_op(context, name ? name : "");
}
