/* Builds without cJSON read no files. */
#include "train/file_header.h"

stn_status stni_file_open(const char *path, int *file, struct stni_file_header_read **header, int64_t *data, int64_t *data_size,
                          struct stni_error *error)
{
    *file = -1, *header = NULL, *data = *data_size = 0;
    return stni_error_set(error, STN_ERR_UNSUPPORTED, "load: %s: this library was built without cJSON", path);
}

void stni_file_close(int file, struct stni_file_header_read *header)
{
    (void)file, (void)header;
}

stn_status stni_file_find(const struct stni_file_header_read *header, const char *path, const char *name, const stn_spec *spec,
                          int64_t data_size, int64_t *begin, struct stni_error *error)
{
    (void)header, (void)spec, (void)data_size, (void)begin;
    return stni_error_set(error, STN_ERR_UNSUPPORTED, "load: %s: '%s': this library was built without cJSON", path, name);
}

const char *stni_file_metadata(const struct stni_file_header_read *header, const char *key)
{
    (void)header, (void)key;
    return NULL;
}
