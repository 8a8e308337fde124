/* repeat_interleave: every element along a dim several times. By a number it is a view, repeated; by a tensor of
 * numbers each element of the result is found (repeat_index) and read by index. */
#include "ops/index/arguments.h"
#include "ops/index/repeat_index.h"

#include "ops/common/call.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"
#include "ops/table.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { INPUT, REPEATS };

struct interleave_attrs {
    stn_number repeats, dim; /* dim NONE: the input is taken flat */
    int64_t output_size;     /* -1: not given */
};

struct index_attrs {
    int64_t dim, output_size;
};

static stn_number number_of(const int *dim)
{
    return dim ? (stn_number){STN_NUMBER_INT, *dim, *dim} : (stn_number){STN_NUMBER_NONE, 0, 0};
}

stn_tensor *stn_repeat_interleave(stn_tensor *input, int64_t repeats, const int *dim)
{
    const struct interleave_attrs attrs = {{STN_NUMBER_INT, repeats, (double)repeats}, number_of(dim), -1};
    return stni_call(STNI_OP_repeat_interleave, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_repeat_interleave_each(stn_tensor *input, stn_tensor *repeats, const int *dim, int64_t output_size)
{
    const struct interleave_attrs attrs = {.dim = number_of(dim), .output_size = output_size};
    return stni_call(STNI_OP_repeat_interleave, 2, (stn_tensor *[]){input, repeats}, &attrs);
}

static stn_tensor *by_number(stn_tensor *x, int dim, int64_t times)
{
    int64_t shape[STN_MAX_NDIM + 1];
    int ndim = stn_tensor_ndim(x);
    memcpy(shape, stn_tensor_shape(x), (size_t)(dim + 1) * sizeof *shape);
    memcpy(shape + dim + 2, stn_tensor_shape(x) + dim + 1, (size_t)(ndim - dim - 1) * sizeof *shape);
    shape[dim + 1] = times;
    return stn_flatten(stn_expand(stn_unsqueeze(x, dim + 1), ndim + 1, shape), dim, dim + 1);
}

/* How many elements there are then; one number is for all n. One below 0 is reported where it is used. */
static stn_status count_repeats(const stn_op_call *call, int64_t n, int64_t *out)
{
    int64_t sum = 1;
    STNI_TRY(stni_index_read_number(stn_sum(call->in[REPEATS], 0, NULL, 0), &sum));
    sum = sum < 0 ? 0 : sum;
    if (__builtin_mul_overflow(sum, call->in_spec[REPEATS]->numel == 1 ? n : 1, out))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'repeats' got %" PRId64 " for %" PRId64 " elements, wanted a size below 2^63", sum, n);
    return STN_OK;
}

static stn_status by_tensor(stn_op_call *call, stn_tensor *x, int dim)
{
    const struct interleave_attrs *attrs = call->attrs;
    const struct stni_layout *repeats = &call->in_spec[REPEATS]->layout;
    struct index_attrs find = {dim, attrs->output_size};
    struct stni_access_attrs read = {.dim = dim, .slices = 1, .what = STNI_OP_repeat_interleave, .quiet = 1};
    int64_t n = stn_tensor_shape(x)[dim];
    STNI_TRY(stni_index_dtype(call, REPEATS));
    if (repeats->ndim > 1 || (repeats->ndim == 1 && repeats->shape[0] != 1 && repeats->shape[0] != n))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'repeats' got %" PRId64 " elements in %d dims, wanted %" PRId64 " in 1",
                           call->in_spec[REPEATS]->numel, repeats->ndim, n);
    if (find.output_size < 0)
        STNI_TRY(count_repeats(call, n, &find.output_size));
    stn_tensor *index = stni_call(STNI_OP_repeat_index, 2, (stn_tensor *[]){call->in[REPEATS], x}, &find);
    call->out[0] = stni_index_read(x, index, &read);
    return STN_OK;
}

static stn_status repeat_interleave(stn_op_call *call)
{
    const struct interleave_attrs *attrs = call->attrs;
    stn_tensor *x = call->in[INPUT], *repeats = call->in[REPEATS];
    int64_t along, times;
    int dim = 0;
    if ((repeats != NULL) == (attrs->repeats.kind != STN_NUMBER_NONE))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'repeats' got %s, wanted a number or a tensor",
                           repeats ? "both" : "nothing");
    STNI_TRY(stni_index_whole(call, "dim", &attrs->dim, &along));
    STNI_TRY(stni_index_whole(call, "repeats", &attrs->repeats, &times));
    STNI_TRY(stni_dim_wrap(call, "dim", along, call->in_spec[INPUT]->layout.ndim, &dim));
    if (times < 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'repeats' got %" PRId64 ", wanted at least 0", times);
    x = attrs->dim.kind == STN_NUMBER_NONE ? stn_flatten(x, 0, -1) : stni_index_with_dims(x);
    if (stn_tensor_is_error(x))
        return stn_context_status(call->context);
    if (repeats)
        return by_tensor(call, x, dim);
    if (stn_tensor_ndim(x) == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", STN_MAX_NDIM,
                           STN_MAX_NDIM - 1);
    int64_t n = stn_tensor_shape(x)[dim], all;
    if (__builtin_mul_overflow(n, times, &all))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'repeats' got %" PRId64 " for %" PRId64 " elements, wanted a size below 2^63",
                           times, n);
    if (attrs->output_size >= 0 && attrs->output_size != all)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'output_size' got %" PRId64 ", wanted %" PRId64, attrs->output_size,
                           all);
    call->out[0] = by_number(x, dim, times);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "repeats", .optional = 1}};
