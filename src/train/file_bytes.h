/* Bytes of a file at their place, all of them. */
#ifndef STNI_TRAIN_FILE_BYTES_H
#define STNI_TRAIN_FILE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* 1 on success; else errno tells why, and is 0 where the file ends before. */
int stni_file_write_at(int file, const void *data, size_t bytes, int64_t at);
int stni_file_read_at(int file, void *data, size_t bytes, int64_t at);

#endif
