/* contract: the product of two tensors whose dims carry labels, summed over the labels that the result lacks. It is
 * what einsum is made of, and its own adjoint with labels exchanged.
 *
 * A label is one of four: of both factors and the result (a batch), of one factor and the result (rows, columns), of
 * both factors alone (terms of the sum). Nothing is permuted or merged across ranks; on a rank, dims that follow
 * each other in memory are merged, the largest of rows and columns become those of a matrix product, and what is
 * left is stepped through. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/elementwise/pointwise.h"
#include "ops/matmul/contract.h"
#include "ops/matmul/matmul.h"
#include "ops/placement/bilinear.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

enum { A, B, C };
enum {
    TERMS = 1 << A | 1 << B,
    ROWS = 1 << A | 1 << C,
    COLUMNS = 1 << B | 1 << C,
    BATCH = 1 << A | 1 << B | 1 << C,
    KINDS = 8
};

stn_tensor *stni_contract(stn_tensor *a, stn_tensor *b, const struct stni_contract_attrs *attrs)
{
    return stni_call(STNI_OP_contract, 2, (stn_tensor *[]){a, b}, attrs);
}

stn_tensor *stni_contract_rows(stn_tensor *a, stn_tensor *b)
{
    struct stni_contract_attrs attrs = {.labels = {[C] = {2, {STN_MAX_NDIM, STN_MAX_NDIM + 1}}}};
    stn_tensor *const factors[] = {a, b};
    for (int i = A; i <= B; i++) {
        stn_ints *labels = &attrs.labels[i];
        for (labels->n = 0; labels->n < stn_tensor_ndim(factors[i]); labels->n++)
            labels->v[labels->n] = labels->n;
        if (labels->n > 0) /* not of what has failed */
            labels->v[labels->n - 1] = attrs.labels[C].v[i];
    }
    return stni_contract(a, b, &attrs);
}

/* Reads one operand's labels into sizes; `of` says which operands have a label. */
static stn_status read_labels(const stn_op_call *call, const char *name, const stn_ints *labels, int ndim, int operand,
                              uint8_t of[STNI_MAX_LABELS])
{
    if ((labels->n < 0 ? 0 : labels->n) != ndim)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 " labels, wanted one for each of %d dims", name,
                           labels->n < 0 ? 0 : labels->n, ndim);
    for (int d = 0; d < ndim; d++) {
        int64_t label = labels->v[d];
        if (label < 0 || label >= STNI_MAX_LABELS || (of[label] >> operand & 1))
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 ", wanted distinct labels from 0 to %d",
                               name, label, STNI_MAX_LABELS - 1);
        of[label] |= (uint8_t)(1 << operand);
    }
    return STN_OK;
}

static int64_t size_of(const struct stni_layout *layout, const stn_ints *labels, int label)
{
    for (int d = 0; d < layout->ndim; d++)
        if (labels->v[d] == label)
            return layout->shape[d];
    return 1;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_contract_attrs *attrs = call->attrs;
    const struct stni_layout *a = &call->in_spec[A]->layout, *b = &call->in_spec[B]->layout;
    stn_meta *meta = &call->out_meta[0];
    uint8_t of[STNI_MAX_LABELS] = {0};
    int n_out = attrs->labels[C].n < 0 ? 0 : (int)attrs->labels[C].n;
    STNI_TRY(stni_matmul_check_dtypes(call, A, 2));
    STNI_TRY(read_labels(call, "input_labels", &attrs->labels[A], a->ndim, A, of));
    STNI_TRY(read_labels(call, "other_labels", &attrs->labels[B], b->ndim, B, of));
    STNI_TRY(read_labels(call, "labels", &attrs->labels[C], n_out, C, of));
    for (int l = 0; l < STNI_MAX_LABELS; l++) {
        int64_t na = size_of(a, &attrs->labels[A], l), nb = size_of(b, &attrs->labels[B], l);
        if (of[l] == 1 << A || of[l] == 1 << B || of[l] == 1 << C)
            return stn_op_fail(call, STN_ERR_ARGUMENT,
                               "label %d stands in one tensor alone, wanted at least two of them", l);
        if ((of[l] & TERMS) == TERMS && na != nb)
            return stn_op_fail(call, STN_ERR_SHAPE, "label %d got sizes %" PRId64 " and %" PRId64 ", wanted equal ones",
                               l, na, nb);
    }
    *meta = (stn_meta){.dtype = a->dtype, .ndim = n_out};
    for (int d = 0; d < n_out; d++) {
        int l = (int)attrs->labels[C].v[d];
        meta->shape[d] = of[l] >> A & 1 ? size_of(a, &attrs->labels[A], l) : size_of(b, &attrs->labels[B], l);
    }
    return STN_OK;
}

