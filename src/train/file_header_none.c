/* Builds without cJSON read no files. */
#include "train/file_header.h"

stn_status stni_file_header_parse(const char *text, size_t length, int64_t data_size, struct stni_file_header *header, struct stni_error *error)
{
    (void)text, (void)length, (void)data_size;
    *header = (struct stni_file_header){0};
    return stni_error_set(error, STN_ERR_UNSUPPORTED, "this library was built without cJSON");
}

void stni_file_header_free(struct stni_file_header *header)
{
    (void)header;
}

const char *stni_file_header_metadata(const struct stni_file_header *header, const char *key)
{
    (void)header, (void)key;
    return NULL;
}
