#include "train/contents.h"

#include "core/base/host_alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 24 /* of a number as text */ };

/* Grows a list so that one more entry fits; where there is no memory the list stays as it is. */
static stn_status reserve(struct stni_contents *contents, void **list, int n, int *cap, size_t size)
{
    const int more = *cap ? 2 * *cap : 32;
    if (n < *cap)
        return STN_OK;
    void *larger = stni_realloc(*list, (size_t)more * size);
    if (!larger)
        return stni_fail_memory(contents->context, "the list of a file's contents", (size_t)more * size);
    *list = larger;
    *cap = more;
    return STN_OK;
}

/* A text of the list's own. */
static stn_status own(struct stni_contents *contents, size_t bytes, char **out)
{
    void *list = contents->texts;
    STNI_TRY(reserve(contents, &list, contents->n_texts, &contents->cap_texts, sizeof *contents->texts));
    contents->texts = list;
    *out = stni_malloc(bytes);
    if (!*out)
        return stni_fail_memory(contents->context, "a name in a file", bytes);
    contents->texts[contents->n_texts++] = *out;
    return STN_OK;
}

static stn_status join(struct stni_contents *contents, const char *name, const char *part, const char **out)
{
    char *text;
    *out = name;
    if (!part)
        return STN_OK;
    const size_t bytes = strlen(name) + strlen(part) + 2;
    STNI_TRY(own(contents, bytes, &text));
    snprintf(text, bytes, "%s.%s", name, part);
    *out = text;
    return STN_OK;
}

stn_status stni_contents_add_tensor(struct stni_contents *contents, const char *name, const char *part,
                                    stn_tensor *tensor)
{
    void *list = contents->tensors;
    STNI_TRY(reserve(contents, &list, contents->n, &contents->cap, sizeof *contents->tensors));
    contents->tensors = list;
    STNI_TRY(join(contents, name, part, &name));
    contents->tensors[contents->n++] = (stn_named_tensor){name, tensor};
    return STN_OK;
}

stn_status stni_contents_add_text(struct stni_contents *contents, const char *key, const char *value)
{
    void *list = contents->metadata;
    STNI_TRY(reserve(contents, &list, contents->n_metadata, &contents->cap_metadata, sizeof *contents->metadata));
    contents->metadata = list;
    contents->metadata[contents->n_metadata++] = (stn_metadata){key, value};
    return STN_OK;
}

stn_status stni_contents_add_number(struct stni_contents *contents, const char *name, const char *part, uint64_t value)
{
    char *text;
    STNI_TRY(join(contents, name, part, &name));
    STNI_TRY(own(contents, NUMBER_BYTES, &text));
    snprintf(text, NUMBER_BYTES, "%" PRIu64, value);
    return stni_contents_add_text(contents, name, text);
}

int stni_parse_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (!*text)
        return 0;
    for (; *text; text++) {
        const uint64_t digit = (uint64_t)(unsigned char)*text - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return 0;
        value = 10 * value + digit;
    }
    *out = value;
    return 1;
}

stn_status stni_contents_read_numbers(struct stni_contents *contents, struct stni_load *load, const char *what)
{
    contents->numbers = stni_calloc((size_t)contents->n_metadata + 1, sizeof *contents->numbers);
    if (!contents->numbers)
        return stni_error_set(&load->error, STN_ERR_MEMORY, "%s: no memory for %d numbers", what, contents->n_metadata);
    for (int i = 0; i < contents->n_metadata; i++) {
        const char *key = contents->metadata[i].key, *text = stn_file_metadata(load->file, key);
        if (!text)
            return stni_error_set(&load->error, STN_ERR_NOT_FOUND, "%s: %s: no metadata '%s'", what, load->path, key);
        if (!stni_parse_number(text, &contents->numbers[i]))
            return stni_error_set(&load->error, STN_ERR_IO, "%s: %s: metadata '%s' is '%.24s', wanted a number", what,
                                  load->path, key, text);
    }
    return STN_OK;
}

stn_status stni_contents_check_counts(const struct stni_contents *contents, int first, int n, struct stni_load *load,
                                      const char *what)
{
    for (int i = first; i < first + n; i++)
        if (contents->numbers[i] > INT64_MAX)
            return stni_error_set(&load->error, STN_ERR_IO, "%s: %s: metadata '%s' is %" PRIu64 ", wanted at most %lld",
                                  what, load->path, contents->metadata[i].key, contents->numbers[i],
                                  (long long)INT64_MAX);
    return STN_OK;
}

void stni_contents_fini(struct stni_contents *contents)
{
    for (int i = 0; i < contents->n_texts; i++)
        stni_free(contents->texts[i]);
    stni_free(contents->texts);
    stni_free(contents->tensors);
    stni_free(contents->metadata);
    stni_free(contents->numbers);
    *contents = (struct stni_contents){0};
}
