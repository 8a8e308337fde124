/* The tape, grad mode, and the collectives of per-rank semantics. */
#include "autograd/tape.h"

#include "autograd/captured_gradients.h"
#include "autograd/pullback.h"

#include "core/base/host_alloc.h"
#include "core/shard/tables.h"

#include <shardtensor/autograd.h>

stn_status stni_tape_create(stn_context *context)
{
    context->tape = stni_calloc(1, sizeof *context->tape);
    if (!context->tape)
        return stni_fail_memory(context, "tape", sizeof *context->tape);
    context->drop_autograd = stni_drop_autograd;
    context->share_autograd = stni_share_autograd;
    context->step_part = &stni_captured_gradients;
    context->outermost_ended = stni_tape_clear_collectives;
    return STN_OK;
}

stn_status stni_tape_hook_failed(stn_context *context, const char *format, ...)
{
    struct stni_error own = {.status = STN_OK};
    va_list args;
    va_start(args, format);
    stni_error_set_v(&own, STN_ERR_CALLBACK, format, args);
    va_end(args);
    if (!context->tape->hook_failure)
        return stni_fail(context, own.status, "%s", own.text);
    stni_error_set(context->tape->hook_failure, own.status, "%s", own.text);
    return STN_OK;
}

/* Rank errors, and what ranks agreed on, peers know of already. */
static int is_told(const stn_context *context)
{
    const stn_status status = context->error.status;
    return context->error_agreed || status == STN_ERR_MEMORY || status == STN_ERR_DEVICE || status == STN_ERR_COMM ||
           status == STN_ERR_PEER || status == STN_ERR_TIMEOUT || stn_queue_error_text(context->queue)[0] != '\0';
}

stn_status stni_tape_hook_kept(stn_context *context)
{
    struct stni_error *failure = context->tape->hook_failure;
    if (context->error.status == STN_OK || context->size == 1 || !failure || is_told(context))
        return context->error.status;
    stni_error_set(failure, context->error.status, "%s", context->error.text);
    context->error.status = STN_OK;
    return STN_OK;
}

void stni_tape_clear_collectives(stn_context *context)
{
    struct stni_tape *tape = context->tape;
    while (tape->n_collectives > 0)
        stni_node_release(tape->collectives[--tape->n_collectives]);
}

void stni_tape_destroy(stn_context *context)
{
    if (!context->tape)
        return;
    stni_pullback_clear_all(context);
    stni_tape_clear_collectives(context);
    while (context->tape->n_open > 0)
        stni_leaf_release(context->tape->open[--context->tape->n_open]);
    stni_free(context->tape->open);
    stni_free(context->tape->collectives);
    for (int i = 0; i < STNI_NODE_SLABS; i++)
        stni_slab_destroy(&context->tape->slabs[i]);
    stni_free(context->tape);
    context->tape = NULL;
}

/* Makes space for one more in a list of pointers. */
static stn_status grow(stn_context *context, void **list, int n, int *cap)
{
    if (n < *cap)
        return STN_OK;
    int more = *cap ? 2 * *cap : 32;
    void *grown = stni_realloc(*list, (size_t)more * sizeof(void *));
    if (!grown)
        return stni_fail_memory(context, "tape", (size_t)more * sizeof(void *));
    *list = grown;
    *cap = more;
    return STN_OK;
}

int stni_tape_has_collectives(const struct stni_tape *tape)
{
    for (int v = 0; v < tape->n_collectives; v++)
        if (!stni_crossing_mesh(tape->collectives[v]))
            return 1;
    return 0;
}

void stni_tape_drop_unused(struct stni_tape *tape)
{
    int kept = 0;
    for (int v = 0; v < tape->n_collectives; v++) {
        struct stni_node *node = tape->collectives[v];
        if (node->refs == 1 && stni_crossing_mesh(node))
            stni_node_release(node);
        else
            tape->collectives[kept++] = node;
    }
    tape->n_collectives = kept;
}

void stni_tape_drop_consumed(struct stni_tape *tape)
{
    int kept = 0;
    for (int v = 0; v < tape->n_collectives; v++) {
        if (tape->collectives[v]->consumed)
            stni_node_release(tape->collectives[v]);
        else
            tape->collectives[kept++] = tape->collectives[v];
    }
    tape->n_collectives = kept;
}

stn_status stni_tape_add_collective(stn_context *context, struct stni_node *node)
{
    struct stni_tape *tape = context->tape;
    const stn_mesh *mesh = stni_crossing_mesh(node);
    if (mesh)
        node->crossing = context->shard.meshes[mesh->id]->crossings++;
    if (tape->n_collectives == tape->cap_collectives)
        stni_tape_drop_unused(tape);
    void *list = tape->collectives;
    STNI_TRY(grow(context, &list, tape->n_collectives, &tape->cap_collectives));
    tape->collectives = list;
    tape->collectives[tape->n_collectives++] = stni_node_retain(node);
    return STN_OK;
}

stn_status stni_tape_add_open(stn_context *context, struct stni_leaf *leaf)
{
    struct stni_tape *tape = context->tape;
    void *list = tape->open;
    if (leaf->listed)
        return STN_OK;
    STNI_TRY(grow(context, &list, tape->n_open, &tape->cap_open));
    tape->open = list;
    leaf->listed = 1;
    stni_leaf_retain(leaf);
    tape->open[tape->n_open++] = leaf;
    return STN_OK;
}

void stni_tape_settle(stn_context *context)
{
    struct stni_tape *tape = context->tape;
    int kept = 0;
    for (int l = 0; l < tape->n_open; l++) {
        struct stni_leaf *leaf = tape->open[l];
        if (leaf->pending || leaf->due) {
            tape->open[kept++] = leaf;
        } else {
            leaf->listed = 0;
            stni_leaf_release(leaf);
        }
    }
    tape->n_open = kept;
}

/* Never 0. */
static uint64_t hash_error(const stn_context *context)
{
    uint64_t hash = (uint64_t)context->error.status;
    for (const char *c = context->error.text; *c; c++)
        hash = stni_hash_step(hash, (unsigned char)*c);
    return hash | 1;
}

void stni_tape_note_failure(stn_context *context, const stn_mesh *mesh)
{
    struct stni_tape *tape = context->tape;
    if (!tape || !mesh || context->busy > 0 || stni_tape_failed_mesh(context))
        return;
    tape->failed_mesh = mesh;
    tape->failure = hash_error(context);
}

void stni_tape_note_call(stn_context *context, int n_in, stn_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] && !stni_is_error(in[i]) && in[i]->context == context)
            stni_tape_note_failure(context, in[i]->spec->layout.mesh);
}

const stn_mesh *stni_tape_failed_mesh(const stn_context *context)
{
    const int is_kept = context->error.status != STN_OK && context->tape->failure == hash_error(context);
    return is_kept ? context->tape->failed_mesh : NULL;
}

void stn_no_grad_begin(stn_context *context)
{
    if (context)
        context->no_grad++;
}

void stn_no_grad_end(stn_context *context)
{
    if (context && context->no_grad > 0)
        context->no_grad--;
}

int stn_grad_enabled(const stn_context *context)
{
    return context && context->no_grad == 0;
}

void stn_set_grad_overlap(stn_context *context, int on)
{
    if (context && context->tape)
        context->tape->overlap = on != 0;
}

void stn_no_sync_begin(stn_context *context)
{
    if (context)
        context->no_sync++;
}

void stn_no_sync_end(stn_context *context)
{
    if (context && context->no_sync > 0)
        context->no_sync--;
}
