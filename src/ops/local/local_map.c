/* local_map: a function of the caller's on chunks. Inputs are taken (ops/redistribute/local.h), the function runs, what
 * it made is given; so gradients across ranks are those of take and give, and its own is that of the ops that it
 * called, or a node with its backward (map_node.h). */
#include "autograd/node.h"
#include "core/base/thread_state.h"
#include "core/tensor/scope.h"
#include "ops/local/halo_pad.h"
#include "ops/local/map.h"
#include "ops/local/map_node.h"
#include "ops/redistribute/action.h"

#include <stdio.h>
#include <string.h>

static stn_status take_inputs(struct stni_map *m)
{
    for (int i = 0; i < m->n_in; i++) {
        stn_tensor *moved;
        if (!m->want[i]) {
            m->local[i] = stn_tensor_retain(m->in[i]);
            continue;
        }
        STNI_TRY(stni_move(m->in[i], m->want[i], &moved));
        stn_status status = stni_map_halo(m, i)
                                ? stni_halo_pad_take(moved, stni_map_halo(m, i), &m->take[i], &m->local[i])
                                : stni_take(moved, &m->take[i], &m->local[i]);
        stni_tensor_drop(&moved);
        STNI_TRY(status);
    }
    return STN_OK;
}

/* What the function left in out[k]: a handle without history where a backward is to give it one. */
static stn_status adopt(struct stni_map *m, int k, stn_tensor *made)
{
    const stn_spec *spec = m->options->out_specs ? m->options->out_specs[k] : NULL;
    char what[32];
    if (!made || stni_is_error(made) || made->context != m->context || made->spec->layout.mesh)
        return stni_fail(m->context, STN_ERR_CALLBACK,
                         "local_map: the function left %s in out[%d], wanted a local tensor",
                         made ? "another" : "nothing", k);
    snprintf(what, sizeof what, "local_map: out[%d]", k);
    if (spec)
        STNI_TRY(stni_check_chunk(made, spec, what));
    if (!m->options->backward) {
        m->made[k] = stn_tensor_retain(made);
        return STN_OK;
    }
    STNI_TRY(stni_tensor_on(m->context, made->spec, made->storage, made->data, made->strides, 0, &m->made[k]));
    stni_tensor_show_as(m->made[k], made);
    return STN_OK;
}

static uint64_t histories(const struct stni_map *m)
{
    uint64_t bits = 0;
    for (int k = 0; k < m->n_out; k++)
        if (m->made[k] && (m->made[k]->flags & STNI_TENSOR_REQUIRES_GRAD))
            bits |= UINT64_C(1) << k;
    return bits;
}

static stn_status call_function(struct stni_map *m)
{
    stn_tensor *out[STN_MAX_OUTPUTS] = {0};
    stn_local_call call = {.size = sizeof call,
                           .context = m->context,
                           .mesh = m->mesh,
                           .n_in = m->n_in,
                           .n_out = m->n_out,
                           .in = m->local,
                           .out = out,
                           .arg = m->options->arg};
    const int outer = stni_scope_fence(m->context);
    const stn_status status = m->options->function(&call);
    stni_scope_unfence(m->context, outer, "local_map", "the function");
    STNI_TRY(m->context->error.status);
    if ((unsigned)status >= STN_STATUS_COUNT)
        return stni_fail(m->context, STN_ERR_CALLBACK, "local_map: the function returned %d, which is no stn_status",
                         (int)status);
    if (status != STN_OK)
        return stni_fail(m->context, status, "local_map: the function returned \"%s\"", stn_status_text(status));
    for (int k = 0; k < m->n_out; k++)
        STNI_TRY(adopt(m, k, out[k]));
    if (m->needs && !m->options->backward && !histories(m))
        return stni_fail(m->context, STN_ERR_UNSUPPORTED,
                         "local_map: an input requires grad and the function made its outputs without ops: give a "
                         "backward, or detach the input");
    return STN_OK;
}