static const stn_attr_schema schema[] = {
    {"repeats", STN_ATTR_NUMBER, offsetof(struct interleave_attrs, repeats), NULL},
    {"dim", STN_ATTR_NUMBER, offsetof(struct interleave_attrs, dim), NULL},
    {"output_size", STN_ATTR_INT, offsetof(struct interleave_attrs, output_size), NULL},
};
static const struct interleave_attrs attrs_init = {.output_size = -1};

const stn_op_desc stni_op_repeat_interleave = {
    .size = sizeof(stn_op_desc),
    .name = "repeat_interleave",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct interleave_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = repeat_interleave},
    .signature = "input, repeats, dim=, *, output_size=None",
};

/* repeat_index: the index by which repeat_interleave reads. It is sharded as `like` is along the dim, in proportion. */

enum { NUMBERS, LIKE };

static stn_status check_index(stn_op_call *call)
{
    const struct index_attrs *attrs = call->attrs;
    if (attrs->output_size < 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'output_size' got %" PRId64 ", wanted at least 0",
                           attrs->output_size);
    call->out_meta[0] = (stn_meta){STN_DTYPE_I64, 1, {attrs->output_size}};
    call->reports = 1;
    return STN_OK;
}

static stn_status place_index(stn_op_call *call)
{
    const struct index_attrs *attrs = call->attrs;
    struct stni_layout repeats = call->in_spec[NUMBERS]->layout, out;
    const struct stni_layout *like = &call->in_spec[LIKE]->layout;
    stni_layout_init(&out, like->mesh, STN_DTYPE_I64, 1, &attrs->output_size);
    for (int a = 0; like->mesh && a < like->mesh->ndim; a++) {
        stn_placement p = like->placement[a];
        repeats.placement[a] = stn_replicate();
        out.placement[a] = p.kind == STN_PLACE_SHARD && p.dim == attrs->dim ? stn_shard(0) : stn_replicate();
    }
    memset(repeats.split, 0, sizeof repeats.split);
    if (like->split[attrs->dim]) {
        stni_splits_take(&out, 0, like, (int)attrs->dim, 1);
        STNI_TRY(stni_split_scaled(call->context, like->split[attrs->dim], attrs->output_size, &out.split[0]));
    }
    STNI_TRY(stni_spec_intern(call->context, &repeats, &call->want[NUMBERS]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run_index(stn_op_call *call)
{
    const stn_tensor *repeats = call->in[NUMBERS], *out = call->out[0];
    const struct stni_layout *like = &call->in_spec[LIKE]->layout;
    const struct index_attrs *attrs = call->attrs;
    struct stni_repeat_index_args args;
    memset(&args, 0, sizeof args);
    if (like->mesh && !like->mesh->member)
        return STN_OK;
    args.repeats = repeats->data;
    args.dtype = repeats->spec->layout.dtype;
    args.n = like->shape[attrs->dim];
    args.stride = repeats->spec->numel == 1 ? 0 : repeats->strides[0];
    args.out = out->data;
    args.first = out->spec->local_offset[0];
    args.length = out->spec->local_shape[0];
    args.wanted = attrs->output_size;
    args.op = STNI_OP_repeat_interleave;
    return stn_op_launch(call, 0, args.dtype, &args, sizeof args);
}

static const stn_input_schema index_inputs[] = {{.name = "repeats"}, {.name = "like"}};
static const stn_attr_schema index_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct index_attrs, dim), NULL},
    {"output_size", STN_ATTR_INT, offsetof(struct index_attrs, output_size), NULL},
};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_repeat_index_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", STNI_INDEX_DTYPES, struct stni_repeat_index_args, stni_repeat_index_cpu, NULL),
};

static const stn_op_impl repeat_index_impl = {
    .check = check_index, .place = place_index, .run = run_index, STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_repeat_index = {
    .size = sizeof(stn_op_desc),
    .name = "repeat_index",
    STN_INPUTS(index_inputs),
    STN_ATTRS(index_schema, struct index_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &repeat_index_impl,
};
