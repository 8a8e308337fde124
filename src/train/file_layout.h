/* Where the tensors of a safetensors file lie, and the text of its header. Pure functions of names, dtypes and
 * shapes. */
#ifndef STNI_TRAIN_FILE_LAYOUT_H
#define STNI_TRAIN_FILE_LAYOUT_H

#include "core/tensor/tensor.h"

#include <shardtensor/io.h>

enum { STNI_FILE_LENGTH_BYTES = 8 /* of the header, in front of it */ };

struct stni_file_entry {
    const char *name;
    stn_dtype dtype;
    int ndim;
    const int64_t *shape;
    int64_t begin, end; /* bytes after the header */
};

/* Sets begin and end of each: one after the other. */
void stni_file_place(struct stni_file_entry *entries, int n);

/* Bytes of the header, with its length in front. */
size_t stni_file_header_size(const struct stni_file_entry *entries, int n, const stn_metadata *metadata,
                             int n_metadata);

/* The first bytes of the file, `size` as above: length and JSON text, padded with blanks so that data begin at a
 * multiple of 8. malloc'd by the library's host allocator; NULL where there is no memory. */
char *stni_file_header(const struct stni_file_entry *entries, int n, const stn_metadata *metadata, int n_metadata,
                       size_t size);

/* "F32" and its like; NULL for what has no name. */
const char *stni_file_dtype(stn_dtype dtype);

/* A chunk as runs of bytes that lie together in the file: `length` bytes each, `count` of them. */
struct stni_file_runs {
    int64_t count, length;
    const stn_spec *spec;
    int outer; /* dims that are walked */
};

struct stni_file_runs stni_file_runs(const stn_spec *spec);

/* Where run i begins in the tensor, in bytes. */
int64_t stni_file_run_at(const struct stni_file_runs *runs, int64_t i);

#endif
