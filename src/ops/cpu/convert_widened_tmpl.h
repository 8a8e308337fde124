/* One conversion of tiles by way of i32, in two passes over a block: a loop of its own for every pair of these dtypes
 * would cost the compiler more than they are used. Included as convert_pair_tmpl.h. */
#ifndef FROM /* read alone */
#include "ops/cpu/convert_dtypes.h"
#include "ops/cpu/convert_widened.h"
#define FROM i8
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM i32
#define TO f32
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM i8
#define TO f32
#endif

static void CONVERT_JOIN(FROM, CONVERT_JOIN(to, TO))(void *to, const void *from, const struct stni_tile *tile)
{
    const int64_t to_size = sizeof(CONVERT_JOIN(TO, T)), from_size = sizeof(CONVERT_JOIN(FROM, T));
    convert_widened(CONVERT_JOIN(FROM, to_i32), CONVERT_JOIN(i32_to, TO), to, to_size, from, from_size, tile);
}

#undef TO
