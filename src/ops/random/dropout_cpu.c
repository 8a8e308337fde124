/* Dropout on the CPU, compiled once per instruction set: random words by the chunk, so that the cipher's rounds
 * become vectors. */
#include "ops/random/dropout_words.h"

#define TEMPLATE "ops/random/dropout_row_tmpl.h"
#include "core/box/each_float.h"

stn_status STNI_ISA_NAME(stni_dropout)(stn_queue *queue, const void *args)
{
    const struct stni_dropout_args *a = args;
    static void (*const rows[])(const struct stni_dropout_args *, int64_t, int64_t, uint64_t,
                                struct drawn *) = {row_f32, row_f64, row_bf16, row_f16};
    int64_t index[STN_MAX_NDIM] = {0}, x_at = 0, out_at = 0;
    uint64_t number = a->base;
    struct drawn drawn = {.n = 0};
    (void)queue;
    for (;;) {
        rows[a->dtype](a, x_at, out_at, number, &drawn);
        int d = a->ndim - 2;
        for (; d >= 0; d--) {
            int64_t moved = ++index[d] < a->shape[d] ? 1 : 1 - a->shape[d];
            x_at += moved * a->x_strides[d];
            out_at += moved * a->out_strides[d];
            number += (uint64_t)(moved * a->count[d]);
            if (moved == 1)
                break;
            index[d] = 0;
        }
        if (d < 0)
            return STN_OK;
    }
}
