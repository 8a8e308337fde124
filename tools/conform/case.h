/* A conformance case: one call of one op, with what one process gave. */
#ifndef CONFORM_CASE_H
#define CONFORM_CASE_H

#include "attrs.h"

#include <shardtensor/io.h>

enum { CASE_MAX_TEXT = 128, CASE_MAX_BYTES = 1 << 28 /* of a tensor */ };

/** A whole tensor in host memory, row-major. Absent: data is NULL. */
struct value {
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    int64_t numel;
    void *data; /* at least one byte, also when numel is 0 */
};

struct conform_case {
    char path[4096];
    char name[CASE_MAX_TEXT]; /* the file's name without folder and ending */
    char op[CASE_MAX_TEXT];
    struct attrs attrs;
    int n_inputs;
    char input_name[STN_MAX_INPUTS][CASE_MAX_TEXT];
    struct value input[STN_MAX_INPUTS];
    struct value grad[STN_MAX_INPUTS]; /* expected; absent where none is */
    int n_outputs;
    struct value output[STN_MAX_OUTPUTS];
    struct value cotangent[STN_MAX_OUTPUTS]; /* absent: zero */
};

/** Bytes of a value. */
size_t value_bytes(const struct value *value);

/** Reads a case. @return 1, or 0 with the reason in `error`; then nothing is to be freed. */
int case_read(const char *path, struct conform_case *c, char *error, size_t error_size);

void case_free(struct conform_case *c);

/** Where input `i` of the case stands among the inputs of the op: its place by name, that of the variadic input plus
 * the number for `tensor0`, `tensor1`, …; -1 if the op has no such input. */
int case_input_place(const struct conform_case *c, int i, const stn_op_desc *desc);

#endif
