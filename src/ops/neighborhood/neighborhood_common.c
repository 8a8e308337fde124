#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/cpu/widen.h"
#include "ops/neighborhood/neighborhood.h"
#include "ops/placement/follow.h"
#include "ops/placement/head_groups.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { QUERY = STNI_NEIGHBORHOOD_QUERY, KEY = STNI_NEIGHBORHOOD_KEY, VALUE = STNI_NEIGHBORHOOD_VALUE };
enum { DIMS = STNI_NEIGHBORHOOD_DIMS, FIRST = STNI_NEIGHBORHOOD_FIRST };

const struct stni_neighborhood_attrs stni_neighborhood_attrs_init = {
    .kernel_size = {.n = -1}, .dilation = {1, {1}}, .is_causal = {.n = -1}, .scale = NAN};

const stn_attr_schema stni_neighborhood_schema[] = {
    {"kernel_size", STN_ATTR_INTS, offsetof(struct stni_neighborhood_attrs, kernel_size), NULL},
    {"dilation", STN_ATTR_INTS, offsetof(struct stni_neighborhood_attrs, dilation), NULL},
    {"is_causal", STN_ATTR_BOOL, offsetof(struct stni_neighborhood_attrs, all_causal), NULL},
    {"is_causal", STN_ATTR_INTS, offsetof(struct stni_neighborhood_attrs, is_causal), NULL},
    {"scale", STN_ATTR_FLOAT, offsetof(struct stni_neighborhood_attrs, scale), NULL},
};

/* Reading */

static const struct stni_layout *layout_of(const stn_op_call *call, int k)
{
    return &call->in_spec[k]->layout;
}

/* Entry d of a list of one number or one for each dim; `fallback` where there is none. */
static int64_t entry(const stn_ints *list, int d, int64_t fallback)
{
    return list->n <= 0 ? fallback : list->v[list->n == 1 ? 0 : d];
}

static stn_status check_list(const stn_op_call *call, const char *name, const stn_ints *list, int dims, int64_t least,
                             int64_t most)
{
    if (list->n > 1 && list->n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 " numbers, wanted 1 or %d", name, list->n, dims);
    for (int64_t d = 0; d < list->n; d++)
        if (list->v[d] < least || list->v[d] > most)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 ", wanted %s", name, list->v[d],
                               most == 1 ? "0 or 1" : "at least 1");
    return STN_OK;
}

static stn_status check_lists(const stn_op_call *call, int dims)
{
    const struct stni_neighborhood_attrs *attrs = call->attrs;
    if (attrs->kernel_size.n <= 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'kernel_size' got none, wanted 1 or %d numbers", dims);
    STNI_TRY(check_list(call, "kernel_size", &attrs->kernel_size, dims, 1, INT64_MAX));
    STNI_TRY(check_list(call, "dilation", &attrs->dilation, dims, 1, INT64_MAX));
    return check_list(call, "is_causal", &attrs->is_causal, dims, 0, 1);
}

static stn_status check_dtypes(const stn_op_call *call)
{
    const stn_dtype dtype = layout_of(call, QUERY)->dtype;
    STNI_TRY(stni_check_floating(call, QUERY));
    STNI_TRY(stni_check_dtype(call, KEY, dtype, "query's"));
    return stni_check_dtype(call, VALUE, dtype, "query's");
}

/* Keys have query's shape but for the heads, values have keys' but for the elements. */
static stn_status check_shapes(const stn_op_call *call)
{
    const struct stni_layout *query = layout_of(call, QUERY), *key = layout_of(call, KEY),
                             *value = layout_of(call, VALUE);
    const int n = query->ndim;
    char text[3][STNI_SHAPE_TEXT];
    int fits = n >= FIRST + 3 && n <= FIRST + DIMS + 2 && key->ndim == n && value->ndim == n;
    for (int d = 0; d < n && fits; d++)
        fits = (d == n - 2 || key->shape[d] == query->shape[d]) && (d == n - 1 || value->shape[d] == key->shape[d]);
    if (!fits)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "got query, key and value of shapes %s, %s and %s, wanted (b, space…, heads, e), "
                           "(b, space…, key heads, e) and (b, space…, key heads, v) with 1 to 3 dims of space",
                           stni_shape_text(n, query->shape, text[0]), stni_shape_text(key->ndim, key->shape, text[1]),
                           stni_shape_text(value->ndim, value->shape, text[2]));
    const int64_t heads = query->shape[n - 2], own = key->shape[n - 2];
    if (own == 0 ? heads != 0 : heads % own != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'key' got %" PRId64 " heads, wanted a divisor of query's %" PRId64,
                           own, heads);
    return STN_OK;
}

