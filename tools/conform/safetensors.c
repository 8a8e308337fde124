/* The reader of safetensors.h. Three steps, each of which trusts only what the one before has established: the header lies inside
 * the file and is JSON of bounded depth; every entry describes a tensor whose bytes fit its shape and lie inside the data; no two
 * tensors share bytes. */
#include "safetensors.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

static const char METADATA[] = "__metadata__";

static const struct dtype_name {
    const char *name;
    stn_dtype dtype;
} dtype_names[] = {
    {"F32", STN_DTYPE_F32}, {"F64", STN_DTYPE_F64}, {"BF16", STN_DTYPE_BF16}, {"F16", STN_DTYPE_F16}, {"I64", STN_DTYPE_I64},
    {"I32", STN_DTYPE_I32}, {"U8", STN_DTYPE_U8},   {"BOOL", STN_DTYPE_BOOL}, {"C64", STN_DTYPE_C64}, {"C128", STN_DTYPE_C128},
};

struct failure {
    char *text;
    size_t size;
};

STN_PRINTF(2, 3)
static int refuse(const struct failure *failure, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(failure->text, failure->size, format, args);
    va_end(args);
    return 0;
}

/* The parser recurses, so its depth is bounded before it starts. */
static int depth_is_bounded(const char *text, size_t size)
{
    int depth = 0, in_string = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = 0;
        } else if (c == '"') {
            in_string = 1;
        } else if (c == '{' || c == '[') {
            if (++depth > SAFETENSORS_MAX_DEPTH)
                return 0;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return 1;
}

static size_t header_length(const unsigned char *bytes)
{
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    return length > SIZE_MAX ? SIZE_MAX : (size_t)length;
}

/* Gives file->header, data and data_size. */
static int parse_header(struct safetensors *file, size_t size, const struct failure *failure)
{
    if (size < LENGTH_BYTES)
        return refuse(failure, "%zu bytes hold no header length", size);
    size_t length = header_length(file->bytes);
    if (length > size - LENGTH_BYTES)
        return refuse(failure, "header length %zu is beyond the file's %zu bytes", length, size);
    if (length > SAFETENSORS_MAX_HEADER)
        return refuse(failure, "header length %zu, at most %d", length, SAFETENSORS_MAX_HEADER);
    if (!depth_is_bounded((const char *)file->bytes + LENGTH_BYTES, length))
        return refuse(failure, "header is nested deeper than %d", SAFETENSORS_MAX_DEPTH);

    /* Copied for an end mark: some versions of the parser look one byte past a text that stops short. */
    char *text = malloc(length + 1);
    if (text == NULL)
        return refuse(failure, "out of memory");
    memcpy(text, file->bytes + LENGTH_BYTES, length);
    text[length] = '\0';
    const char *end = text;
    file->header = cJSON_ParseWithLengthOpts(text, length + 1, &end, 0);
    size_t used = file->header ? (size_t)(end - text) : 0;
    size_t blank = strspn(text + used, " \n\r\t");
    free(text);
    if (!cJSON_IsObject(file->header) || used + blank < length)
        return refuse(failure, "header is not a JSON object");
    file->data = file->bytes + LENGTH_BYTES + length;
    file->data_size = size - LENGTH_BYTES - length;
    return 1;
}

/* A whole number, 0 <= x <= 2^53, that doubles carry exactly. */
static int whole(const cJSON *item, int64_t *out)
{
    if (!cJSON_IsNumber(item))
        return 0;
    double x = item->valuedouble;
    if (!(x >= 0 && x <= 9007199254740992.0) || x != floor(x))
        return 0;
    *out = (int64_t)x;
    return 1;
}

static int parse_dtype(const cJSON *item, stn_dtype *out)
{
    const char *name = cJSON_GetStringValue(item);
    for (size_t i = 0; name != NULL && i < sizeof dtype_names / sizeof dtype_names[0]; i++)
        if (strcmp(name, dtype_names[i].name) == 0) {
            *out = dtype_names[i].dtype;
            return 1;
        }
    return 0;
}

/* Gives ndim, shape and numel; the product stays below 2^53. */
static int parse_shape(const cJSON *item, struct safetensors_tensor *t)
{
    int n = cJSON_GetArraySize(item);
    if (!cJSON_IsArray(item) || n > STN_MAX_NDIM)
        return 0;
    t->ndim = n;
    int64_t known = 1; /* product of the sizes that are not 0 */
    int empty = 0, d = 0;
    for (const cJSON *size = item->child; size != NULL; size = size->next, d++) {
        if (!whole(size, &t->shape[d]))
            return 0;
        if (t->shape[d] == 0)
            empty = 1;
        else if (known > (INT64_C(1) << 53) / t->shape[d])
            return 0;
        else
            known *= t->shape[d];
    }
    t->numel = empty ? 0 : known;
    return 1;
}

