/* addmm, baddbmm: beta input + alpha (A B). The product is matmul's, and what is added follows it (contract 4):
 * beside a pending sum it becomes one, which moves nothing. */
#include "core/tensor/tensor.h"
#include "ops/matmul/matmul.h"
#include "ops/placement/bilinear.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/common/promote.h"
#include "ops/common/sum_to.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <string.h>

enum { INPUT, A, B };
enum { PRODUCT, SCALE, ADD };

/* Labels: that of a batch is 0. */
enum { M = 1, N, K };

struct addmm_attrs {
    stn_number beta, alpha;
};

static const struct addmm_attrs defaults = {{STN_NUMBER_INT, 1, 1}, {STN_NUMBER_INT, 1, 1}};

stn_tensor *stn_addmm(stn_tensor *input, stn_tensor *mat1, stn_tensor *mat2, double beta, double alpha)
{
    struct addmm_attrs attrs = {stni_number(beta), stni_number(alpha)};
    return stni_call(STNI_OP_addmm, 3, (stn_tensor *[]){input, mat1, mat2}, &attrs);
}

stn_tensor *stn_baddbmm(stn_tensor *input, stn_tensor *batch1, stn_tensor *batch2, double beta, double alpha)
{
    struct addmm_attrs attrs = {stni_number(beta), stni_number(alpha)};
    return stni_call(STNI_OP_baddbmm, 3, (stn_tensor *[]){input, batch1, batch2}, &attrs);
}

static stn_status check_number(const stn_op_call *call, const char *name, const stn_number *number, stn_dtype dtype)
{
    if (number->kind != STN_NUMBER_FLOAT || stn_dtype_is_differentiable(dtype) || number->f == floor(number->f))
        return STN_OK;
    return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %g for tensors of %s, wanted a whole number", name, number->f,
                       stn_dtype_name(dtype));
}

/* The dims of the product; 2 for matrices, 3 with a batch. */
static int dims_of(const stn_op_call *call)
{
    return call->arg != NULL ? 3 : 2;
}

static stn_status check(stn_op_call *call)
{
    const struct addmm_attrs *attrs = call->attrs;
    const struct stni_layout *a = &call->in_spec[A]->layout, *b = &call->in_spec[B]->layout;
    stn_meta *meta = &call->out_meta[0];
    char text[2][STNI_SHAPE_TEXT];
    const int n = dims_of(call);
    if (a->ndim != n || b->ndim != n || a->shape[n - 1] != b->shape[n - 2] || (n == 3 && a->shape[0] != b->shape[0]))
        return stn_op_fail(call, STN_ERR_SHAPE, "got factors of shapes %s and %s, wanted %s",
                           stni_shape_text(a->ndim, a->shape, text[0]), stni_shape_text(b->ndim, b->shape, text[1]),
                           n == 3 ? "(b, m, k) and (b, k, n)" : "(m, k) and (k, n)");
    STNI_TRY(stni_matmul_check_dtypes(call, INPUT, 3));
    STNI_TRY(check_number(call, "beta", &attrs->beta, a->dtype));
    STNI_TRY(check_number(call, "alpha", &attrs->alpha, a->dtype));
    meta->dtype = a->dtype;
    meta->ndim = n;
    memcpy(meta->shape, a->shape, sizeof meta->shape);
    meta->shape[n - 1] = b->shape[n - 1];
    return stni_check_broadcasts(call, INPUT, call->out_meta[0].ndim, call->out_meta[0].shape, NULL);
}

/* The labels of the result's last dims, where the tensor has them in full. */
static struct stni_labels labels_of(const stn_op_call *call, const struct stni_layout *layout, int rows, int cols)
{
    const stn_meta *out = &call->out_meta[0];
    const int8_t of[] = {(int8_t)cols, (int8_t)rows, 0};
    struct stni_labels labels = {.memory_order = NULL};
    memset(labels.of, STNI_NO_LABEL, sizeof labels.of);
    for (int i = 0; i < layout->ndim; i++)
        if (cols == K || rows == K || layout->shape[layout->ndim - 1 - i] == out->shape[out->ndim - 1 - i])
            labels.of[layout->ndim - 1 - i] = of[i];
    return labels;
}

