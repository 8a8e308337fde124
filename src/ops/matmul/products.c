/* mm, bmm, mv, dot, outer: matmul under names that say how many dims there are, and the product of two vectors'
 * elements. */
#include "core/tensor/tensor.h"
#include "ops/matmul/matmul.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

/* A product as one of matmul's. */
struct product {
    int ndim[2];
    const char *wanted;
};

stn_tensor *stn_mm(stn_tensor *input, stn_tensor *mat2)
{
    return stni_call(STNI_OP_mm, 2, (stn_tensor *[]){input, mat2}, NULL);
}

stn_tensor *stn_bmm(stn_tensor *input, stn_tensor *mat2)
{
    return stni_call(STNI_OP_bmm, 2, (stn_tensor *[]){input, mat2}, NULL);
}

stn_tensor *stn_mv(stn_tensor *input, stn_tensor *vec)
{
    return stni_call(STNI_OP_mv, 2, (stn_tensor *[]){input, vec}, NULL);
}

stn_tensor *stn_dot(stn_tensor *input, stn_tensor *tensor)
{
    return stni_call(STNI_OP_dot, 2, (stn_tensor *[]){input, tensor}, NULL);
}

stn_tensor *stn_outer(stn_tensor *input, stn_tensor *vec2)
{
    return stni_call(STNI_OP_outer, 2, (stn_tensor *[]){input, vec2}, NULL);
}

stn_status stni_matmul_check_dtypes(const stn_op_call *call, int first, int n)
{
    stn_dtype dtype = call->in_spec[first]->layout.dtype;
    for (int i = first; i < first + n; i++)
        if (call->in_spec[i]->layout.dtype != dtype)
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted %s's %s",
                               stn_op_descriptor(call->op)->inputs[i].name,
                               stn_dtype_name(call->in_spec[i]->layout.dtype),
                               stn_op_descriptor(call->op)->inputs[first].name, stn_dtype_name(dtype));
    if (!(STNI_MATMUL_DTYPES >> dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtype %s, wanted f32 f64 bf16 f16 i64 i32 c64 or c128",
                           stn_dtype_name(dtype));
    return STN_OK;
}

static stn_status multiply(stn_op_call *call)
{
    const struct product *product = call->arg;
    const struct stni_layout *a = &call->in_spec[0]->layout, *b = &call->in_spec[1]->layout;
    char got[2][STNI_SHAPE_TEXT];
    int fits = a->ndim == product->ndim[0] && b->ndim == product->ndim[1];
    fits = fits && a->shape[a->ndim - 1] == b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
    fits = fits && (a->ndim < 3 || a->shape[0] == b->shape[0]);
    if (!fits)
        return stn_op_fail(call, STN_ERR_SHAPE, "got shapes %s and %s, wanted %s",
                           stni_shape_text(a->ndim, a->shape, got[0]), stni_shape_text(b->ndim, b->shape, got[1]),
                           product->wanted);
    STNI_TRY(stni_matmul_check_dtypes(call, 0, 2));
    call->out[0] = stn_matmul(call->in[0], call->in[1]);
    return STN_OK;
}

static stn_status outer(stn_op_call *call)
{
    for (int i = 0; i < 2; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        char got[STNI_SHAPE_TEXT];
        if (in->ndim != 1)
            return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got shape %s, wanted a vector",
                               stn_op_descriptor(call->op)->inputs[i].name, stni_shape_text(in->ndim, in->shape, got));
    }
    call->out[0] = stn_mul(stn_unsqueeze(call->in[0], 1), stn_unsqueeze(call->in[1], 0));
    return STN_OK;
}

static const stn_input_schema matrices[] = {{.name = "input"}, {.name = "mat2"}};
static const stn_input_schema matrix_vector[] = {{.name = "input"}, {.name = "vec"}};
static const stn_input_schema vectors[] = {{.name = "input"}, {.name = "tensor"}};
static const stn_input_schema outer_vectors[] = {{.name = "input"}, {.name = "vec2"}};

static const stn_op_impl product_impl = {.compose = multiply};

const stn_op_desc stni_op_mm = {
    .size = sizeof(stn_op_desc), .name = "mm", STN_INPUTS(matrices), .n_outputs = 1, .impl = &product_impl,
    .arg = (void *)&(const struct product){{2, 2}, "(m, k) and (k, n)"},
};

const stn_op_desc stni_op_bmm = {
    .size = sizeof(stn_op_desc), .name = "bmm", STN_INPUTS(matrices), .n_outputs = 1, .impl = &product_impl,
    .arg = (void *)&(const struct product){{3, 3}, "(b, m, k) and (b, k, n)"},
};

const stn_op_desc stni_op_mv = {
    .size = sizeof(stn_op_desc), .name = "mv", STN_INPUTS(matrix_vector), .n_outputs = 1, .impl = &product_impl,
    .arg = (void *)&(const struct product){{2, 1}, "(m, k) and (k)"},
};

const stn_op_desc stni_op_dot = {
    .size = sizeof(stn_op_desc), .name = "dot", STN_INPUTS(vectors), .n_outputs = 1, .impl = &product_impl,
    .arg = (void *)&(const struct product){{1, 1}, "two vectors of one length"},
};

const stn_op_desc stni_op_outer = {
    .size = sizeof(stn_op_desc), .name = "outer", STN_INPUTS(outer_vectors), .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = outer},
};
