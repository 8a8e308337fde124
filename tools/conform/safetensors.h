/* Reads a safetensors file: 8 bytes of header length (little-endian), a JSON header, raw data.
 *
 * The file is not trusted: what does not fit its own size, the limits below or the layout is refused with a message, and no byte
 * outside the file is ever read. */
#ifndef CONFORM_SAFETENSORS_H
#define CONFORM_SAFETENSORS_H

#include <shardtensor/mesh.h>

enum {
    SAFETENSORS_MAX_HEADER = 4 << 20, /* bytes */
    SAFETENSORS_MAX_TENSORS = 1024,
    SAFETENSORS_MAX_NAME = 128, /* bytes, its end included */
    SAFETENSORS_MAX_DEPTH = 8   /* of nested objects and arrays */
};

#define SAFETENSORS_MAX_FILE ((size_t)1 << 30) /* bytes */

struct safetensors_tensor {
    char name[SAFETENSORS_MAX_NAME];
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    int64_t numel;
    size_t begin, bytes; /* within the data */
};

struct safetensors {
    unsigned char *bytes; /* the whole file */
    const unsigned char *data; /* where the raw data begins; tensors need not be aligned */
    size_t data_size;
    int n;
    struct safetensors_tensor *tensors; /* by `begin` */
    struct cJSON *header; /* holds the metadata's strings */
};

/** Reads a file. `error` gets the reason of a failure. @return 1, or 0 and an empty `*file`. */
int safetensors_read(const char *path, struct safetensors *file, char *error, size_t error_size);

/** The same from `size` bytes that malloc gave; they belong to `*file` afterwards, or are freed on failure. */
int safetensors_parse(unsigned char *bytes, size_t size, struct safetensors *file, char *error, size_t error_size);

void safetensors_free(struct safetensors *file);

/** A string of __metadata__, NULL if there is none. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/** The tensor of that name, NULL if there is none. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

#endif
