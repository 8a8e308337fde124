/* fft and its like: what n, s, dim and norm mean, as resized dims and the transforms of stages.h. */
#include "core/base/dtype.h"
#include "ops/fft/stage_path.h"
#include "ops/fft/stages.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include "core/tensor/tensor.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <stddef.h>
#include <string.h>

static const int64_t ABSENT = INT64_MIN;

struct line_attrs {
    int64_t n, dim, norm;
};

struct many_attrs {
    stn_ints s, dim;
    int64_t norm;
    stn_ints placements; /* as of struct stni_stage_attrs */
};

/* What an op does. Of real ones the last dim is halved, or restored; those that are Hermitian do it of the
 * conjugates, and the other way. */
struct rule {
    enum { COMPLEX, HALVE, RESTORE } kind;
    int inverse, hermitian;
    const char *length; /* the attribute that gives lengths */
};

/* The call's sizes of the dims to transform; the last dim is the one that is halved or restored. */
struct task {
    int n;
    int dims[STN_MAX_NDIM];
    int64_t sizes[STN_MAX_NDIM];
    int64_t norm;
    stn_ints placements;
};

static stn_tensor *call_line(enum stni_op_index op, stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    struct line_attrs attrs = {n == 0 ? ABSENT : n, dim, norm};
    return stni_call(op, 1, &input, &attrs);
}

static stn_tensor *call_many(enum stni_op_index op, const char *name, stn_tensor *input, int n, const int64_t *s,
                             const int *dims, stn_fft_norm norm, const stn_ints *placements)
{
    struct many_attrs attrs = {.s = {.n = -1}, .dim = {.n = -1}, .norm = norm, .placements = *placements};
    if (n < 0 || n > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'n' got %d, wanted 0 to %d", name, n, STN_MAX_NDIM);
    if ((s && !stni_list_read(input, &(struct stni_list){name, "n", "s", 0}, n, s, &attrs.s)) ||
        (dims && !stni_list_read_dims(input, &(struct stni_list){name, "n", "dims", 0}, n, dims, &attrs.dim)))
        return stni_call_error(input);
    return stni_call(op, 1, &input, &attrs);
}

/* Two dims: the last ones by default, which is the default of the list too. */
static stn_tensor *call_two(enum stni_op_index op, const char *name, stn_tensor *input, const int64_t *s,
                            const int *dims, stn_fft_norm norm)
{
    static const int last[] = {-2, -1};
    return call_many(op, name, input, 2, s, dims ? dims : last, norm, &stni_fft_as_input);
}

/* To a layout that is asked for; `placements` NULL: to none, so that the result stays where the last exchange led. */
static stn_tensor *call_to(enum stni_op_index op, const char *name, stn_tensor *input, int n, const int64_t *s,
                           const int *dims, stn_fft_norm norm, const stn_placement *placements)
{
    stn_ints wanted = {.n = 0};
    if (!input)
        return NULL;
    if (!placements)
        return call_many(op, name, input, n, s, dims, norm, &wanted);
    if (stni_tensor_require(input, name) != STN_OK)
        return stni_call_error(input);
    const struct stni_layout *layout = &input->spec->layout;
    if (!layout->mesh)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'placements' are given, wanted NULL for a local 'input'",
                              name);
    for (; wanted.n < layout->mesh->ndim; wanted.n++) {
        const stn_placement p = placements[wanted.n];
        const int is_shard = p.kind == STN_PLACE_SHARD && p.dim >= 0 && p.dim < layout->ndim;
        if (!is_shard && p.kind != STN_PLACE_REPLICATE)
            return stni_call_fail(input, STN_ERR_ARGUMENT,
                                  "%s: 'placements[%d]' is neither Replicate nor Shard of one of the %d dims", name,
                                  (int)wanted.n, layout->ndim);
        wanted.v[wanted.n] = is_shard ? p.dim : -1;
    }
    return call_many(op, name, input, n, s, dims, norm, &wanted);
}

stn_tensor *stn_fft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    return call_line(STNI_OP_fft, input, n, dim, norm);
}
stn_tensor *stn_ifft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    return call_line(STNI_OP_ifft, input, n, dim, norm);
}
stn_tensor *stn_rfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    return call_line(STNI_OP_rfft, input, n, dim, norm);
}
stn_tensor *stn_irfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    return call_line(STNI_OP_irfft, input, n, dim, norm);
}
stn_tensor *stn_hfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    return call_line(STNI_OP_hfft, input, n, dim, norm);
}
stn_tensor *stn_ihfft(stn_tensor *input, int64_t n, int dim, stn_fft_norm norm)
{
    return call_line(STNI_OP_ihfft, input, n, dim, norm);
}

stn_tensor *stn_fft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_two(STNI_OP_fft2, "fft2", input, s, dims, norm);
}

