/* Per-rank semantics: which collectives and crossings a backward runs (contract 12).
 *
 * Their backward communicates, or leads to what does, so it runs on every rank or on none. What is reachable from any rank's loss sends
 * cotangents to all of its ranks, which makes what precedes it there reachable too: so ranks exchange what they reach until nothing new is
 * added. Collectives of dist.h concern the world; the crossings of a mesh, where a rank's program goes on with its chunk, concern that mesh. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/shard/tables.h"

#include <stdlib.h>

/* Nodes that ranks agree about one by one. */
struct line {
    const stn_mesh *mesh; /* of the crossings; NULL: collectives of the world */
    stn_comm *comm;
    int n;
    struct stni_node **nodes;
    int64_t *flags;
};

struct lines {
    struct stni_pass *pass;
    int n;
    struct line *list;
    struct stni_node **nodes; /* of all lines */
    int64_t *flags;
};

static uint64_t identity_of(const struct stni_node *node)
{
    return stni_crossing_mesh(node) ? stni_crossing_mesh(node)->identity : 0;
}

/* The same on all ranks: the world's first, then mesh by mesh; each in the order of calls. */
static int by_line(const void *a, const void *b)
{
    const struct stni_node *x = *(struct stni_node *const *)a, *y = *(struct stni_node *const *)b;
    const int crosses = stni_crossing_mesh(x) != NULL, crosses_too = stni_crossing_mesh(y) != NULL;
    if (crosses != crosses_too)
        return crosses - crosses_too;
    if (identity_of(x) != identity_of(y))
        return identity_of(x) < identity_of(y) ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static int takes_part(const struct stni_pass *pass, const struct stni_node *node)
{
    const stn_mesh *mesh = stni_crossing_mesh(node);
    return !mesh || (mesh->member && stni_pass_has_joined(pass, mesh));
}

static stn_status cut(struct lines *lines, int n)
{
    for (int i = 0; i < n; i++) {
        const stn_mesh *mesh = stni_crossing_mesh(lines->nodes[i]);
        struct line *last = lines->n > 0 ? &lines->list[lines->n - 1] : NULL;
        if (last && last->mesh == mesh) {
            last->n++;
            continue;
        }
        last = &lines->list[lines->n++];
        *last = (struct line){mesh, lines->pass->context->comm, 1, lines->nodes + i, lines->flags + i};
        if (mesh)
            STNI_TRY(stni_mesh_comm(mesh, (1u << mesh->ndim) - 1, &last->comm));
    }
    return STN_OK;
}

static stn_status draw_lines(struct lines *lines, struct stni_pass *pass)
{
    const struct stni_tape *tape = pass->context->tape;
    const size_t n = (size_t)tape->n_collectives, each = sizeof *lines->list + sizeof *lines->flags + sizeof *lines->nodes;
    int taken = 0;
    *lines = (struct lines){.pass = pass, .list = stni_malloc(n * each + 1)};
    if (!lines->list)
        return stni_fail_memory(pass->context, "list of collectives", n * each);
    lines->flags = (int64_t *)(lines->list + n);
    lines->nodes = (struct stni_node **)(lines->flags + n);
    for (size_t v = 0; v < n; v++)
        if (takes_part(pass, tape->collectives[v]))
            lines->nodes[taken++] = tape->collectives[v];
    qsort(lines->nodes, (size_t)taken, sizeof(struct stni_node *), by_line);
    return cut(lines, taken);
}

static uint64_t hash_of(const struct line *line)
{
    uint64_t hash = 0;
    for (int i = 0; line->mesh && i < line->n; i++)
        hash = stni_hash_step(hash, (uint64_t)line->nodes[i]->crossing);
    return hash;
}

/* Words: how many nodes, and a hash of their numbers, with their negatives. */
enum { COUNT, MINUS_COUNT, HASH, MINUS_HASH, WORDS };

/* Ranks that have not called the same bring that to the agreement that follows, and leave the line alone until then. */
static stn_status compare(struct stni_pass *pass, struct line *line)
{
    const int64_t hash = (int64_t)(hash_of(line) >> 1);
    int64_t words[WORDS] = {line->n, -(int64_t)line->n, hash, -hash};
    STNI_TRY(stni_comm_agree(line->comm, pass->context->queue, words, WORDS, STN_MAX));
    if (words[COUNT] == -words[MINUS_COUNT] && words[HASH] == -words[MINUS_HASH])
        return STN_OK;
    pass->status =
        stni_fail(pass->context, STN_ERR_MISMATCH, "stn_backward: this rank recorded %d %s, others from %lld to %lld%s", line->n,
                  line->mesh ? "times to_local of a mesh" : "collectives", (long long)-words[MINUS_COUNT],
                  (long long)words[COUNT], words[COUNT] == -words[MINUS_COUNT] ? ", or others of them" : "");
    line->n = 0;
    return STN_OK;
}

/* Marks nodes as reached that other ranks reach; returns whether there were any. What cannot be reached is said when all agree. */
static int reach_flagged(struct stni_pass *pass, const struct line *line)
{
    int new = 0;
    for (int v = 0; v < line->n; v++)
        if (line->flags[v] && line->nodes[v]->mark != pass->mark && pass->status == STN_OK) {
            new = 1;
            pass->status = stni_pass_reach(pass, (struct stni_edge){line->nodes[v], NULL, 0});
        }
    return new;
}

static stn_status exchange_flags(struct stni_pass *pass, struct line *line, int64_t *any)
{
    for (int v = 0; v < line->n; v++)
        line->flags[v] = line->nodes[v]->mark == pass->mark;
    STNI_TRY(stni_comm_agree(line->comm, pass->context->queue, line->flags, line->n, STN_MAX));
    *any |= reach_flagged(pass, line);
    return STN_OK;
}

static stn_status reach_until_closed(struct lines *lines)
{
    struct stni_pass *pass = lines->pass;
    for (int l = 0; l < lines->n; l++)
        STNI_TRY(compare(pass, &lines->list[l]));
    for (int64_t any = 1; any;) {
        any = 0;
        for (int l = 0; l < lines->n; l++)
            STNI_TRY(exchange_flags(pass, &lines->list[l], &any));
        STNI_TRY(stni_comm_agree(pass->comm, pass->context->queue, &any, 1, STN_MAX));
    }
    return STN_OK;
}

int stni_pass_has_collectives(const struct stni_pass *pass)
{
    const struct stni_tape *tape = pass->context->tape;
    for (int v = 0; v < tape->n_collectives; v++)
        if (takes_part(pass, tape->collectives[v]))
            return 1;
    return 0;
}

stn_status stni_pass_reach_collectives(struct stni_pass *pass)
{
    struct lines lines;
    stn_status status = draw_lines(&lines, pass);
    if (status == STN_OK)
        status = reach_until_closed(&lines);
    stni_free(lines.list);
    return status;
}