static struct stni_labels rule_labels(const stn_ints *labels)
{
    struct stni_labels out = {.memory_order = NULL};
    memset(out.of, STNI_NO_LABEL, sizeof out.of);
    for (int64_t d = 0; d < labels->n; d++)
        out.of[d] = (int8_t)labels->v[d];
    return out;
}

static stn_status place(stn_op_call *call)
{
    const struct stni_contract_attrs *attrs = call->attrs;
    struct stni_bilinear rule = {.in = {rule_labels(&attrs->labels[A]), rule_labels(&attrs->labels[B])},
                                 .out = rule_labels(&attrs->labels[C])};
    return stni_bilinear_place(call, &rule);
}

/* A dim of the local product: its stride in each tensor that has it, else 0. */
struct dim {
    int64_t size, stride[3];
};

struct product {
    int n[KINDS];
    struct dim dim[KINDS][STN_MAX_NDIM];
};

/* Puts a dim behind the larger strides of its kind. */
static void insert(struct product *p, int kind, const struct dim *dim)
{
    int lead = kind & 1 << A ? A : B, at = p->n[kind]++;
    struct dim *list = p->dim[kind];
    for (; at > 0 && list[at - 1].stride[lead] < dim->stride[lead]; at--)
        list[at] = list[at - 1];
    list[at] = *dim;
}

/* Makes dims of one kind that follow each other in every tensor one. */
static void merge(struct product *p, int kind)
{
    struct dim *list = p->dim[kind];
    int n = 0;
    for (int i = 1; i < p->n[kind]; i++) {
        const struct dim *inner = &list[i];
        int chains = 1;
        for (int t = A; t <= C; t++)
            chains &= list[n].stride[t] == inner->stride[t] * inner->size;
        int64_t size = list[n].size;
        if (!chains)
            n++;
        list[n] = *inner;
        if (chains)
            list[n].size *= size;
    }
    if (p->n[kind] > 0)
        p->n[kind] = n + 1;
}

static void describe(const struct stni_contract_attrs *attrs, const stn_tensor *const t[3], struct product *p)
{
    struct dim dims[STNI_MAX_LABELS];
    int kind[STNI_MAX_LABELS] = {0};
    memset(dims, 0, sizeof dims);
    memset(p, 0, sizeof *p);
    for (int i = A; i <= C; i++)
        for (int d = 0; d < t[i]->spec->layout.ndim; d++) {
            int l = (int)attrs->labels[i].v[d];
            kind[l] |= 1 << i;
            dims[l].size = t[i]->spec->local_shape[d];
            dims[l].stride[i] = t[i]->strides[d];
        }
    for (int l = 0; l < STNI_MAX_LABELS; l++)
        if (kind[l] != 0 && dims[l].size != 1)
            insert(p, kind[l], &dims[l]);
}

/* Copies a factor densely, terms of the sum innermost, and lets the product read the copy: where terms do not lie as
 * one dim. */
