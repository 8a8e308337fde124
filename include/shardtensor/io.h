/* Files of named tensors in the safetensors layout: 8 bytes of header length, a JSON header, the tensors' elements row-major.
 *
 * What one layout saved, any other loads: each rank writes and reads its own bytes of the one file. */
#ifndef SHARDTENSOR_IO_H
#define SHARDTENSOR_IO_H

#include <shardtensor/train.h>

STN_BEGIN_DECLS

/** A string of the header's metadata. */
typedef struct stn_metadata {
    const char *key, *value;
} stn_metadata;

/** Writes tensors to a new file, which takes the place of an old one only when it is complete. A pending reduction is done first.
 *
 * Collective: over the world; every rank passes the same names, in the same order. All ranks see the same file system.
 * @param metadata  n_metadata strings; NULL with 0.
 * @return agreed on all ranks: STN_ERR_IO (what could not be written, and why), STN_ERR_ARGUMENT (a name is empty, stands twice), or the
 *  kept error. */
STN_API stn_status stn_save(stn_context *context, const char *path, int n, const stn_named_tensor *tensors, int n_metadata,
                            const stn_metadata *metadata);

/** Reads tensors into the given ones, in place, by name: same shape and dtype, any layout but Partial. Others in the file are left alone.
 *
 * Collective: over the world. Nothing is changed unless the file has all that is asked for.
 * @return agreed on all ranks: STN_ERR_IO (not readable, truncated, damaged), STN_ERR_NOT_FOUND (a name), STN_ERR_SHAPE, STN_ERR_DTYPE,
 *  STN_ERR_UNSUPPORTED (the library was built without cJSON), or the kept error. */
STN_API stn_status stn_load(stn_context *context, const char *path, int n, const stn_named_tensor *tensors);

/** The string of a key in a file's metadata, as snprintf writes it. Local.
 *  @return STN_ERR_NOT_FOUND (no such key), STN_ERR_IO, STN_ERR_UNSUPPORTED. */
STN_API stn_status stn_load_metadata(const char *path, const char *key, char *value, size_t size);

STN_END_DECLS
#endif
