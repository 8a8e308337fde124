/* Ranks that wait for each other in a circle, in agreements of different groups, and would until the deadline.
 *
 * Agreements alone are looked at: the thread that waits in one is the only one of its rank that could come to
 * another, so that a circle of them never opens. A rank in a collective of another kind may have a side queue that
 * brings what its peer waits for; comparisons of checks mode, which run on side queues, are no agreements. */
#include "core/comm/threads/threads.h"

#include <stdio.h>

static int is_open(const struct stni_thread_edge *edge)
{
    return atomic_load(edge->word) < edge->value;
}

/* What a rank waits for; NULL: it does not, or what it waits for has come. */
static const struct stni_thread_edge *edge_of(const struct stni_thread_family *family, int rank)
{
    for (const struct stni_thread_edge *e = family->edges; e; e = e->next)
        if (e->from == rank)
            return is_open(e) ? e : NULL;
    return NULL;
}

/* Edges change under the lock alone: those that are found are there together. Each rank has one, so a walk that does
 * not come back has an end, or goes round without this rank, where another finds it. */
static int closes(const struct stni_thread_family *family, const struct stni_thread_edge *mine)
{
    const struct stni_thread_edge *at = mine;
    for (const struct stni_thread_edge *limit = family->edges; at && limit; limit = limit->next) {
        if (at->to == mine->from)
            return is_open(mine);
        at = edge_of(family, at->to);
    }
    return 0;
}

static void describe(const struct stni_thread_family *family, const struct stni_thread_edge *mine,
                     struct stni_error *out)
{
    const struct stni_thread_edge *at = mine;
    int n = snprintf(out->text, sizeof out->text, "ranks wait for each other in a circle:");
    do {
        char call[96];
        stni_coll_describe(at->coll, call, sizeof call);
        if (n < (int)sizeof out->text)
            n += snprintf(out->text + n, sizeof out->text - (size_t)n, "%s rank %d for rank %d in %s",
                          at == mine ? "" : ",", at->from, at->to, call);
        at = edge_of(family, at->to);
    } while (at && at != mine);
    out->status = STN_ERR_MISMATCH;
}

int stni_thread_edge_add(struct stni_thread_member *member, struct stni_thread_edge *edge)
{
    struct stni_thread_family *family = member->group->family;
    pthread_mutex_lock(&family->lock);
    edge->next = family->edges;
    family->edges = edge;
    const int circle = closes(family, edge);
    if (circle)
        describe(family, edge, &member->error);
    pthread_mutex_unlock(&family->lock);
    return circle;
}

void stni_thread_edge_remove(struct stni_thread_member *member, const struct stni_thread_edge *edge)
{
    struct stni_thread_family *family = member->group->family;
    pthread_mutex_lock(&family->lock);
    struct stni_thread_edge **at = &family->edges;
    while (*at != edge)
        at = &(*at)->next;
    *at = edge->next;
    pthread_mutex_unlock(&family->lock);
}
