#include "ops/dist/route.h"

#include "core/base/host_alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    PART_WORDS = sizeof(struct stni_message_range) / sizeof(int64_t),
    HEAD_WORDS = sizeof(struct stni_route) / sizeof(int64_t)
};

stn_status stni_ranges_add(stn_context *context, struct stni_ranges *parts, int64_t peer, int64_t begin, int64_t length)
{
    if (length == 0)
        return STN_OK;
    if (parts->n == parts->cap) {
        int64_t cap = parts->cap > 0 ? 2 * parts->cap : 8;
        struct stni_message_range *list = stni_realloc(parts->list, (size_t)cap * sizeof *list);
        if (list == NULL)
            return stni_fail_memory(context, "a list of messages", (size_t)cap * sizeof *list);
        parts->list = list;
        parts->cap = cap;
    }
    parts->list[parts->n++] = (struct stni_message_range){peer, begin, length};
    return STN_OK;
}

void stni_ranges_fini(struct stni_ranges *parts)
{
    stni_free(parts->list);
    *parts = (struct stni_ranges){0};
}

/* Tells the tensors of these pages from any others. */
static void release_words(void *words)
{
    stni_free(words);
}

/* Takes over `words`, also where it fails. */
static stn_status wrap(stn_context *context, int64_t *words, int64_t n, stn_tensor **out)
{
    const stn_spec *spec;
    struct stni_storage *storage = NULL;
    stn_status status = stni_spec_local(context, STN_DTYPE_I64, 1, &n, &spec);
    if (status == STN_OK)
        status = stni_storage_wrap(context, words, (size_t)n * sizeof *words, release_words, words, &storage);
    if (status != STN_OK) {
        stni_free(words);
        return status;
    }
    status = stni_tensor_on(context, spec, storage, words, NULL, 0, out);
    stni_storage_release(storage);
    return status;
}

static stn_status allocate(stn_context *context, int64_t n, int64_t **words)
{
    *words = stni_malloc((size_t)(n > 0 ? n : 1) * sizeof **words);
    return *words ? STN_OK : stni_fail_memory(context, "a list of sizes", (size_t)n * sizeof **words);
}

stn_status stni_words_create(stn_context *context, const int64_t *words, int64_t n, stn_tensor **out)
{
    int64_t *copy;
    STNI_TRY(allocate(context, n, &copy));
    if (n > 0)
        memcpy(copy, words, (size_t)n * sizeof *copy);
    return wrap(context, copy, n, out);
}

const int64_t *stni_words_of(const stn_tensor *tensor)
{
    return tensor->storage->release == release_words ? tensor->data : NULL;
}

static stn_status make(stn_context *context, int64_t n_send, const struct stni_message_range *send, int64_t n_receive,
                       const struct stni_message_range *receive, stn_tensor **out)
{
    int64_t n = HEAD_WORDS + PART_WORDS * (n_send + n_receive), *words;
    STNI_TRY(allocate(context, n, &words));
    struct stni_route *route = (struct stni_route *)words;
    *route = (struct stni_route){n_send, n_receive};
    if (n_send > 0)
        memcpy(route->parts, send, (size_t)n_send * sizeof *send);
    if (n_receive > 0)
        memcpy(route->parts + n_send, receive, (size_t)n_receive * sizeof *receive);
    return wrap(context, words, n, out);
}

/* Insertion: lists come sorted but for those of a caller's own, and parts of one peer keep their order. */
void stni_ranges_sort(struct stni_ranges *parts)
{
    for (int64_t i = 1; i < parts->n; i++) {
        const struct stni_message_range part = parts->list[i];
        int64_t k = i;
        for (; k > 0 && parts->list[k - 1].peer > part.peer; k--)
            parts->list[k] = parts->list[k - 1];
        parts->list[k] = part;
    }
}

stn_status stni_route_create(stn_context *context, struct stni_ranges *send, struct stni_ranges *receive,
                             stn_tensor **out)
{
    stni_ranges_sort(send);
    stni_ranges_sort(receive);
    return make(context, send->n, send->list, receive->n, receive->list, out);
}

stn_status stni_route_reverse(stn_context *context, const struct stni_route *route, stn_tensor **out)
{
    return make(context, route->n_receive, route->parts + route->n_send, route->n_send, route->parts, out);
}
