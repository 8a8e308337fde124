/* Fourier transforms over dims, wherever these are sharded.
 *
 * Dims that lie whole on the ranks are transformed where they are. Those that are sharded become whole by one
 * exchange, which shards other dims instead: dims that are not transformed, or have been, or (where those are too
 * short) another one that is transformed later. At the end one exchange leads back to the input's layout, or to where
 * the result is wanted, unless it is wanted where it is. Only where a tensor has no other dim is it gathered. Linear:
 * pending sums stay pending.
 *
 * Reals are halved along their dim before the others are transformed, and restored after them. Two or three dims that
 * are whole go to the device at once where it takes them so. */
#include "ops/fft/stages.h"

#include "core/base/dtype.h"
#include "core/redistribute/redistribute.h"
#include "ops/fft/fft_kernel.h"
#include "ops/fft/stage_path.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/cpu/strided.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

const stn_ints stni_fft_as_input = {.n = -1};

enum { LINES, PLANES };

stn_tensor *stni_fft_complex(stn_tensor *input, const stn_ints *dims, int inverse, double scale,
                             const stn_ints *placements)
{
    struct stni_stage_attrs attrs = {
        .dims = *dims, .inverse = inverse != 0, .scale = scale, .interior = 1, .placements = *placements};
    return stni_call(STNI_OP_fft_complex, 1, &input, &attrs);
}

stn_tensor *stni_fft_halve(stn_tensor *input, const stn_ints *dims, double scale, double interior,
                           const stn_ints *placements)
{
    struct stni_stage_attrs attrs = {.dims = *dims, .scale = scale, .interior = interior, .placements = *placements};
    return stni_call(STNI_OP_fft_halve, 1, &input, &attrs);
}

stn_tensor *stni_fft_restore(stn_tensor *input, const stn_ints *dims, int64_t n, double scale, double interior,
                             const stn_ints *placements)
{
    struct stni_stage_attrs attrs = {.dims = *dims, .inverse = 1, .scale = scale, .interior = interior, .n = n,
                                     .placements = *placements};
    return stni_call(STNI_OP_fft_restore, 1, &input, &attrs);
}

/* Elements along the dim that changes for `n` of the input. */
static int64_t size_after(const stn_op_call *call, int64_t n)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const enum stni_stage_kind kind = stni_stage_kind(call);
    return kind == STNI_STAGE_COMPLEX ? n : kind == STNI_STAGE_HALVE ? n / 2 + 1 : attrs->n;
}

static stn_dtype dtype_after(const stn_op_call *call, stn_dtype dtype)
{
    const int is_f64 = dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_C128;
    if (stni_stage_kind(call) == STNI_STAGE_RESTORE)
        return is_f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
    return is_f64 ? STN_DTYPE_C128 : STN_DTYPE_C64;
}

/* Dtypes and lengths are those that fft.c lets through; calls by name are checked here. */
static stn_status check(stn_op_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int is_complex = stni_dtype_is_complex(in->dtype),
              is_real = in->dtype == STN_DTYPE_F32 || in->dtype == STN_DTYPE_F64;
    const enum stni_stage_kind kind = stni_stage_kind(call);
    stn_meta *out = &call->out_meta[0];
    uint32_t mask;
    if (!(kind != STNI_STAGE_HALVE && is_complex) && !(kind != STNI_STAGE_RESTORE && is_real))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted %s", stn_dtype_name(in->dtype),
                           kind == STNI_STAGE_HALVE     ? "f32 or f64"
                           : kind == STNI_STAGE_RESTORE ? "c64 or c128"
                                                        : "f32, f64, c64 or c128");
    if (in->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape (), wanted at least one dim");
    STNI_TRY(stni_dims_mask(call, "dims", &attrs->dims, in->ndim, &mask));
    STNI_TRY(stni_stage_check_placements(call, &attrs->placements));
    if (kind != STNI_STAGE_COMPLEX && attrs->dims.n < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dims' got %lld dims, wanted at least one",
                           (long long)attrs->dims.n);
    const uint32_t changing = stni_stage_changing(call);
    *out = (stn_meta){.dtype = dtype_after(call, in->dtype), .ndim = in->ndim};
    for (int d = 0; d < in->ndim; d++) {
        out->shape[d] = changing >> d & 1 ? size_after(call, in->shape[d]) : in->shape[d];
        if ((mask >> d & 1) && (in->shape[d] < 1 || out->shape[d] < 1))
            return stn_op_fail(call, STN_ERR_SHAPE,
                               "'input' got shape[%d] = %lld, wanted elements along the dims to transform", d,
                               (long long)in->shape[d]);
        if ((changing >> d & 1) && kind == STNI_STAGE_RESTORE && attrs->n / 2 + 1 != in->shape[d])
            return stn_op_fail(call, STN_ERR_SHAPE, "'n' got %lld, wanted %lld or one more", (long long)attrs->n,
                               (long long)(2 * in->shape[d] - 2));
    }
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout layout = call->in_spec[0]->layout;
    stni_layout_reduce(&layout, 1u << STN_SUM);
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[0]));
    layout = call->want[0]->layout;
    STNI_TRY(stni_stage_result_layout(call, &layout));
    layout.dtype = call->out_meta[0].dtype;
    return stni_spec_intern(call->context, &layout, &call->out_spec[0]);
}