/* In a scope of its own, without grad mode where a backward is there, both words of dispatch zero. */
static stn_status run_function(struct stni_map *m)
{
    const int no_grad = m->options->backward != NULL;
    struct stni_thread_state guard = stni_thread_state_clear();
    m->context->no_grad += no_grad;
    stni_scope_enter(m->context);
    stn_status status = call_function(m);
    stni_scope_leave(m->context);
    m->context->no_grad -= no_grad;
    stni_thread_state_restore(guard);
    return status;
}

/* The layout of output k. Sizes that only the ranks know are gathered, of a handle without history. */
static stn_status output_spec(struct stni_map *m, int k, const stn_spec **out)
{
    *out = m->options->out_specs ? m->options->out_specs[k] : NULL;
    if (*out)
        return STN_OK;
    m->context->no_grad++;
    stn_tensor *joined =
        stn_from_local_gather_shapes(m->made[k], m->mesh, m->options->out_placements[k], STN_GRAD_PER_RANK);
    m->context->no_grad--;
    STNI_TRY(m->context->error.status);
    *out = joined->spec;
    if (m->context->scopes.depth == 0)
        stni_tensor_drop(&joined);
    return STN_OK;
}

/* A rank outside of the mesh has nothing of an output. */
static stn_status make_nothing(struct stni_map *m, int k, const stn_spec *spec)
{
    const stn_spec *chunk;
    if (m->mesh->member)
        return STN_OK;
    STNI_TRY(stni_spec_of_chunk(spec, &chunk));
    return stni_tensor_create(m->context, chunk, &m->made[k]);
}

static stn_status read_give(const struct stni_map *m, int k, const stn_spec *spec, struct stni_local_axes *axes)
{
    const stn_placement *grads = stni_map_placements(m->options->out_grad_placements, k);
    if (grads)
        return stni_give_axes(spec, grads, "local_map: an output's", axes);
    *axes = (struct stni_local_axes){
        .root_axes = m->options->convention == STN_GRAD_PER_RANK ? stni_axes_of_kind(spec, STN_PLACE_REPLICATE) : 0};
    return STN_OK;
}

static stn_status give_outputs(struct stni_map *m, stn_tensor *holder, stn_tensor **out)
{
    const stn_spec *spec[STN_MAX_OUTPUTS];
    struct stni_local_axes axes;
    char what[32];
    for (int k = 0; k < m->n_out; k++) {
        STNI_TRY(output_spec(m, k, &spec[k]));
        STNI_TRY(make_nothing(m, k, spec[k]));
    }
    if (m->options->backward || !m->mesh->member) /* which has a history all the same */
        STNI_TRY(stni_map_record(holder, m->n_in, m->local, m->n_out, m->made));
    for (int k = 0; k < m->n_out; k++) {
        STNI_TRY(read_give(m, k, spec[k], &axes));
        snprintf(what, sizeof what, "local_map: out[%d]", k);
        STNI_TRY(stni_from_local_by(m->made[k], spec[k], &axes, what, &out[k]));
    }
    return STN_OK;
}

static int gathers(const struct stni_map *m)
{
    for (int k = 0; k < m->n_out; k++)
        if (!m->options->out_specs || !m->options->out_specs[k])
            return 1;
    return 0;
}

static int moves(const struct stni_map *m)
{
    for (int i = 0; i < m->n_in; i++)
        if (m->want[i] && (m->want[i] != m->in[i]->spec || stni_map_halo(m, i)))
            return 1;
    return 0;
}

/* The ranks agree before inputs move, if any does, and when the function has returned. One that fails earlier comes
 * to the first of the two that the others come to. */
static stn_status run_on_chunks(struct stni_map *m, stn_status status)
{
    if (status == STN_OK)
        status = stni_map_check(m);
    if (status != STN_OK || moves(m))
        STNI_TRY(stni_map_agree(m->mesh, status, "local_map", 0));
    status = take_inputs(m);
    if (status == STN_OK && m->mesh->member)
        status = run_function(m);
    return stni_map_agree(m->mesh, status, "local_map", histories(m));
}

