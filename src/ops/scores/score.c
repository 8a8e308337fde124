#include "ops/scores/score.h"

#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/list.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <inttypes.h>

stn_tensor *stni_score_call(enum stni_op_index op, int n_in, stn_tensor *const *in, int n_dims, const int *dims,
                            void *attrs)
{
    if (!stni_list_read_dims_or_all(in[0], &(struct stni_list){stni_op_table[op]->name, "n_dims", "dims", 0},
                                    n_dims, dims, attrs))
        return stni_call_error(in[0]);
    return stni_call(op, n_in, in, attrs);
}

stn_status stni_score_check(const stn_op_call *call, int n)
{
    const struct stni_layout *input = &call->in_spec[0]->layout;
    STNI_TRY(stni_check_floating(call, 0));
    for (int i = 1; i < n; i++) {
        if (!call->in[i])
            continue;
        STNI_TRY(stni_check_dtype(call, i, input->dtype, "that of 'input',"));
        STNI_TRY(stni_check_broadcasts(call, i, input->ndim, input->shape, "that of 'input',"));
    }
    return STN_OK;
}

stn_tensor *stni_score_wide(const stn_op_call *call, int input)
{
    return call->in[input] ? stn_cast(call->in[input], stni_wide_dtype(call->in_spec[0]->layout.dtype)) : NULL;
}

stn_tensor *stni_score_sum(stn_tensor *x, stn_tensor *weight, const struct stni_dims_list *over, int keepdim)
{
    return stn_sum(weight ? stn_mul(x, weight) : x, over->n, over->dims, keepdim);
}

stn_status stni_score_complete(const stn_op_call *call, int n, stn_tensor **sums)
{
    stn_tensor *all = stni_call_complete(stn_stack(n, sums, 0));
    for (int i = 0; i < n; i++)
        sums[i] = stn_select(all, 0, i);
    return stn_context_status(call->context);
}

stn_status stni_score_line(const stn_op_call *call, const stn_tensor *like, int dim, double start, double step,
                           stn_tensor **out)
{
    const struct stni_layout *of = &like->spec->layout;
    int64_t shape[STN_MAX_NDIM] = {of->shape[dim]};
    const stn_spec *spec;
    struct stni_layout layout;
    stni_layout_init(&layout, of->mesh, of->dtype, 1, shape);
    STNI_TRY(stni_spec_intern(call->context, &layout, &spec));
    for (int d = 1; d < of->ndim - dim; d++)
        shape[d] = 1;
    *out = stn_view(stn_arange(call->context, spec, start, step), of->ndim - dim, shape);
    return stn_context_status(call->context);
}

stn_status stni_score_check_members(const stn_op_call *call, int64_t dim, int fair, int *out)
{
    const struct stni_layout *input = &call->in_spec[0]->layout;
    const int64_t wanted = fair ? 2 : 1;
    int64_t member[STN_MAX_NDIM];
    if (input->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no dims, wanted one for the members");
    STNI_TRY(stni_check_floating(call, 0));
    STNI_TRY(stni_dim_wrap(call, "dim", dim, input->ndim, out));
    if (input->shape[*out] < wanted)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'input' got %" PRId64 " members along dim %d, wanted at least %" PRId64, input->shape[*out],
                           *out, wanted);
    for (int d = 0; d < input->ndim - 1; d++)
        member[d] = input->shape[d < *out ? d : d + 1];
    STNI_TRY(stni_check_dtype(call, 1, input->dtype, "that of 'input',"));
    return stni_check_shape(call, 1, input->ndim - 1, member, "that of a member,");
}

double stni_score_pair_weight(int64_t members, int64_t fair)
{
    const double n = (double)members;
    return 1 / (n * (fair ? n - 1 : n));
}
