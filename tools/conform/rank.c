/* One configuration on one rank: leaves in their layouts, the op by name, cotangents, gradients, and the comparison of
 * each.
 *
 * What a rank finds wrong by itself (a value, a shape) is written down and the rank goes on, so that all ranks keep
 * making the same collective calls; only a failure of the library ends the configuration early. */
#include "rank.h"

#include "compare.h"
#include "parts.h"
#include "peak.h"
#include "waits.h"

#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seeds of the parts of inputs are their places; those of cotangents begin here. */
enum { COTANGENT_SEEDS = 1000 };

struct rank_run {
    stn_context *context;
    const stn_mesh *mesh;
    const struct conform_case *c;
    const struct configuration *configuration;
    struct outcome *outcome;
    const stn_op *op;
    int n_places;
    stn_tensor *leaf[STN_MAX_INPUTS];  /* by number in the case */
    stn_tensor *place[STN_MAX_INPUTS]; /* by place in the op */
    stn_tensor *output[STN_MAX_OUTPUTS];
    stn_pullback *pullback; /* where gradients are a pullback's; NULL before */
    stn_tensor *pulled[STN_MAX_INPUTS]; /* its gradients, by place in the op */
};

STN_PRINTF(2, 3)
static void wrong(struct rank_run *run, const char *format, ...)
{
    if (run->outcome->text[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(run->outcome->text, sizeof run->outcome->text, format, args);
    va_end(args);
}

static stn_stats stats_of(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    return stats;
}

/* Forward and backward are measured alike: between begin_measure and end_measure. */

static stn_stats begin_measure(struct rank_run *run)
{
    stn_context_stats_reset(run->context);
    return stats_of(run->context);
}

/* `chunks`: bytes of what the step reads and makes. */
static void end_measure(struct rank_run *run, const char *step, const stn_stats *before, int64_t chunks)
{
    const stn_stats after = stats_of(run->context);
    const int64_t held = after.peak_bytes - before->live_bytes;
    const int64_t bound = peak_bound(chunks) + run->configuration->scratch;
    run->outcome->bytes += after.bytes_sent;
    run->outcome->fallbacks += after.fallbacks;
    run->outcome->peak = fmax(run->outcome->peak, (double)held / (double)bound);
    const char *reason = run->configuration->on_device ? waits_wrong(run->c->op, &after) : NULL;
    if (reason)
        wrong(run, "%s: the host waits for the device because of %s", step, reason);
    if (held > bound)
        wrong(run, "%s: holds %lld bytes at once beside its inputs, at most %lld", step, (long long)held,
              (long long)bound);
}

/* Bytes of the tensors' chunks on the rank that has the largest; NULL and errors count nothing. */
static int64_t chunks_of(int n, stn_tensor *const *tensors)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (!stn_tensor_is_error(tensors[i]))
            bytes += peak_chunk(stn_tensor_spec(tensors[i]));
    return bytes;
}

/* A layout as bytes comes back as itself. Ranks compare the bytes, so that what each reads is what every other one
 * has written: in another process where ranks are processes. */
static void check_bytes(struct rank_run *run, const char *name, const stn_spec *spec)
{
    const size_t size = stn_spec_write(spec, NULL, 0);
    unsigned char *bytes = malloc(size + 1);
    const stn_spec *back = NULL;
    if (bytes == NULL || stn_spec_write(spec, bytes, size) != size ||
        stn_spec_read(run->mesh, bytes, size, &back) != STN_OK || back != spec)
        wrong(run, "%s: its layout does not come back from %zu bytes", name, size);
    for (size_t i = 0; bytes != NULL && i < size; i++)
        run->outcome->specs = rng_mix(run->outcome->specs, bytes[i]);
    stn_spec_release(&back);
    free(bytes);
}

/* Leaves */

static stn_status make_leaf(struct rank_run *run, int i)
{
    const struct value *value = &run->c->input[i];
    const stn_spec *spec;
    stn_status status = parts_spec(run->context, run->mesh, &run->configuration->layouts[i], value->dtype, value->ndim,
                                   value->shape, &spec);
    if (status != STN_OK)
        return status;
    check_bytes(run, "input", spec);
    run->leaf[i] = parts_tensor(run->context, value, spec, rng_mix(run->configuration->seed, (uint64_t)i));
    stn_spec_release(&spec);
    if (run->leaf[i] != NULL && run->c->grad[i].data != NULL && !run->configuration->pullbacks)
        stn_set_requires_grad(run->leaf[i], 1);
    return run->leaf[i] == NULL ? STN_ERR_MEMORY : stn_context_status(run->context);
}

static stn_status make_leaves(struct rank_run *run)
{
    for (int i = 0; i < run->c->n_inputs; i++) {
        int place = case_input_place(run->c, i, stn_op_descriptor(run->op));
        if (place < 0) {
            wrong(run, "the op has no input %s", run->c->input_name[i]);
            return STN_ERR_ARGUMENT;
        }
        stn_status status = make_leaf(run, i);
        if (status != STN_OK)
            return status;
        run->place[place] = run->leaf[i];
        if (place >= run->n_places)
            run->n_places = place + 1;
    }
    return STN_OK;
}

/* Comparing */

static void compare_with(struct rank_run *run, const char *name, const char *which, const struct comparison *c)
{
    char reason[160];
    if (!comparison_holds(c, reason, sizeof reason))
        wrong(run, "%s%s: %s", name, which, reason);
}

/* The chunk under the tensor's own spec: its shape, and where nothing is pending its values. */
static void check_chunk(struct rank_run *run, const char *name, stn_tensor *tensor, const struct value *expected,
                        double scale)
{
    const stn_spec *spec = stn_tensor_spec(tensor);
    const size_t bytes = (size_t)stn_spec_local_numel(spec) * stn_dtype_size(expected->dtype);
    const size_t shape_bytes = sizeof(int64_t) * (size_t)expected->ndim;
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    stn_spec_chunk(spec, stn_context_rank(run->context), shape, offset);
    if (memcmp(shape, stn_tensor_local_shape(tensor), shape_bytes) != 0 ||
        memcmp(shape, stn_spec_local_shape(spec), shape_bytes) != 0 ||
        memcmp(offset, stn_spec_local_offset(spec), shape_bytes) != 0)
        wrong(run, "%s: its chunk is not the one of its spec", name);

    void *got = malloc(bytes + 1), *want = malloc(bytes + 1);
    int pending = 0;
    for (int a = 0; a < stn_mesh_ndim(run->mesh); a++)
        pending |= stn_spec_placement(spec, a).kind == STN_PLACE_PARTIAL;
    if (got != NULL && want != NULL && stn_to_host(tensor, got, bytes) == STN_OK && !pending) {
        parts_fill(expected, spec, 0, want);
        struct comparison c = compare(expected->dtype, stn_spec_local_numel(spec), want, got);
        /* A chunk is checked by the scale of the whole. */
        c.diff_norm = 0;
        c.max_expected = scale;
        compare_with(run, name, " (chunk)", &c);
    }
    free(got);
    free(want);
}

/* Gathers the tensor and compares all of it; returns the largest expected magnitude. */
static double check_full(struct rank_run *run, const char *name, stn_tensor *tensor, const struct value *expected)
{
    stn_tensor *full = stn_full_tensor(tensor);
    if (stn_tensor_is_error(full))
        return 0;
    const size_t bytes = value_bytes(expected);
    void *got = malloc(bytes + 1);
    struct comparison c = {0};
    if (got == NULL || stn_to_host(full, got, bytes) != STN_OK) {
        wrong(run, "%s: the gathered tensor cannot be read: %s", name, stn_context_error_text(run->context));
    } else {
        c = compare(expected->dtype, expected->numel, expected->data, got);
        compare_with(run, name, "", &c);
        run->outcome->compared++;
        run->outcome->error = fmax(run->outcome->error, comparison_error(&c));
    }
    free(got);
    return c.max_expected;
}

static void check_tensor(struct rank_run *run, const char *kind, const char *name, stn_tensor *tensor,
                         const struct value *expected)
{
    char what[CASE_MAX_TEXT + 16], text[512];
    snprintf(what, sizeof what, "%s.%s", kind, name);
    stn_spec_describe(stn_tensor_spec(tensor), text, sizeof text);
    run->outcome->specs = rng_mix_text(run->outcome->specs, text);
    check_bytes(run, what, stn_tensor_spec(tensor));
    int fits = stn_tensor_dtype(tensor) == expected->dtype && stn_tensor_ndim(tensor) == expected->ndim &&
               memcmp(stn_tensor_shape(tensor), expected->shape, sizeof(int64_t) * (size_t)expected->ndim) == 0;
    /* Metadata is the same on all ranks, so all leave here or none; ranks that disagree are found by their specs. */
    if (!fits) {
        wrong(run, "%s: came as %s", what, text);
        return;
    }
    stn_no_grad_begin(run->context);
    double scale = check_full(run, what, tensor, expected);
    check_chunk(run, what, tensor, expected, scale);
    stn_no_grad_end(run->context);
}

/* The three steps */

/* The inputs that have gradients, by place in the op. */
static uint32_t needs_of(const struct rank_run *run)
{
    uint32_t needs = 0;
    for (int i = 0; i < run->c->n_inputs; i++)
        if (run->c->grad[i].data != NULL)
            needs |= UINT32_C(1) << case_input_place(run->c, i, stn_op_descriptor(run->op));
    return needs;
}

static stn_status call_op(struct rank_run *run, int n_attrs, const stn_attr *attrs, int n_outputs)
{
    if (!run->configuration->pullbacks)
        return stn_op_invoke(run->op, run->n_places, run->place, n_attrs, attrs, n_outputs, run->output);
    return stn_op_invoke_pullback(run->op, run->n_places, run->place, n_attrs, attrs, needs_of(run), n_outputs,
                                  run->output, &run->pullback);
}

static stn_status forward(struct rank_run *run)
{
    stn_attr attrs[ATTRS_MAX];
    attrs_fit(&run->c->attrs, stn_op_descriptor(run->op), attrs);
    const int n_outputs = stn_op_descriptor(run->op)->n_outputs;
    const stn_stats before = begin_measure(run);
    stn_status status = call_op(run, run->c->attrs.n, attrs, n_outputs);
    if (status != STN_OK) {
        const stn_stats after = stats_of(run->context);
        run->outcome->refused = 1;
        run->outcome->communicated = after.collectives > 0 || after.messages > 0;
        return status;
    }
    end_measure(run, "forward", &before, chunks_of(run->n_places, run->place) + chunks_of(n_outputs, run->output));
    int given = 0;
    while (given < n_outputs && run->output[given] != NULL)
        given++;
    if (given != run->c->n_outputs) {
        wrong(run, "%d outputs came, %d expected", given, run->c->n_outputs);
        return STN_ERR_INTERNAL;
    }
    for (int k = 0; k < given; k++) {
        char number[16];
        snprintf(number, sizeof number, "%d", k);
        check_tensor(run, "out", number, run->output[k], &run->c->output[k]);
    }
    return stn_context_status(run->context);
}

static stn_status make_cotangent(struct rank_run *run, int k, stn_tensor **out)
{
    const struct value *value = &run->c->cotangent[k];
    const struct layout replicated = {.axis_order = {0, 1, 2, 3, 4, 5, 6, 7}, .memory_order = {0, 1, 2, 3, 4, 5, 6, 7}};
    const stn_spec *spec;
    stn_status status =
        run->configuration->uneven
            ? parts_dual_spec(run->context, stn_tensor_spec(run->output[k]), &spec)
            : parts_spec(run->context, run->mesh, &replicated, value->dtype, value->ndim, value->shape, &spec);
    if (status != STN_OK)
        return status;
    *out = parts_tensor(run->context, value, spec, rng_mix(run->configuration->seed, (uint64_t)(COTANGENT_SEEDS + k)));
    stn_spec_release(&spec);
    return *out == NULL ? STN_ERR_MEMORY : stn_context_status(run->context);
}

static stn_status pull_back(struct rank_run *run, int n, stn_tensor *const *losses, stn_tensor *const *cotangents)
{
    stn_tensor *of_output[STN_MAX_OUTPUTS] = {0};
    for (int l = 0; l < n; l++)
        for (int k = 0; k < run->c->n_outputs; k++)
            if (run->output[k] == losses[l])
                of_output[k] = cotangents[l];
    return stn_pullback_apply(run->pullback, run->c->n_outputs, of_output, needs_of(run), run->pulled, NULL);
}

static stn_status backward(struct rank_run *run)
{
    stn_tensor *losses[STN_MAX_OUTPUTS], *cotangents[STN_MAX_OUTPUTS];
    int n = 0, wanted = 0;
    for (int i = 0; i < run->c->n_inputs; i++)
        wanted += run->c->grad[i].data != NULL;
    for (int k = 0; k < run->c->n_outputs && wanted > 0; k++) {
        if (run->c->cotangent[k].data == NULL)
            continue;
        stn_status status = make_cotangent(run, k, &cotangents[n]);
        if (status != STN_OK)
            return status;
        losses[n++] = run->output[k];
    }
    if (n == 0)
        return STN_OK;
    /* The gradients are as large as what they are of. */
    const int64_t chunks = 2 * chunks_of(run->n_places, run->place) + chunks_of(n, losses) + chunks_of(n, cotangents);
    const stn_stats before = begin_measure(run);
    stn_status status = run->pullback ? pull_back(run, n, losses, cotangents)
                                      : stn_backward_many(run->context, n, losses, cotangents, 0);
    end_measure(run, "backward", &before, chunks);
    return status;
}

/* A gradient has its leaf's spec, but for what is Partial there. */
static void check_gradient_spec(struct rank_run *run, int i, stn_tensor *grad)
{
    const struct value *value = &run->c->input[i];
    const struct layout layout = parts_gradient_layout(&run->configuration->layouts[i]);
    const stn_spec *wanted;
    if (parts_spec(run->context, run->mesh, &layout, value->dtype, value->ndim, value->shape, &wanted) != STN_OK)
        return;
    if (stn_tensor_spec(grad) != wanted) {
        char got[160], want[160];
        stn_spec_describe(stn_tensor_spec(grad), got, sizeof got);
        stn_spec_describe(wanted, want, sizeof want);
        wrong(run, "grad.%s: came as %s, wanted %s", run->c->input_name[i], got, want);
    }
    stn_spec_release(&wanted);
}

static stn_status gradients(struct rank_run *run)
{
    for (int i = 0; i < run->c->n_inputs; i++) {
        if (run->c->grad[i].data == NULL)
            continue;
        stn_tensor *grad = run->pulled[case_input_place(run->c, i, stn_op_descriptor(run->op))];
        stn_status status = run->pullback ? STN_OK : stn_grad_of(run->leaf[i], &grad);
        if (status != STN_OK)
            return status;
        if (grad == NULL) {
            wrong(run, "grad.%s: none came", run->c->input_name[i]);
            continue;
        }
        check_tensor(run, "grad", run->c->input_name[i], grad, &run->c->grad[i]);
        if (!run->pullback)
            check_gradient_spec(run, i, grad);
    }
    return stn_context_status(run->context);
}

static const struct step {
    const char *name;
    stn_status (*run)(struct rank_run *run);
} steps[] = {{"inputs", make_leaves}, {"forward", forward}, {"backward", backward}, {"gradients", gradients}};

void rank_run(stn_context *context, const stn_mesh *mesh, const struct conform_case *c,
              const struct configuration *configuration, struct outcome *outcome)
{
    struct rank_run run = {
        .context = context, .mesh = mesh, .c = c, .configuration = configuration, .outcome = outcome};
    outcome->begun = 1;
    run.op = stn_op_find(context, c->op);
    if (run.op == NULL) {
        outcome->status = STN_ERR_NOT_FOUND;
        outcome->refused = 1;
        wrong(&run, "no op has this name");
        return;
    }
    const int64_t alive = stats_of(context).live_tensors;
    stn_scope_begin(context);
    for (size_t s = 0; s < sizeof steps / sizeof steps[0] && outcome->status == STN_OK; s++) {
        outcome->status = steps[s].run(&run);
        if (outcome->status != STN_OK)
            wrong(&run, "%s: %s: %s", steps[s].name, stn_status_text(outcome->status), stn_context_error_text(context));
    }
    stn_pullback_release(&run.pullback);
    stn_scope_end(context);
    stn_context_take_error(context, NULL, 0);
    if (outcome->status == STN_OK && stats_of(context).live_tensors != alive)
        wrong(&run, "%lld tensors are left alive", (long long)(stats_of(context).live_tensors - alive));
}