static stn_status pack(stn_op_call *call, struct product *p, int factor, const void **data)
{
    static const int kinds[] = {BATCH, ROWS, COLUMNS, TERMS};
    const stn_tensor *t = call->in[factor];
    const size_t size = stn_dtype_size(t->spec->layout.dtype);
    struct dim *order[STN_MAX_NDIM];
    stn_box from = {.data = t->data}, to = {.data = NULL};
    int64_t step = 1;
    void *copy;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < p->n[kinds[k]] && (kinds[k] >> factor & 1); i++) {
            struct dim *dim = order[from.ndim] = &p->dim[kinds[k]][i];
            from.shape[from.ndim] = dim->size;
            from.strides[from.ndim++] = dim->stride[factor];
        }
    STNI_TRY(stn_op_scratch(call, (size_t)t->spec->local_numel * size, &copy));
    to = from;
    to.data = copy;
    for (int d = from.ndim - 1; d >= 0; d--) {
        to.strides[d] = order[d]->stride[factor] = step;
        step *= from.shape[d];
    }
    *data = copy;
    return stni_box_copy(call->context->queue, &to, &from, size);
}

/* Whether the terms of the sum are one dim in a factor. */
static int terms_chain(const struct product *p, int factor)
{
    for (int i = 1; i < p->n[TERMS]; i++) {
        const struct dim *outer = &p->dim[TERMS][i - 1], *inner = &p->dim[TERMS][i];
        if (outer->stride[factor] != inner->stride[factor] * inner->size)
            return 0;
    }
    return 1;
}

static void step_through(struct stni_matmul_args *args, const struct dim *dim)
{
    args->batch[args->n_batch] = dim->size;
    args->a.batch[args->n_batch] = dim->stride[A];
    args->b.batch[args->n_batch] = dim->stride[B];
    args->c.batch[args->n_batch++] = dim->stride[C];
}

/* Takes the largest dim of a kind out of the list; of none, a dim of size 1. */
static struct dim take_largest(struct product *p, int kind)
{
    struct dim *list = p->dim[kind], largest = {.size = 1};
    int at = 0;
    if (p->n[kind] == 0)
        return largest;
    for (int i = 1; i < p->n[kind]; i++)
        if (list[i].size >= list[at].size)
            at = i;
    largest = list[at];
    list[at] = list[--p->n[kind]];
    return largest;
}

static void fill(struct product *p, const void *const data[3], struct stni_matmul_args *args)
{
    const struct dim m = take_largest(p, ROWS), n = take_largest(p, COLUMNS), k = take_largest(p, TERMS);
    args->m = m.size, args->n = n.size, args->k = k.size;
    args->a = (struct stni_matmul_operand){.data = (void *)data[A], .row = m.stride[A], .col = k.stride[A]};
    args->b = (struct stni_matmul_operand){.data = (void *)data[B], .row = k.stride[B], .col = n.stride[B]};
    args->c = (struct stni_matmul_operand){.data = (void *)data[C], .row = m.stride[C], .col = n.stride[C]};
    static const int stepped[] = {COLUMNS, BATCH, ROWS};
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < p->n[stepped[s]]; i++)
            step_through(args, &p->dim[stepped[s]][i]);
}

/* The result's columns are to be dense in memory: else the transposed product is formed. A stride of a dim of size 1
 * says nothing. */
