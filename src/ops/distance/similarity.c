/* cross, cosine_similarity, normalize: products, sums and norms of other ops put together. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/reduce/vector_norm.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"
#include "ops/placement/pointwise.h"
#include "ops/common/promote.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <math.h>

struct cross_attrs {
    stn_ints dim; /* at most one; absent: the first of size 3 */
};

struct cosine_attrs {
    int64_t dim;
    double eps;
};

struct normalize_attrs {
    double p;
    stn_ints dim;
    double eps;
    int64_t infinite; /* which of stni_vector_norm_infinities; -1: p says it */
};

static const struct cross_attrs cross_defaults = {{.n = -1}};
static const struct cosine_attrs cosine_defaults = {1, 1e-8};
static const struct normalize_attrs normalize_defaults = {
    .p = 2, .dim = {.n = 1, .v = {1}}, .eps = 1e-12, .infinite = -1};

stn_tensor *stn_cross(stn_tensor *input, stn_tensor *other, const int *dim)
{
    struct cross_attrs attrs = {{.n = dim ? 1 : -1, .v = {dim ? *dim : 0}}};
    return stni_call(STNI_OP_cross, 2, (stn_tensor *[]){input, other}, &attrs);
}

stn_tensor *stn_cosine_similarity(stn_tensor *x1, stn_tensor *x2, int dim, double eps)
{
    struct cosine_attrs attrs = {dim, eps};
    return stni_call(STNI_OP_cosine_similarity, 2, (stn_tensor *[]){x1, x2}, &attrs);
}

stn_tensor *stn_normalize(stn_tensor *input, double p, int n_dims, const int *dims, double eps)
{
    struct normalize_attrs attrs = {.p = p, .eps = eps, .infinite = -1};
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){"normalize", "n_dims", "dims", 0}, n_dims, dims,
                                    &attrs.dim))
        return stni_call_error(input);
    return stni_call(STNI_OP_normalize, 1, &input, &attrs);
}

static stn_status cross_dim(const stn_op_call *call, int *dim)
{
    const stn_ints *given = &((const struct cross_attrs *)call->attrs)->dim;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    char text[STNI_SHAPE_TEXT];
    if (given->n > 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dim' got %" PRId64 " dims, wanted one", given->n);
    if (given->n == 1)
        return stni_dim_wrap(call, "dim", given->v[0], in->ndim, dim);
    for (*dim = 0; *dim < in->ndim && in->shape[*dim] != 3;)
        ++*dim;
    return *dim < in->ndim ? STN_OK
                           : stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted a dim of size 3",
                                         stni_shape_text(in->ndim, in->shape, text));
}

/* With c[i] = a[i] b[i + 1] - a[i + 1] b[i] the product is c[i + 1], indices counted around. */
static stn_status cross(stn_op_call *call)
{
    stn_tensor *a = call->in[0], *b = call->in[1];
    const int64_t back = -1;
    stn_meta shape = {.ndim = 0};
    int dim;
    STNI_TRY(cross_dim(call, &dim));
    STNI_TRY(stni_pointwise_broadcast(call, 2, &shape));
    for (int i = 0; i < 2; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        const char *name = stn_op_descriptor(call->op)->inputs[i].name;
        char got[STNI_SHAPE_TEXT];
        if (in->ndim != shape.ndim || in->ndim == 0 || in->shape[dim] != 3)
            return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got shape %s, wanted %d dims with 3 elements in dim %d", name,
                               stni_shape_text(in->ndim, in->shape, got), shape.ndim, dim);
        if (in->dtype == STN_DTYPE_BOOL)
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got bool, wanted numbers", name);
    }
    if (call->in_spec[0]->partial_axes & call->in_spec[1]->partial_axes)
        b = stni_call_complete(b); /* the products are linear in what stays pending */
    stn_tensor *left = stn_mul(a, stn_roll(b, 1, &back, &dim)), *right = stn_mul(stn_roll(a, 1, &back, &dim), b);
    call->out[0] = stn_roll(stn_sub(left, right), 1, &back, &dim);
    return STN_OK;
}

/* An operand of the shape that both broadcast to, in the dtype of the arithmetic, and complete: a product and a norm
 * read it. */
static stn_tensor *full(const stn_op_call *call, int i, const stn_meta *shape)
{
    stn_tensor *x = call->in[i];
    const struct stni_layout *in = &call->in_spec[i]->layout;
    int64_t numel = 1;
    for (int d = 0; d < shape->ndim; d++)
        numel *= shape->shape[d];
    if (in->dtype != shape->dtype)
        x = stn_cast(x, shape->dtype);
    x = stni_call_complete(x);
    return numel == call->in_spec[i]->numel && in->ndim == shape->ndim ? x : stn_expand(x, shape->ndim, shape->shape);
}

