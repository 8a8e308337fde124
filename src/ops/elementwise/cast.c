/* cast: the same values in another dtype. Reading an operand and writing the result convert, so that its arithmetic
 * is x. */
#include "core/tensor/tensor.h"
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct cast_attrs {
    int64_t dtype; /* stn_dtype */
};

stn_tensor *stn_cast(stn_tensor *input, stn_dtype dtype)
{
    if ((unsigned)dtype >= STN_DTYPE_COUNT)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "cast: 'dtype' got %d, wanted an stn_dtype", (int)dtype);
    if (!stn_tensor_is_error(input) && stn_tensor_dtype(input) == dtype)
        return stni_tensor_publish(stn_tensor_retain(input));
    const struct cast_attrs attrs = {(int64_t)dtype};
    return stni_call(STNI_OP_cast, 1, &input, &attrs);
}

static stn_dtype cast_result(const void *attrs, stn_dtype promoted)
{
    (void)promoted;
    return (stn_dtype)((const struct cast_attrs *)attrs)->dtype;
}

/* In the order of stn_dtype. */
static const char *const dtype_names[] = {"f32",  "f64", "bf16", "f16", "i64", "i32", "u8",
                                          "bool", "c64", "c128", "i8",  "i16", NULL};

static const stn_attr_schema attrs_schema[] = {
    {"dtype", STN_ATTR_CHOICE, offsetof(struct cast_attrs, dtype), dtype_names},
};

static const struct stni_pointwise_rule cast_rule = {
    .op = STNI_POINTWISE_cast, .result = cast_result, .linear = {1},
    /* The cotangent is cast back to the input's dtype as every cotangent is. */
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_cast = {
    .size = sizeof(stn_op_desc), .name = "cast", STN_INPUTS(stni_unary_inputs),
    STN_ATTRS(attrs_schema, struct cast_attrs), STNI_POINTWISE(&cast_rule),
    .signature = "input, dtype",
};
