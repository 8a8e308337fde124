/* What embedding and its backward share. */
#ifndef STNI_OPS_INDEX_EMBEDDING_H
#define STNI_OPS_INDEX_EMBEDDING_H

#include "ops/index/access.h"
#include "ops/util/cuts.h"
#include "ops/util/route_kernel.h"

/* The row that `padding_idx` names in a table of n rows, counted from the front; -1 where it is absent. */
int64_t stni_padding_row(const stn_number *padding_idx, int64_t n_rows);

/* Judges `padding_idx` and the dtype of indices. */
stn_status stni_embedding_check(const stn_op_call *call, const stn_number *padding_idx, int64_t n_rows, const stn_spec *index);

/* Bad indices of `input` are reported as value errors of `what`. */
void stni_embedding_report(const stn_tensor *input, const char *what, struct stni_rows_report *out);

/* The gradient of a table of spec `weight`: rows of `grad` added up by index, in the table's layout where its rows are cut. Returns the error
 * tensor on failure. */
stn_tensor *stni_embedding_backward(stn_tensor *grad, stn_tensor *input, const stn_spec *weight, const stn_number *padding_idx);

/* embedding with zeros for the padding row: the adjoint of embedding_backward. */
stn_tensor *stni_embedding_unpadded(stn_tensor *input, stn_tensor *weight, const stn_number *padding_idx);

#endif
