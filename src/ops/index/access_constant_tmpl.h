/* Writing of one value, of one element type. Included as access_write_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/index/access_join_tmpl.h"
#endif

static void NAME(constant)(const struct stni_access_write_args *a, void *out)
{
    *(ACC *)out = NAME(constant_of)(a);
}

static void NAME(spread)(void *table, int64_t step, int64_t n, const void *constant)
{
    const ACC value = *(const ACC *)constant;
    ACC *t = table;
    for (int64_t i = 0; i < n; i++)
        t[i * step] = value;
}
