/* Reading a safetensors header, which is not trusted. */
#ifndef STNI_TRAIN_FILE_HEADER_H
#define STNI_TRAIN_FILE_HEADER_H

#include "core/tensor.h"

struct stni_file_header_read; /* cJSON's tree; builds without it read nothing */

/* Opens a file and parses its header. `*data` is where the tensors' bytes begin, `*data_size` how many there are; `*file` stays open.
 * Fails with a text in `error`. */
stn_status stni_file_open(const char *path, int *file, struct stni_file_header_read **header, int64_t *data, int64_t *data_size,
                          struct stni_error *error);

void stni_file_close(int file, struct stni_file_header_read *header);

/* Where in the data the tensor of that name lies, if it has the dtype and shape of the spec's. */
stn_status stni_file_find(const struct stni_file_header_read *header, const char *path, const char *name, const stn_spec *spec,
                          int64_t data_size, int64_t *begin, struct stni_error *error);

/* A string of the metadata; NULL if there is none. */
const char *stni_file_metadata(const struct stni_file_header_read *header, const char *key);

#endif