stn_status stni_neighborhood_read(const stn_op_call *call, struct stni_neighborhood *out)
{
    const struct stni_neighborhood_attrs *attrs = call->attrs;
    const struct stni_layout *query = layout_of(call, QUERY);
    const int n = query->ndim;
    STNI_TRY(check_dtypes(call));
    STNI_TRY(check_shapes(call));
    memset(out, 0, sizeof *out);
    out->dims = n - FIRST - 2;
    STNI_TRY(check_lists(call, out->dims));
    for (int d = 0; d < out->dims; d++) {
        struct stni_neighborhood_dim *dim = &out->dim[d];
        *dim = (struct stni_neighborhood_dim){query->shape[FIRST + d], entry(&attrs->kernel_size, d, 1),
                                              entry(&attrs->dilation, d, 1),
                                              entry(&attrs->is_causal, d, attrs->all_causal) != 0};
        if (dim->kernel > dim->n || dim->dilation > dim->n / dim->kernel)
            return stn_op_fail(call, STN_ERR_SHAPE,
                               "'kernel_size' got %" PRId64 " with a dilation of %" PRId64
                               " along dim %d, wanted a product of at most its %" PRId64 " elements",
                               dim->kernel, dim->dilation, FIRST + d, dim->n);
    }
    const int64_t key_heads = layout_of(call, KEY)->shape[n - 2], e = query->shape[n - 1];
    out->group = key_heads > 0 ? query->shape[n - 2] / key_heads : 1;
    out->group = out->group > 0 ? out->group : 1;
    out->scale = isnan(attrs->scale) ? 1 / sqrt((double)(e > 0 ? e : 1)) : attrs->scale;
    return STN_OK;
}

stn_meta stni_neighborhood_result(const stn_op_call *call)
{
    const struct stni_layout *value = layout_of(call, VALUE);
    stn_meta meta = stni_meta_of(layout_of(call, QUERY));
    meta.shape[meta.ndim - 1] = value->shape[value->ndim - 1];
    return meta;
}

stn_meta stni_neighborhood_lse(const stn_op_call *call)
{
    stn_meta meta = stni_meta_of(layout_of(call, QUERY));
    meta.dtype = stni_wide_dtype(meta.dtype);
    meta.shape[--meta.ndim] = 0;
    return meta;
}

/* Placement */

/* Which dims of the result an input's dims are: all but the elements. */
static struct stni_follower follower(int k, int ndim)
{
    struct stni_follower f = {.input = k};
    for (int d = 0; d < STN_MAX_NDIM; d++)
        f.of[d] = (int8_t)(d < ndim - 1 ? d : -1);
    return f;
}

stn_status stni_neighborhood_lead(const stn_op_call *call, const struct stni_neighborhood *n,
                                  struct stni_layout *leader)
{
    const stn_meta out = stni_neighborhood_result(call);
    const struct stni_follower followers[] = {follower(QUERY, out.ndim), follower(KEY, out.ndim),
                                              follower(VALUE, out.ndim)};
    stni_layout_init(leader, layout_of(call, QUERY)->mesh, out.dtype, out.ndim, out.shape);
    STNI_TRY(stni_follow_lead(call, 3, followers, out.ndim - 1, leader));
    return stni_head_groups_cut(call->context, leader, out.ndim - 2, n->group);
}

/* Where the same axes cut a dim of space in the same order, the cuts of `own`. */
static void keep_cuts(const struct stni_neighborhood *n, const struct stni_layout *own, struct stni_layout *layout)
{
    int axes[2][STN_MAX_MESH_NDIM];
    for (int d = FIRST; d < FIRST + n->dims; d++) {
        const int count = stni_layout_dim_axes(layout, d, axes[0]);
        if (count > 0 && stni_layout_dim_axes(own, d, axes[1]) == count &&
            memcmp(axes[0], axes[1], (size_t)count * sizeof **axes) == 0)
            layout->split[d] = own->split[d];
    }
}