/* The kind of transform along these dims, which go to the device together. */
static enum stni_transform_kind transform_of(const stn_op_call *call, uint32_t dims)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    if (!(dims & stni_stage_changing(call)))
        return attrs->inverse ? STNI_TRANSFORM_BACKWARD : STNI_TRANSFORM_FORWARD;
    return stni_stage_kind(call) == STNI_STAGE_HALVE ? STNI_TRANSFORM_HALVE : STNI_TRANSFORM_RESTORE;
}

/* The dim of these whose lines a kernel begins or ends with: the one that changes, else the last. */
static int main_dim(const stn_op_call *call, uint32_t dims)
{
    const uint32_t changing = dims & stni_stage_changing(call);
    int dim = 0;
    for (uint32_t left = changing ? changing : dims; left > 1; left >>= 1)
        dim++;
    return dim;
}

static void add_dims(struct stni_fft_args *args, const stn_tensor *in, const stn_tensor *out, uint32_t dims, int main)
{
    for (int d = 0; d < in->spec->layout.ndim; d++) {
        if (d == main)
            continue;
        if (dims >> d & 1) {
            args->more[args->n_more++] =
                (struct stni_fft_dim){in->spec->layout.shape[d], in->strides[d], out->strides[d]};
            continue;
        }
        args->shape[args->ndim] = in->spec->local_shape[d];
        args->strides_in[args->ndim] = in->strides[d];
        args->strides_out[args->ndim++] = out->strides[d];
    }
    args->ndim = stni_merge_dims(args->ndim, args->shape, 2, (int64_t *[]){args->strides_out, args->strides_in});
    if (args->ndim == 0)
        args->shape[args->ndim++] = 1;
}

/* Of a chunk whose dims of the transform are whole; all but the workspace. */
static struct stni_fft_args args_of(const stn_op_call *call, const stn_tensor *in, const stn_tensor *out, uint32_t dims)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const struct stni_layout *layout = &in->spec->layout;
    const int is_complex = stni_dtype_is_complex(layout->dtype), main = main_dim(call, dims);
    const int is_f64 = stn_dtype_size(layout->dtype) / (is_complex ? 2 : 1) == sizeof(double);
    struct stni_fft_args args = {.kind = transform_of(call, dims), .real = is_f64 ? STN_DTYPE_F64 : STN_DTYPE_F32,
                                 .n_in = layout->shape[main], .n_out = out->spec->layout.shape[main],
                                 .step_in = in->strides[main], .step_out = out->strides[main], .in = in->data,
                                 .out = out->data, .scale = 1, .interior = attrs->interior};
    args.real_in = args.kind != STNI_TRANSFORM_HALVE && !is_complex;
    args.n = args.kind == STNI_TRANSFORM_RESTORE ? args.n_out : args.n_in;
    add_dims(&args, in, out, dims, main);
    return args;
}

static stn_status launch_lines(const stn_op_call *call, stn_dtype dtype, struct stni_fft_args *args)
{
    const size_t bytes = stn_op_workspace(call, LINES, dtype, args);
    STNI_TRY(call->context->error.status); /* of what the kernel needs beside memory */
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &args->workspace));
    return stn_op_launch(call, LINES, dtype, args, sizeof *args);
}

/* `is_taken`: whether the device takes these dims at once. */
static stn_status launch_planes(const stn_op_call *call, stn_dtype dtype, struct stni_fft_args *args, int *is_taken)
{
    const size_t bytes = stn_op_workspace(call, PLANES, dtype, args);
    *is_taken = bytes > 0;
    if (!*is_taken)
        return STN_OK;
    STNI_TRY(stn_op_scratch(call, bytes, &args->workspace));
    return stn_op_launch(call, PLANES, dtype, args, sizeof *args);
}

/* A tensor on its way. `own`: nobody else sees its memory, so that it is transformed in place. */
struct journey {
    stn_tensor *at;
    int own;
    double scale; /* still to be applied */
};

