/* A file of tensors, opened for reading: the one reader of the format. */
#include "core/base/host_alloc.h"
#include "train/file.h"
#include "train/file_bytes.h"
#include "train/file_header.h"
#include "train/file_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct stn_file {
    int file;
    int64_t begin;     /* of the tensors' bytes */
    int64_t identity; /* at least 0; that of another file differs */
    struct stni_file_header header;
};

static stn_status read_length(stn_file *file, int64_t *length, int64_t *file_size, struct stni_error *error)
{
    struct stat about;
    unsigned char bytes[STNI_FILE_LENGTH_BYTES];
    if (fstat(file->file, &about) != 0 || !S_ISREG(about.st_mode) ||
        !stni_file_read_at(file->file, bytes, sizeof bytes, 0))
        return stni_error_set(error, STN_ERR_IO, "truncated or no file: no header's length");
    uint64_t n = 0;
    for (int i = 0; i < STNI_FILE_LENGTH_BYTES; i++)
        n |= (uint64_t)bytes[i] << (8 * i);
    if (n > (uint64_t)STNI_FILE_MAX_HEADER || (int64_t)n > (int64_t)about.st_size - STNI_FILE_LENGTH_BYTES)
        return stni_error_set(error, STN_ERR_IO,
                              "truncated or damaged: a header of %llu bytes, at most %lld, in a file of %lld",
                              (unsigned long long)n, (long long)STNI_FILE_MAX_HEADER, (long long)about.st_size);
    *length = (int64_t)n;
    *file_size = (int64_t)about.st_size;
    /* Not the device: each machine has its own number for a shared file system. */
    uint64_t mixed = (uint64_t)about.st_ino;
    const int64_t parts[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
    for (int i = 0; i < 3; i++)
        mixed = (mixed ^ mixed >> 29 ^ (uint64_t)parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
    file->identity = (int64_t)(mixed >> 1);
    return STN_OK;
}

static stn_status read_header(stn_file *file, struct stni_error *error)
{
    int64_t length = 0, file_size = 0;
    STNI_TRY(read_length(file, &length, &file_size, error));
    char *text = stni_calloc(1, (size_t)length + 1);
    if (!text)
        return stni_error_set(error, STN_ERR_MEMORY, "no memory for a header of %lld bytes", (long long)length);
    file->begin = STNI_FILE_LENGTH_BYTES + length;
    stn_status status;
    if (stni_file_read_at(file->file, text, (size_t)length, STNI_FILE_LENGTH_BYTES))
        status = stni_file_header_parse(text, (size_t)length, file_size - file->begin, &file->header, error);
    else
        status = stni_error_set(error, STN_ERR_IO, "the header cannot be read: %s",
                                errno ? strerror(errno) : "the file ends too soon");
    stni_free(text);
    return status;
}

static stn_status open_file(const char *path, stn_file *file, struct stni_error *error)
{
    file->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (file->file < 0)
        return stni_error_set(error, STN_ERR_IO, "cannot be opened: %s", strerror(errno));
    return read_header(file, error);
}

stn_status stn_file_open(const char *path, stn_file **out, char *error, size_t error_size)
{
    struct stni_error failure = {.status = STN_OK, .text = ""};
    if (!path || !out)
        return STN_ERR_ARGUMENT;
    stn_file *file = stni_calloc(1, sizeof *file);
    stn_status status = file ? open_file(path, file, &failure)
                             : stni_error_set(&failure, STN_ERR_MEMORY, "no memory for a file's description");
    if (status == STN_OK)
        *out = file;
    else
        stn_file_close(&file);
    if (error && error_size > 0)
        snprintf(error, error_size, "%s", failure.text);
    return status;
}

void stn_file_close(stn_file **file)
{
    if (!file || !*file)
        return;
    if ((*file)->file >= 0)
        close((*file)->file);
    stni_file_header_free(&(*file)->header);
    stni_free(*file);
    *file = NULL;
}

int stn_file_count(const stn_file *file)
{
    return file ? file->header.n : 0;
}

const stn_file_tensor *stn_file_at(const stn_file *file, int index)
{
    return file && index >= 0 && index < file->header.n ? &file->header.tensors[index] : NULL;
}

const stn_file_tensor *stn_file_find(const stn_file *file, const char *name)
{
    int low = 0, high = file && name ? file->header.n : 0;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(name, file->header.by_name[middle]->name);
        if (order == 0)
            return file->header.by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *stn_file_metadata(const stn_file *file, const char *key)
{
    return file && key ? stni_file_header_metadata(&file->header, key) : NULL;
}

int stni_file_texts(const stn_file *file, const stn_metadata **out)
{
    *out = file->header.metadata;
    return file->header.n_metadata;
}

stn_status stn_file_read(const stn_file *file, const stn_file_tensor *tensor, int64_t from, int64_t bytes, void *data)
{
    if (!file || !tensor || from < 0 || bytes < 0 || from > tensor->bytes || bytes > tensor->bytes - from ||
        (bytes > 0 && !data))
        return STN_ERR_ARGUMENT;
    return stni_file_read_at(file->file, data, (size_t)bytes, file->begin + tensor->begin + from) ? STN_OK : STN_ERR_IO;
}

int64_t stni_file_identity(const stn_file *file)
{
    return file->identity;
}
