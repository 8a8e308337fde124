/* Which key of many elements comes first, on the CPU: compiled once per instruction set. */
#include "core/base/isa.h"
#include "ops/sort/sort_key.h"
#include "ops/sort/sort_least.h"

#define TEMPLATE "ops/sort/sort_least_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"
#include "core/box/each_narrow.h"

uint64_t STNI_ISA_NAME(stni_sort_least)(const struct stni_order *order, const void *x, int64_t stride, int64_t n)
{
    static uint64_t (*const of[STN_DTYPE_COUNT])(const struct stni_sort_key_rule *, const void *, int64_t, int64_t) = {
        [STN_DTYPE_F32] = least_f32,   [STN_DTYPE_F64] = least_f64, [STN_DTYPE_BF16] = least_bf16,
        [STN_DTYPE_F16] = least_f16,   [STN_DTYPE_I64] = least_i64, [STN_DTYPE_I32] = least_i32,
        [STN_DTYPE_U8] = least_u8,     [STN_DTYPE_BOOL] = least_u8, [STN_DTYPE_I8] = least_i8,
        [STN_DTYPE_I16] = least_i16,
    };
    const struct stni_sort_key_rule rule = stni_sort_rule_of(order);
    return of[order->dtype](&rule, x, stride, n);
}
