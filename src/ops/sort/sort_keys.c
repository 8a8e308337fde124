/* Keys of many elements at once. */
#include "ops/sort/sort_key.h"
#include "ops/sort/sort_line.h"

#define TEMPLATE "ops/sort/sort_keys_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"
#include "core/box/each_narrow.h"

void stni_sort_keys(const struct stni_order *order, const void *x, int64_t stride, int64_t n, uint64_t *out)
{
    static void (*const by_dtype[STN_DTYPE_COUNT])(const struct stni_sort_key_rule *, const void *, int64_t, int64_t,
                                                   uint64_t *) = {
        [STN_DTYPE_F32] = keys_f32, [STN_DTYPE_F64] = keys_f64, [STN_DTYPE_BF16] = keys_bf16,
        [STN_DTYPE_F16] = keys_f16, [STN_DTYPE_I64] = keys_i64, [STN_DTYPE_I32] = keys_i32,
        [STN_DTYPE_U8] = keys_u8,   [STN_DTYPE_BOOL] = keys_u8, [STN_DTYPE_I8] = keys_i8,
        [STN_DTYPE_I16] = keys_i16,
    };
    const struct stni_sort_key_rule rule = stni_sort_rule_of(order);
    by_dtype[order->dtype](&rule, x, stride, n, out);
}
