/* The functions of a descriptor that every pointwise op shares. */
#include "ops/elementwise/pointwise.h"

#include "core/tensor/tensor.h"
#include "ops/cpu/convert.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/common/promote.h"
#include "ops/cpu/strided.h"
#include "ops/common/sum_to.h"

const stn_input_schema stni_unary_inputs[1] = {{"input", 0, 0}};
const stn_input_schema stni_binary_inputs[2] = {{"input", 0, 0}, {"other", 1, 0}};

static const struct stni_pointwise_rule *rule_of(const void *arg, const void *attrs)
{
    const struct stni_pointwise_rule *rule = arg, *variant = rule->variant ? rule->variant(attrs) : NULL;
    return variant ? variant : rule;
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const struct stni_pointwise_rule *rule = rule_of(call->arg, call->attrs);
    out->op = rule->op;
    out->a = out->b = out->c = (stn_number){STN_NUMBER_NONE, 0, 0};
    for (int i = 0; i < call->n_in; i++)
        out->operand[i] = out->a;
    if (rule->numbers)
        rule->numbers(call, out);
}

stn_dtype stni_dtype_floating(const void *attrs, stn_dtype promoted)
{
    (void)attrs;
    return stn_dtype_is_differentiable(promoted) ? promoted : STN_DTYPE_F32;
}

stn_dtype stni_dtype_bool(const void *attrs, stn_dtype promoted)
{
    (void)attrs;
    (void)promoted;
    return STN_DTYPE_BOOL;
}

stn_dtype stni_dtype_real(const void *attrs, stn_dtype promoted)
{
    (void)attrs;
    return promoted == STN_DTYPE_C64 ? STN_DTYPE_F32 : promoted == STN_DTYPE_C128 ? STN_DTYPE_F64 : promoted;
}

stn_dtype stni_dtype_same(const void *attrs, stn_dtype promoted)
{
    (void)attrs;
    return promoted;
}

stn_tensor *stni_derivative_same(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return grad;
}

stn_tensor *stni_conjugate(stn_tensor *t)
{
    return !stn_tensor_is_error(t) && stni_dtype_is_complex(stn_tensor_dtype(t)) ? stn_conj(t) : t;
}

/* Each operand is a tensor or a number. */
static stn_status check_operands(const stn_op_call *call, const struct stni_pointwise_numbers *numbers)
{
    unsigned booleans = rule_of(call->arg, call->attrs)->booleans;
    for (int i = 0; i < call->n_in; i++) {
        const char *name = stn_op_descriptor(call->op)->inputs[i].name;
        int is_number = numbers->operand[i].kind != STN_NUMBER_NONE;
        if (!call->in_spec[i] && !is_number)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' is missing, wanted a tensor or a number", name);
        if (call->in_spec[i] && is_number)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got a tensor and a number, wanted one of them", name);
        if (call->in_spec[i] && (booleans >> i & 1) && call->in_spec[i]->layout.dtype != STN_DTYPE_BOOL)
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' is %s, wanted bool", name,
                               stn_dtype_name(call->in_spec[i]->layout.dtype));
    }
    return STN_OK;
}

static int is_whole(stn_number number)
{
    return number.kind != STN_NUMBER_FLOAT ||
           (number.f >= -0x1p63 && number.f < 0x1p63 && number.f == (double)(int64_t)number.f);
}

static stn_dtype result_dtype(const struct stni_pointwise_rule *rule, const void *attrs, stn_dtype promoted)
{
    return rule->result ? rule->result(attrs, promoted) : promoted;
}

/* That in which the arithmetic is done. */
static stn_dtype arithmetic_dtype(const struct stni_pointwise_rule *rule, const void *attrs, stn_dtype promoted)
{
    return rule->compute ? rule->compute(attrs, promoted) : result_dtype(rule, attrs, promoted);
}

/* Those of operands with which the op is defined. */
static uint32_t operand_dtypes(const struct stni_pointwise_rule *rule, const void *attrs)
{
    uint32_t dtypes = 0;
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        dtypes |= (rule->dtypes >> arithmetic_dtype(rule, attrs, (stn_dtype)d) & 1u) << d;
    return dtypes;
}

/* `dtype` is the one in which the arithmetic is done. */
static stn_status check_numbers(const stn_op_call *call, const struct stni_pointwise_numbers *numbers, stn_dtype dtype)
{
    for (int i = 0; i < call->n_in; i++)
        if (rule_of(call->arg, call->attrs)->elements >> i & 1)
            STNI_TRY(stni_check_number(call, stn_op_descriptor(call->op)->inputs[i].name, &numbers->operand[i], dtype));
    const stn_number *const all[] = {&numbers->a,          &numbers->b,          &numbers->c,
                                     &numbers->operand[0], &numbers->operand[1], &numbers->operand[2]};
    for (int i = 0; i < 3 + call->n_in && !stn_dtype_is_differentiable(dtype); i++)
        if (!is_whole(*all[i]))
            return stn_op_fail(call, STN_ERR_DTYPE, "got the number %g for operands of %s, wanted a whole number",
                               all[i]->f, stn_dtype_name(dtype));
    return STN_OK;
}

