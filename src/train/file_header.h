/* The header of a safetensors file, which is not trusted. */
#ifndef STNI_TRAIN_FILE_HEADER_H
#define STNI_TRAIN_FILE_HEADER_H

#include "core/base/status.h"

#include <shardtensor/io.h>

/* Bytes: some 800,000 tensors. The format's own reader takes no more, so that nobody else could load what is longer. */
#define STNI_FILE_MAX_HEADER INT64_C(100000000)

struct stni_file_header {
    int n, n_metadata;
    stn_file_tensor *tensors;        /* by `begin` */
    const stn_file_tensor **by_name; /* in the order of strcmp */
    stn_metadata *metadata;          /* by key */
    char *texts;                     /* where names and metadata lie */
    int cap, cap_metadata;
};

/* Parses `length` bytes of a file with `data_size` bytes of tensors. The header is to be freed also after a failure. */
stn_status stni_file_header_parse(const char *text, size_t length, int64_t data_size, struct stni_file_header *header,
                                  struct stni_error *error);

void stni_file_header_free(struct stni_file_header *header);

/* A string of the metadata; NULL if there is none. */
const char *stni_file_header_metadata(const struct stni_file_header *header, const char *key);

#endif
