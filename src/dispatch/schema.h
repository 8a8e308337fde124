/* Schemas: from names and values to an attribute struct. Pure. */
#ifndef STNI_DISPATCH_SCHEMA_H
#define STNI_DISPATCH_SCHEMA_H

#include <shardtensor/op.h>

#include "core/base/status.h"

#include <stdio.h>

enum { STNI_MAX_ATTRS_SIZE = 1024 }; /* bytes of an attribute struct */

/* Fills `attrs` (desc->attrs_size bytes) with the defaults, then with the given values. The message of a failure
 * goes to `error`. */
stn_status stni_schema_fill(const stn_op_desc *desc, int n, const stn_attr *given, void *attrs,
                            struct stni_error *error);

struct stni_input_name {
    char text[64];
};

/* The name of a call's i-th input, for a text: those of a variadic one share a row, and have a number behind it. */
static inline struct stni_input_name stni_input_name(const stn_op_desc *desc, int i)
{
    const int last = desc->n_inputs - 1, row = i < last ? i : last;
    struct stni_input_name name;
    if (desc->inputs[row].variadic)
        snprintf(name.text, sizeof name.text, "%s%d", desc->inputs[row].name, i - last);
    else
        snprintf(name.text, sizeof name.text, "%s", desc->inputs[row].name);
    return name;
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
