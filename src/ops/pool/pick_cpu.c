#include "ops/pool/pick_finder.h"

#define TEMPLATE "ops/pool/pick_rows_tmpl.h"
#include "core/box/each_float.h"

stn_status stni_pick_cpu(stn_queue *queue, const void *args)
{
    static void (*const images[])(const struct finder *, int64_t, int64_t, int64_t) = {image_f32, image_f64, image_bf16,
                                                                                       image_f16};
    const struct stni_pick_args *a = args;
    const struct finder f = finder_of(a);
    (void)queue;
    for (int64_t i = 0; i < a->n_outer[0]; i++)
        for (int64_t j = 0; j < a->n_outer[1]; j++)
            images[a->dtype](&f, i * a->outer_field[0] + j * a->outer_field[1],
                             i * a->outer_value[0] + j * a->outer_value[1],
                             i * a->outer_index[0] + j * a->outer_index[1]);
    return STN_OK;
}
