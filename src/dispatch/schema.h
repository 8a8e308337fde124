/* Schemas: from names and values to an attribute struct. Pure. */
#ifndef STNI_DISPATCH_SCHEMA_H
#define STNI_DISPATCH_SCHEMA_H

#include <shardtensor/op.h>

#include "core/base/status.h"

enum { STNI_MAX_ATTRS_SIZE = 1024 }; /* bytes of an attribute struct */

/* Fills `attrs` (desc->attrs_size bytes) with the defaults, then with the given values. The message of a failure
 * goes to `error`. */
stn_status stni_schema_fill(const stn_op_desc *desc, int n, const stn_attr *given, void *attrs,
                            struct stni_error *error);

/* The name of a call's i-th input: those of a variadic one share a row. */
static inline const char *stni_input_name(const stn_op_desc *desc, int i)
{
    return desc->inputs[i < desc->n_inputs ? i : desc->n_inputs - 1].name;
}

/* Checks a descriptor before it is registered. */
stn_status stni_schema_validate(const stn_op_desc *desc, struct stni_error *error);

/* Whether a descriptor's signature names each input and attribute once, and nothing else. */
stn_status stni_signature_check(const stn_op_desc *desc, struct stni_error *error);

/* Whether each choice in an attribute struct is one of the schema's, each number of a known kind, and each list of a
 * legal length: typed functions write enums of their callers there. */
stn_status stni_schema_check(const stn_op_desc *desc, const void *attrs, struct stni_error *error);

/* Distance between names (insertions, deletions, exchanges), for suggestions. */
int stni_name_distance(const char *a, const char *b);

#endif
