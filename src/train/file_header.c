/* Each step trusts only what the one before has established: the text may be parsed; it is an object of entries;
 * each describes a tensor whose bytes fit its shape and lie inside the file; no two share a name or a byte. */
#include "train/file_header.h"

#include "core/base/host_alloc.h"
#include "train/file_layout.h"
#include "train/file_text.h"
#include "train/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char METADATA[] = "__metadata__";

/* What the format has and this library has not, with bytes per element. */
static const struct foreign {
    const char *name;
    int bytes;
} foreign[] = {{"U16", 2},     {"U32", 4},     {"U64", 8},
               {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E5M2FNUZ", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E8M0", 1}};

/* One entry while it is read. */
struct entry {
    const char *name;
    int64_t data_size; /* of the file */
    struct stni_error *error;
    int64_t element;   /* bytes; 0 until the dtype is known */
    int has_shape, has_offsets;
    stn_file_tensor *t;
};

static stn_status refuse(const struct entry *e, const char *what)
{
    return stni_error_set(e->error, STN_ERR_IO, "damaged: '%s' %s", e->name, what);
}

static stn_status no_object(struct stni_error *error)
{
    return stni_error_set(error, STN_ERR_IO, "the header is damaged: it is no JSON object");
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

static stn_status parse_dtype(struct entry *e, struct stni_json *json)
{
    e->t->dtype_name = stni_json_string(json);
    e->element = e->t->dtype_name ? find_dtype(e->t->dtype_name, &e->t->dtype) : 0;
    return e->element > 0 ? STN_OK : refuse(e, "has no dtype of this format");
}

/* The product of the sizes other than 0 stays within 2^53. */
static stn_status parse_shape(struct entry *e, struct stni_json *json)
{
    stn_file_tensor *t = e->t;
    int64_t known = 1, empty = 0;
    int more;
    if (!stni_json_take(json, '['))
        return refuse(e, "has no shape");
    while ((more = stni_json_next(json, t->ndim, ']')) > 0) {
        if (t->ndim == STN_MAX_NDIM)
            return stni_error_set(e->error, STN_ERR_IO, "'%s' has more than %d dims", e->name, STN_MAX_NDIM);
        int64_t *n = &t->shape[t->ndim++];
        if (!stni_json_whole(json, n) || (*n > 0 && known > (INT64_C(1) << 53) / *n))
            return refuse(e, "has sizes that no tensor has");
        known *= *n > 0 ? *n : 1;
        empty |= *n == 0;
    }
    t->numel = empty ? 0 : known;
    e->has_shape = 1;
    return more == 0 ? STN_OK : refuse(e, "has no shape");
}

static stn_status parse_offsets(struct entry *e, struct stni_json *json)
{
    stn_file_tensor *t = e->t;
    int64_t end = 0;
    if (!stni_json_take(json, '[') || !stni_json_whole(json, &t->begin) || !stni_json_take(json, ',') ||
        !stni_json_whole(json, &end) || !stni_json_take(json, ']'))
        return refuse(e, "has no offsets");
    if (end > e->data_size)
        return stni_error_set(e->error, STN_ERR_IO, "truncated: '%s' ends at byte %" PRId64 " of %" PRId64, e->name,
                              end, e->data_size);
    t->bytes = end - t->begin;
    e->has_offsets = 1;
    return STN_OK;
}

static stn_status parse_member(struct entry *e, const char *key, struct stni_json *json)
{
    const int dtype = strcmp(key, "dtype") == 0, shape = strcmp(key, "shape") == 0,
              offsets = strcmp(key, "data_offsets") == 0;
    if ((dtype && e->element) || (shape && e->has_shape) || (offsets && e->has_offsets))
        return refuse(e, "says the same twice");
    if (dtype)
        return parse_dtype(e, json);
    if (shape)
        return parse_shape(e, json);
    if (offsets)
        return parse_offsets(e, json);
    return stni_json_skip(json) ? STN_OK : refuse(e, "is no JSON object");
}

static stn_status check_entry(const struct entry *e)
{
    if (!e->element)
        return refuse(e, "has no dtype of this format");
    if (!e->has_shape)
        return refuse(e, "has no shape");
    if (!e->has_offsets)
        return refuse(e, "has no offsets");
    if (e->t->bytes % e->element != 0 || e->t->bytes / e->element != e->t->numel)
        return stni_error_set(e->error, STN_ERR_IO,
                              "damaged: the offsets of '%s' do not fit its shape: %" PRId64 " bytes for %" PRId64
                              " elements of %" PRId64,
                              e->name, e->t->bytes, e->t->numel, e->element);
    return STN_OK;
}

static stn_status parse_entry(struct entry *e, struct stni_json *json)
{
    int more = -1;
    if (!stni_json_take(json, '{'))
        return refuse(e, "is no JSON object");
    for (int n = 0; (more = stni_json_next(json, n, '}')) > 0; n = 1) {
        const char *key = stni_json_key(json);
        if (!key)
            return refuse(e, "is no JSON object");
        STNI_TRY(parse_member(e, key, json));
    }
    return more == 0 ? check_entry(e) : refuse(e, "is no JSON object");
}

/* Returns a list that has space for one more entry; NULL where there is no memory, and then the list stays as it is. */
static void *grown(void *list, int n, int *cap, size_t size)
{
    const int more = *cap ? 2 * *cap : 16;
    if (n < *cap)
        return list;
    void *larger = stni_realloc(list, (size_t)more * size);
    *cap = larger ? more : *cap;
    return larger;
}

static stn_status no_memory(struct stni_error *error, const char *what, int n)
{
    return stni_error_set(error, STN_ERR_MEMORY, "no memory for a header of %d %s", n, what);
}

static stn_status parse_metadata(struct stni_file_header *header, struct stni_json *json, struct stni_error *error)
{
    int more = stni_json_take(json, '{') ? 1 : -1;
    while (more > 0 && (more = stni_json_next(json, header->n_metadata, '}')) > 0) {
        stn_metadata *list = grown(header->metadata, header->n_metadata, &header->cap_metadata, sizeof *list);
        if (!list)
            return no_memory(error, "strings", header->n_metadata + 1);
        header->metadata = list;
        stn_metadata *m = &list[header->n_metadata++];
        m->key = stni_json_key(json);
        m->value = m->key ? stni_json_string(json) : NULL;
        more = m->value ? 1 : -1;
    }
    return more == 0 ? STN_OK : stni_error_set(error, STN_ERR_IO, "damaged: %s is no object of strings", METADATA);
}

static stn_status parse_tensor(struct stni_file_header *header, const char *name, struct stni_json *json,
                               int64_t data_size, struct stni_error *error)
{
    stn_file_tensor *list = grown(header->tensors, header->n, &header->cap, sizeof *list);
    if (!list)
        return no_memory(error, "tensors", header->n + 1);
    header->tensors = list;
    struct entry e = {.name = name, .data_size = data_size, .error = error, .t = &list[header->n++]};
    *e.t = (stn_file_tensor){.size = sizeof *e.t, .name = name};
    return parse_entry(&e, json);
}

static stn_status parse_all(struct stni_file_header *header, struct stni_json *json, int64_t data_size,
                            struct stni_error *error)
{
    int n_metadata = 0, more = stni_json_take(json, '{') ? 1 : -1;
    for (int n = 0; more > 0 && (more = stni_json_next(json, n, '}')) > 0; n = 1) {
        const char *key = stni_json_key(json);
        if (!key)
            return no_object(error);
        if (strcmp(key, METADATA) != 0)
            STNI_TRY(parse_tensor(header, key, json, data_size, error));
        else if (n_metadata++ > 0)
            return stni_error_set(error, STN_ERR_IO, "damaged: '%s' stands twice", METADATA);
        else
            STNI_TRY(parse_metadata(header, json, error));
    }
    return more == 0 && stni_json_ends(json) ? STN_OK : no_object(error);
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

static int by_key(const void *a, const void *b)
{
    return strcmp(((const stn_metadata *)a)->key, ((const stn_metadata *)b)->key);
}

static stn_status sort_tensors(struct stni_file_header *header, struct stni_error *error)
{
    stn_file_tensor *t = header->tensors;
    const stn_file_tensor **names = header->by_name = stni_calloc((size_t)header->n + 1, sizeof *names);
    if (!names)
        return no_memory(error, "tensors", header->n);
    if (header->n > 0)
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

static stn_status sort_metadata(struct stni_file_header *header, struct stni_error *error)
{
    const stn_metadata *m = header->metadata;
    if (header->n_metadata > 0)
        qsort(header->metadata, (size_t)header->n_metadata, sizeof *m, by_key);
    for (int i = 1; i < header->n_metadata; i++)
        if (strcmp(m[i - 1].key, m[i].key) == 0)
            return stni_error_set(error, STN_ERR_IO, "damaged: %s has '%s' twice", METADATA, m[i].key);
    return STN_OK;
}

stn_status stni_file_header_parse(const char *text, size_t length, int64_t data_size, struct stni_file_header *header,
                                  struct stni_error *error)
{
    *header = (struct stni_file_header){0};
    const char *fault = stni_file_text_fault(text, length);
    if (fault)
        return stni_error_set(error, STN_ERR_IO, "the header is damaged: it %s", fault);
    header->texts = stni_malloc(length + 1);
    if (!header->texts)
        return stni_error_set(error, STN_ERR_MEMORY, "no memory for a header of %zu bytes", length);
    struct stni_json json = {text, text + length, header->texts};
    STNI_TRY(parse_all(header, &json, data_size, error));
    STNI_TRY(sort_metadata(header, error));
    return sort_tensors(header, error);
}

void stni_file_header_free(struct stni_file_header *header)
{
    stni_free(header->tensors);
    stni_free(header->by_name);
    stni_free(header->metadata);
    stni_free(header->texts);
    *header = (struct stni_file_header){0};
}

const char *stni_file_header_metadata(const struct stni_file_header *header, const char *key)
{
    const stn_metadata wanted = {key, NULL};
    const stn_metadata *found = NULL;
    if (header->n_metadata > 0)
        found = bsearch(&wanted, header->metadata, (size_t)header->n_metadata, sizeof wanted, by_key);
    return found ? found->value : NULL;
}
