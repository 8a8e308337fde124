/* einsum: sums of products by an equation. Each operand is brought to distinct labels that others or the result have
 * too (diagonals, sums); then two at a time are multiplied, those first whose product is smallest, and summed over
 * the labels that neither the result nor a remaining operand has. */
#include "core/tensor/tensor.h"
#include "ops/matmul/contract.h"
#include "ops/matmul/equation.h"
#include "ops/matmul/matmul.h"
#include "ops/placement/bilinear.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

struct einsum_attrs {
    stn_text equation;
};

stn_tensor *stn_einsum(const char *equation, int n, stn_tensor *const *operands)
{
    struct einsum_attrs attrs;
    if (n < 1 || n > STN_MAX_INPUTS || operands == NULL)
        return stni_call_fail(n > 0 && operands ? operands[0] : NULL, STN_ERR_ARGUMENT,
                              "einsum: 'n' got %d, wanted 1 to %d", n, STN_MAX_INPUTS);
    if (equation == NULL || strlen(equation) >= sizeof attrs.equation.v)
        return stni_call_fail(operands[0], STN_ERR_ARGUMENT,
                              "einsum: 'equation' got %s, wanted a text of at most %d bytes",
                              equation ? "a longer one" : "NULL", STN_MAX_TEXT - 1);
    memset(&attrs, 0, sizeof attrs);
    memcpy(attrs.equation.v, equation, strlen(equation));
    return stni_call(STNI_OP_einsum, n, operands, &attrs);
}

/* What is left to multiply. */
struct factors {
    int n;
    stn_tensor *t[STN_MAX_INPUTS];
    int operand[STN_MAX_INPUTS]; /* the first one in it */
    struct stni_einsum_term term[STN_MAX_INPUTS];
    const struct stni_equation *equation;
};

static int find(const struct stni_einsum_term *term, int label)
{
    for (int d = 0; d < term->n; d++)
        if (term->label[d] == label)
            return d;
    return -1;
}

static void drop(struct stni_einsum_term *term, int d)
{
    term->n--;
    memmove(term->label + d, term->label + d + 1, (size_t)(term->n - d) * sizeof term->label[0]);
}

/* Of two dims of n elements, i and j > i, the elements at which both indices are one, as dim i: of the merged n^2
 * every (n + 1)-th. */
static stn_tensor *take_diagonal(stn_tensor *t, int i, int j)
{
    int order[STN_MAX_NDIM], ndim = stn_tensor_ndim(t), at = 0, n_dims = 0;
    int64_t shape[STN_MAX_NDIM], n = stn_tensor_shape(t)[i];
    for (int d = 0; d < ndim; d++) {
        if (d == j)
            continue;
        shape[n_dims++] = stn_tensor_shape(t)[d] * (d == i ? n : 1);
        order[at++] = d;
        if (d == i)
            order[at++] = j;
    }
    return stn_slice(stn_view(stn_permute(t, ndim, order), ndim - 1, shape), i, 0, n * n, n + 1);
}

/* Whether another factor or the result has the label. */
static int is_wanted(const struct factors *f, int label, int besides, int and_besides)
{
    for (int i = 0; i < f->n; i++)
        if (i != besides && i != and_besides && find(&f->term[i], label) >= 0)
            return 1;
    return find(&f->equation->out, label) >= 0;
}

static void take_diagonals(struct factors *f, int i)
{
    struct stni_einsum_term *term = &f->term[i];
    for (int d = 1; d < term->n && !stn_tensor_is_error(f->t[i]); d++) {
        int before = find(term, term->label[d]);
        if (before == d)
            continue;
        f->t[i] = take_diagonal(f->t[i], before, d);
        drop(term, d--);
    }
}

/* Leaves out the dims of size 1 that broadcast to another factor's. */
static void squeeze(struct factors *f, int i)
{
    struct stni_einsum_term *term = &f->term[i];
    for (int d = 0; d < term->n && !stn_tensor_is_error(f->t[i]); d++)
        if (stn_tensor_shape(f->t[i])[d] != f->equation->size[term->label[d]]) {
            f->t[i] = stn_squeeze(f->t[i], 1, &d);
            drop(term, d--);
        }
}

/* Sums over the labels that neither another factor nor the result has. */
static void sum_alone(struct factors *f, int i)
{
    struct stni_einsum_term *term = &f->term[i];
    int dims[STN_MAX_NDIM], n = 0;
    for (int d = 0; d < term->n; d++)
        if (!is_wanted(f, term->label[d], i, i))
            dims[n++] = d;
    if (n > 0)
        f->t[i] = stn_sum(f->t[i], n, dims, 0);
    while (n > 0)
        drop(term, dims[--n]);
}

/* The labels of the product of two factors: the result's own order where these are the last. Returns 0 where they
 * are too many. */
static int product_term(const struct factors *f, int i, int j, struct stni_einsum_term *out, double *numel)
{
    int n = 0;
    *numel = 1;
    for (int k = 0; k < 2; k++) {
        const struct stni_einsum_term *term = &f->term[k ? j : i];
        for (int d = 0; d < term->n; d++) {
            int label = term->label[d];
            if (!is_wanted(f, label, i, j) || (k && find(&f->term[i], label) >= 0))
                continue;
            if (n == STN_MAX_NDIM)
                return 0;
            out->label[n++] = (int8_t)label;
            *numel *= (double)f->equation->size[label];
        }
    }
    out->n = n;
    if (f->n == 2 && n == f->equation->out.n)
        *out = f->equation->out;
    return 1;
}

