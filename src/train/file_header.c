#include "train/file_header.h"

#include "core/host_alloc.h"
#include "ops/util/dims.h"
#include "train/file_bytes.h"
#include "train/file_layout.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, MAX_DEPTH = 8 };
#define MAX_HEADER ((int64_t)100 << 20) /* bytes, as other readers allow */

/* The tree is cJSON's; it is told apart so that headers need not know it. */
static const cJSON *tree(const struct stni_file_header_read *header)
{
    return (const cJSON *)(const void *)header;
}

/* The parser recurses, so its depth is bounded before it starts. */
static int depth_is_bounded(const char *text, size_t size)
{
    int depth = 0, quoted = 0;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == '{' || text[i] == '['))
            depth++;
        else if (!quoted && (text[i] == '}' || text[i] == ']'))
            depth--;
        if (depth > MAX_DEPTH)
            return 0;
    }
    return 1;
}

static cJSON *parse(const char *path, const char *text, size_t length, struct stni_error *error)
{
    cJSON *root = depth_is_bounded(text, length) ? cJSON_ParseWithLength(text, length + 1) : NULL;
    if (root && cJSON_IsObject(root))
        return root;
    cJSON_Delete(root);
    stni_error_set(error, STN_ERR_IO, "load: %s: the header is damaged: no JSON object of at most %d levels", path, MAX_DEPTH);
    return NULL;
}

static stn_status read_header(int file, const char *path, cJSON **root, int64_t *data, int64_t *data_size, struct stni_error *error)
{
    struct stat about;
    unsigned char bytes[LENGTH_BYTES];
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || !stni_file_read_at(file, bytes, sizeof bytes, 0))
        return stni_error_set(error, STN_ERR_IO, "load: %s: truncated or no file: no header's length", path);
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > (uint64_t)(about.st_size - LENGTH_BYTES) || length > (uint64_t)MAX_HEADER)
        return stni_error_set(error, STN_ERR_IO, "load: %s: truncated or damaged: a header of %llu bytes in a file of %lld", path,
                              (unsigned long long)length, (long long)about.st_size);
    char *text = stni_calloc(1, (size_t)length + 1);
    if (!text)
        return stni_error_set(error, STN_ERR_MEMORY, "load: %s: no memory for a header of %llu bytes", path, (unsigned long long)length);
    *root = NULL;
    if (!stni_file_read_at(file, text, (size_t)length, LENGTH_BYTES))
        stni_error_set(error, STN_ERR_IO, "load: %s: the header cannot be read: %s", path, strerror(errno));
    else
        *root = parse(path, text, (size_t)length, error);
    stni_free(text);
    *data = LENGTH_BYTES + (int64_t)length;
    *data_size = (int64_t)about.st_size - *data;
    return *root ? STN_OK : error->status;
}

stn_status stni_file_open(const char *path, int *file, struct stni_file_header_read **header, int64_t *data, int64_t *data_size,
                          struct stni_error *error)
{
    cJSON *root = NULL;
    *header = NULL;
    *file = open(path, O_RDONLY | O_CLOEXEC);
    if (*file < 0)
        return stni_error_set(error, STN_ERR_IO, "load: %s: cannot be opened: %s", path, strerror(errno));
    stn_status status = read_header(*file, path, &root, data, data_size, error);
    *header = (struct stni_file_header_read *)(void *)root;
    if (status != STN_OK) {
        close(*file);
        *file = -1;
    }
    return status;
}

void stni_file_close(int file, struct stni_file_header_read *header)
{
    if (file >= 0)
        close(file);
    cJSON_Delete((cJSON *)(void *)header);
}

/* A whole number, 0 <= x <= 2^53, that doubles carry exactly. */
static int whole(const cJSON *item, int64_t *out)
{
    double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(x >= 0 && x <= 0x1p53) || x != floor(x))
        return 0;
    *out = (int64_t)x;
    return 1;
}

static int same_shape(const cJSON *shape, const struct stni_layout *layout)
{
    int64_t size;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) != layout->ndim)
        return 0;
    for (int d = 0; d < layout->ndim; d++)
        if (!whole(cJSON_GetArrayItem(shape, d), &size) || size != layout->shape[d])
            return 0;
    return 1;
}

stn_status stni_file_find(const struct stni_file_header_read *header, const char *path, const char *name, const stn_spec *spec,
                          int64_t data_size, int64_t *begin, struct stni_error *error)
{
    const struct stni_layout *layout = &spec->layout;
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(tree(header), name);
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype")), *wanted = stni_file_dtype(layout->dtype);
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    char text[STNI_SHAPE_TEXT];
    int64_t end;
    if (!cJSON_IsObject(entry))
        return stni_error_set(error, STN_ERR_NOT_FOUND, "load: %s: no tensor '%s'", path, name);
    if (!dtype || strcmp(dtype, wanted) != 0)
        return stni_error_set(error, STN_ERR_DTYPE, "load: %s: '%s' is %s, wanted %s", path, name, dtype ? dtype : "of no dtype", wanted);
    if (!same_shape(cJSON_GetObjectItemCaseSensitive(entry, "shape"), layout))
        return stni_error_set(error, STN_ERR_SHAPE, "load: %s: '%s' has another shape, wanted %s", path, name,
                              stni_shape_text(layout->ndim, layout->shape, text));
    if (cJSON_GetArraySize(offsets) != 2 || !whole(cJSON_GetArrayItem(offsets, 0), begin) || !whole(cJSON_GetArrayItem(offsets, 1), &end) ||
        *begin > end || end - *begin != spec->numel * (int64_t)stn_dtype_size(layout->dtype))
        return stni_error_set(error, STN_ERR_IO, "load: %s: damaged: the offsets of '%s' do not fit its shape", path, name);
    if (end > data_size)
        return stni_error_set(error, STN_ERR_IO, "load: %s: truncated: '%s' ends at byte %lld of %lld", path, name, (long long)end,
                              (long long)data_size);
    return STN_OK;
}

const char *stni_file_metadata(const struct stni_file_header_read *header, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(tree(header), "__metadata__");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}
