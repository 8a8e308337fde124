/* Which element each of the repeated ones is, on the CPU. */
#include "ops/index/repeat_index.h"

#include "ops/common/bad_value.h"

static int64_t repeats_at(const struct stni_repeat_index_args *a, int64_t i)
{
    return a->dtype == STN_DTYPE_I32 ? ((const int32_t *)a->repeats)[i * a->stride]
                                     : ((const int64_t *)a->repeats)[i * a->stride];
}

stn_status stni_repeat_index_cpu(stn_queue *queue, const void *args)
{
    const struct stni_repeat_index_args *a = args;
    int64_t at = 0;
    for (int64_t j = 0; j < a->length; j++)
        a->out[j] = -1;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t n = repeats_at(a, i);
        if (n < 0)
            stn_queue_value_error(queue, a->op, STNI_BAD_REPEAT_BELOW, 2, (const int64_t[]){n, i});
        n = n < 0 ? 0 : n > a->wanted - at ? a->wanted - at + 1 : n;
        int64_t from = at > a->first ? at : a->first,
                end = at + n < a->first + a->length ? at + n : a->first + a->length;
        for (int64_t j = from; j < end; j++)
            a->out[j - a->first] = i;
        at += n;
    }
    if (at != a->wanted)
        stn_queue_value_error(queue, a->op, at < a->wanted ? STNI_BAD_REPEAT_LESS : STNI_BAD_REPEAT_MORE, 1,
                              &a->wanted);
    return STN_OK;
}
