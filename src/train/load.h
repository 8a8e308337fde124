/* Loading in steps, for callers that read more than tensors from the same file. */
#ifndef STNI_TRAIN_LOAD_H
#define STNI_TRAIN_LOAD_H

#include "core/base/status.h"

#include <shardtensor/io.h>

/* One of the tensors. */
struct stni_load_item {
    const stn_file_tensor *found; /* in the file */
    const stn_spec *read_as;      /* the tensor's own, or that of longer pieces, which ranks exchange */
};

struct stni_load {
    stn_context *context;
    const char *path;
    int n;
    const stn_named_tensor *tensors;
    struct stni_load_item *items; /* of each tensor */
    char *staging; /* a chunk on its way to memory that the host does not write, or not in this order */
    stn_file *file;
    struct stni_error error; /* of this rank alone, until it is agreed on */
};

/* Checks the arguments. Local; fails alike on all ranks. */
stn_status stni_load_check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors);

/* Opens the file. Collective: all ranks open the same, also while another program saves to the path. What only this
 * rank finds is left in `error`. */
stn_status stni_load_open(struct stni_load *load);

/* Finds all tensors in the file that has been opened, and the memory that reading takes. Local; what it finds is left
 * in `error`. */
stn_status stni_load_find(struct stni_load *load);

/* Ranks agree on the error of any; the kept error, or STN_OK. Collective. */
stn_status stni_load_agree(struct stni_load *load);

/* Reads this rank's chunks into the tensors. Collective; the kept error, or STN_OK. */
stn_status stni_load_fill(struct stni_load *load);

void stni_load_fini(struct stni_load *load);

#endif
