#include "train/file_layout.h"

#include "core/base/host_alloc.h"
#include "core/base/text.h"

#include <inttypes.h>
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

static int is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

static void put_string(struct stni_text *text, const char *string)
{
    stni_text_put(text, "\"");
    for (const char *c = string; *c;) {
        size_t n = 0;
        while (is_plain(c[n]))
            n++;
        stni_text_put(text, "%.*s", (int)n, c);
        c += n;
        if (*c) {
            stni_text_put(text, *c < 0x20 ? "\\u%04x" : "\\%c", *c);
            c++;
        }
    }
    stni_text_put(text, "\"");
}

static void put_entry(struct stni_text *text, const struct stni_file_entry *entry)
{
    put_string(text, entry->name);
    stni_text_put(text, ":{\"dtype\":\"%s\",\"shape\":[", stni_file_dtype(entry->dtype));
    for (int d = 0; d < entry->ndim; d++)
        stni_text_put(text, "%s%" PRId64, d ? "," : "", entry->shape[d]);
    stni_text_put(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", entry->begin, entry->end);
}

static void put_header(struct stni_text *text, const struct stni_file_entry *entries, int n,
                       const stn_metadata *metadata, int n_metadata)
{
    stni_text_put(text, "{");
    if (n_metadata > 0) {
        stni_text_put(text, "\"__metadata__\":{");
        for (int i = 0; i < n_metadata; i++) {
            stni_text_put(text, "%s", i ? "," : "");
            put_string(text, metadata[i].key);
            stni_text_put(text, ":");
            put_string(text, metadata[i].value);
        }
        stni_text_put(text, "}%s", n > 0 ? "," : "");
    }
    for (int i = 0; i < n; i++) {
        stni_text_put(text, "%s", i ? "," : "");
        put_entry(text, &entries[i]);
    }
    stni_text_put(text, "}");
    while (text->length % ALIGNMENT != 0)
        stni_text_put(text, " ");
}

size_t stni_file_header_size(const struct stni_file_entry *entries, int n, const stn_metadata *metadata, int n_metadata)
{
    struct stni_text text = {.length = STNI_FILE_LENGTH_BYTES};
    put_header(&text, entries, n, metadata, n_metadata);
    return text.length;
}

char *stni_file_header(const struct stni_file_entry *entries, int n, const stn_metadata *metadata, int n_metadata,
                       size_t size)
{
    struct stni_text text = {.to = stni_malloc(size + 1), .size = size + 1, .length = STNI_FILE_LENGTH_BYTES};
    if (!text.to)
        return NULL;
    put_header(&text, entries, n, metadata, n_metadata);
    for (int i = 0; i < STNI_FILE_LENGTH_BYTES; i++)
        text.to[i] = (char)((size - STNI_FILE_LENGTH_BYTES) >> (8 * i) & 0xff);
    return text.to;
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
