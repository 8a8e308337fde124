/* Schemas: from names and values to an attribute struct. Pure. */
#ifndef STNI_DISPATCH_SCHEMA_H
#define STNI_DISPATCH_SCHEMA_H

#include <shardtensor/op.h>

#include "core/status.h"

enum { STNI_MAX_ATTRS_SIZE = 1024 }; /* bytes of an attribute struct */

/* Fills `attrs` (desc->attrs_size bytes) with the defaults, then with the given values. The message of a failure goes to `error`. */
stn_status stni_schema_fill(const stn_op_desc *desc, int n, const stn_attr *given, void *attrs, struct stni_error *error);

/* Checks a descriptor before it is registered. */
stn_status stni_schema_validate(const stn_op_desc *desc, struct stni_error *error);

/* Distance between names (insertions, deletions, exchanges), for suggestions. */
int stni_name_distance(const char *a, const char *b);

#endif
