#include "ops/attention/attention.h"

#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/placement/follow.h"
#include "ops/placement/head_groups.h"
#include "ops/placement/splits.h"
#include "ops/cpu/widen.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    QUERY = STNI_ATTENTION_QUERY,
    KEY = STNI_ATTENTION_KEY,
    VALUE = STNI_ATTENTION_VALUE,
    MASK = STNI_ATTENTION_MASK
};

static const char *name_of(const stn_op_call *call, int k)
{
    return stn_op_descriptor(call->op)->inputs[k].name;
}

/* A dim counted from the end, 1 for those that are missing. */
static int64_t from_end(const struct stni_layout *in, int i)
{
    return i <= in->ndim ? in->shape[in->ndim - i] : 1;
}

int64_t stni_attention_group(const stn_op_call *call)
{
    const struct stni_attention_attrs *attrs = call->attrs;
    int64_t heads = from_end(&call->in_spec[QUERY]->layout, 3), key_heads = from_end(&call->in_spec[KEY]->layout, 3);
    return attrs->enable_gqa && key_heads > 0 && heads > 0 ? heads / key_heads : 1;
}

static stn_status check_attrs(const stn_op_call *call)
{
    const struct stni_attention_attrs *attrs = call->attrs;
    if (!(attrs->dropout_p >= 0 && attrs->dropout_p <= 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dropout_p' got %g, wanted 0 <= dropout_p <= 1", attrs->dropout_p);
    if (attrs->is_causal && call->in_spec[MASK])
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'is_causal' got true beside 'attn_mask', wanted one of them");
    return STN_OK;
}

static stn_status check_dtypes(const stn_op_call *call)
{
    const stn_dtype dtype = call->in_spec[QUERY]->layout.dtype;
    STNI_TRY(stni_check_floating(call, QUERY));
    for (int k = KEY; k <= MASK; k++) {
        stn_dtype own = call->in_spec[k] ? call->in_spec[k]->layout.dtype : dtype;
        if (own != dtype && !(k == MASK && own == STN_DTYPE_BOOL))
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted query's %s%s", name_of(call, k),
                               stn_dtype_name(own), stn_dtype_name(dtype), k == MASK ? " or bool" : "");
    }
    return STN_OK;
}

/* Heads of keys are counted as often as queries share them. */
static stn_status join_batches(const stn_op_call *call, stn_meta *out)
{
    const int gqa = ((const struct stni_attention_attrs *)call->attrs)->enable_gqa != 0;
    const struct stni_layout *query = &call->in_spec[QUERY]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    for (int k = QUERY; k <= VALUE; k++) {
        const struct stni_layout *in = &call->in_spec[k]->layout;
        for (int i = 3; i <= in->ndim; i++) {
            int64_t *n = &out->shape[out->ndim - i], own = in->shape[in->ndim - i];
            if (gqa && i == 3 && k != QUERY) {
                if (own != from_end(&call->in_spec[KEY]->layout, 3) || (own == 0 ? *n != 0 : *n % own != 0))
                    return stn_op_fail(call, STN_ERR_SHAPE,
                                       "'%s' got %" PRId64 " heads, wanted key's, a divisor of query's %" PRId64,
                                       name_of(call, k), own, *n);
                continue;
            }
            if (*n != own && *n != 1 && own != 1)
                return stn_op_fail(call, STN_ERR_SHAPE,
                                   "'%s' got shape %s, whose batch does not broadcast with that of shape %s",
                                   name_of(call, k), stni_shape_text(in->ndim, in->shape, got),
                                   stni_shape_text(query->ndim, query->shape, wanted));
            *n = *n == 1 ? own : *n;
        }
    }
    return STN_OK;
}

/* The mask broadcasts to (batch…, l, s). */
static stn_status check_mask(const stn_op_call *call, const stn_meta *out)
{
    int64_t wanted[STN_MAX_NDIM];
    if (call->in_spec[MASK] == NULL)
        return STN_OK;
    memcpy(wanted, out->shape, sizeof wanted);
    wanted[out->ndim - 1] = from_end(&call->in_spec[KEY]->layout, 2);
    return stni_check_broadcasts(call, MASK, out->ndim, wanted, NULL);
}

stn_status stni_attention_check(const stn_op_call *call, stn_meta *out)
{
    const struct stni_layout *query = &call->in_spec[QUERY]->layout, *key = &call->in_spec[KEY]->layout,
                             *value = &call->in_spec[VALUE]->layout;
    const int least = ((const struct stni_attention_attrs *)call->attrs)->enable_gqa ? 3 : 2;
    char text[3][STNI_SHAPE_TEXT];
    STNI_TRY(check_attrs(call));
    STNI_TRY(check_dtypes(call));
    if (query->ndim < least || key->ndim < least || value->ndim < least || from_end(query, 1) != from_end(key, 1) ||
        from_end(key, 2) != from_end(value, 2))
        return stn_op_fail(
            call, STN_ERR_SHAPE,
            "got query, key and value of shapes %s, %s and %s, wanted (…, l, e), (…, s, e) and (…, s, v)",
            stni_shape_text(query->ndim, query->shape, text[0]), stni_shape_text(key->ndim, key->shape, text[1]),
            stni_shape_text(value->ndim, value->shape, text[2]));
    *out = (stn_meta){.dtype = query->dtype, .ndim = query->ndim > key->ndim ? query->ndim : key->ndim};
    out->ndim = value->ndim > out->ndim ? value->ndim : out->ndim;
    for (int d = 0; d < out->ndim; d++)
        out->shape[d] = 1;
    STNI_TRY(join_batches(call, out));
    out->shape[out->ndim - 2] = from_end(query, 2);
    out->shape[out->ndim - 1] = from_end(value, 1);
    return check_mask(call, out);
}

/* Which dims of the result an input's dims are: those of the batch and, of queries and masks, the rows. */
static struct stni_follower follower(const stn_op_call *call, int k, int out_ndim)
{
    const int ndim = call->in_spec[k]->layout.ndim;
    struct stni_follower f = {.input = k};
    for (int d = 0; d < STN_MAX_NDIM; d++)
        f.of[d] = (int8_t)(d < ndim ? d + out_ndim - ndim : -1);
    if (ndim > 0)
        f.of[ndim - 1] = -1;
    if (ndim > 1 && (k == KEY || k == VALUE))
        f.of[ndim - 2] = -1;
    return f;
}

stn_status stni_attention_lead(const stn_op_call *call, const stn_meta *out, struct stni_layout *leader)
{
    struct stni_follower followers[4];
    int n = 0;
    for (int k = QUERY; k <= MASK; k++)
        if (call->in_spec[k])
            followers[n++] = follower(call, k, out->ndim);
    stni_layout_init(leader, call->in_spec[QUERY]->layout.mesh, out->dtype, out->ndim, out->shape);
    STNI_TRY(stni_follow_lead(call, n, followers, out->ndim - 1, leader));
    const int64_t group = stni_attention_group(call);
    return leader->ndim < 3 ? STN_OK : stni_head_groups_cut(call->context, leader, leader->ndim - 3, group);
}

stn_status stni_attention_follow_whole(const stn_op_call *call, const struct stni_layout *leader, int k, int is_sum,
                                       const stn_spec **out)
{
    const struct stni_follower f = follower(call, k, leader->ndim);
    struct stni_layout layout = call->in_spec[k]->layout;
    const int64_t group = stni_attention_group(call);
    STNI_TRY(stni_follow(call, leader, f.of, is_sum, &layout, out));
    if ((k != KEY && k != VALUE) || group == 1)
        return STN_OK;
    STNI_TRY(stni_head_groups_follow(call->context, leader, leader->ndim - 3, group, &layout, layout.ndim - 3));
    return stni_spec_intern(call->context, &layout, out);
}

/* Keys and values that go round have one cut along their rows, the keys' own. */
stn_status stni_attention_follow(const stn_op_call *call, const struct stni_layout *leader, int k, int is_sum,
                                 const stn_spec **out)
{
    uint32_t axes = 0;
    STNI_TRY(stni_attention_follow_whole(call, leader, k, is_sum, out));
    if (k == KEY || k == VALUE)
        STNI_TRY(stni_attention_ring_axes(call, leader, &axes));
    if (axes == 0)
        return STN_OK;
    const struct stni_layout *key = &call->in_spec[KEY]->layout;
    struct stni_layout layout = (*out)->layout;
    for (int a = 0; a < layout.mesh->ndim; a++)
        if (axes >> a & 1)
            layout.placement[a] = stn_shard(layout.ndim - 2);
    stni_splits_take(&layout, layout.ndim - 2, key, key->ndim - 2, 1);
    return stni_spec_intern(call->context, &layout, out);
}

stn_status stni_attention_lse_spec(const stn_op_call *call, const struct stni_layout *leader, const stn_spec **out)
{
    struct stni_layout layout;
    int8_t of[STN_MAX_NDIM];
    for (int d = 0; d < STN_MAX_NDIM; d++)
        of[d] = (int8_t)d;
    stni_layout_init(&layout, leader->mesh, stni_wide_dtype(leader->dtype), leader->ndim - 1, leader->shape);
    return stni_follow(call, leader, of, 0, &layout, out);
}

struct stni_attention_operand stni_attention_operand_of(const stn_tensor *t, int has_row, int has_col, int out_ndim)
{
    return stni_attention_operand_at(&t->spec->layout, t->data, t->strides, has_row, has_col, out_ndim);
}

struct stni_attention_operand stni_attention_operand_at(const struct stni_layout *layout, void *data,
                                                        const int64_t *strides, int has_row, int has_col, int out_ndim)
{
    const int n = layout->ndim, batch = n - has_row - has_col, shift = out_ndim - 2 - batch;
    struct stni_attention_operand o = {.data = data};
    int64_t stride[STN_MAX_NDIM];
    for (int d = 0; d < n; d++)
        stride[d] = layout->shape[d] == 1 ? 0 : strides[d];
    for (int d = 0; d < batch; d++)
        o.batch[d + shift] = stride[d];
    if (has_row)
        o.row = stride[batch];
    if (has_col)
        o.col = stride[n - 1];
    return o;
}

/* Dropout's numbers: row-major over the whole (batch…, l, s). */
static void fill_dropout(const stn_op_call *call, const stn_spec *out, const stn_tensor *stream,
                         struct stni_attention_args *p)
{
    const struct stni_attention_attrs *attrs = call->attrs;
    const int n = out->layout.ndim;
    uint64_t below = (uint64_t)p->s * (uint64_t)out->layout.shape[n - 2];
    p->row_count = (uint64_t)p->s;
    p->base = (uint64_t)p->row_offset * p->row_count;
    for (int d = n - 3; d >= 0; d--) {
        p->count[d] = below;
        p->base += (uint64_t)out->local_offset[d] * below;
        below *= (uint64_t)out->layout.shape[d];
    }
    p->stream = stream->data;
    p->threshold = (uint64_t)(attrs->dropout_p * 4294967296.0 + 0.5);
    p->kept_scale = attrs->dropout_p < 1 ? 1 / (1 - attrs->dropout_p) : 0;
}

void stni_attention_describe(const stn_op_call *call, const stn_tensor *out, const stn_tensor *lse,
                             const stn_tensor *stream, struct stni_attention_args *p)
{
    const struct stni_attention_attrs *attrs = call->attrs;
    const stn_tensor *key = call->in[KEY], *mask = call->in[MASK];
    const stn_spec *spec = out->spec;
    const int n = spec->layout.ndim, key_ndim = key->spec->layout.ndim;
    memset(p, 0, sizeof *p);
    p->dtype = spec->layout.dtype;
    p->n_batch = n - 2;
    memcpy(p->batch, spec->local_shape, sizeof p->batch);
    p->l = spec->local_shape[n - 2];
    p->s = from_end(&key->spec->layout, 2);
    p->e = from_end(&key->spec->layout, 1);
    p->v = spec->layout.shape[n - 1];
    p->row_offset = spec->local_offset[n - 2];
    p->group = stni_attention_group(call);
    p->head = n > 2 ? spec->local_offset[n - 3] : 0;
    p->key_head = key_ndim > 2 ? key->spec->local_offset[key_ndim - 3] : 0;
    p->is_causal = attrs->is_causal != 0;
    p->scale = isnan(attrs->scale) ? 1 / sqrt((double)(p->e > 0 ? p->e : 1)) : attrs->scale;
    p->query = stni_attention_operand_of(call->in[QUERY], 1, 1, n);
    p->key = stni_attention_operand_of(key, 1, 1, n);
    p->value = stni_attention_operand_of(call->in[VALUE], 1, 1, n);
    if (mask) {
        p->mask = stni_attention_operand_of(mask, mask->spec->layout.ndim > 1, mask->spec->layout.ndim > 0, n);
        p->mask_kind = mask->spec->layout.dtype == STN_DTYPE_BOOL ? STNI_ATTENTION_ALLOWS : STNI_ATTENTION_ADDS;
    }
    p->out = stni_attention_operand_of(out, 1, 1, n);
    p->lse = stni_attention_operand_of(lse, 1, 0, n);
    fill_dropout(call, spec, stream, p);
}
