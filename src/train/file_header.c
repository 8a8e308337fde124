/* Each step trusts only what the one before has established: the text may be parsed; it is an object of entries; each describes a tensor
 * whose bytes fit its shape and lie inside the file; no two share a name or a byte. */
#include "train/file_header.h"

#include "core/host_alloc.h"
#include "train/file_layout.h"
#include "train/file_text.h"

#include <cjson/cJSON.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char METADATA[] = "__metadata__";

/* What the format has and this library has not, with bytes per element. */
static const struct foreign {
    const char *name;
    int bytes;
} foreign[] = {{"I8", 1},      {"I16", 2},     {"U16", 2},         {"U32", 4},         {"U64", 8},
               {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E5M2FNUZ", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E8M0", 1}};

struct entry {
    const char *name;
    int64_t data_size; /* of the file */
    struct stni_error *error;
};

static stn_status refuse(const struct entry *e, const char *what)
{
    return stni_error_set(e->error, STN_ERR_IO, "damaged: '%s' %s", e->name, what);
}

static stn_status parse_text(const char *text, size_t length, cJSON **root, struct stni_error *error)
{
    const char *fault = stni_file_text_fault(text, length), *end = text;
    if (fault)
        return stni_error_set(error, STN_ERR_IO, "the header is damaged: it %s", fault);
    *root = cJSON_ParseWithLengthOpts(text, length + 1, &end, 0);
    size_t used = *root ? (size_t)(end - text) : 0;
    if (!cJSON_IsObject(*root) || used + strspn(text + used, " \n\r\t") < length)
        return stni_error_set(error, STN_ERR_IO, "the header is damaged: it is no JSON object");
    return STN_OK;
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

/* Bytes of an element; 0 for what the format has not. */
static int64_t find_dtype(const char *name, stn_dtype *dtype)
{
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        if (strcmp(name, stni_file_dtype((stn_dtype)d)) == 0) {
            *dtype = (stn_dtype)d;
            return (int64_t)stn_dtype_size(*dtype);
        }
    *dtype = STN_DTYPE_COUNT;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strcmp(name, foreign[i].name) == 0)
            return foreign[i].bytes;
    return 0;
}

/* The product of the sizes other than 0 stays within 2^53. */
static stn_status take_shape(const struct entry *e, const cJSON *shape, stn_file_tensor *t)
{
    int64_t known = 1, empty = 0;
    if (!cJSON_IsArray(shape))
        return refuse(e, "has no shape");
    for (const cJSON *size = shape->child; size; size = size->next, t->ndim++) {
        if (t->ndim == STN_MAX_NDIM)
            return stni_error_set(e->error, STN_ERR_IO, "'%s' has more than %d dims", e->name, STN_MAX_NDIM);
        int64_t *n = &t->shape[t->ndim];
        if (!whole(size, n) || (*n > 0 && known > (INT64_C(1) << 53) / *n))
            return refuse(e, "has sizes that no tensor has");
        known *= *n > 0 ? *n : 1;
        empty |= *n == 0;
    }
    t->numel = empty ? 0 : known;
    return STN_OK;
}

static stn_status take_offsets(const struct entry *e, const cJSON *offsets, int64_t element, stn_file_tensor *t)
{
    const cJSON *first = cJSON_IsArray(offsets) ? offsets->child : NULL, *second = first ? first->next : NULL;
    int64_t end;
    if (!second || second->next || !whole(first, &t->begin) || !whole(second, &end))
        return refuse(e, "has no offsets");
    if (end > e->data_size)
        return stni_error_set(e->error, STN_ERR_IO, "truncated: '%s' ends at byte %" PRId64 " of %" PRId64, e->name, end, e->data_size);
    t->bytes = end - t->begin;
    if (t->bytes % element != 0 || t->bytes / element != t->numel)
        return stni_error_set(e->error, STN_ERR_IO, "damaged: the offsets of '%s' do not fit its shape: %" PRId64 " bytes for %" PRId64
                              " elements of %" PRId64, e->name, t->bytes, t->numel, element);
    return STN_OK;
}