/* Where sizes are gathered, ranks outside of the mesh have to learn of a failure, too. */
static stn_status run(struct stni_map *m, stn_status status)
{
    const stn_context *context = m->context;
    status = run_on_chunks(m, status);
    if (!gathers(m) || m->mesh->size == context->size)
        return status;
    return stn_agree(m->context, status, context->error.status != STN_OK ? context->error.text : NULL);
}

/* Hands out all outputs, or none. */
static stn_status finish(struct stni_map *m, stn_status status, stn_tensor **given, stn_tensor **out)
{
    status = stni_action_end(m->context, status);
    for (int k = 0; k < m->n_out; k++) {
        if (status != STN_OK)
            stni_tensor_drop(&given[k]);
        out[k] = status == STN_OK ? stni_tensor_publish(given[k]) : m->context->error_tensor;
    }
    return status;
}

static void fini(struct stni_map *m)
{
    for (int i = 0; i < m->n_in; i++)
        stni_tensor_drop(&m->local[i]);
    for (int k = 0; k < m->n_out; k++)
        stni_tensor_drop(&m->made[k]);
}

static int is_bad(const stn_local_map_options *map, int n_in, stn_tensor *const *in, int n_out, stn_tensor **out)
{
    return !map || map->size != sizeof *map || n_in < 0 || n_in >= STN_MAX_INPUTS || (n_in > 0 && !in) || n_out < 0 ||
           n_out > STN_MAX_OUTPUTS || (n_out > 0 && !out);
}

/* Where there is no mesh there may be a context all the same. */
static stn_status refuse(const stn_mesh *mesh, int n_in, stn_tensor *const *in, int n_out, stn_tensor **out)
{
    stn_context *context = mesh ? mesh->context : NULL;
    for (int i = 0; in && !context && i < n_in; i++)
        context = in[i] ? in[i]->context : NULL;
    for (int k = 0; out && k < n_out; k++)
        out[k] = context ? context->error_tensor : NULL;
    if (!context)
        return STN_ERR_ARGUMENT;
    stni_fail(context, STN_ERR_ARGUMENT,
              "local_map: got %d inputs and %d outputs, wanted options of this version, at most %d and %d of "
              "them, and a mesh: of the options, or of an input",
              n_in, n_out, STN_MAX_INPUTS - 1, STN_MAX_OUTPUTS);
    return mesh ? stni_map_agree(mesh, context->error.status, "local_map", 0) : context->error.status;
}

static void give_up(const stn_local_map_options *map)
{
    if (map && map->size == sizeof *map && map->destroy)
        map->destroy(map->arg);
}

stn_status stn_local_map(const stn_local_map_options *options, int n_in, stn_tensor *const *in, int n_out,
                         stn_tensor **out)
{
    struct stni_map m = {.options = options, .n_in = n_in, .n_out = n_out, .in = in};
    stn_tensor *holder = NULL, *given[STN_MAX_OUTPUTS] = {0};
    m.mesh = stni_map_mesh(options, n_in, in);
    if (!m.mesh || is_bad(options, n_in, in, n_out, out)) {
        give_up(options);
        return refuse(m.mesh, n_in, in, n_out, out);
    }
    m.context = m.mesh->context;
    if (stni_action_begin(m.context) != STN_OK) {
        run(&m, m.context->error.status);
        give_up(options);
        for (int k = 0; k < n_out; k++)
            out[k] = m.context->error_tensor;
        return m.context->error.status;
    }
    m.needs = stni_needs_grad(m.context, n_in, in);
    stn_status status = run(&m, stni_map_holder_create(m.context, options, m.mesh, &holder));
    if (status == STN_OK)
        status = give_outputs(&m, holder, given);
    fini(&m);
    stni_tensor_drop(&holder);
    return finish(&m, status, given, out);
}
