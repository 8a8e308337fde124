/* Before a backward communicates, the ranks that it concerns compare what they are about to do, host to host
 * (contracts 12 and 29). */
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

/* What a spec says, without pointers, so that ranks can compare it. */
static uint64_t mix_spec(uint64_t h, const stn_spec *spec)
{
    if (!spec || !spec->layout.mesh)
        return mix(h, 1);
    const struct stni_layout *l = &spec->layout;
    h = mix(h, l->mesh->identity);
    h = mix(h, (uint64_t)l->dtype << 8 | (uint64_t)l->ndim);
    for (int a = 0; a < l->mesh->ndim; a++)
        h = mix(h, (uint64_t)l->placement[a].kind << 16 | (uint64_t)(uint8_t)l->placement[a].dim << 8 |
                       l->placement[a].op);
    for (int d = 0; d < l->ndim; d++) {
        h = mix(h, (uint64_t)l->shape[d]);
        for (int i = 0; l->split[d] && l->split[d]->offsets && i < l->split[d]->n_parts; i++)
            h = mix(h, (uint64_t)l->split[d]->offsets[i]);
    }
    return h;
}

static uint64_t mix_node(uint64_t h, const struct stni_node *node)
{
    h = mix_text(mix(h, node->needs | (uint64_t)node->again << 32), node->desc->name);
    for (int i = 0; i < 2 * node->n_in + node->n_out; i++)
        h = mix_spec(h, node->in_spec[i]);
    return h;
}

/* 63 bits, so that negation is exact. */
static int64_t as_signed(uint64_t h)
{
    return (int64_t)(h >> 1);
}

/* pairs[2 i] = hash i and pairs[2 i + 1] = -hash i: after MAX over the ranks they cancel exactly where all ranks
 * have the same. */
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

static const struct stni_node *node_at(const struct stni_pass *pass, int line, int64_t index)
{
    for (int n = 0; n < pass->n_nodes; n++)
        if (stni_pass_line_of(pass, pass->nodes[n]) == line && index-- == 0)
            return pass->nodes[n];
    return NULL;
}

static stn_status name_difference(const struct stni_pass *pass, int line, int64_t index)
{
    const struct stni_node *node = node_at(pass, line, index);
    return stni_fail(pass->context, STN_ERR_MISMATCH,
                     "stn_backward: ranks would communicate differently: step %lld is %s%s%s on this rank and another "
                     "op, layout or mask on "
                     "another; nothing was done",
                     (long long)index, node ? "'" : "", node ? node->desc->name : "past the end", node ? "'" : "");
}

/* Prefix hashes step by step: the first that differs is the first difference. */
static stn_status explain(const struct stni_pass *pass, int line)
{
    stn_context *context = pass->context;
    const int64_t longest = pass->lines[line].words[STNI_LINE_NODES];
    int64_t *pairs = stni_calloc((size_t)longest + 1, 2 * sizeof *pairs);
    if (!pairs)
        return stni_fail_rank(context, STN_ERR_MEMORY, "stn_backward: no memory to compare %lld steps",
                              (long long)longest);
    uint64_t h = 0;
    int64_t i = 0;
    for (int n = 0; n < pass->n_nodes; n++)
        if (stni_pass_line_of(pass, pass->nodes[n]) == line) {
            pairs[2 * i] = as_signed(h = mix_node(h, pass->nodes[n]));
            pairs[2 * i + 1] = -pairs[2 * i];
            i++;
        }
    stn_status status = reduce_pairs(context, pass->lines[line].comm, pairs, longest);
    if (status == STN_OK)
        status = name_difference(pass, line, first_difference(pairs, longest));
    stni_free(pairs);
    return status;
}

/* The greatest of the failures of all ranks: the lowest rank's. */
static int64_t failure_word(const struct stni_pass *pass, const stn_comm *comm)
{
    return pass->status == STN_OK ? INT64_MIN : -((int64_t)stn_comm_rank(comm) << 8 | (int64_t)pass->status);
}

