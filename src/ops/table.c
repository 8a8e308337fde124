#include "ops/table.h"

#define STNI_OP_ROW(name) &stni_op_##name,
const stn_op_desc *const stni_op_table[] = {STNI_OP_LIST(STNI_OP_ROW)};
#undef STNI_OP_ROW
