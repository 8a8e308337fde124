#include "train/file_layout.h"

#include "core/base/host_alloc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 8 };

const char *stni_file_dtype(stn_dtype dtype)
{
    static const char *const names[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F64] = "F64", [STN_DTYPE_F32] = "F32",   [STN_DTYPE_BF16] = "BF16", [STN_DTYPE_F16] = "F16",
        [STN_DTYPE_I64] = "I64", [STN_DTYPE_I32] = "I32",   [STN_DTYPE_U8] = "U8",     [STN_DTYPE_BOOL] = "BOOL",
        [STN_DTYPE_C64] = "C64", [STN_DTYPE_C128] = "C128", [STN_DTYPE_I8] = "I8",     [STN_DTYPE_I16] = "I16"};
    return (unsigned)dtype < STN_DTYPE_COUNT ? names[dtype] : NULL;
}

void stni_file_place(struct stni_file_entry *entries, int n)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        int64_t bytes = (int64_t)stn_dtype_size(entries[i].dtype);
        for (int d = 0; d < entries[i].ndim; d++)
            bytes *= entries[i].shape[d];
        entries[i].begin = at;
        at = entries[i].end = at + bytes;
    }
}

/* Text that grows; `size` keeps counting where there is no buffer, so that a first pass tells how much is needed. */
struct text {
    char *at;
    size_t size, space;
};

static void put_bytes(struct text *text, const char *bytes, size_t n)
{
    if (text->size + n <= text->space)
        memcpy(text->at + text->size, bytes, n);
    text->size += n;
}

static void put(struct text *text, const char *format, ...) STN_PRINTF(2, 3);
static void put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = text->size < text->space ? text->space - text->size : 0;
    int n = vsnprintf(left ? text->at + text->size : NULL, left, format, args);
    va_end(args);
    text->size += n > 0 ? (size_t)n : 0;
}

static int is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

static void put_string(struct text *text, const char *string)
{
    put_bytes(text, "\"", 1);
    for (const char *c = string; *c;) {
        size_t n = 0;
        while (is_plain(c[n]))
            n++;
        put_bytes(text, c, n);
        c += n;
        if (*c) {
            put(text, *c < 0x20 ? "\\u%04x" : "\\%c", *c);
            c++;
        }
    }
    put_bytes(text, "\"", 1);
}

static void put_entry(struct text *text, const struct stni_file_entry *entry)
{
    put_string(text, entry->name);
    put(text, ":{\"dtype\":\"%s\",\"shape\":[", stni_file_dtype(entry->dtype));
    for (int d = 0; d < entry->ndim; d++)
        put(text, "%s%" PRId64, d ? "," : "", entry->shape[d]);
    put(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", entry->begin, entry->end);
}

static void put_header(struct text *text, const struct stni_file_entry *entries, int n, const stn_metadata *metadata,
                       int n_metadata)
{
    put(text, "{");
    if (n_metadata > 0) {
        put(text, "\"__metadata__\":{");
        for (int i = 0; i < n_metadata; i++) {
            put(text, "%s", i ? "," : "");
            put_string(text, metadata[i].key);
            put(text, ":");
            put_string(text, metadata[i].value);
        }
        put(text, "}%s", n > 0 ? "," : "");
    }
    for (int i = 0; i < n; i++) {
        put(text, "%s", i ? "," : "");
        put_entry(text, &entries[i]);
    }
    put(text, "}");
    while (text->size % ALIGNMENT != 0)
        put(text, " ");
}

size_t stni_file_header_size(const struct stni_file_entry *entries, int n, const stn_metadata *metadata, int n_metadata)
{
    struct text text = {NULL, STNI_FILE_LENGTH_BYTES, 0};
    put_header(&text, entries, n, metadata, n_metadata);
    return text.size;
}

char *stni_file_header(const struct stni_file_entry *entries, int n, const stn_metadata *metadata, int n_metadata,
                       size_t size)
{
    struct text text = {stni_malloc(size + 1), STNI_FILE_LENGTH_BYTES, size + 1};
    if (!text.at)
        return NULL;
    put_header(&text, entries, n, metadata, n_metadata);
    for (int i = 0; i < STNI_FILE_LENGTH_BYTES; i++)
        text.at[i] = (char)((size - STNI_FILE_LENGTH_BYTES) >> (8 * i) & 0xff);
    return text.at;
}

struct stni_file_runs stni_file_runs(const stn_spec *spec)
{
    struct stni_file_runs runs = {.count = 1, .length = (int64_t)stn_dtype_size(spec->layout.dtype), .spec = spec};
    int d = spec->layout.ndim;
    while (d > 0 && spec->local_shape[d - 1] == spec->layout.shape[d - 1])
        runs.length *= spec->local_shape[--d];
    if (d > 0)
        runs.length *= spec->local_shape[--d];
    runs.outer = d;
    while (d > 0)
        runs.count *= spec->local_shape[--d];
    if (spec->local_numel == 0)
        runs.count = 0;
    return runs;
}

int64_t stni_file_run_at(const struct stni_file_runs *runs, int64_t i)
{
    const stn_spec *spec = runs->spec;
    int64_t at = 0, stride = (int64_t)stn_dtype_size(spec->layout.dtype);
    for (int d = spec->layout.ndim; d-- > 0; stride *= spec->layout.shape[d]) {
        int64_t index = 0;
        if (d < runs->outer) {
            index = i % spec->local_shape[d];
            i /= spec->local_shape[d];
        }
        at += (spec->local_offset[d] + index) * stride;
    }
    return at;
}