stn_tensor *stn_ifft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_two(STNI_OP_ifft2, "ifft2", input, s, dims, norm);
}

stn_tensor *stn_rfft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_two(STNI_OP_rfft2, "rfft2", input, s, dims, norm);
}

stn_tensor *stn_irfft2(stn_tensor *input, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_two(STNI_OP_irfft2, "irfft2", input, s, dims, norm);
}

stn_tensor *stn_fftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_many(STNI_OP_fftn, "fftn", input, n, s, dims, norm, &stni_fft_as_input);
}

stn_tensor *stn_fftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                        const stn_placement *placements)
{
    return call_to(STNI_OP_fftn, "fftn_to", input, n, s, dims, norm, placements);
}

stn_tensor *stn_ifftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_many(STNI_OP_ifftn, "ifftn", input, n, s, dims, norm, &stni_fft_as_input);
}

stn_tensor *stn_ifftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                        const stn_placement *placements)
{
    return call_to(STNI_OP_ifftn, "ifftn_to", input, n, s, dims, norm, placements);
}

stn_tensor *stn_rfftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_many(STNI_OP_rfftn, "rfftn", input, n, s, dims, norm, &stni_fft_as_input);
}

stn_tensor *stn_rfftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                        const stn_placement *placements)
{
    return call_to(STNI_OP_rfftn, "rfftn_to", input, n, s, dims, norm, placements);
}

stn_tensor *stn_irfftn(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm)
{
    return call_many(STNI_OP_irfftn, "irfftn", input, n, s, dims, norm, &stni_fft_as_input);
}

stn_tensor *stn_irfftn_to(stn_tensor *input, int n, const int64_t *s, const int *dims, stn_fft_norm norm,
                        const stn_placement *placements)
{
    return call_to(STNI_OP_irfftn, "irfftn_to", input, n, s, dims, norm, placements);
}

static const struct rule *rule_of(const stn_op_call *call)
{
    return call->arg;
}

static stn_status check_dtype(const stn_op_call *call)
{
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    if (dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16)
        return stn_op_fail(call, STN_ERR_DTYPE,
                           "'input' got %s, wanted f32, f64 or complex: there are no transforms of 16-bit floats",
                           stn_dtype_name(dtype));
    if (rule_of(call)->kind == HALVE && stni_dtype_is_complex(dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a real dtype", stn_dtype_name(dtype));
    return STN_OK;
}

/* The size of the task's i-th dim: the attribute's (ABSENT, or -1 in a list: the dim's own), for an op that restores
 * lines the size of the whole line. */
static stn_status set_size(const stn_op_call *call, struct task *task, int i, int64_t asked)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int restored = rule_of(call)->kind == RESTORE && i == task->n - 1;
    const int64_t has = in->shape[task->dims[i]], n = asked != ABSENT ? asked : restored ? 2 * (has - 1) : has;
    task->sizes[i] = n;
    if (n < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %lld points along dim %d, wanted at least 1",
                           rule_of(call)->length, (long long)n, task->dims[i]);
    return STN_OK;
}

static stn_status read_line(const stn_op_call *call, struct task *task)
{
    const struct line_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    *task = (struct task){.n = 1, .norm = attrs->norm, .placements = stni_fft_as_input};
    if (in->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape (), wanted at least one dim");
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, in->ndim, &task->dims[0]));
    return set_size(call, task, 0, attrs->n);
}

/* Without dims: as many of the last ones as there are sizes, else all. */
static stn_status read_many(const stn_op_call *call, struct task *task)
{
    const struct many_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int64_t n = attrs->dim.n >= 0 ? attrs->dim.n : attrs->s.n >= 0 ? attrs->s.n : in->ndim;
    uint32_t mask;
    *task = (struct task){.n = (int)n, .norm = attrs->norm, .placements = attrs->placements};
    if (attrs->s.n >= 0 && attrs->s.n != n)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'s' got %lld sizes, wanted one for each of the %lld dims",
                           (long long)attrs->s.n, (long long)n);
    if (n > in->ndim || (n == 0 && rule_of(call)->kind != COMPLEX))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dim' got %lld dims, wanted %s the %d of 'input'", (long long)n,
                           n == 0 ? "at least one of" : "at most", in->ndim);
    if (attrs->dim.n > 0)
        STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, in->ndim, &mask));
    STNI_TRY(stni_stage_check_placements(call, &attrs->placements));
    for (int i = 0; i < task->n; i++) {
        if (attrs->dim.n >= 0)
            STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim.v[i], in->ndim, &task->dims[i]));
        else
            task->dims[i] = in->ndim - task->n + i;
        STNI_TRY(set_size(call, task, i, attrs->s.n >= 0 && attrs->s.v[i] != -1 ? attrs->s.v[i] : ABSENT));
    }
    return STN_OK;
}

