/* A file of tensors inside the library. */
#ifndef STNI_TRAIN_FILE_H
#define STNI_TRAIN_FILE_H

#include <shardtensor/io.h>

/* A number of at least 0 that tells this file from others, one of the same path before or after it among them; the
 * same on all ranks. */
int64_t stni_file_identity(const stn_file *file);

/* All strings of the metadata, by their keys' order; returns their number. They are the file's. */
int stni_file_texts(const stn_file *file, const stn_metadata **out);

#endif
