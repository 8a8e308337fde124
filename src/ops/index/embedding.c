/* embedding: rows of a table by index. A read of slices; its gradient leaves out the padding row. */
#include "ops/index/access.h"

#include "ops/util/call.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

enum { INPUT, WEIGHT };

struct embedding_attrs {
    stn_number padding_idx;
};

stn_tensor *stn_embedding(stn_tensor *input, stn_tensor *weight, const int64_t *padding_index)
{
    struct embedding_attrs attrs = {0};
    if (padding_index)
        attrs.padding_idx = (stn_number){STN_NUMBER_INT, *padding_index, (double)*padding_index};
    return stni_call(STNI_OP_embedding, 2, (stn_tensor *[]){input, weight}, &attrs);
}

/* One more than the row that gets no gradient, counted from the front; 0: none. */
static stn_status find_padding(const stn_op_call *call, int64_t n_rows, int64_t *out)
{
    const stn_number *padding = &((const struct embedding_attrs *)call->attrs)->padding_idx;
    *out = 0;
    if (padding->kind == STN_NUMBER_NONE)
        return STN_OK;
    if (padding->kind == STN_NUMBER_FLOAT)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'padding_idx' got %g, wanted a whole number", padding->f);
    if (padding->i < -n_rows || padding->i >= n_rows)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'padding_idx' got %" PRId64 ", wanted %" PRId64 " <= padding_idx < %" PRId64, padding->i,
                           -n_rows, n_rows);
    *out = 1 + (padding->i < 0 ? padding->i + n_rows : padding->i);
    return STN_OK;
}

static stn_status embedding(stn_op_call *call)
{
    const struct stni_layout *index = &call->in_spec[INPUT]->layout, *weight = &call->in_spec[WEIGHT]->layout;
    struct stni_access_attrs attrs = {.slices = 1, .what = STNI_OP_embedding, .reads_all = 1};
    int64_t one = 1;
    if (weight->ndim != 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'weight' got %d dims, wanted 2", weight->ndim);
    if (index->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", index->ndim, STN_MAX_NDIM - 1);
    if (!(STNI_INDEX_DTYPES >> index->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted i64 or i32", stn_dtype_name(index->dtype));
    STNI_TRY(find_padding(call, weight->shape[0], &attrs.skip));
    if (index->ndim > 0)
        call->out[0] = stni_index_read(call->in[WEIGHT], call->in[INPUT], &attrs);
    else
        call->out[0] = stn_view(stni_index_read(call->in[WEIGHT], stn_view(call->in[INPUT], 1, &one), &attrs), 1, &weight->shape[1]);
    return STN_OK;
}

static const stn_input_schema inputs[] = {[INPUT] = {.name = "input"}, [WEIGHT] = {.name = "weight"}};
static const stn_attr_schema schema[] = {{"padding_idx", STN_ATTR_NUMBER, offsetof(struct embedding_attrs, padding_idx), NULL}};

const stn_op_desc stni_op_embedding = {
    .size = sizeof(stn_op_desc), .name = "embedding", .inputs = inputs, .n_inputs = 2, .attrs = schema, .n_attrs = 1,
    .attrs_size = sizeof(struct embedding_attrs), .n_outputs = 1, .compose = embedding,
};