/* Zeros behind the last element, or elements dropped there; in the input's own cuts, in proportion. */
static stn_tensor *resize(stn_tensor *x, int dim, int64_t n)
{
    if (stn_tensor_is_error(x) || stn_tensor_shape(x)[dim] == n)
        return x;
    const int64_t padding[] = {0, n - stn_tensor_shape(x)[dim]};
    return stn_transpose(stn_pad(stn_transpose(x, dim, -1), 2, padding, STN_PAD_CONSTANT, 0), dim, -1);
}

/* "ortho" divides by sqrt(N) both ways, "backward" by N on the way back, "forward" by N on the way there. */
static double scale_of(const struct task *task, int inverse)
{
    double n = 1;
    for (int i = 0; i < task->n; i++)
        n *= (double)task->sizes[i];
    if (task->norm == STN_FFT_ORTHO)
        return 1 / sqrt(n);
    return (task->norm == STN_FFT_FORWARD) != inverse ? 1 / n : 1;
}

static stn_tensor *transform(const struct rule *rule, const struct task *task, stn_tensor *x)
{
    const int last = task->n - 1;
    const double scale = scale_of(task, rule->inverse);
    stn_ints dims = {.n = task->n};
    for (int i = 0; i < task->n; i++) {
        dims.v[i] = task->dims[i];
        x = resize(x, task->dims[i], rule->kind == RESTORE && i == last ? task->sizes[i] / 2 + 1 : task->sizes[i]);
    }
    if (rule->kind == COMPLEX)
        return stni_fft_complex(x, &dims, rule->inverse, scale, &task->placements);
    if (rule->kind == HALVE)
        return stni_fft_halve(x, &dims, scale, 1, &task->placements);
    return stni_fft_restore(x, &dims, task->sizes[last], scale, 1, &task->placements);
}

static stn_status compose(stn_op_call *call, const struct task *task)
{
    const struct rule *rule = rule_of(call);
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    stn_tensor *x = call->in[0];
    if (!stn_dtype_is_differentiable(dtype))
        x = stn_cast(x, STN_DTYPE_F32);
    if (rule->kind == RESTORE && !stni_dtype_is_complex(dtype))
        x = stn_cast(x, dtype == STN_DTYPE_F64 ? STN_DTYPE_C128 : STN_DTYPE_C64);
    if (task->n == 0) { /* of no dims: the numbers themselves */
        call->out[0] =
            stni_dtype_is_complex(dtype) ? x : stn_cast(x, dtype == STN_DTYPE_F64 ? STN_DTYPE_C128 : STN_DTYPE_C64);
        return stn_context_status(call->context);
    }
    x = transform(rule, task, rule->hermitian && rule->kind == RESTORE ? stn_conj(x) : x);
    call->out[0] = rule->hermitian && rule->kind == HALVE ? stn_conj(x) : x;
    return stn_context_status(call->context);
}

static stn_status compose_line(stn_op_call *call)
{
    struct task task;
    STNI_TRY(check_dtype(call));
    STNI_TRY(read_line(call, &task));
    return compose(call, &task);
}

static stn_status compose_many(stn_op_call *call)
{
    struct task task;
    STNI_TRY(check_dtype(call));
    STNI_TRY(read_many(call, &task));
    return compose(call, &task);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const char *const norms[] = {"backward", "ortho", "forward", NULL};

static const stn_attr_schema line_schema[] = {
    {"n", STN_ATTR_INT, offsetof(struct line_attrs, n), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct line_attrs, dim), NULL},
    {"norm", STN_ATTR_CHOICE, offsetof(struct line_attrs, norm), norms},
};
static const struct line_attrs line_init = {.n = INT64_MIN, .dim = -1};

/* PyTorch's, of two dims; of many one more. */
static const stn_attr_schema two_schema[] = {
    {"s", STN_ATTR_INTS, offsetof(struct many_attrs, s), NULL},
    {"dim", STN_ATTR_INTS, offsetof(struct many_attrs, dim), NULL},
    {"norm", STN_ATTR_CHOICE, offsetof(struct many_attrs, norm), norms},
};
static const stn_attr_schema many_schema[] = {
    {"s", STN_ATTR_INTS, offsetof(struct many_attrs, s), NULL},
    {"dim", STN_ATTR_INTS, offsetof(struct many_attrs, dim), NULL},
    {"norm", STN_ATTR_CHOICE, offsetof(struct many_attrs, norm), norms},
    {"placements", STN_ATTR_INTS, offsetof(struct many_attrs, placements), NULL},
};
static const struct many_attrs two_init = {
    .s = {.n = -1}, .dim = {.n = 2, .v = {-2, -1}}, .placements = {.n = -1}};
