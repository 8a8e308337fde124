/* Attention over parts of the keys joined on the CPU, compiled once per instruction set. */
#include "ops/attention/attention_merge_words.h"

#define TEMPLATE "ops/attention/attention_merge_tmpl.h"
#include "core/box/each_compute.h"

static int64_t offset(const struct stni_attention_operand *o, int n, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++)
        at += index[d] * o->batch[d];
    return at;
}

static void merge_rows(const struct stni_attention_merge_args *p, const int64_t *index)
{
    const int n = p->n_batch;
    struct row at = {offset(&p->out, n, index), offset(&p->lse, n, index), offset(&p->more, n, index),
                     offset(&p->more_lse, n, index)};
    for (int64_t i = 0; i < p->l; i++) {
        if (p->dtype == STN_DTYPE_F64)
            merge_row_f64(p, &at);
        else
            merge_row_f32(p, &at);
        at = (struct row){at.out + p->out.row, at.lse + p->lse.row, at.more + p->more.row,
                          at.more_lse + p->more_lse.row};
    }
}

stn_status STNI_ISA_NAME(stni_attention_merge)(stn_queue *queue, const void *args)
{
    const struct stni_attention_merge_args *p = args;
    int64_t index[STN_MAX_NDIM] = {0}, count = 1;
    (void)queue;
    for (int d = 0; d < p->n_batch; d++)
        count *= p->batch[d];
    for (int64_t element = 0; element < count; element++) {
        for (int64_t d = p->n_batch - 1, rest = element; d >= 0; rest /= p->batch[d], d--)
            index[d] = rest % p->batch[d];
        merge_rows(p, index);
    }
    return STN_OK;
}