/* The rule counts what is added last. */
static stn_status place(stn_op_call *call)
{
    const struct addmm_attrs *attrs = call->attrs;
    const stn_spec *in[] = {call->in_spec[A], call->in_spec[B], call->in_spec[INPUT]}, *want[] = {in[0], in[1], in[2]};
    struct stni_layout out = call->in_spec[A]->layout;
    struct stni_labels added = labels_of(call, &call->in_spec[INPUT]->layout, M, N);
    struct stni_bilinear rule = {.in = {labels_of(call, &in[0]->layout, M, K), labels_of(call, &in[1]->layout, K, N)},
                                 .added = &added};
    stn_op_call transposed = *call;
    memcpy(out.shape, call->out_meta[0].shape, sizeof out.shape);
    rule.out = labels_of(call, &out, M, N);
    transposed.in_spec = in;
    transposed.want = want;
    transposed.n_in = attrs->beta.f == 0 ? 2 : 3;
    STNI_TRY(stni_bilinear_place(&transposed, &rule));
    call->want[A] = want[0];
    call->want[B] = want[1];
    call->want[INPUT] = want[2];
    return STN_OK;
}

static struct stni_pointwise_number kernel_number(stn_number number)
{
    return (struct stni_pointwise_number){number.f, stni_number_whole(&number)};
}

/* An input that is multiplied by 0 is not read. */
static stn_status run(stn_op_call *call)
{
    const struct addmm_attrs *attrs = call->attrs;
    STNI_TRY(stni_matmul_solve(call, call->in[A], call->in[B], 0, call->out[0]));
    if (attrs->alpha.f != 1)
        STNI_TRY(stni_matmul_scale(call, SCALE, call->out[0], kernel_number(attrs->alpha)));
    return attrs->beta.f == 0 ? STN_OK
                              : stni_matmul_add(call, ADD, call->out[0], call->in[INPUT], kernel_number(attrs->beta));
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs >> A & 1 ? 1u << B : 0) | (needs >> B & 1 ? 1u << A : 0);
}

static stn_tensor *times(stn_tensor *t, double number)
{
    return number == 1 ? t : stn_mul_number(t, number);
}

static stn_status backward(stn_backward_call *call)
{
    const struct addmm_attrs *attrs = call->attrs;
    stn_tensor *grad = call->grad_out[0];
    if (call->needs >> INPUT & 1)
        call->grad_in[INPUT] = times(stni_sum_to(grad, call->in_spec[INPUT]), attrs->beta.f);
    if (call->needs >> A & 1)
        call->grad_in[A] = times(stn_matmul(grad, stni_matmul_adjoint(call->in[B])), attrs->alpha.f);
    if (call->needs >> B & 1)
        call->grad_in[B] = times(stn_matmul(stni_matmul_adjoint(call->in[A]), grad), attrs->alpha.f);
    return stn_context_status(call->context);
}

static const stn_input_schema matrices[] = {
    [INPUT] = {.name = "input"}, [A] = {.name = "mat1"}, [B] = {.name = "mat2"}};
static const stn_input_schema batches[] = {
    [INPUT] = {.name = "input"}, [A] = {.name = "batch1"}, [B] = {.name = "batch2"}};

static const stn_attr_schema attrs_schema[] = {
    {"beta", STN_ATTR_NUMBER, offsetof(struct addmm_attrs, beta), NULL},
    {"alpha", STN_ATTR_NUMBER, offsetof(struct addmm_attrs, alpha), NULL},
};

static const stn_kernel_slot slots[] = {
    [PRODUCT] = {"product", sizeof(struct stni_matmul_args)},
    [SCALE] = {"scale", sizeof(struct stni_pointwise_args)},
    [ADD] = {"add", sizeof(struct stni_pointwise_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("product", STNI_MATMUL_DTYPES, struct stni_matmul_args, stni_matmul_cpu, stni_matmul_cpu_workspace),
    STNI_CPU_ROW("scale", STNI_MATMUL_DTYPES, struct stni_pointwise_args, stni_pointwise_cpu, NULL),
    STNI_CPU_ROW("add", STNI_MATMUL_DTYPES, struct stni_pointwise_args, stni_pointwise_cpu, NULL),
};
static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_addmm = {
    .size = sizeof(stn_op_desc), .name = "addmm", STN_INPUTS(matrices), STN_ATTRS(attrs_schema, struct addmm_attrs),
    .attrs_init = &defaults, .n_outputs = 1, .impl = &impl,
    .signature = "input, mat1, mat2, *, beta=, alpha=",
};

const stn_op_desc stni_op_baddbmm = {
    .size = sizeof(stn_op_desc), .name = "baddbmm", STN_INPUTS(batches), STN_ATTRS(attrs_schema, struct addmm_attrs),
    .attrs_init = &defaults, .n_outputs = 1, .impl = &impl, .arg = (void *)&defaults,
    .signature = "input, batch1, batch2, *, beta=, alpha=",
};