static stn_status tell_failure(const struct stni_pass *pass, int64_t word)
{
    const stn_status failure = (stn_status)(-word & 0xff);
    STNI_TRY(stni_agree_on_failure(pass->context, pass->comm, (int)(-word >> 8), failure));
    return failure;
}

static void fill_words(const struct stni_pass *pass, int line, int64_t *words)
{
    uint64_t h = mix(mix(pass->create_graph != 0, pass->context->no_sync > 0), pass->status);
    if (pass->status != STN_OK)
        h = mix_text(h, pass->context->error.text);
    int64_t n_mesh = 0;
    for (int n = 0; n < pass->n_nodes; n++)
        if (stni_pass_line_of(pass, pass->nodes[n]) == line) {
            h = mix_node(h, pass->nodes[n]);
            n_mesh++;
        }
    words[STNI_LINE_HASH] = as_signed(h);
    words[STNI_LINE_NODES] = n_mesh;
    words[STNI_LINE_SLICES] = stni_pass_slices(pass);
    words[STNI_LINE_MINUS_HASH] = -words[STNI_LINE_HASH];
    words[STNI_LINE_MINUS_NODES] = -words[STNI_LINE_NODES];
    words[STNI_LINE_MINUS_SLICES] = -words[STNI_LINE_SLICES];
    words[STNI_LINE_FAILURE] = failure_word(pass, pass->lines[line].comm);
    words[STNI_LINE_COLLECTIVES] = stni_pass_count_calls(pass, line) > 0;
    words[STNI_LINE_SEVERAL] = pass->n_lines > 1;
    words[STNI_LINE_TENSOR_HOOKS] = stni_pass_has_tensor_hooks(pass);
    words[STNI_LINE_GRAD_HOOKS] = stni_pass_has_grad_hooks(pass);
}

/* Slices are compared where some rank has several lines: before it waits in one that its peers may lack. Not by a sync,
 * to which every rank of a mesh comes that a leaf is on. */
static stn_status compare(const struct stni_pass *pass, int line)
{
    int64_t *words = pass->lines[line].words;
    const enum stni_agreement what = pass->syncing ? STNI_AGREE_SYNC : STNI_AGREE_BACKWARD;
    STNI_TRY(stni_line_open(pass, line));
    fill_words(pass, line, words);
    STNI_TRY(stni_comm_agree_first(pass->lines[line].comm, pass->context->queue, what, words, STNI_LINE_WORDS,
                                   STN_MAX));
    if (words[STNI_LINE_SLICES] == -words[STNI_LINE_MINUS_SLICES] || !words[STNI_LINE_SEVERAL] || pass->syncing)
        return STN_OK;
    return words[STNI_LINE_FAILURE] == INT64_MIN ? stni_pass_refuse_slices(pass, line)
                                                 : stni_pass_tell_beyond(pass, line);
}

static int differs(const struct stni_line *line)
{
    return first_difference(line->words, 2) < 2;
}

/* What all ranks that the backward concerns have found: who failed, whether some have collectives, whether some line
 * differs, whether some have hooks. */
enum { FAILURE, COLLECTIVES, DIFFERS, TENSOR_HOOKS, GRAD_HOOKS, FOUND };

static int is_one_line(const struct stni_pass *pass)
{
    return pass->comm == pass->lines[0].comm && !pass->lines[0].words[STNI_LINE_SEVERAL];
}

static void find_own(const struct stni_pass *pass, int64_t *found)
{
    found[FAILURE] = failure_word(pass, pass->comm);
    found[COLLECTIVES] = found[DIFFERS] = found[TENSOR_HOOKS] = found[GRAD_HOOKS] = 0;
    for (int l = 0; l < pass->n_lines; l++) {
        found[COLLECTIVES] |= pass->lines[l].words[STNI_LINE_COLLECTIVES];
        found[DIFFERS] |= differs(&pass->lines[l]);
        found[TENSOR_HOOKS] |= pass->lines[l].words[STNI_LINE_TENSOR_HOOKS];
        found[GRAD_HOOKS] |= pass->lines[l].words[STNI_LINE_GRAD_HOOKS];
    }
    if (is_one_line(pass))
        found[FAILURE] = pass->lines[0].words[STNI_LINE_FAILURE];
}