/* Norms, none below eps; their gradient is that of the norms themselves. */
static stn_tensor *lengths(stn_tensor *x, int n_dims, int dim, double eps)
{
    stn_tensor *norm = stni_vector_norm(x, 2, n_dims, &dim, 0, 0), *value = stn_detach(norm);
    return stn_add(norm, stn_sub(stn_clamp(value, eps, INFINITY), value));
}

/* A bound, which stn_clamp takes to be absent where it is infinite. */
static stn_status check_eps(const stn_op_call *call, double eps)
{
    return isinf(eps) ? stn_op_fail(call, STN_ERR_ARGUMENT, "'eps' got %g, wanted a finite number", eps) : STN_OK;
}

static stn_status cosine_similarity(stn_op_call *call)
{
    const struct cosine_attrs *attrs = call->attrs;
    stn_meta shape = {.ndim = 0};
    int dim;
    STNI_TRY(stni_pointwise_broadcast(call, 2, &shape));
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, shape.ndim, &dim));
    STNI_TRY(check_eps(call, attrs->eps));
    const stn_dtype promoted = stni_promote(2, call->in_spec, NULL),
                    dtype = stn_dtype_is_differentiable(promoted) ? promoted : STN_DTYPE_F32;
    shape.dtype = stni_wide_dtype(dtype);
    stn_tensor *x1 = full(call, 0, &shape), *x2 = full(call, 1, &shape);
    const int n_dims = shape.ndim > 0;
    stn_tensor *dot = stn_sum(stn_mul(x1, x2), n_dims, &dim, 0);
    dot = stn_div(dot, stn_mul(lengths(x1, n_dims, dim, attrs->eps), lengths(x2, n_dims, dim, attrs->eps)));
    call->out[0] = stn_cast(dot, dtype);
    return STN_OK;
}

static stn_status normalize(stn_op_call *call)
{
    const struct normalize_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int dims[STN_MAX_NDIM], n = 0;
    uint32_t mask;
    if (!stn_dtype_is_differentiable(in->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a floating or complex dtype",
                           stn_dtype_name(in->dtype));
    STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, in->ndim, &mask));
    STNI_TRY(check_eps(call, attrs->eps));
    const double p = stni_vector_norm_order(attrs->infinite, attrs->p);
    STNI_TRY(stni_vector_norm_check(call, p, &attrs->dim));
    for (int d = 0; d < in->ndim; d++)
        if (mask >> d & 1)
            dims[n++] = d;
    call->out[0] =
        stn_cast(stn_div(call->in[0], stn_clamp(stni_vector_norm(call->in[0], p, n, dims, 1, 1), attrs->eps, INFINITY)),
                 in->dtype);
    return STN_OK;
}

static const stn_input_schema pair[] = {{.name = "input"}, {.name = "other"}};
static const stn_input_schema vectors[] = {{.name = "x1"}, {.name = "x2"}};
static const stn_input_schema single[] = {{.name = "input"}};

static const stn_attr_schema cross_schema[] = {{"dim", STN_ATTR_INTS, offsetof(struct cross_attrs, dim), NULL}};
static const stn_attr_schema cosine_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct cosine_attrs, dim), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct cosine_attrs, eps), NULL},
};
static const stn_attr_schema normalize_schema[] = {
    {"p", STN_ATTR_FLOAT, offsetof(struct normalize_attrs, p), NULL},
    {"p", STN_ATTR_CHOICE, offsetof(struct normalize_attrs, infinite), stni_vector_norm_infinities},
    {"dim", STN_ATTR_INTS, offsetof(struct normalize_attrs, dim), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct normalize_attrs, eps), NULL},
};

const stn_op_desc stni_op_cross = {
    .size = sizeof(stn_op_desc), .name = "cross", STN_INPUTS(pair), STN_ATTRS(cross_schema, cross_defaults),
    .attrs_init = &cross_defaults, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = cross},
};

const stn_op_desc stni_op_cosine_similarity = {
    .size = sizeof(stn_op_desc), .name = "cosine_similarity", STN_INPUTS(vectors),
    STN_ATTRS(cosine_schema, cosine_defaults), .attrs_init = &cosine_defaults, .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = cosine_similarity},
};

const stn_op_desc stni_op_normalize = {
    .size = sizeof(stn_op_desc), .name = "normalize", STN_INPUTS(single),
    STN_ATTRS(normalize_schema, normalize_defaults), .attrs_init = &normalize_defaults, .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = normalize},
};
