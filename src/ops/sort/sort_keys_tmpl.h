/* Keys of one dtype. */
#ifndef NAME /* read alone */
#include "ops/sort/sort_key.h"
#include "ops/sort/sort_line.h"
#include "core/box/as_f32.h"
#endif

static void NAME(keys)(const struct stni_sort_key_rule *rule, const void *data, int64_t stride, int64_t n,
                       uint64_t *out)
{
    const T *x = data;
    const uint64_t nan = rule->nan, flip = rule->flip;
    if (stride == 1) /* vectors */
        for (int64_t i = 0; i < n; i++)
            out[i] = STNI_SORT_KEY(LOAD(x[i]), nan) ^ flip;
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = STNI_SORT_KEY(LOAD(x[i * stride]), nan) ^ flip;
}
