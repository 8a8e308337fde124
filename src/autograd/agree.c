/* Before a backward communicates, the ranks that it concerns compare what they are about to do, host to host (contracts 12 and 29). */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"

#include <string.h>

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = mix(h, (unsigned char)*text);
    return h;
}

static uint64_t mix_mesh(uint64_t h, const stn_mesh *mesh, int by_grid)
{
    uint32_t axes;
    if (!by_grid || !mesh->member)
        return mix(h, mesh->identity);
    const stn_mesh *grid = stni_mesh_grid(mesh, &axes);
    return mix(mix(h, grid->identity), axes);
}

/* What a spec says, without pointers, so that ranks can compare it. */
static uint64_t mix_spec(uint64_t h, const stn_spec *spec, int by_grid)
{
    if (!spec || !spec->layout.mesh)
        return mix(h, 1);
    const struct stni_layout *l = &spec->layout;
    h = mix_mesh(h, l->mesh, by_grid);
    h = mix(h, (uint64_t)l->dtype << 8 | (uint64_t)l->ndim);
    for (int a = 0; a < l->mesh->ndim; a++)
        h = mix(h, (uint64_t)l->placement[a].kind << 16 | (uint64_t)(uint8_t)l->placement[a].dim << 8 | l->placement[a].op);
    for (int d = 0; d < l->ndim; d++) {
        h = mix(h, (uint64_t)l->shape[d]);
        for (int i = 0; l->split[d] && l->split[d]->offsets && i < l->split[d]->n_parts; i++)
            h = mix(h, (uint64_t)l->split[d]->offsets[i]);
    }
    return h;
}

static uint64_t mix_node(uint64_t h, const struct stni_node *node, int by_grid)
{
    h = mix_text(mix(h, node->needs), node->desc->name);
    for (int i = 0; i < 2 * node->n_in + node->n_out; i++)
        h = mix_spec(h, node->in_spec[i], by_grid);
    return h;
}

/* 63 bits, so that negation is exact. */
static int64_t as_signed(uint64_t h)
{
    return (int64_t)(h >> 1);
}

/* pairs[2 i] = hash i and pairs[2 i + 1] = -hash i: after MAX over the ranks they cancel exactly where all ranks have the same. */
static stn_status reduce_pairs(stn_context *context, stn_comm *comm, int64_t *pairs, int64_t n)
{
    return stni_comm_agree(comm, context->queue, pairs, 2 * n, STN_MAX);
}

static int64_t first_difference(const int64_t *pairs, int64_t n)
{
    int64_t i = 0;
    while (i < n && pairs[2 * i] == -pairs[2 * i + 1])
        i++;
    return i;
}

static const struct stni_node *mesh_node_at(const struct stni_pass *pass, int64_t index)
{
    for (int n = 0; n < pass->n_nodes; n++)
        if (stni_pass_concerns(pass, pass->nodes[n]) && index-- == 0)
            return pass->nodes[n];
    return NULL;
}

static stn_status name_difference(const struct stni_pass *pass, int64_t index)
{
    const struct stni_node *node = mesh_node_at(pass, index);
    return stni_fail(pass->context, STN_ERR_MISMATCH,
                     "stn_backward: ranks would communicate differently: step %lld is %s%s%s on this rank and another op, layout or mask on "
                     "another; nothing was done",
                     (long long)index, node ? "'" : "", node ? node->desc->name : "past the end", node ? "'" : "");
}

/* Prefix hashes step by step: the first that differs is the first difference. */
static stn_status explain(const struct stni_pass *pass, stn_comm *comm, int64_t longest)
{
    stn_context *context = pass->context;
    int64_t *pairs = stni_calloc((size_t)longest + 1, 2 * sizeof *pairs);
    if (!pairs)
        return stni_fail_rank(context, STN_ERR_MEMORY, "stn_backward: no memory to compare %lld steps", (long long)longest);
    uint64_t h = 0;
    int64_t i = 0;
    for (int n = 0; n < pass->n_nodes; n++)
        if (stni_pass_concerns(pass, pass->nodes[n])) {
            pairs[2 * i] = as_signed(h = mix_node(h, pass->nodes[n], pass->by_grid));
            pairs[2 * i + 1] = -pairs[2 * i];
            i++;
        }
    stn_status status = reduce_pairs(context, comm, pairs, longest);
    if (status == STN_OK)
        status = name_difference(pass, first_difference(pairs, longest));
    stni_free(pairs);
    return status;
}

/* The greatest of the failures of all ranks: the lowest rank's. */
static int64_t failure_word(const struct stni_pass *pass)
{
    return pass->status == STN_OK ? INT64_MIN : -((int64_t)stn_comm_rank(pass->comm) << 8 | (int64_t)pass->status);
}

static stn_status tell_failure(const struct stni_pass *pass, int64_t word)
{
    const stn_status failure = (stn_status)(-word & 0xff);
    STNI_TRY(stni_agree_on_failure(pass->context, pass->comm, (int)(-word >> 8), failure));
    return failure;
}

/* What is compared: of which the greatest over the ranks is taken. */
enum { HASH, MINUS_HASH, NODES, MINUS_NODES, FAILURE, COLLECTIVES, WORDS };

static stn_status compare(const struct stni_pass *pass, int64_t *words)
{
    uint64_t h = mix(mix(pass->create_graph != 0, pass->context->no_sync > 0), pass->status);
    int64_t n_mesh = 0;
    for (int n = 0; n < pass->n_nodes; n++)
        if (stni_pass_concerns(pass, pass->nodes[n])) {
            h = mix_node(h, pass->nodes[n], pass->by_grid);
            n_mesh++;
        }
    words[HASH] = as_signed(h);
    words[MINUS_HASH] = -as_signed(h);
    words[NODES] = n_mesh;
    words[MINUS_NODES] = -n_mesh;
    words[FAILURE] = failure_word(pass);
    words[COLLECTIVES] = stni_pass_has_collectives(pass);
    return stni_comm_agree(pass->comm, pass->context->queue, words, WORDS, STN_MAX);
}

/* A failure that the others have too was found by all alike, with a text of its own. */
static stn_status judge(const struct stni_pass *pass, const int64_t *words)
{
    if (first_difference(words, 2) == 2)
        return pass->status;
    return words[FAILURE] == INT64_MIN ? explain(pass, pass->comm, words[NODES]) : tell_failure(pass, words[FAILURE]);
}

/* Where a rank has collectives, what each runs is known only after all have told what they reach. */
stn_status stni_pass_agree(struct stni_pass *pass)
{
    int64_t words[WORDS];
    stni_pass_sort(pass);
    if (!pass->comm)
        return pass->status;
    STNI_TRY(compare(pass, words));
    if (words[FAILURE] != INT64_MIN || !words[COLLECTIVES])
        return judge(pass, words);
    STNI_TRY(stni_pass_reach_collectives(pass));
    stni_pass_sort(pass);
    STNI_TRY(compare(pass, words));
    return judge(pass, words);
}

stn_status stni_pass_refuse(stn_context *context)
{
    const struct stni_pass pass = {.context = context, .comm = context->comm, .status = context->error.status};
    int64_t words[WORDS];
    if (context->size == 1 || context->closed || !stni_tape_has_collectives(context->tape))
        return context->error.status;
    if (compare(&pass, words) == STN_OK)
        judge(&pass, words);
    return context->error.status;
}
