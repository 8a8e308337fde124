/* Writing of one element type, as access_write_tmpl.h and included as that is, in loops that are compiled for no mode
 * and no step of their own. */
#ifndef NAME /* read alone */
#include "ops/cpu/scalar_loop.h"
#include "ops/index/access_join_tmpl.h"
#endif

#include "ops/index/access_constant_tmpl.h"

static void NAME(write)(const struct stni_access_write_args *a, void *table, int64_t step, const void *values,
                        int64_t value_step, int64_t n)
{
    const ACC scale = NAME(scale)(&a->scale);
    const T *v = values;
    ACC *t = table;
    for (int64_t i = 0; i < n; i++) {
        STNI_SCALAR_LOOP
        t[i * step] = NAME(joined)(a->mode, t[i * step], LOAD(v[i * value_step]), scale);
    }
}

static void NAME(write_each)(const struct stni_access_write_args *a, void *table, const int64_t *offset,
                             const void *values, int64_t value_step, int64_t n)
{
    const ACC scale = NAME(scale)(&a->scale);
    const T *v = values;
    ACC *t = table;
    for (int64_t i = 0; i < n; i++) {
        STNI_SCALAR_LOOP
        if (offset[i] >= 0)
            t[offset[i]] = NAME(joined)(a->mode, t[offset[i]], LOAD(v[i * value_step]), scale);
    }
}
