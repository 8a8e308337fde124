/* Cotangents of index_write.
 *
 *     set             table: none where an index points; values: read by index, each of several that name one element
 *     sum             table: g; values: scale times g read by index
 *     product         each factor: g times the product of the OTHERS (never the result over the factor: zeros are right)
 *     amax, amin      g to the elements that equal the result, evenly among them
 *
 * Where the table counts for nothing itself it has none where an index points. */
#include "ops/index/access.h"

#include "ops/elementwise/pointwise.h"

#include <shardtensor/ops.h>

#include <math.h>

struct pass {
    const stn_backward_call *call;
    const struct stni_access_attrs *attrs;
    stn_tensor *table, *index, *values, *grad;
};

static stn_tensor *at_index(const struct pass *p, stn_tensor *t)
{
    struct stni_access_attrs attrs = stni_access_like(p->attrs, STNI_ACCESS_SET);
    return stni_index_read(t, p->index, &attrs);
}

static stn_tensor *written(const struct pass *p, stn_tensor *table, stn_tensor *values, enum stni_access_mode mode,
                           int64_t fresh)
{
    struct stni_access_attrs attrs = stni_access_like(p->attrs, mode);
    attrs.fresh = fresh;
    return stni_index_write(table, p->index, values, &attrs);
}

/* `t` with zeros where an index points. */
static stn_tensor *without(const struct pass *p, stn_tensor *t)
{
    return written(p, t, NULL, STNI_ACCESS_SET, 0);
}

static stn_tensor *of_table(const struct pass *p, stn_tensor *grad)
{
    return p->attrs->fresh || p->attrs->mode == STNI_ACCESS_SET ? without(p, grad) : grad;
}

static void sum_backward(const struct pass *p, stn_tensor **table, stn_tensor **values)
{
    const stn_number *scale = &p->attrs->scale;
    if (table)
        *table = of_table(p, p->grad);
    if (!values)
        return;
    *values = at_index(p, p->grad);
    if (p->attrs->mode == STNI_ACCESS_ADD && scale->kind != STN_NUMBER_NONE)
        *values = stn_mul_number(*values, scale->f);
}

/* What the factors of a product are multiplied with: `others` has zeros among it, or `rest` is the product of the
 * factors but for zeros. */
static stn_tensor *factor_grad(stn_tensor *grad, stn_tensor *rest, stn_tensor *factor, stn_tensor *zeros,
                               stn_tensor *is_zero)
{
    stn_tensor *other_zeros = stn_gt_number(stn_sub(zeros, stn_cast(is_zero, STN_DTYPE_I64)), 0);
    stn_tensor *others = stn_div(rest, stn_masked_fill(factor, is_zero, 1));
    return stn_mul(grad, stni_conjugate(stn_masked_fill(others, other_zeros, 0)));
}

static void product_backward(const struct pass *p, stn_tensor **table, stn_tensor **values)
{
    stn_tensor *table_zero = stn_eq_number(p->table, 0), *value_zero = stn_eq_number(p->values, 0);
    stn_tensor *rest = written(p, stn_masked_fill(p->table, table_zero, 1), stn_masked_fill(p->values, value_zero, 1),
                               STNI_ACCESS_MUL, p->attrs->fresh);
    stn_tensor *zeros = written(p, stn_cast(table_zero, STN_DTYPE_I64), stn_cast(value_zero, STN_DTYPE_I64),
                                STNI_ACCESS_ADD, p->attrs->fresh);
    if (table)
        *table = of_table(p, factor_grad(p->grad, rest, p->table, zeros, table_zero));
    if (values)
        *values = factor_grad(at_index(p, p->grad), at_index(p, rest), p->values, at_index(p, zeros), value_zero);
}

static void extreme_backward(const struct pass *p, stn_tensor **table, stn_tensor **values)
{
    stn_tensor *out = p->call->out[0];
    stn_dtype dtype = stn_tensor_dtype(out);
    stn_tensor *table_holds = stn_cast(stn_eq(p->table, out), dtype),
               *value_holds = stn_cast(stn_eq(p->values, at_index(p, out)), dtype);
    if (p->attrs->fresh)
        table_holds = without(p, table_holds);
    stn_tensor *share = stn_div(p->grad, written(p, table_holds, value_holds, STNI_ACCESS_ADD, 0));
    if (table)
        *table = stn_mul(share, table_holds);
    if (values)
        *values = stn_mul(at_index(p, share), value_holds);
}

stn_status stni_index_write_backward(stn_backward_call *call)
{
    static void (*const backward_of[])(const struct pass *, stn_tensor **, stn_tensor **) = {
        [STNI_ACCESS_SET] = sum_backward,     [STNI_ACCESS_ADD] = sum_backward,     [STNI_ACCESS_MUL] = product_backward,
        [STNI_ACCESS_MAX] = extreme_backward, [STNI_ACCESS_MIN] = extreme_backward,
    };
    const struct stni_access_attrs *attrs = call->attrs;
    struct pass p = {call,
                     attrs,
                     call->in[STNI_ACCESS_TABLE],
                     call->in[STNI_ACCESS_INDEX],
                     call->in[STNI_ACCESS_VALUES],
                     stni_index_cotangent(call->grad_out[0], call->out_spec[0], attrs)};
    stn_tensor **table = &call->grad_in[STNI_ACCESS_TABLE], **values = &call->grad_in[STNI_ACCESS_VALUES];
    backward_of[attrs->mode](&p, call->needs >> STNI_ACCESS_TABLE & 1 ? table : NULL,
                             call->needs >> STNI_ACCESS_VALUES & 1 ? values : NULL);
    return stn_context_status(call->context);
}