static stn_status go(struct journey *j, const stn_spec *spec)
{
    stn_tensor *next;
    STNI_TRY(stni_redistribute(j->at, spec, &next));
    stni_tensor_drop(&j->at);
    j->at = next;
    return STN_OK;
}

/* What the tensor on its way is after these dims: what it is already where neither dtype nor shape changes, so that
 * its own memory holds that. */
static stn_status spec_after(const stn_op_call *call, const struct journey *j, uint32_t dims, const stn_spec **out)
{
    struct stni_layout layout = j->at->spec->layout;
    const struct stni_layout *end = &call->out_spec[0]->layout;
    const uint32_t changing = dims & stni_stage_changing(call);
    if (stni_stage_kind(call) == STNI_STAGE_COMPLEX || changing)
        layout.dtype = end->dtype;
    for (int d = 0; d < layout.ndim; d++)
        if (changing >> d & 1)
            layout.shape[d] = end->shape[d];
    return stni_spec_intern(call->context, &layout, out);
}

/* The scale goes with the dim that changes, else with the first ones. */
static double take_scale(const stn_op_call *call, double *scale, uint32_t dims)
{
    double taken = 1;
    if (stni_stage_kind(call) == STNI_STAGE_COMPLEX || (dims & stni_stage_changing(call))) {
        taken = *scale;
        *scale = 1;
    }
    return taken;
}

/* Dims that are whole: one, or several where the device takes them at once. */
static stn_status transform(const stn_op_call *call, struct journey *j, uint32_t dims, int *is_done)
{
    const stn_spec *spec;
    stn_tensor *to = j->at;
    STNI_TRY(spec_after(call, j, dims, &spec));
    const int in_place = j->own && spec == j->at->spec;
    if (!in_place)
        STNI_TRY(stni_tensor_create(call->context, spec, &to));
    stn_status status = STN_OK;
    double left = j->scale;
    const double scale = take_scale(call, &left, dims);
    *is_done = 1;
    if (j->at->spec->local_numel > 0) {
        struct stni_fft_args args = args_of(call, j->at, to, dims);
        const stn_dtype dtype = j->at->spec->layout.dtype;
        args.scale = scale;
        status = args.n_more > 0 ? launch_planes(call, dtype, &args, is_done) : launch_lines(call, dtype, &args);
    }
    if (!in_place)
        stni_tensor_drop(*is_done ? &j->at : &to);
    if (!*is_done)
        return status;
    j->scale = left;
    j->at = to;
    j->own = 1;
    return status;
}

/* The most dims that go at once; `left` has those that remain. Where none are whole, it is as it was. */
static stn_status transform_whole(const stn_op_call *call, struct journey *j, uint32_t *left)
{
    const uint32_t cut = stni_cut_dims(&j->at->spec->layout);
    for (int most = 1 + STNI_FFT_MOST_MORE, is_done = 0; most > 0 && !is_done; most--) {
        const uint32_t dims = stni_stage_next_dims(call, *left, cut, most);
        if (stni_stage_count(dims) < most)
            continue;
        STNI_TRY(transform(call, j, dims, &is_done));
        *left &= is_done ? ~dims : ~0u;
    }
    return STN_OK;
}

/* One exchange after which there is a dim that is whole and whose turn it is; if possible all are whole, and that where
 * the result is wanted. */
static stn_status make_whole(const stn_op_call *call, struct journey *j, uint32_t left)
{
    const struct stni_layout *now = &j->at->spec->layout, *end = &call->out_spec[0]->layout;
    struct stni_layout layout = *now;
    const stn_spec *spec;
    if (left & stni_cut_dims(end)) {
        STNI_TRY(stni_stage_next_layout(call, left, &layout));
    } else {
        layout = *end;
        layout.dtype = now->dtype;
        memcpy(layout.shape, now->shape, sizeof layout.shape);
    }
    STNI_TRY(stni_spec_intern(call->context, &layout, &spec));
    return go(j, spec);
}

