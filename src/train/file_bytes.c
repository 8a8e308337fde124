#include "train/file_bytes.h"

#include <errno.h>
#include <unistd.h>

int stni_file_write_at(int file, const void *data, size_t bytes, int64_t at)
{
    for (const char *from = data; bytes > 0;) {
        ssize_t n = pwrite(file, from, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return 0;
        from += n, at += n, bytes -= (size_t)n;
    }
    return 1;
}

int stni_file_read_at(int file, void *data, size_t bytes, int64_t at)
{
    errno = 0;
    for (char *to = data; bytes > 0;) {
        ssize_t n = pread(file, to, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        to += n, at += n, bytes -= (size_t)n;
    }
    return 1;
}