/* The dtype that the operands which decide it, tensors and numbers, are promoted to. */
static stn_dtype promoted_dtype(const stn_op_call *call, const struct stni_pointwise_numbers *numbers)
{
    const stn_spec *spec[STNI_POINTWISE_MAX_IN];
    stn_number number[STNI_POINTWISE_MAX_IN];
    unsigned promotes = rule_of(call->arg, call->attrs)->promotes;
    int n = 0;
    for (int i = 0; i < call->n_in; i++) {
        if (promotes && !(promotes >> i & 1))
            continue;
        spec[n] = call->in_spec[i];
        number[n++] = numbers->operand[i];
    }
    return stni_promote(n, spec, number);
}

/* The input keeps its dtype: of what is computed in a wider one each element is rounded once. */
static stn_status check_in_place(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    const char *name = stn_op_descriptor(call->op)->inputs[0].name;
    int same = in->ndim == out->ndim;
    for (int d = 0; same && d < in->ndim; d++)
        same = in->shape[d] == out->shape[d];
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (!same)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'%s' has shape %s and is changed in place, wanted the result's shape %s", name,
                           stni_shape_text(in->ndim, in->shape, got), stni_shape_text(out->ndim, out->shape, wanted));
    if (!stni_same_category(in->dtype, out->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'%s' is %s and is changed in place, wanted the result's dtype %s",
                           name, stn_dtype_name(in->dtype), stn_dtype_name(out->dtype));
    out->dtype = in->dtype;
    return STN_OK;
}

/* Of which a divisor of 0 is a value error. The note is there. */
static int divides_integers(const stn_op_call *call)
{
    return rule_of(call->arg, call->attrs)->divides && (stn_dtype)call->note == STN_DTYPE_I64;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_pointwise_rule *rule = rule_of(call->arg, call->attrs);
    struct stni_pointwise_numbers numbers;
    read_numbers(call, &numbers);
    if (rule->check)
        STNI_TRY(rule->check(call));
    STNI_TRY(check_operands(call, &numbers));
    const stn_dtype promoted = promoted_dtype(call, &numbers), compute = arithmetic_dtype(rule, call->attrs, promoted);
    call->out_meta[0].dtype = result_dtype(rule, call->attrs, promoted);
    call->note = (uint64_t)stni_compute_dtype(compute);
    call->reports = divides_integers(call);
    if (rule->dtypes)
        STNI_TRY(stni_check_dtypes(call, promoted, operand_dtypes(rule, call->attrs)));
    STNI_TRY(check_numbers(call, &numbers, compute));
    STNI_TRY(stni_pointwise_broadcast(call, call->n_in, &call->out_meta[0]));
    return stn_op_descriptor(call->op)->flags & STN_OP_IN_PLACE ? check_in_place(call) : STN_OK;
}

static stn_status place_op(stn_op_call *call)
{
    return stni_pointwise_place(call, call->n_in, rule_of(call->arg, call->attrs)->linear);
}

static struct stni_pointwise_number kernel_number(stn_number number)
{
    int64_t i = number.kind != STN_NUMBER_FLOAT ? number.i : is_whole(number) ? (int64_t)number.f : 0;
    return (struct stni_pointwise_number){number.f, i};
}

/* An operand's chunk seen with the output's dims; a number has the stride 0. */
static void set_strides(struct stni_pointwise_operand *operand, const stn_spec *spec, const int64_t *strides,
                        const struct stni_layout *out)
{
    int shift = spec ? out->ndim - spec->layout.ndim : out->ndim;
    for (int d = 0; d < out->ndim; d++)
        operand->strides[d] = d >= shift && spec->layout.shape[d - shift] == out->shape[d] ? strides[d - shift] : 0;
}

/* The output's chunk as the space, with as few dims as the strides of all operands allow. */
static void set_space(const stn_op_call *call, struct stni_pointwise_args *args)
{
    const stn_tensor *out = call->out[0];
    const struct stni_layout *layout = &out->spec->layout;
    int64_t *strides[STNI_POINTWISE_MAX_IN + 1] = {args->out.strides};
    int n = 1;
    for (int d = 0; d < layout->ndim; d++)
        args->shape[d] = out->spec->local_shape[d];
    set_strides(&args->out, out->spec, out->strides, layout);
    for (int i = 0; i < call->n_in; i++) {
        const stn_tensor *t = call->in[i];
        set_strides(&args->in[i], t ? t->spec : NULL, t ? t->strides : NULL, layout);
        if (t)
            strides[n++] = args->in[i].strides;
    }
    args->ndim = stni_merge_dims(layout->ndim, args->shape, n, strides);
    args->one_run = stni_pointwise_is_one_run(args);
}

