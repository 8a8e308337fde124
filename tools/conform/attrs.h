/* Attributes of a case: a flat JSON object of numbers, booleans, strings and lists of whole numbers. */
#ifndef CONFORM_ATTRS_H
#define CONFORM_ATTRS_H

#include <shardtensor/op.h>

enum { ATTRS_MAX = 32, ATTRS_MAX_TEXT = 16384 /* bytes of the JSON text */ };

struct attrs {
    int n;
    stn_attr list[ATTRS_MAX]; /* names and strings belong to `json` */
    struct cJSON *json;
};

/** Reads `text` as it is written: 2 is an INT, 2.0 and 2e0 are FLOATs, true is a BOOL, null is left out. @return 1,
 * or 0 with the reason. */
int attrs_parse(const char *text, struct attrs *attrs, char *error, size_t error_size);
void attrs_free(struct attrs *attrs);

/** Writes the attributes as an op's schema wants them: a whole FLOAT becomes the INT that is asked for, "inf" and
 * "-inf" the number. What fits nothing stays as it is, for the op to refuse. `out` has space for attrs->n. */
void attrs_fit(const struct attrs *attrs, const stn_op_desc *desc, stn_attr *out);

#endif