/* A factor's dims in the product's order, 1 where it has none. */
static stn_tensor *spread(stn_tensor *t, const struct stni_einsum_term *term, const struct stni_einsum_term *out)
{
    int order[STN_MAX_NDIM], n = 0;
    int64_t shape[STN_MAX_NDIM];
    if (stn_tensor_is_error(t))
        return t;
    for (int d = 0; d < out->n; d++) {
        int own = find(term, out->label[d]);
        shape[d] = own < 0 ? 1 : stn_tensor_shape(t)[own];
        if (own >= 0)
            order[n++] = own;
    }
    return stn_view(stn_permute(t, n, order), out->n, shape);
}

/* Labels of all three, counted from 0. */
static stn_tensor *contract(const struct factors *f, int i, int j, const struct stni_einsum_term *out)
{
    const struct stni_einsum_term *terms[] = {&f->term[i], &f->term[j], out};
    struct stni_contract_attrs attrs;
    int8_t number[STNI_EINSUM_LABELS];
    int n = 0;
    memset(&attrs, 0, sizeof attrs);
    memset(number, -1, sizeof number);
    for (int k = 0; k < 3; k++) {
        attrs.labels[k].n = terms[k]->n;
        for (int d = 0; d < terms[k]->n; d++) {
            int8_t *of = &number[terms[k]->label[d]];
            if (*of < 0)
                *of = (int8_t)n++;
            attrs.labels[k].v[d] = *of;
        }
    }
    return stni_contract(f->t[i], f->t[j], &attrs);
}

/* Products that are summed are of one dtype, as those of matmul. */
static stn_status check_dtypes(const stn_op_call *call, const struct factors *f, int i, int j)
{
    const int a = f->operand[i], b = f->operand[j], first = a < b ? a : b, second = a < b ? b : a;
    if (stn_tensor_is_error(f->t[i]) || stn_tensor_is_error(f->t[j]))
        return call->context->error.status;
    const stn_dtype got = stn_tensor_dtype(f->t[a < b ? j : i]), wanted = stn_tensor_dtype(f->t[a < b ? i : j]);
    if (got != wanted)
        return stn_op_fail(call, STN_ERR_DTYPE, "'operand%d' got %s, wanted the %s of 'operand%d': cast one of them",
                           second, stn_dtype_name(got), stn_dtype_name(wanted), first);
    if (STNI_MATMUL_DTYPES >> got & 1)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_DTYPE, "'operand%d' got %s, wanted f32 f64 bf16 f16 i64 i32 c64 or c128: cast it",
                       first, stn_dtype_name(got));
}

static stn_status multiply(const stn_op_call *call, struct factors *f, int i, int j, const struct stni_einsum_term *out)
{
    int sums = 0;
    for (int d = 0; d < f->term[i].n; d++)
        sums |= find(out, f->term[i].label[d]) < 0;
    if (sums)
        STNI_TRY(check_dtypes(call, f, i, j));
    f->t[i] =
        sums ? contract(f, i, j, out) : stn_mul(spread(f->t[i], &f->term[i], out), spread(f->t[j], &f->term[j], out));
    f->term[i] = *out;
    f->operand[i] = f->operand[i] < f->operand[j] ? f->operand[i] : f->operand[j];
    f->n--;
    f->t[j] = f->t[f->n];
    f->term[j] = f->term[f->n];
    f->operand[j] = f->operand[f->n];
    return STN_OK;
}

/* Multiplies the two factors with the smallest product. */
static stn_status multiply_smallest(const stn_op_call *call, struct factors *f)
{
    struct stni_einsum_term best, term;
    double least = 0, numel;
    int at = -1, with = -1;
    for (int i = 0; i < f->n; i++)
        for (int j = i + 1; j < f->n; j++)
            if (product_term(f, i, j, &term, &numel) && (at < 0 || numel < least)) {
                least = numel;
                best = term;
                at = i, with = j;
            }
    if (at < 0)
        return stn_op_fail(call, STN_ERR_UNSUPPORTED, "'equation' got one whose every product has more than %d dims",
                           STN_MAX_NDIM);
    return multiply(call, f, at, with, &best);
}

static stn_status einsum(stn_op_call *call)
{
    struct stni_equation equation;
    struct factors f = {.n = call->n_in, .equation = &equation};
    STNI_TRY(stni_equation_read(call, ((const struct einsum_attrs *)call->attrs)->equation.v, &equation));
    memcpy(f.t, call->in, (size_t)f.n * sizeof f.t[0]);
    memcpy(f.term, equation.in, sizeof f.term);
    for (int i = 0; i < f.n; i++) {
        f.operand[i] = i;
        take_diagonals(&f, i);
        squeeze(&f, i);
    }
    for (int i = 0; i < f.n; i++)
        sum_alone(&f, i);
    while (f.n > 1)
        STNI_TRY(multiply_smallest(call, &f));
    call->out[0] = spread(f.t[0], &f.term[0], &equation.out);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "operand", .variadic = 1}};
static const stn_attr_schema attrs_schema[] = {
    {"equation", STN_ATTR_STRING, offsetof(struct einsum_attrs, equation), NULL}};

const stn_op_desc stni_op_einsum = {
    .size = sizeof(stn_op_desc),
    .name = "einsum",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct einsum_attrs),
    .n_outputs = 1,
    .flags = STN_OP_ALIAS, /* of one operand in another order */
    .impl = &(const stn_op_impl){.compose = einsum},
    .signature = "equation, *operand",
};
