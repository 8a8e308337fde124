/* What kernels of the library's ops may find wrong in values: `what` of stn_queue_value_error. Behind each stand its
 * numbers in their order; {…} is a number of coordinates and these. */
#ifndef STNI_OPS_COMMON_BAD_VALUE_H
#define STNI_OPS_COMMON_BAD_VALUE_H

#include <shardtensor/op.h>

enum stni_bad_value {
    STNI_BAD_INDEX,        /* got, least, most, {where} */
    STNI_BAD_INDEX_OF,     /* got, which operand, least, most, {where} */
    STNI_BAD_CLASS,        /* got, most, {where} */
    STNI_BAD_DIVISOR,      /* none */
    STNI_BAD_RANGE,        /* two doubles */
    STNI_BAD_REPEAT_BELOW, /* got, where */
    STNI_BAD_REPEAT_LESS,  /* wanted */
    STNI_BAD_REPEAT_MORE,  /* wanted */
    STNI_BAD_VALUES
};

/* The text of a record: the op's name, and its template with the numbers put in. The library's ops share one table,
 * others have their descriptor's. */
void stni_bad_value_text(const stn_context *context, const stn_value_record *record, char *text, size_t size);

#endif
