/* Per-rank semantics: which collectives and crossings a backward runs (contract 12).
 *
 * Their backward communicates, or leads to what does, so it runs on every rank of their mesh or on none. What is
 * reachable from any rank's loss sends cotangents to all of them, which makes what precedes it there reachable too:
 * so the ranks of each mesh exchange what they reach until nothing new is added anywhere. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/shard/tables.h"

#include <stdlib.h>

/* The nodes of one mesh that its ranks agree about one by one: collectives, then crossings, each in the order of
 * calls. */
struct calls {
    const stn_mesh *mesh; /* NULL: the world */
    stn_comm *comm;
    int n, n_collectives;
    struct stni_node **nodes;
    int64_t *flags;
};

struct all_calls {
    struct stni_pass *pass;
    int n;
    struct calls *list;
    struct stni_node **nodes; /* of all */
    int64_t *flags;
};

static int is_crossing(const struct stni_node *node)
{
    return stni_crossing_mesh(node) != NULL;
}

static int count_calls(const struct stni_tape *tape, const stn_mesh *mesh)
{
    int n = 0;
    for (int v = 0; v < tape->n_collectives; v++)
        n += tape->collectives[v]->home == mesh;
    return n;
}

int stni_pass_count_calls(const struct stni_pass *pass, int line)
{
    int n = 0;
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m].line == line)
            n += count_calls(pass->context->tape, pass->meshes[m].mesh);
    return n;
}

static uint64_t identity_of(const stn_mesh *mesh)
{
    return mesh ? mesh->identity : 0;
}

/* The same on all ranks. */
static int by_mesh(const void *a, const void *b)
{
    const uint64_t x = identity_of(((const struct calls *)a)->mesh), y = identity_of(((const struct calls *)b)->mesh);
    return x < y ? -1 : x > y;
}

/* Its ranks take part whether or not they have some: a rank of its line does. */
static int takes_part(const struct stni_pass *pass, const struct stni_pass_mesh *touched)
{
    if (touched->line == STNI_NO_LINE || !pass->lines[touched->line].words[STNI_LINE_COLLECTIVES])
        return 0;
    return !touched->mesh || (touched->mesh->member && touched->mesh->size > 1);
}

static int append(struct calls *calls, const struct stni_tape *tape, int crossings)
{
    int n = 0;
    for (int v = 0; v < tape->n_collectives; v++)
        if (tape->collectives[v]->home == calls->mesh && is_crossing(tape->collectives[v]) == crossings)
            calls->nodes[calls->n + n++] = tape->collectives[v];
    calls->n += n;
    return n;
}

static stn_status fill(struct all_calls *all)
{
    const struct stni_pass *pass = all->pass;
    int taken = 0;
    for (int c = 0; c < all->n; c++) {
        struct calls *calls = &all->list[c];
        calls->nodes = all->nodes + taken;
        calls->flags = all->flags + taken;
        calls->n_collectives = append(calls, pass->context->tape, 0);
        append(calls, pass->context->tape, 1);
        taken += calls->n;
        calls->comm = pass->context->comm;
        if (calls->mesh)
            STNI_TRY(stni_mesh_comm(calls->mesh, (1u << calls->mesh->ndim) - 1, &calls->comm));
    }
    return STN_OK;
}

static stn_status list_calls(struct all_calls *all, struct stni_pass *pass)
{
    const size_t n = (size_t)pass->context->tape->n_collectives, meshes = (size_t)pass->n_meshes;
    const size_t bytes = meshes * sizeof *all->list + n * (sizeof *all->flags + sizeof *all->nodes);
    *all = (struct all_calls){.pass = pass, .list = stni_calloc(bytes + 1, 1)};
    if (!all->list)
        return stni_fail_rank(pass->context, STN_ERR_MEMORY, "stn_backward: no memory to list %zu collectives", n);
    all->flags = (int64_t *)(all->list + meshes);
    all->nodes = (struct stni_node **)(all->flags + n);
    for (int m = 0; m < pass->n_meshes; m++)
        if (takes_part(pass, &pass->meshes[m]))
            all->list[all->n++].mesh = pass->meshes[m].mesh;
    qsort(all->list, (size_t)all->n, sizeof *all->list, by_mesh);
    return fill(all);
}