static void make_columns_dense(struct stni_matmul_args *args)
{
    struct stni_matmul_operand *all[] = {&args->a, &args->b, &args->c};
    if (args->m > 1 && args->c.row == 1 && (args->n == 1 || args->c.col != 1)) {
        struct stni_matmul_operand a = args->a;
        int64_t m = args->m;
        args->a = args->b, args->b = a;
        args->m = args->n, args->n = m;
        for (int i = 0; i < 3; i++) {
            int64_t row = all[i]->row;
            all[i]->row = all[i]->col, all[i]->col = row;
        }
    }
    int64_t *const strides[][2] = {{&args->a.row, &args->m}, {&args->a.col, &args->k}, {&args->b.row, &args->k},
                                   {&args->b.col, &args->n}, {&args->c.row, &args->m}, {&args->c.col, &args->n}};
    for (int i = 0; i < 6; i++)
        if (*strides[i][1] == 1)
            *strides[i][0] = 1;
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *const t[] = {call->in[A], call->in[B], call->out[0]};
    const void *data[] = {t[A]->data, t[B]->data, t[C]->data};
    struct product p;
    if (t[C]->spec->local_numel == 0)
        return STN_OK;
    describe(call->attrs, t, &p);
    for (int factor = A; factor <= B; factor++)
        if (!terms_chain(&p, factor) && t[factor]->spec->local_numel > 0)
            STNI_TRY(pack(call, &p, factor, &data[factor]));
    static const int kinds[] = {TERMS, ROWS, COLUMNS, BATCH};
    for (int k = 0; k < 4; k++)
        merge(&p, kinds[k]);
    struct stni_matmul_args args = {.dtype = t[C]->spec->layout.dtype};
    if (t[A]->spec->local_numel == 0 || t[B]->spec->local_numel == 0)
        p.n[TERMS] = 1, p.dim[TERMS][0].size = 0;
    fill(&p, data, &args);
    make_columns_dense(&args);
    return stni_matmul_launch(call, &args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs >> A & 1 ? 1u << B : 0) | (needs >> B & 1 ? 1u << A : 0);
}

/* Whether a cotangent is sharded along other dims than the result was, on axes where both are sharded, and on no axis
 * more. */
static int is_cut_otherwise(const struct stni_layout *cotangent, const struct stni_layout *result)
{
    int otherwise = 0;
    for (int axis = 0; result->mesh != NULL && axis < result->mesh->ndim; axis++) {
        const stn_placement have = cotangent->placement[axis], was = result->placement[axis];
        const int is_cut = have.kind == STN_PLACE_SHARD;
        if (is_cut ? was.kind != STN_PLACE_SHARD : have.kind != STN_PLACE_REPLICATE || was.kind == STN_PLACE_PARTIAL)
            return 0;
        otherwise |= is_cut && have.dim != was.dim;
    }
    return otherwise;
}

/* The cotangent as both products take it. Cut along other dims than the result, it would have them gather the other
 * factors, or leave sums of whole tensors pending: it moves where that is less. */
static stn_tensor *cotangent_of(const stn_backward_call *call)
{
    stn_tensor *cotangent = call->grad_out[0];
    int64_t factors = 0;
    for (int i = A; i <= B; i++)
        factors += call->needs >> i & 1 ? call->in_spec[1 - i]->numel : 0;
    if (call->out_spec[0]->numel > factors || !is_cut_otherwise(&cotangent->spec->layout, &call->out_spec[0]->layout))
        return cotangent;
    return stn_redistribute(cotangent, call->out_spec[0]);
}

/* dA = sum dC conj(B) over what A lacks, and so for B. */
static stn_status backward(stn_backward_call *call)
{
    const struct stni_contract_attrs *attrs = call->attrs;
    stn_tensor *cotangent = cotangent_of(call);
    for (int i = A; i <= B; i++)
        if (call->needs >> i & 1) {
            const struct stni_contract_attrs of = {{attrs->labels[C], attrs->labels[1 - i], attrs->labels[i]}};
            call->grad_in[i] = stni_contract(cotangent, stni_conjugate(call->in[1 - i]), &of);
        }
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[A] = {.name = "input"}, [B] = {.name = "other"}};

static const stn_attr_schema attrs_schema[] = {
    {"input_labels", STN_ATTR_INTS, offsetof(struct stni_contract_attrs, labels[A]), NULL},
    {"other_labels", STN_ATTR_INTS, offsetof(struct stni_contract_attrs, labels[B]), NULL},
    {"labels", STN_ATTR_INTS, offsetof(struct stni_contract_attrs, labels[C]), NULL},
};

static const stn_kernel_slot slots[] = {{"product", sizeof(struct stni_matmul_args)}};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("product", STNI_MATMUL_DTYPES, struct stni_matmul_args, stni_matmul_cpu, stni_matmul_cpu_workspace),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_contract = {
    .size = sizeof(stn_op_desc),
    .name = "contract",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_contract_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