static int parse_tensor(const struct safetensors *file, const cJSON *entry, struct safetensors_tensor *t,
                        const struct failure *failure)
{
    if (strlen(entry->string) >= sizeof t->name)
        return refuse(failure, "a tensor's name has more than %d bytes", SAFETENSORS_MAX_NAME - 1);
    strcpy(t->name, entry->string);
    if (!parse_dtype(cJSON_GetObjectItemCaseSensitive(entry, "dtype"), &t->dtype))
        return refuse(failure, "%s: no dtype that is known", t->name);
    if (!parse_shape(cJSON_GetObjectItemCaseSensitive(entry, "shape"), t))
        return refuse(failure, "%s: no shape of at most %d sizes", t->name, STN_MAX_NDIM);

    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !whole(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !whole(cJSON_GetArrayItem(offsets, 1), &end))
        return refuse(failure, "%s: no pair of offsets", t->name);
    if (begin > end || (uint64_t)end > file->data_size)
        return refuse(failure, "%s: offsets %lld to %lld in %zu bytes of data", t->name, (long long)begin, (long long)end,
                      file->data_size);
    t->begin = (size_t)begin;
    t->bytes = (size_t)(end - begin);
    size_t element = stn_dtype_size(t->dtype);
    if (t->bytes % element != 0 || (int64_t)(t->bytes / element) != t->numel)
        return refuse(failure, "%s: %zu bytes for %lld elements of %zu", t->name, t->bytes, (long long)t->numel, element);
    return 1;
}

static int by_begin(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_tensor *)a)->name, ((const struct safetensors_tensor *)b)->name);
}

static int check_overlap(struct safetensors *file, const struct failure *failure)
{
    struct safetensors_tensor *t = file->tensors;
    qsort(t, (size_t)file->n, sizeof *t, by_name);
    for (int i = 1; i < file->n; i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return refuse(failure, "%s stands twice", t[i].name);
    qsort(t, (size_t)file->n, sizeof *t, by_begin);
    for (int i = 1; i < file->n; i++)
        if (t[i].begin < t[i - 1].begin + t[i - 1].bytes)
            return refuse(failure, "%s and %s share bytes", t[i - 1].name, t[i].name);
    return 1;
}

static int parse_tensors(struct safetensors *file, const struct failure *failure)
{
    int entries = cJSON_GetArraySize(file->header);
    if (entries > SAFETENSORS_MAX_TENSORS)
        return refuse(failure, "%d tensors, at most %d", entries, SAFETENSORS_MAX_TENSORS);
    file->tensors = calloc((size_t)entries + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return refuse(failure, "out of memory");
    for (const cJSON *entry = file->header->child; entry != NULL; entry = entry->next) {
        if (strcmp(entry->string, METADATA) == 0)
            continue;
        if (!parse_tensor(file, entry, &file->tensors[file->n], failure))
            return 0;
        file->n++;
    }
    return check_overlap(file, failure);
}

int safetensors_parse(unsigned char *bytes, size_t size, struct safetensors *file, char *error, size_t error_size)
{
    const struct failure failure = {error, error_size};
    memset(file, 0, sizeof *file);
    file->bytes = bytes;
    if (parse_header(file, size, &failure) && parse_tensors(file, &failure))
        return 1;
    safetensors_free(file);
    return 0;
}

/* All of a file that is no larger than the limit; NULL with a reason. */
static unsigned char *read_all(FILE *stream, size_t *size, const struct failure *failure)
{
    long end = fseek(stream, 0, SEEK_END) == 0 ? ftell(stream) : -1;
    if (end < 0 || (size_t)end > SAFETENSORS_MAX_FILE || fseek(stream, 0, SEEK_SET) != 0) {
        refuse(failure, "not a file of at most %zu bytes", SAFETENSORS_MAX_FILE);
        return NULL;
    }
    unsigned char *bytes = malloc((size_t)end + 1);
    if (bytes == NULL) {
        refuse(failure, "out of memory");
        return NULL;
    }
    *size = fread(bytes, 1, (size_t)end, stream);
    return bytes;
}

int safetensors_read(const char *path, struct safetensors *file, char *error, size_t error_size)
{
    const struct failure failure = {error, error_size};
    memset(file, 0, sizeof *file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return refuse(&failure, "cannot be opened");
    size_t size = 0;
    unsigned char *bytes = read_all(stream, &size, &failure);
    fclose(stream);
    return bytes != NULL && safetensors_parse(bytes, size, file, error, error_size);
}

void safetensors_free(struct safetensors *file)
{
    cJSON_Delete(file->header);
    free(file->tensors);
    free(file->bytes);
    memset(file, 0, sizeof *file);
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, METADATA);
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (int i = 0; i < file->n; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}
