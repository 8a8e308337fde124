/* Which element each of the repeated ones is. */
#ifndef STNI_OPS_INDEX_REPEAT_INDEX_H
#define STNI_OPS_INDEX_REPEAT_INDEX_H

#include <shardtensor/op.h>

/* out[j - first] = the i whose repetitions, one after the other from 0 on, have j among them, -1 where none has. */
struct stni_repeat_index_args {
    const void *repeats; /* n of them, or one for all n */
    stn_dtype dtype;
    int64_t n, stride; /* elements; 0: one for all */
    int64_t *out, first, length;
    int64_t wanted; /* all repetitions together; others are a value error */
    int op; /* whose value error that is */
};

stn_status stni_repeat_index_cpu(stn_queue *queue, const void *args);

#endif