/* Whether every tensor has the output's spec: where they are dense, they are one run, whatever their order in
 * memory. */
static int are_alike(const stn_op_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && call->in[i]->spec != call->out[0]->spec)
            return 0;
    return 1;
}

static void set_one_dim(const stn_op_call *call, struct stni_pointwise_args *args)
{
    args->ndim = 1;
    args->shape[0] = call->out[0]->spec->local_numel;
    args->out.strides[0] = 1;
    for (int i = 0; i < call->n_in; i++)
        args->in[i].strides[0] = call->in[i] ? 1 : 0;
    args->one_run = stni_pointwise_is_one_run(args);
}

/* Points to the tensors; 1 where all are dense. */
static int set_data(const stn_op_call *call, struct stni_pointwise_args *args)
{
    uint32_t flags = call->out[0]->flags;
    args->out.data = call->out[0]->data;
    for (int i = 0; i < call->n_in; i++) {
        const stn_tensor *t = call->in[i];
        args->in[i].data = t ? t->data : NULL;
        flags &= t ? t->flags : flags;
    }
    return (flags & STNI_TENSOR_DENSE) != 0;
}

/* All but the pointers and the space. */
static void set_numbers(const stn_op_call *call, struct stni_pointwise_args *args)
{
    struct stni_pointwise_numbers numbers;
    read_numbers(call, &numbers);
    args->op = numbers.op;
    args->compute = (stn_dtype)call->note; /* check's finding */
    args->n_in = call->n_in;
    args->number_of_op = stn_op_number(call->op);
    args->divides = divides_integers(call);
    args->a = kernel_number(numbers.a);
    args->b = kernel_number(numbers.b);
    args->c = kernel_number(numbers.c);
    args->out.dtype = call->out[0]->spec->layout.dtype;
    for (int i = 0; i < call->n_in; i++) {
        const stn_tensor *t = call->in[i];
        args->in[i].dtype = t ? t->spec->layout.dtype : args->compute;
        if (!t)
            args->number[i] = kernel_number(numbers.operand[i]);
    }
}

/* What a call with dense tensors has in common with others of its attributes and specs: all but the pointers. */
struct kept {
    int numbers, whole; /* 1: those of `args` are there; all is */
    struct stni_pointwise_args args;
};

static stn_status launch(const stn_op_call *call, const struct stni_pointwise_args *args)
{
    return stn_op_launch(call, 0, args->out.dtype, args, sizeof *args);
}

static stn_status run_strided(const stn_op_call *call, const struct kept *kept)
{
    struct stni_pointwise_args args = kept->args;
    set_space(call, &args);
    return launch(call, &args);
}

/* A first call, and each with views or without elements. */
static stn_status run_anew(const stn_op_call *call, struct kept *kept, int dense)
{
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    if (!kept->numbers)
        set_numbers(call, &kept->args);
    kept->numbers = 1;
    if (!dense)
        return run_strided(call, kept);
    if (are_alike(call))
        set_one_dim(call, &kept->args);
    else
        set_space(call, &kept->args);
    kept->whole = 1;
    return launch(call, &kept->args);
}

static stn_status run(stn_op_call *call)
{
    struct kept *kept = call->kept;
    int dense = set_data(call, &kept->args);
    return dense && kept->whole ? launch(call, &kept->args) : run_anew(call, kept, dense);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    const struct stni_pointwise_rule *rule = rule_of(call->arg, call->attrs);
    uint64_t saved = 0;
    for (int i = 0; i < call->n_in; i++)
        if (needs >> i & 1)
            saved |= rule->derivative[i].reads;
    return saved;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_pointwise_rule *rule = rule_of(call->arg, call->attrs);
    if (!call->grad_out[0])
        return STN_OK;
    for (int i = 0; i < call->n_in; i++)
        if ((call->needs >> i & 1) && rule->derivative[i].function) {
            stn_tensor *grad = rule->derivative[i].function(call, call->grad_out[0]);
            call->grad_in[i] = grad ? stni_sum_to(grad, call->in_spec[i]) : NULL;
        }
    return stn_context_status(call->context);
}

static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_pointwise_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", (1u << STN_DTYPE_COUNT) - 1, struct stni_pointwise_args, stni_pointwise_cpu, NULL)};

const stn_op_impl stni_pointwise_impl = {
    .check = check,
    .place = place_op,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
    .kept_size = sizeof(struct kept),
};
