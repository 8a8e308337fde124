/* A case in another dtype than the one it is written in. */
#ifndef CONFORM_CAST_H
#define CONFORM_CAST_H

#include "case.h"

enum cast_result { CAST_FAILED, CAST_DONE, CAST_NOTHING };

/** Rounds the floating inputs and cotangents of a case to `dtype`, and replaces what is expected by what the op gives
 *  for exactly those numbers on one rank in f64. (What the file expects is of other inputs: rounding 2.49 to 2.5
 *  changes what `round` gives.) With f64 nothing is rounded, and the answers of one rank are first compared with the
 *  file's.
 *  @return CAST_NOTHING for a case without floating inputs, and for 16 bits one with complex tensors; CAST_FAILED with
 *  the reason in `error`. */
enum cast_result case_cast(struct conform_case *c, stn_dtype dtype, char *error, size_t error_size);

#endif