stn_status stni_neighborhood_follow(const stn_op_call *call, const struct stni_neighborhood *n,
                                    const struct stni_layout *leader, int k, int is_sum, const stn_spec **out)
{
    const struct stni_follower f = follower(k, leader->ndim);
    const int head = leader->ndim - 2;
    struct stni_layout layout = *layout_of(call, k);
    STNI_TRY(stni_follow(call, leader, f.of, is_sum, &layout, out));
    if (k == QUERY)
        return STN_OK;
    if (n->group > 1)
        STNI_TRY(stni_head_groups_follow(call->context, leader, head, n->group, &layout, head));
    keep_cuts(n, layout_of(call, KEY), &layout);
    return stni_spec_intern(call->context, &layout, out);
}

stn_status stni_neighborhood_lse_spec(const stn_op_call *call, const struct stni_layout *leader, const stn_spec **out)
{
    const struct stni_follower all = follower(QUERY, leader->ndim);
    struct stni_layout layout;
    stni_layout_init(&layout, leader->mesh, stni_wide_dtype(leader->dtype), leader->ndim - 1, leader->shape);
    return stni_follow(call, leader, all.of, 0, &layout, out);
}

static struct stni_range keys_over(const void *arg, int d, int64_t t)
{
    const struct stni_neighborhood *n = arg;
    return stni_neighborhood_keys_over(&n->dim[d], t);
}

static struct stni_range queries_over(const void *arg, int d, int64_t t)
{
    const struct stni_neighborhood *n = arg;
    return stni_neighborhood_queries_over(&n->dim[d], t);
}

struct stni_stencil stni_neighborhood_stencil(const struct stni_neighborhood *n, int of_keys, const stn_spec *source,
                                              const stn_spec *target)
{
    return (struct stni_stencil){n->dims, FIRST, n, of_keys ? queries_over : keys_over, source, target};
}

/* Kernels' arguments */

struct stni_neighborhood_args stni_neighborhood_describe(const stn_op_call *call, const struct stni_neighborhood *n,
                                                         const struct stni_stencil_part *part)
{
    const stn_spec *query = call->in[QUERY]->spec, *key = call->in[KEY]->spec, *value = call->in[VALUE]->spec;
    const int ndim = query->layout.ndim, pad = DIMS - n->dims;
    struct stni_neighborhood_args p;
    memset(&p, 0, sizeof p);
    for (int d = 0; d < DIMS; d++) {
        p.dim[d] = d < pad ? (struct stni_neighborhood_dim){1, 1, 1, 0} : n->dim[d - pad];
        p.target[d] = d < pad ? stni_range_of(0, 1) : part->target[d - pad];
        p.source[d] = d < pad ? stni_range_of(0, 1) : part->source[d - pad];
    }
    p.dtype = query->layout.dtype;
    p.batch = query->local_shape[0];
    p.heads = query->local_shape[ndim - 2];
    p.key_heads = key->local_shape[ndim - 2];
    p.group = n->group;
    p.head = query->local_offset[ndim - 2];
    p.key_head = key->local_offset[ndim - 2];
    p.e = query->local_shape[ndim - 1];
    p.v = value->local_shape[ndim - 1];
    p.scale = n->scale;
    return p;
}

/* Dims of one place have stride 0: theirs says nothing, and would keep a kernel from reading packs. */
static struct stni_neighborhood_operand operand(const struct stni_neighborhood *n, void *data, int ndim,
                                                const int64_t *shape, const int64_t *strides)
{
    const int head = FIRST + n->dims;
    int64_t stride[STN_MAX_NDIM] = {0};
    for (int d = 0; d < ndim; d++)
        stride[d] = shape[d] == 1 ? 0 : strides[d];
    struct stni_neighborhood_operand o = {.data = data, .batch = stride[0], .head = stride[head]};
    for (int d = 0; d < n->dims; d++)
        o.space[DIMS - n->dims + d] = stride[FIRST + d];
    o.col = ndim > head + 1 ? strides[ndim - 1] : 0;
    return o;
}

struct stni_neighborhood_operand stni_neighborhood_target(const struct stni_neighborhood *n, const stn_tensor *t,
                                                          const struct stni_stencil_part *part)
{
    const stn_spec *spec = t->spec;
    int64_t at = 0;
    for (int d = 0; d < n->dims; d++)
        at += (part->target[d].begin - spec->local_offset[FIRST + d]) * t->strides[FIRST + d];
    char *data = t->data;
    return operand(n, data ? data + at * (int64_t)stn_dtype_size(spec->layout.dtype) : NULL, spec->layout.ndim,
                   spec->local_shape, t->strides);
}

struct stni_neighborhood_operand stni_neighborhood_source(const struct stni_neighborhood *n, const stn_box *box)
{
    return operand(n, box->data, box->ndim, box->shape, box->strides);
}
