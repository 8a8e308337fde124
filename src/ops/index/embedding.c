/* embedding: rows of a table by index. A read of slices; its gradient leaves out the padding row. Where max_norm is
 * given, the rows that are read are scaled down to that norm first, in the table itself. */
#include "ops/index/arguments.h"

#include "core/shard/spec.h"
#include "core/tensor/copy_on_write.h"
#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

enum { INPUT, WEIGHT };

struct embedding_attrs {
    stn_number padding_idx, max_norm; /* kind NONE: none */
    double norm_type;
    int64_t scale_grad_by_freq, sparse;
};

static const struct embedding_attrs defaults = {.norm_type = 2};

stn_tensor *stn_embedding(stn_tensor *input, stn_tensor *weight, const int64_t *padding_index)
{
    struct embedding_attrs attrs = defaults;
    if (padding_index)
        attrs.padding_idx = (stn_number){STN_NUMBER_INT, *padding_index, (double)*padding_index};
    return stni_call(STNI_OP_embedding, 2, (stn_tensor *[]){input, weight}, &attrs);
}

/* One more than the row that gets no gradient, counted from the front; 0: none. */
static stn_status find_padding(const stn_op_call *call, int64_t n_rows, int64_t *out)
{
    const stn_number *padding = &((const struct embedding_attrs *)call->attrs)->padding_idx;
    int64_t row;
    *out = 0;
    if (padding->kind == STN_NUMBER_NONE)
        return STN_OK;
    STNI_TRY(stni_index_whole(call, "padding_idx", padding, &row));
    if (row < -n_rows || row >= n_rows)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'padding_idx' got %" PRId64 ", wanted %" PRId64 " <= padding_idx < %" PRId64, row, -n_rows,
                           n_rows);
    *out = 1 + (row < 0 ? row + n_rows : row);
    return STN_OK;
}

/* Rows that are read and longer than `most` are scaled down to it, in place: this is no part of what is
 * differentiated. */
static stn_tensor *renorm(stn_tensor *index, stn_tensor *weight, double most, double norm_type,
                          const struct stni_access_attrs *attrs)
{
    static const int row[] = {1};
    stn_context *context = weight->context;
    stn_no_grad_begin(context);
    stn_tensor *read = stn_gt_number(stni_index_count_reads(context, index, weight->spec, attrs), 0);
    stn_tensor *norm = stn_vector_norm(weight, norm_type, 1, row, 1);
    stn_tensor *scale = stn_mul_number(stn_reciprocal(stn_add_number(norm, 1e-7)), most);
    stn_tensor *keeps = stn_logical_not(stn_logical_and(read, stn_gt_number(norm, most)));
    stn_tensor *scaled = stn_mul_(weight, stn_masked_fill(scale, keeps, 1));
    stn_no_grad_end(context);
    return scaled;
}

/* What max_norm requires of the table, which it changes. */
static stn_status check_renorm(const stn_op_call *call)
{
    const stn_tensor *weight = call->in[WEIGHT];
    const char *why = weight->flags & STNI_TENSOR_VIEW           ? "is a view"
                      : atomic_load(&weight->storage->views) > 0 ? "has views"
                                                                 : NULL;
    STNI_TRY(stni_check_floating(call, WEIGHT));
    for (int a = 0; weight->spec->layout.mesh && a < weight->spec->layout.mesh->ndim; a++) {
        stn_placement p = weight->spec->layout.placement[a];
        if (p.kind == STN_PLACE_PARTIAL && p.op != STN_SUM)
            return stn_op_fail(call, STN_ERR_PARTIAL,
                               "'weight' is a pending reduction other than a sum, wanted a sum or a complete tensor: "
                               "'max_norm' scales its rows in place");
    }
    if (why)
        return stn_op_fail(
            call, STN_ERR_STATE,
            "'weight' %s, wanted neither a view nor one that has views: 'max_norm' scales its rows in place", why);
    return STN_OK;
}

static stn_status embedding(stn_op_call *call)
{
    const struct stni_layout *index = &call->in_spec[INPUT]->layout, *weight = &call->in_spec[WEIGHT]->layout;
    const struct embedding_attrs *given = call->attrs;
    struct stni_access_attrs attrs = {
        .slices = 1, .what = STNI_OP_embedding, .reads_all = 1, .by_frequency = given->scale_grad_by_freq};
    stn_tensor *input = call->in[INPUT], *table = call->in[WEIGHT];
    int64_t one = 1;
    if (weight->ndim != 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'weight' got %d dims, wanted 2", weight->ndim);
    if (index->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", index->ndim,
                           STN_MAX_NDIM - 1);
    if (!(STNI_INDEX_DTYPES >> index->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted i64 or i32", stn_dtype_name(index->dtype));
    STNI_TRY(find_padding(call, weight->shape[0], &attrs.skip));
    int alone = index->ndim == 0;
    if (alone)
        input = stn_view(input, 1, &one);
    if (given->max_norm.kind != STN_NUMBER_NONE) {
        STNI_TRY(stni_tensor_before_write(table));
        STNI_TRY(check_renorm(call));
    }
    if (given->max_norm.kind != STN_NUMBER_NONE)
        table = renorm(input, table, given->max_norm.f, given->norm_type, &attrs);
    stn_tensor *rows = stni_index_read(table, input, &attrs);
    call->out[0] = alone ? stn_view(rows, 1, &weight->shape[1]) : rows;
    return STN_OK;
}

static const stn_input_schema inputs[] = {[INPUT] = {.name = "input"}, [WEIGHT] = {.name = "weight"}};
static const stn_attr_schema schema[] = {
    {"padding_idx", STN_ATTR_NUMBER, offsetof(struct embedding_attrs, padding_idx), NULL},
    {"max_norm", STN_ATTR_NUMBER, offsetof(struct embedding_attrs, max_norm), NULL},
    {"norm_type", STN_ATTR_FLOAT, offsetof(struct embedding_attrs, norm_type), NULL},
    {"scale_grad_by_freq", STN_ATTR_BOOL, offsetof(struct embedding_attrs, scale_grad_by_freq), NULL},
    {"sparse", STN_ATTR_BOOL, offsetof(struct embedding_attrs, sparse), NULL}, /* gradients are dense, with the same values */
};

const stn_op_desc stni_op_embedding = {
    .size = sizeof(stn_op_desc),
    .name = "embedding",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct embedding_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = embedding},
};
