/* Sorting messages by peer: few by insertion, many by digits. */
#include "core/redistribute/peers.h"

#include "core/base/host_alloc.h"

#include <string.h>

enum { FEW = 32, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static void insert_each(struct stni_plan_messages *messages)
{
    for (int i = 1; i < messages->n; i++) {
        stn_message moved = messages->items[i];
        int at = i;
        while (at > 0 && messages->items[at - 1].peer > moved.peer)
            at--;
        memmove(messages->items + at + 1, messages->items + at, (size_t)(i - at) * sizeof moved);
        messages->items[at] = moved;
    }
}

/* One pass of a radix sort: indices `from` into `to`, stable by one digit of their peers. */
static void sort_digit(const int *peer, int n, int shift, const int *from, int *to)
{
    int begin[DIGITS + 1] = {0};
    for (int i = 0; i < n; i++)
        begin[(peer[i] >> shift & (DIGITS - 1)) + 1]++;
    for (int d = 0; d < DIGITS; d++)
        begin[d + 1] += begin[d];
    for (int i = 0; i < n; i++)
        to[begin[peer[from[i]] >> shift & (DIGITS - 1)]++] = from[i];
}

static stn_status sort_many(stn_context *context, struct stni_plan_messages *messages)
{
    size_t n = (size_t)messages->n, bytes = n * sizeof *messages->items;
    int *peer = stni_malloc(3 * n * sizeof *peer);
    stn_message *items = stni_malloc(bytes);
    if (peer == NULL || items == NULL) {
        stni_free(peer);
        stni_free(items);
        return stni_fail_memory(context, "messages of a plan", bytes);
    }
    int *from = peer + n, *to = from + n, bits = 0;
    for (int i = 0; i < messages->n; i++) {
        from[i] = i;
        bits |= peer[i] = messages->items[i].peer;
    }
    for (int shift = 0; shift < 31 && bits >> shift != 0; shift += DIGIT_BITS) {
        sort_digit(peer, messages->n, shift, from, to);
        int *sorted = to;
        to = from;
        from = sorted;
    }
    for (size_t i = 0; i < n; i++)
        items[i] = messages->items[from[i]];
    stni_free(peer);
    stni_free(messages->items);
    messages->items = items;
    messages->cap = messages->n;
    return STN_OK;
}

stn_status stni_peers_sort(stn_context *context, struct stni_plan_messages *messages)
{
    if (messages->n > FEW)
        return sort_many(context, messages);
    insert_each(messages);
    return STN_OK;
}
