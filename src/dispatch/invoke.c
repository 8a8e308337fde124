/* Calls by handle and by name. */
#include "core/base/cold.h"
#include "core/context/context.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "dispatch/schema.h"

static void fill_with_error(stn_context *context, int n, stn_tensor **outputs)
{
    for (int k = 0; outputs && k < n; k++)
        outputs[k] = context->error_tensor;
}

/* An array that the caller passes with its length. */
struct array {
    const char *name;
    int n;
    const void *entries;
};

static int is_wrong(struct array a)
{
    return a.n < 0 || (a.n > 0 && !a.entries);
}

STNI_COLD static stn_status refuse_array(const stn_op *op, struct array a)
{
    if (a.n < 0)
        return stni_fail(op->context, STN_ERR_ARGUMENT, "%s: n_%s got %d, wanted 0 or more", op->desc->name, a.name,
                         a.n);
    return stni_fail(op->context, STN_ERR_ARGUMENT, "%s: %s is NULL, wanted %d entries", op->desc->name, a.name, a.n);
}

/* Keeps an error for the first array that is wrong. */
static stn_status check_arrays(const stn_op *op, struct array inputs, struct array attrs, int n_outputs,
                               stn_tensor **outputs)
{
    const struct array all[] = {inputs, attrs, {"outputs", n_outputs, outputs}};
    for (int i = 0; i < 3; i++)
        if (is_wrong(all[i])) {
            fill_with_error(op->context, n_outputs, outputs);
            return refuse_array(op, all[i]);
        }
    return STN_OK;
}

stn_status stn_op_apply(const stn_op *op, int n_inputs, stn_tensor *const *inputs, const void *attrs, int n_outputs,
                        stn_tensor **outputs)
{
    if (!op)
        return STN_ERR_ARGUMENT;
    STNI_TRY(check_arrays(op, (struct array){"inputs", n_inputs, inputs}, (struct array){"attrs", 0, NULL}, n_outputs,
                          outputs));
    return stni_dispatch(op, n_inputs, inputs, attrs, n_outputs, outputs);
}

static stn_status fill_and_dispatch(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs,
                                    const stn_attr *attrs, int n_outputs, stn_tensor **outputs)
{
    uint64_t filled[STNI_MAX_ATTRS_SIZE / 8];
    struct stni_error error = {0};
    if (stni_schema_fill(op->desc, n_attrs, attrs, filled, &error) != STN_OK) {
        fill_with_error(op->context, n_outputs, outputs);
        return stni_fail(op->context, error.status, "%s", error.text);
    }
    return stni_dispatch(op, n_inputs, inputs, filled, n_outputs, outputs);
}

/* Where it fails before the op has told its peers so, they are told. */
STNI_COLD static stn_status invoke_together(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs,
                                            const stn_attr *attrs, int n_outputs, stn_tensor **outputs)
{
    struct stni_registry *registry = op->context->registry;
    registry->has_told = 0;
    const stn_status status = fill_and_dispatch(op, n_inputs, inputs, n_attrs, attrs, n_outputs, outputs);
    if (status == STN_OK || registry->has_told || !registry->refused)
        return status;
    registry->refused(op, n_attrs, attrs);
    return stn_context_status(op->context);
}

stn_status stn_op_invoke(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs, const stn_attr *attrs,
                         int n_outputs, stn_tensor **outputs)
{
    if (!op)
        return STN_ERR_ARGUMENT;
    STNI_TRY(check_arrays(op, (struct array){"inputs", n_inputs, inputs}, (struct array){"attrs", n_attrs, attrs},
                          n_outputs, outputs));
    if (op->desc->flags & STN_OP_PER_RANK)
        return invoke_together(op, n_inputs, inputs, n_attrs, attrs, n_outputs, outputs);
    return fill_and_dispatch(op, n_inputs, inputs, n_attrs, attrs, n_outputs, outputs);
}

static const char *nearest_op(const struct stni_registry *registry, const char *name)
{
    const char *best = NULL;
    int least = 4; /* further away is no suggestion */
    for (int i = 0; i < registry->n_listed; i++) {
        int d = stni_name_distance(name, registry->listed[i]->desc->name);
        if (d < least) {
            least = d;
            best = registry->listed[i]->desc->name;
        }
    }
    return best;
}

static stn_status unknown_op(stn_context *context, const char *name)
{
    const char *near = nearest_op(context->registry, name);
    if (stni_registry_find(context, name))
        return stni_fail(context, STN_ERR_NOT_FOUND, "stn_call: '%s' is a part of other ops, not one to be called",
                         name);
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
    return name ? unknown_op(context, name)
                : stni_fail(context, STN_ERR_ARGUMENT, "stn_call: 'name' got NULL, wanted that of an op");
}
