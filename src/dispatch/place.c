/* The first call with these specs and attributes: check and place of the op, and whether their answers make sense. */
#include "core/shard/spec.h"
#include "dispatch/fallback.h"
#include "dispatch/place_cache.h"
#include "dispatch/schema.h"
#include "dispatch/walk.h"

#include <string.h>

stn_status stni_check_meshes(const stn_op_call *call)
{
    const stn_op_desc *desc = call->op->desc;
    const stn_spec *first = NULL;
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *s = call->in_spec[i];
        if (!s)
            continue;
        if (!first)
            first = s;
        if (s->layout.mesh == first->layout.mesh)
            continue;
        if (!s->layout.mesh || !first->layout.mesh)
            return stni_fail(call->context, STN_ERR_ARGUMENT, "%s: input '%s' is %s, wanted %s as the others",
                             desc->name, stni_input_name(desc, i).text, s->layout.mesh ? "on a mesh" : "local",
                             s->layout.mesh ? "local" : "on a mesh");
        return stni_fail(call->context, STN_ERR_ARGUMENT, "%s: input '%s' is on another mesh than the others",
                         desc->name, stni_input_name(desc, i).text);
    }
    return STN_OK;
}

stn_status stni_check_attrs(const struct stni_walk *w)
{
    struct stni_error error = {.status = STN_OK};
    if (stni_schema_check(w->desc, w->call.attrs, &error) == STN_OK)
        return STN_OK;
    return stni_fail(w->call.context, error.status, "%s", error.text);
}

static int keeps_spec_in_place(const stn_op_call *call)
{
    return call->want[0] == call->in_spec[0] && call->out_spec[0] == call->in_spec[0];
}

stn_status stni_answer_of(const struct stni_walk *w, const char *function, stn_status status)
{
    stn_context *context = w->call.context;
    if (status == STN_OK || context->error.status != STN_OK)
        return context->error.status;
    return stni_fail(context, status, "%s: its %s returned \"%s\"", w->desc->name, function, stn_status_text(status));
}

/* What was agreed on is another rank's text, which is to stay that of all. */
void stni_name_refusal(const struct stni_walk *w)
{
    static const uint32_t refusals = 1u << STN_ERR_ARGUMENT | 1u << STN_ERR_SHAPE | 1u << STN_ERR_DTYPE |
                                     1u << STN_ERR_LAYOUT | 1u << STN_ERR_PARTIAL | 1u << STN_ERR_UNSUPPORTED;
    struct stni_error *error = &w->call.context->error;
    const struct stni_error inner = *error;
    const size_t n = strlen(w->desc->name);
    if (!(refusals >> inner.status & 1) || w->call.context->error_agreed || (w->desc->flags & STN_OP_PER_RANK) ||
        (strncmp(inner.text, w->desc->name, n) == 0 && inner.text[n] == ':'))
        return;
    error->status = STN_OK; /* the first failure is the one that is kept */
    stni_error_set(error, inner.status, "%s: %s", w->desc->name, inner.text);
}

stn_status stni_check_n_out(const struct stni_walk *w, const char *function)
{
    int n = w->call.n_out, most = w->desc->n_outputs, least = w->desc->n_private;
    if (n >= least && n <= most)
        return STN_OK;
    return stni_fail(w->call.context, STN_ERR_INTERNAL, "%s: its %s gave n_out %d, wanted %d to %d", w->desc->name,
                     function, n, least, most);
}

/* A spec is wanted of each input that is there, and of no other. */
static stn_status check_wanted(const struct stni_walk *w)
{
    for (int i = 0; i < w->call.n_in; i++)
        if ((w->in_spec[i] == NULL) != (w->call.want[i] == NULL))
            return stni_fail(w->call.context, STN_ERR_INTERNAL, "%s: its place wants %s of input '%s', which is %s",
                             w->desc->name, w->call.want[i] ? "a spec" : "none", stni_input_name(w->desc, i).text,
                             w->in_spec[i] ? "there" : "absent");
    return STN_OK;
}

/* place, or the fallback where it has no rule. */
static stn_status ask_place(struct stni_walk *w, int *no_rule)
{
    stn_status status = w->call.op->impl.place ? w->call.op->impl.place(&w->call) : STN_NO_RULE;
    *no_rule = status == STN_NO_RULE && w->call.context->error.status == STN_OK;
    STNI_TRY(stni_answer_of(w, "place", *no_rule ? stni_fallback_place(&w->call) : status));
    return check_wanted(w);
}

/* What place lays out has the shape and dtype that check gave. */
static stn_status check_laid_out(const struct stni_walk *w)
{
    for (int k = 0; k < w->call.n_out; k++) {
        const stn_meta *meta = &w->call.out_meta[k];
        const struct stni_layout *layout = w->call.out_spec[k] ? &w->call.out_spec[k]->layout : NULL;
        if (layout && (layout->dtype != meta->dtype || layout->ndim != meta->ndim ||
                       memcmp(layout->shape, meta->shape, (size_t)meta->ndim * sizeof *meta->shape) != 0))
            return stni_fail(w->call.context, STN_ERR_INTERNAL,
                             "%s: its place gave output %d another shape or dtype than its check", w->desc->name, k);
    }
    return STN_OK;
}

/* Calls check and place, which write to the arrays of the call, and keeps what they wrote. */
static stn_status ask(struct stni_walk *w)
{
    stn_op_call *call = &w->call;
    int no_rule;
    STNI_TRY(stni_check_meshes(call));
    STNI_TRY(stni_check_attrs(w));
    if (!w->call.op->impl.check)
        return stn_op_fail(call, STN_ERR_UNSUPPORTED, "holds kernels alone and cannot be called");
    STNI_TRY(stni_answer_of(w, "check", w->call.op->impl.check(call)));
    STNI_TRY(stni_check_n_out(w, "check"));
    STNI_TRY(ask_place(w, &no_rule));
    STNI_TRY(stni_check_n_out(w, "place"));
    STNI_TRY(check_laid_out(w));
    if ((w->desc->flags & STN_OP_IN_PLACE) && !keeps_spec_in_place(call))
        return stni_fail(call->context, STN_ERR_LAYOUT, "%s: in place, '%s' would have to change its layout",
                         w->desc->name, stni_input_name(w->desc, 0).text);
    /* Local tensors have nothing to gather: the op simply runs. */
    return stni_place_cache_add(call, w->attrs_size, no_rule && !call->local, &w->placed);
}

stn_status stni_place_new(struct stni_walk *w)
{
    stn_meta meta[STN_MAX_OUTPUTS];
    const stn_spec *want[STN_MAX_INPUTS], *out_spec[STN_MAX_OUTPUTS];
    stn_op_call *call = &w->call;
    memset(meta, 0, (size_t)w->desc->n_outputs * sizeof meta[0]);
    memset(out_spec, 0, (size_t)w->desc->n_outputs * sizeof out_spec[0]);
    memcpy(want, w->in_spec, (size_t)call->n_in * sizeof want[0]);
    call->out_meta = meta;
    call->want = want;
    call->out_spec = out_spec;
    stn_status status = ask(w);
    call->out_meta = NULL;
    call->want = call->out_spec = NULL;
    return status;
}
