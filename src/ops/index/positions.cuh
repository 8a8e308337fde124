/* Positions of indexed accesses on a CUDA device, what an index names, and how values are joined. */
#ifndef STNI_OPS_INDEX_POSITIONS_CUH
#define STNI_OPS_INDEX_POSITIONS_CUH

#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/value.cuh"
#include "ops/common/bad_value.h"
#include "ops/index/access_kernel.h"

#include <math.h>

namespace {

enum { INDEX, VALUE, TABLE, SIDES };

/* All positions in row-major order, or those of some dims. */
enum which { ALL, ROWS, SLICES };

/* Positions that differ along such a dim never name one element: the table has the dim, and the index has not. */
bool is_slice_dim(const stni_access &a, int d)
{
    return a.index_strides[d] == 0 && a.table_strides[d] != 0;
}

operands<SIDES> positions_of(const stni_access &a, which dims)
{
    operands<SIDES> o = no_dims<SIDES>();
    for (int d = 0; d < a.ndim; d++)
        if (dims == ALL || is_slice_dim(a, d) == (dims == SLICES))
            add_dim(o, a.shape[d], {a.index_strides[d], a.value_strides[d], a.table_strides[d]});
    end_dims(o);
    return o;
}

STNI_DEVICE void find(const operands<SIDES> &o, int64_t i, int64_t (&at)[SIDES])
{
    if (is_small(o))
        offsets_of(o, (uint32_t)i, at);
    else
        offsets_of(o, i, at);
}

/* An access as kernels want it. */
struct access {
    stni_access at;
    operands<SIDES> positions;
    stn_value_record *record;
};

access access_of(const stni_access &at, which dims, stn_value_record *record)
{
    access a = {at, positions_of(at, dims), at.report.on ? record : nullptr};
    return a;
}

/* Where the table has the element of position `i`, whose index is `got`, and whose slice begins at `in_table`; -1: not
 * here. */
STNI_DEVICE int64_t locate_index(const access &a, int64_t i, int64_t got, int64_t in_table)
{
    int is_bad = 0;
    const int64_t to = stni_access_locate(&a.at, got, &is_bad);
    if (is_bad && a.record) {
        int64_t numbers[STNI_ACCESS_NUMBERS];
        const int n = stni_access_bad_numbers(&a.at, got, i, numbers);
        report_value(a.record, a.at.report.op, STNI_BAD_INDEX, n, numbers);
    }
    return to < 0 ? -1 : to + a.at.base + in_table;
}

/* The same of a position that is at `at`, whose index is read. */
STNI_DEVICE int64_t locate(const access &a, int64_t i, const int64_t (&at)[SIDES])
{
    return locate_index(a, i, stni_access_index(a.at.index, a.at.index_dtype, at[INDEX]), at[TABLE]);
}

/* What a write does with one element, in the types that are computed in. */
#define LEAST(type, lowest, highest) \
    static constexpr type least_##type = lowest, most_##type = highest;
LEAST(float, -INFINITY, INFINITY)
LEAST(double, -(double)INFINITY, (double)INFINITY)
LEAST(int64_t, INT64_MIN, INT64_MAX)
LEAST(int32_t, INT32_MIN, INT32_MAX)
LEAST(uint8_t, 0, UINT8_MAX)
LEAST(int8_t, INT8_MIN, INT8_MAX)
LEAST(int16_t, INT16_MIN, INT16_MAX)
#undef LEAST

#define ACC float
#define NAME(f) f##_float
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC double
#define NAME(f) f##_double
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC int64_t
#define NAME(f) f##_int64_t
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC int32_t
#define NAME(f) f##_int32_t
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC uint8_t
#define NAME(f) f##_uint8_t
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC int8_t
#define NAME(f) f##_int8_t
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC int16_t
#define NAME(f) f##_int16_t
#include "ops/index/access_order_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC stni_complex<float>
#define NAME(f) f##_c64
#include "ops/index/access_complex_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME
#define ACC stni_complex<double>
#define NAME(f) f##_c128
#include "ops/index/access_complex_tmpl.h"
#include "ops/index/access_join_tmpl.h"
#undef ACC
#undef NAME

/* The functions of one type under one name. */
template <class A> struct arithmetic;
#define ARITHMETIC(type, suffix)                                                                                                        \
    template <> struct arithmetic<type> {                                                                                               \
        static type constant(const stni_access_write_args &a) { return constant_of_##suffix(&a); }                                      \
        static type scale(const stn_number &n) { return scale_##suffix(&n); }                                                           \
        STNI_ANY_DEVICE static type join(stni_access_mode mode, type t, type v, type scale) { return joined_##suffix(mode, t, v, scale); } \
    };
ARITHMETIC(float, float)
ARITHMETIC(double, double)
ARITHMETIC(int64_t, int64_t)
ARITHMETIC(int32_t, int32_t)
ARITHMETIC(uint8_t, uint8_t)
ARITHMETIC(int8_t, int8_t)
ARITHMETIC(int16_t, int16_t)
ARITHMETIC(stni_complex<float>, c64)
ARITHMETIC(stni_complex<double>, c128)
#undef ARITHMETIC

}

#endif
