/* Rows of one type merged on the CPU (core/box/each_compute.h). */
#ifndef NAME /* read alone */
#include "ops/attention/attention_merge_words.h"
#include "core/box/as_f32.h"
#endif

#include "ops/attention/attention_shares_tmpl.h"

static void NAME(merge_row)(const struct stni_attention_merge_args *p, const struct row *at)
{
    ACC *lse = (ACC *)p->lse.data + at->lse, *out = (ACC *)p->out.data + at->out;
    const ACC *more = (const ACC *)p->more.data + at->more;
    const struct NAME(shares) s = NAME(shares_of)(*lse, ((const ACC *)p->more_lse.data)[at->more_lse]);
    *lse = s.lse;
    if (p->out.col == 1 && p->more.col == 1)
        for (int64_t c = 0; c < p->v; c++)
            out[c] = s.own * out[c] + s.more * more[c];
    else
        for (int64_t c = 0; c < p->v; c++)
            out[c * p->out.col] = s.own * out[c * p->out.col] + s.more * more[c * p->more.col];
}