static stn_status compare_lines(struct stni_pass *pass, int64_t *found)
{
    for (int l = 0; l < pass->n_lines; l++)
        STNI_TRY(compare(pass, l));
    if (!pass->comm)
        STNI_TRY(stni_pass_find_ranks(pass));
    find_own(pass, found);
    if (!is_one_line(pass))
        STNI_TRY(stni_comm_agree(pass->comm, pass->context->queue, found, FOUND, STN_MAX));
    pass->has_tensor_hooks = found[TENSOR_HOOKS] != 0;
    pass->has_grad_hooks = found[GRAD_HOOKS] != 0;
    return STN_OK;
}

/* Those who are on no line that differs are told by one that is. */
static stn_status explain_lines(struct stni_pass *pass)
{
    for (int l = 0; l < pass->n_lines; l++)
        if (differs(&pass->lines[l]))
            pass->status = explain(pass, l);
    if (is_one_line(pass))
        return pass->status;
    int64_t word = failure_word(pass, pass->comm);
    STNI_TRY(stni_comm_agree(pass->comm, pass->context->queue, &word, 1, STN_MAX));
    return tell_failure(pass, word);
}

/* A failure that all have was found by all alike, with a text of its own. */
static stn_status check_found(struct stni_pass *pass, const int64_t *found)
{
    if (!found[DIFFERS])
        return pass->status;
    return found[FAILURE] == INT64_MIN ? explain_lines(pass) : tell_failure(pass, found[FAILURE]);
}

/* Where a rank has collectives, what each runs is known only after all have told what they reach. */
stn_status stni_pass_agree(struct stni_pass *pass)
{
    int64_t found[FOUND];
    stni_pass_sort(pass);
    if (pass->n_lines == 0)
        return pass->status;
    STNI_TRY(compare_lines(pass, found));
    if (found[FAILURE] != INT64_MIN || !found[COLLECTIVES])
        return check_found(pass, found);
    STNI_TRY(stni_pass_reach_collectives(pass));
    stni_pass_sort(pass);
    STNI_TRY(compare_lines(pass, found));
    return check_found(pass, found);
}

stn_status stni_pass_agree_on_status(struct stni_pass *pass)
{
    int64_t found[FOUND];
    if (pass->n_lines == 0)
        return pass->status;
    STNI_TRY(compare_lines(pass, found));
    return check_found(pass, found);
}

/* Whose ranks may wait: those of collectives, and those of the mesh on which the failed op was called, or else what is
 * to go backward lies. What was agreed on they know. */
static int is_waited_for(const stn_context *context)
{
    if (context->size == 1 || context->closed || context->error.status == STN_ERR_PEER ||
        context->error.status == STN_ERR_TIMEOUT)
        return 0;
    return stni_tape_has_collectives(context->tape) || (stni_tape_failed_mesh(context) && !context->error_agreed);
}

static stn_status tell_kept(struct stni_pass *pass)
{
    if (stni_tape_has_collectives(pass->context->tape))
        STNI_TRY(stni_pass_touch_crossings(pass));
    STNI_TRY(stni_pass_touch(pass, stni_tape_failed_mesh(pass->context)));
    STNI_TRY(stni_pass_draw_lines(pass));
    return stni_pass_agree(pass);
}

stn_status stni_pass_refuse(stn_context *context, int n, stn_tensor *const *outputs)
{
    struct stni_pass pass = {.context = context, .status = context->error.status};
    stni_tape_note_call(context, outputs ? n : 0, outputs);
    if (!is_waited_for(context))
        return context->error.status;
    pass.mark = context->tape->mark += 2;
    tell_kept(&pass);
    stni_pass_fini(&pass);
    return context->error.status;
}