static stn_status take_entry(const cJSON *item, int64_t data_size, stn_file_tensor *t, struct stni_error *error)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const struct entry e = {item->string, data_size, error};
    const cJSON *found[3] = {NULL};
    for (const cJSON *member = cJSON_IsObject(item) ? item->child : NULL; member; member = member->next)
        for (int k = 0; k < 3; k++)
            if (strcmp(member->string, keys[k]) == 0) {
                if (found[k])
                    return refuse(&e, "says the same twice");
                found[k] = member;
            }
    *t = (stn_file_tensor){.size = sizeof *t, .name = item->string, .dtype_name = cJSON_GetStringValue(found[0])};
    const int64_t element = t->dtype_name ? find_dtype(t->dtype_name, &t->dtype) : 0;
    if (element == 0)
        return refuse(&e, "has no dtype of this format");
    STNI_TRY(take_shape(&e, found[1], t));
    return take_offsets(&e, found[2], element, t);
}

static int by_begin(const void *a, const void *b)
{
    const stn_file_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const stn_file_tensor *const *)a)->name, (*(const stn_file_tensor *const *)b)->name);
}

static stn_status sort(struct stni_file_header *header, struct stni_error *error)
{
    stn_file_tensor *t = header->tensors;
    const stn_file_tensor **names = header->by_name;
    qsort(t, (size_t)header->n, sizeof *t, by_begin);
    for (int i = 1; i < header->n; i++)
        if (t[i].begin < t[i - 1].begin + t[i - 1].bytes)
            return stni_error_set(error, STN_ERR_IO, "damaged: '%s' and '%s' share bytes", t[i - 1].name, t[i].name);
    for (int i = 0; i < header->n; i++)
        names[i] = &t[i];
    qsort(names, (size_t)header->n, sizeof(stn_file_tensor *), by_name);
    for (int i = 1; i < header->n; i++)
        if (strcmp(names[i - 1]->name, names[i]->name) == 0)
            return stni_error_set(error, STN_ERR_IO, "damaged: '%s' stands twice", names[i]->name);
    return STN_OK;
}

static stn_status judge_metadata(const cJSON *metadata, struct stni_error *error)
{
    int good = cJSON_IsObject(metadata);
    for (const cJSON *item = good ? metadata->child : NULL; item; item = item->next)
        good = good && cJSON_IsString(item);
    return good ? STN_OK : stni_error_set(error, STN_ERR_IO, "damaged: %s is no object of strings", METADATA);
}

stn_status stni_file_header_parse(const char *text, size_t length, int64_t data_size, struct stni_file_header *header, struct stni_error *error)
{
    *header = (struct stni_file_header){0};
    STNI_TRY(parse_text(text, length, &header->tree, error));
    const size_t entries = (size_t)cJSON_GetArraySize(header->tree);
    header->tensors = stni_calloc(entries + 1, sizeof *header->tensors);
    header->by_name = stni_calloc(entries + 1, sizeof *header->by_name);
    if (!header->tensors || !header->by_name)
        return stni_error_set(error, STN_ERR_MEMORY, "no memory for a header of %zu tensors", entries);
    int metadata = 0;
    for (const cJSON *item = header->tree->child; item; item = item->next) {
        if (strcmp(item->string, METADATA) != 0) {
            STNI_TRY(take_entry(item, data_size, &header->tensors[header->n], error));
            header->n++;
        } else if (metadata++ > 0) {
            return stni_error_set(error, STN_ERR_IO, "damaged: '%s' stands twice", METADATA);
        } else {
            STNI_TRY(judge_metadata(item, error));
        }
    }
    return sort(header, error);
}

void stni_file_header_free(struct stni_file_header *header)
{
    stni_free(header->tensors);
    stni_free(header->by_name);
    cJSON_Delete(header->tree);
    *header = (struct stni_file_header){0};
}

const char *stni_file_header_metadata(const struct stni_file_header *header, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header->tree, METADATA);
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}