static stn_status travel(const stn_op_call *call, struct journey *j, uint32_t left)
{
    while (left) {
        const uint32_t before = left;
        STNI_TRY(transform_whole(call, j, &left));
        if (left == before)
            STNI_TRY(make_whole(call, j, left));
    }
    return go(j, call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const stn_spec *spec = call->in[0]->spec;
    if (spec->numel == 0 || (spec->layout.mesh && !spec->layout.mesh->member))
        return stni_tensor_create(call->context, call->out_spec[0], &call->out[0]);
    struct journey j = {.at = stn_tensor_retain(call->in[0]), .scale = attrs->scale};
    stn_status status = travel(call, &j, stni_dims_mask_of(&attrs->dims, spec->layout.ndim));
    if (status == STN_OK)
        call->out[0] = j.at;
    else
        stni_tensor_drop(&j.at);
    return status;
}

/* Where the gradient goes: back to the input's layout. A result in that layout has a gradient that is there already. */
static stn_ints home(const stn_backward_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    return attrs->placements.n < 0 ? attrs->placements : stni_stage_placements(&call->in_spec[0]->layout);
}

static stn_status complex_backward(stn_backward_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const stn_ints placements = home(call);
    stn_tensor *g = stni_fft_complex(call->grad_out[0], &attrs->dims, !attrs->inverse, attrs->scale, &placements);
    call->grad_in[0] = stni_dtype_is_complex(call->in_spec[0]->layout.dtype) ? g : stn_real(g);
    return stn_context_status(call->context);
}

/* With the factors c_k of the half line, y_k = c_k sum_j x_j exp(-2 pi i j k / n): the cotangent of x_j is the real
 * part of sum_k c_k g_k exp(+ …), in which a restored line counts those twice that stand for their conjugates. */
static stn_status halve_backward(stn_backward_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int64_t last = attrs->dims.v[attrs->dims.n - 1], n = in->shape[last + (last < 0 ? in->ndim : 0)];
    const stn_ints placements = home(call);
    call->grad_in[0] =
        stni_fft_restore(call->grad_out[0], &attrs->dims, n, attrs->scale, attrs->interior / 2, &placements);
    return stn_context_status(call->context);
}

static stn_status restore_backward(stn_backward_call *call)
{
    const struct stni_stage_attrs *attrs = call->attrs;
    const stn_ints placements = home(call);
    call->grad_in[0] =
        stni_fft_halve(call->grad_out[0], &attrs->dims, attrs->scale, 2 * attrs->interior, &placements);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {
    {"dims", STN_ATTR_INTS, offsetof(struct stni_stage_attrs, dims), NULL},
    {"inverse", STN_ATTR_BOOL, offsetof(struct stni_stage_attrs, inverse), NULL},
    {"scale", STN_ATTR_FLOAT, offsetof(struct stni_stage_attrs, scale), NULL},
    {"interior", STN_ATTR_FLOAT, offsetof(struct stni_stage_attrs, interior), NULL},
    {"n", STN_ATTR_INT, offsetof(struct stni_stage_attrs, n), NULL},
    {"placements", STN_ATTR_INTS, offsetof(struct stni_stage_attrs, placements), NULL},
};
static const struct stni_stage_attrs attrs_init = {
    .dims = {.n = -1}, .scale = 1, .interior = 1, .placements = {.n = -1}};

enum { DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_C64 | 1 << STN_DTYPE_C128 };

static const stn_kernel_slot slots[] = {[LINES] = {"lines", sizeof(struct stni_fft_args)},
                                        [PLANES] = {"planes", sizeof(struct stni_fft_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("lines", DTYPES, struct stni_fft_args, stni_fft_cpu, stni_fft_workspace),
    STNI_CPU_ROW("planes", DTYPES, struct stni_fft_args, stni_fft_planes_cpu, stni_fft_planes_workspace),
};
static const stn_op_impl complex_impl = {
    .check = check, .place = place, .run = run, .backward = complex_backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};
static const stn_op_impl halve_impl = {
    .check = check, .place = place, .run = run, .backward = halve_backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};
static const stn_op_impl restore_impl = {
    .check = check, .place = place, .run = run, .backward = restore_backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};

/* Each run makes the result itself. */
const stn_op_desc stni_op_fft_complex = {
    .size = sizeof(stn_op_desc), .name = "fft_complex", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_stage_attrs), .attrs_init = &attrs_init, .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_INTERNAL, .impl = &complex_impl,
    .arg = (void *)&(const enum stni_stage_kind){STNI_STAGE_COMPLEX},
};

const stn_op_desc stni_op_fft_halve = {
    .size = sizeof(stn_op_desc), .name = "fft_halve", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_stage_attrs), .attrs_init = &attrs_init, .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_INTERNAL, .impl = &halve_impl,
    .arg = (void *)&(const enum stni_stage_kind){STNI_STAGE_HALVE},
};

const stn_op_desc stni_op_fft_restore = {
    .size = sizeof(stn_op_desc), .name = "fft_restore", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_stage_attrs), .attrs_init = &attrs_init, .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_INTERNAL, .impl = &restore_impl,
    .arg = (void *)&(const enum stni_stage_kind){STNI_STAGE_RESTORE},
};
