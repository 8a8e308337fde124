/* What embedding and its backward share: judging arguments, reporting indices. */
#include "ops/index/embedding.h"

#include "ops/util/dims.h"

#include <inttypes.h>
#include <string.h>

int64_t stni_padding_row(const stn_number *padding_idx, int64_t n_rows)
{
    if (padding_idx->kind == STN_NUMBER_NONE)
        return -1;
    return padding_idx->i < 0 ? padding_idx->i + n_rows : padding_idx->i;
}

stn_status stni_embedding_check(const stn_op_call *call, const stn_number *padding_idx, int64_t n_rows, const stn_spec *index)
{
    stn_dtype dtype = index->layout.dtype;
    if (!(STNI_INDEX_DTYPES >> dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted i64 or i32", stn_dtype_name(dtype));
    if (padding_idx->kind == STN_NUMBER_NONE)
        return STN_OK;
    if (padding_idx->kind == STN_NUMBER_FLOAT)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'padding_idx' got %g, wanted a whole number", padding_idx->f);
    if (padding_idx->i < -n_rows || padding_idx->i >= n_rows)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'padding_idx' got %" PRId64 ", wanted %" PRId64 " <= padding_idx < %" PRId64,
                           padding_idx->i, -n_rows, n_rows);
    return STN_OK;
}

void stni_embedding_report(const stn_tensor *input, const char *what, struct stni_rows_report *out)
{
    out->context = input->context;
    out->what = what;
    memcpy(out->offset, input->spec->local_offset, sizeof out->offset);
}
