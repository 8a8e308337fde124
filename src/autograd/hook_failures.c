/* Hooks that fail. What they do may differ between ranks, so a pass goes on behind one that failed, and its ranks
 * compare when all are through: else the others would wait for the rank's next step. */
#include "autograd/pass.h"
#include "autograd/tensor_hooks.h"

#include "core/base/fnv.h"

#include <string.h>

static int has_hooks(const struct stni_tensor_hooks *hooks)
{
    while (hooks && (!hooks->hook || hooks->removed))
        hooks = hooks->next;
    return hooks != NULL;
}

int stni_pass_has_tensor_hooks(const struct stni_pass *pass)
{
    int found = 0;
    for (int n = 0; n < pass->n_nodes && !found; n++)
        found = has_hooks(pass->nodes[n]->hooks);
    for (int l = 0; l < pass->n_leaves && !found; l++)
        found = has_hooks(pass->leaves[l]->tensor_hooks);
    return found;
}

int stni_pass_has_grad_hooks(const struct stni_pass *pass)
{
    const struct stni_tape *tape = pass->context->tape;
    int found = 0;
    for (int l = 0; l < pass->n_leaves && !found; l++)
        found = pass->leaves[l]->hooks != NULL;
    for (int l = 0; l < tape->n_open && !found; l++)
        found = tape->open[l]->hooks != NULL;
    return found && !pass->capturing;
}

static stn_status keep(struct stni_pass *pass)
{
    const struct stni_error failure = pass->hook_failure;
    pass->hook_failure.status = STN_OK;
    return failure.status == STN_OK ? STN_OK : stni_fail(pass->context, failure.status, "%s", failure.text);
}

/* Of a failure, by which ranks see whether all have the same; 0: there is none. Positive, so that its negative is
 * exact. */
static int64_t hash_of(const struct stni_error *failure)
{
    const uint64_t h = stni_fnv(STNI_FNV_EMPTY, failure->text, strlen(failure->text));
    return failure->status == STN_OK ? 0 : (int64_t)(h >> 1 | 1);
}

stn_status stni_pass_agree_on_hooks(struct stni_pass *pass, int asked)
{
    const struct stni_error *own = &pass->hook_failure;
    if (!pass->comm || !asked)
        return keep(pass);
    const int64_t hash = hash_of(own), rank = stn_comm_rank(pass->comm);
    int64_t words[] = {hash, -hash, own->status == STN_OK ? INT64_MIN : -(rank << 8 | (int64_t)own->status)};
    STNI_TRY(stni_comm_agree(pass->comm, pass->context->queue, words, 3, STN_MAX));
    const stn_status kept = keep(pass);
    if (words[0] == -words[1])
        return kept;
    const stn_status first = (stn_status)(-words[2] & 0xff);
    STNI_TRY(stni_agree_on_failure(pass->context, pass->comm, (int)(-words[2] >> 8), first));
    return first;
}
