/* Writing of narrow integers by index on the CPU: rare enough that loops of all modes in one serve. */
#include "ops/cpu/scalar_loop.h"
#include "ops/index/access_functions.h"

static const int8_t least_i8 = INT8_MIN, most_i8 = INT8_MAX;
static const int16_t least_i16 = INT16_MIN, most_i16 = INT16_MAX;

#define TEMPLATE "ops/index/access_order_tmpl.h"
#include "core/box/each_narrow.h"
#undef TEMPLATE
#define TEMPLATE "ops/index/access_join_tmpl.h"
#include "core/box/each_narrow.h"
#undef TEMPLATE
#define TEMPLATE "ops/index/access_plain_tmpl.h"
#include "core/box/each_narrow.h"

const struct stni_access_functions stni_access_narrow_functions[STN_DTYPE_COUNT] = {
    [STN_DTYPE_I8] = {constant_i8, spread_i8, write_i8, write_each_i8, NULL, 1, 1},
    [STN_DTYPE_I16] = {constant_i16, spread_i16, write_i16, write_each_i16, NULL, 2, 2},
};