static uint64_t hash_crossings(const struct calls *calls)
{
    uint64_t hash = 0;
    for (int i = calls->n_collectives; i < calls->n; i++)
        hash = stni_hash_step(hash, (uint64_t)calls->nodes[i]->crossing);
    return hash;
}

/* Words: how many of each, and a hash of the crossings' numbers, with their negatives. */
enum { COLLECTIVES, MINUS_COLLECTIVES, CROSSINGS, MINUS_CROSSINGS, HASH, MINUS_HASH, WORDS };

static int is_alike(const int64_t *words, int i)
{
    return words[i] == -words[i + 1];
}

/* Ranks that have not called the same bring that to the agreement that follows, and leave the mesh's calls alone
 * until then. */
static stn_status compare(struct stni_pass *pass, struct calls *calls)
{
    const int64_t hash = (int64_t)(hash_crossings(calls) >> 1), n = calls->n_collectives, crossings = calls->n - n;
    int64_t words[WORDS] = {n, -n, crossings, -crossings, hash, -hash};
    STNI_TRY(stni_comm_agree(calls->comm, pass->context->queue, words, WORDS, STN_MAX));
    if (is_alike(words, COLLECTIVES) && is_alike(words, CROSSINGS) && is_alike(words, HASH))
        return STN_OK;
    const int i = is_alike(words, COLLECTIVES) ? CROSSINGS : COLLECTIVES;
    pass->status = stni_fail(
        pass->context, STN_ERR_MISMATCH,
        "stn_backward: this rank recorded %lld %s, others from %lld to %lld%s, wanted the same on all",
        (long long)(i == CROSSINGS ? crossings : n), i == CROSSINGS ? "times to_local of a mesh" : "collectives",
        (long long)-words[i + 1], (long long)words[i], is_alike(words, i) ? ", or others of them" : "");
    calls->n = 0;
    return STN_OK;
}

/* Marks nodes as reached that other ranks reach; returns whether there were any. What cannot be reached is said when
 * all agree. */
static int reach_flagged(struct stni_pass *pass, const struct calls *calls)
{
    int new = 0;
    for (int v = 0; v < calls->n; v++)
        if (calls->flags[v] && calls->nodes[v]->mark != pass->mark && pass->status == STN_OK) {
            new = 1;
            pass->status = stni_pass_reach(pass, (struct stni_edge){calls->nodes[v], NULL, 0});
        }
    return new;
}

static stn_status exchange_flags(struct stni_pass *pass, struct calls *calls, int64_t *any)
{
    for (int v = 0; v < calls->n; v++)
        calls->flags[v] = calls->nodes[v]->mark == pass->mark;
    STNI_TRY(stni_comm_agree(calls->comm, pass->context->queue, calls->flags, calls->n, STN_MAX));
    *any |= reach_flagged(pass, calls);
    return STN_OK;
}

static stn_status reach_until_closed(struct all_calls *all)
{
    struct stni_pass *pass = all->pass;
    for (int c = 0; c < all->n; c++)
        STNI_TRY(compare(pass, &all->list[c]));
    for (int64_t any = 1; any;) {
        any = 0;
        for (int c = 0; c < all->n; c++)
            STNI_TRY(exchange_flags(pass, &all->list[c], &any));
        STNI_TRY(stni_comm_agree(pass->comm, pass->context->queue, &any, 1, STN_MAX));
    }
    return STN_OK;
}

stn_status stni_pass_reach_collectives(struct stni_pass *pass)
{
    struct all_calls all;
    stn_status status = list_calls(&all, pass);
    if (status == STN_OK)
        status = reach_until_closed(&all);
    stni_free(all.list);
    return status;
}