static const struct many_attrs many_init = {.s = {.n = -1}, .dim = {.n = -1}, .placements = {.n = -1}};

const stn_op_desc stni_op_fft = {
    .size = sizeof(stn_op_desc), .name = "fft", STN_INPUTS(inputs), STN_ATTRS(line_schema, struct line_attrs),
    .attrs_init = &line_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_line},
    .arg = (void *)&(const struct rule){.kind = COMPLEX, .length = "n", .inverse = 0},
};

const stn_op_desc stni_op_ifft = {
    .size = sizeof(stn_op_desc), .name = "ifft", STN_INPUTS(inputs), STN_ATTRS(line_schema, struct line_attrs),
    .attrs_init = &line_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_line},
    .arg = (void *)&(const struct rule){.kind = COMPLEX, .length = "n", .inverse = 1},
};

const stn_op_desc stni_op_rfft = {
    .size = sizeof(stn_op_desc), .name = "rfft", STN_INPUTS(inputs), STN_ATTRS(line_schema, struct line_attrs),
    .attrs_init = &line_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_line},
    .arg = (void *)&(const struct rule){.kind = HALVE, .length = "n", .inverse = 0},
};

const stn_op_desc stni_op_irfft = {
    .size = sizeof(stn_op_desc), .name = "irfft", STN_INPUTS(inputs), STN_ATTRS(line_schema, struct line_attrs),
    .attrs_init = &line_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_line},
    .arg = (void *)&(const struct rule){.kind = RESTORE, .length = "n", .inverse = 1},
};

const stn_op_desc stni_op_hfft = {
    .size = sizeof(stn_op_desc), .name = "hfft", STN_INPUTS(inputs), STN_ATTRS(line_schema, struct line_attrs),
    .attrs_init = &line_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_line},
    .arg = (void *)&(const struct rule){.kind = RESTORE, .length = "n", .inverse = 0, .hermitian = 1},
};

const stn_op_desc stni_op_ihfft = {
    .size = sizeof(stn_op_desc), .name = "ihfft", STN_INPUTS(inputs), STN_ATTRS(line_schema, struct line_attrs),
    .attrs_init = &line_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_line},
    .arg = (void *)&(const struct rule){.kind = HALVE, .length = "n", .inverse = 1, .hermitian = 1},
};

const stn_op_desc stni_op_fft2 = {
    .size = sizeof(stn_op_desc), .name = "fft2", STN_INPUTS(inputs), STN_ATTRS(two_schema, struct many_attrs),
    .attrs_init = &two_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = COMPLEX, .length = "s", .inverse = 0},
};

const stn_op_desc stni_op_ifft2 = {
    .size = sizeof(stn_op_desc), .name = "ifft2", STN_INPUTS(inputs), STN_ATTRS(two_schema, struct many_attrs),
    .attrs_init = &two_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = COMPLEX, .length = "s", .inverse = 1},
};

const stn_op_desc stni_op_rfft2 = {
    .size = sizeof(stn_op_desc), .name = "rfft2", STN_INPUTS(inputs), STN_ATTRS(two_schema, struct many_attrs),
    .attrs_init = &two_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = HALVE, .length = "s", .inverse = 0},
};

const stn_op_desc stni_op_irfft2 = {
    .size = sizeof(stn_op_desc), .name = "irfft2", STN_INPUTS(inputs), STN_ATTRS(two_schema, struct many_attrs),
    .attrs_init = &two_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = RESTORE, .length = "s", .inverse = 1},
};

const stn_op_desc stni_op_fftn = {
    .size = sizeof(stn_op_desc), .name = "fftn", STN_INPUTS(inputs), STN_ATTRS(many_schema, struct many_attrs),
    .attrs_init = &many_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = COMPLEX, .length = "s", .inverse = 0},
};

const stn_op_desc stni_op_ifftn = {
    .size = sizeof(stn_op_desc), .name = "ifftn", STN_INPUTS(inputs), STN_ATTRS(many_schema, struct many_attrs),
    .attrs_init = &many_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = COMPLEX, .length = "s", .inverse = 1},
};

const stn_op_desc stni_op_rfftn = {
    .size = sizeof(stn_op_desc), .name = "rfftn", STN_INPUTS(inputs), STN_ATTRS(many_schema, struct many_attrs),
    .attrs_init = &many_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = HALVE, .length = "s", .inverse = 0},
};

const stn_op_desc stni_op_irfftn = {
    .size = sizeof(stn_op_desc), .name = "irfftn", STN_INPUTS(inputs), STN_ATTRS(many_schema, struct many_attrs),
    .attrs_init = &many_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose_many},
    .arg = (void *)&(const struct rule){.kind = RESTORE, .length = "s", .inverse = 1},
};
