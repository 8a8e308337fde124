/* Loading in steps, for callers that read more than tensors from the same file. */
#ifndef STNI_TRAIN_LOAD_H
#define STNI_TRAIN_LOAD_H

#include "core/base/status.h"

#include <shardtensor/io.h>

struct stni_load {
    stn_context *context;
    const char *path;
    int n;
    const stn_named_tensor *tensors;
    char **data; /* this rank's chunks, row-major */
    stn_file *file;
    struct stni_error error; /* of this rank alone, until it is agreed on */
};

/* Checks the arguments. Local; fails alike on all ranks. */
stn_status stni_load_check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors);

/* Opens the file. Collective: all ranks open the same, also while another program saves to the path. What only this
 * rank finds is left in `error`. */
stn_status stni_load_open(struct stni_load *load);

/* Reads this rank's chunks of the file that has been opened. Local; what it finds is left in `error`. */
stn_status stni_load_read(struct stni_load *load);

/* Ranks agree on the error of any; the kept error, or STN_OK. Collective. */
stn_status stni_load_agree(struct stni_load *load);

/* Puts what was read into the tensors. Local. */
stn_status stni_load_fill(const struct stni_load *load);

void stni_load_fini(struct stni_load *load);

#endif
