/* Forward and backward are launched as a whole, and only then read: whoever waits too little is not helped by a
 * reader who waits. */
#include "execute.h"

#include "conform/number.h"
#include "conform/parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double DEADLINE_SECONDS = 30;

STN_PRINTF(2, 3)
static int wrong(struct execution *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (e->finding->text[0] == '\0')
        vsnprintf(e->finding->text, sizeof e->finding->text, format, args);
    va_end(args);
    return 0;
}

static int failed(struct execution *e, const char *what, const char *name)
{
    char text[512] = "";
    const stn_status status = stn_context_take_error(e->context, text, sizeof text);
    return wrong(e, "%s of %s: %s: %s", what, name, stn_status_text(status), text);
}

/* Given tensors */

/* Of the ranks that hold parts of a pending sum, one has the number, the others 0. */
static int is_mine(const stn_spec *spec, uint64_t seed, int64_t at)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    int mine = 1;
    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)
        if (stn_spec_placement(spec, a).kind == STN_PLACE_PARTIAL)
            mine = mine && stn_mesh_coordinate(mesh, a) == (int)(rng_mix(seed + (uint64_t)a + 1, (uint64_t)at) %
                                                                 (uint64_t)stn_mesh_axis_size(mesh, a));
    return mine;
}

static void put(stn_dtype dtype, void *data, int64_t i, double x)
{
    if (number_parts(dtype) > 0)
        number_put(dtype, data, i, x);
    else if (dtype == STN_DTYPE_I64)
        ((int64_t *)data)[i] = (int64_t)x;
    else
        ((uint8_t *)data)[i] = (uint8_t)x;
}

static void fill_chunk(const struct term *term, const stn_spec *spec, void *data)
{
    const int64_t *shape = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec);
    int64_t index[STN_MAX_NDIM] = {0};
    const int parts = number_parts(term->dtype) > 1 ? 2 : 1;
    for (int64_t i = 0; i < stn_spec_local_numel(spec); i++) {
        int64_t at = 0;
        for (int d = 0; d < term->ndim; d++)
            at = at * term->shape[d] + offset[d] + index[d];
        for (int part = 0; part < parts; part++)
            put(term->dtype, data, i * parts + part,
                is_mine(spec, term->seed, at) ? program_number(term, at * parts + part) : 0);
        for (int d = term->ndim - 1; d >= 0 && ++index[d] == shape[d]; d--)
            index[d] = 0;
    }
}

static stn_status spec_of(struct execution *e, const struct term *term, const struct layout *layout,
                          const stn_spec **out)
{
    if (e->mesh == NULL)
        return stn_spec_create(e->context, NULL, NULL, term->dtype, term->ndim, term->shape, NULL, out);
    return parts_spec(e->context, e->mesh, layout, term->dtype, term->ndim, term->shape, out);
}

static stn_tensor *give(struct execution *e, const struct term *term)
{
    const stn_spec *spec;
    if (spec_of(e, term, &term->layout, &spec) != STN_OK)
        return NULL;
    void *data = malloc((size_t)stn_spec_local_numel(spec) * stn_dtype_size(term->dtype) + 1);
    stn_tensor *tensor = NULL;
    if (data != NULL) {
        fill_chunk(term, spec, data);
        tensor = stn_from_host(e->context, spec, data);
    }
    free(data);
    stn_spec_release(&spec);
    return tensor;
}

stn_tensor *execute_given(struct execution *e, int number)
{
    const struct term *term = &e->program->terms[number];
    stn_tensor *tensor = give(e, term);
    if (tensor != NULL && term->step == GIVEN && term->requires_grad)
        stn_set_requires_grad(tensor, 1);
    return tensor;
}

/* Steps */

static stn_tensor *move(struct execution *e, const struct step *step)
{
    stn_tensor *input = e->tensor[step->inputs[0]];
    const stn_spec *spec;
    if (e->mesh == NULL)
        return input;
    const struct term *term = &e->program->terms[step->inputs[0]];
    if (spec_of(e, term, &step->layout, &spec) != STN_OK)
        return NULL;
    stn_tensor *moved = stn_redistribute(input, spec);
    stn_spec_release(&spec);
    return moved;
}

static int is_pending(const stn_tensor *tensor)
{
    const stn_spec *spec = stn_tensor_spec(tensor);
    const stn_mesh *mesh = stn_spec_mesh(spec);
    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)
        if (stn_spec_placement(spec, a).kind == STN_PLACE_PARTIAL)
            return 1;
    return 0;
}

stn_status execute_op(const struct execution *e, const struct step *step, stn_tensor **outputs)
{
    stn_tensor *inputs[MAX_STEP_INPUTS];
    char name[64];
    for (int i = 0; i < step->n_inputs; i++)
        inputs[i] = step->inputs[i] < 0 ? NULL : e->tensor[step->inputs[i]];
    snprintf(name, sizeof name, "%s%s", step->op, step->in_place && !is_pending(inputs[0]) ? "_" : "");
    const stn_op *op = stn_op_find(e->context, name);
    if (op == NULL)
        return STN_ERR_NOT_FOUND;
    return stn_op_invoke(op, step->n_inputs, inputs, step->n_attrs, step->attrs, stn_op_descriptor(op)->n_outputs,
                         outputs);
}

int execute_step(struct execution *e, int number)
{
    const struct step *step = &e->program->steps[number];
    stn_tensor *outputs[STN_MAX_OUTPUTS] = {NULL};
    if (step->op == NULL) {
        e->tensor[step->outputs[0]] = move(e, step);
        return stn_context_status(e->context) == STN_OK ? 1 : failed(e, "forward", "a redistribution");
    }
    if (execute_op(e, step, outputs) != STN_OK)
        return failed(e, "forward", step->op);
    for (int k = 0; k < step->n_outputs; k++)
        e->tensor[step->outputs[k]] = outputs[k];
    return 1;
}

static int forward(struct execution *e)
{
    for (int t = 0; t < e->program->n_terms; t++)
        if (e->program->terms[t].step == GIVEN && (e->tensor[t] = execute_given(e, t)) == NULL)
            return failed(e, "making", "a leaf");
    for (int s = 0; s < e->program->n_steps; s++)
        if (!execute_step(e, s))
            return 0;
    return 1;
}

/* Gradients of the leaves' gradients, into the leaves. */
static stn_status differentiate_twice(struct execution *e, int n, stn_tensor **losses, stn_tensor **cotangents)
{
    stn_tensor *leaves[MAX_TERMS], *grads[MAX_TERMS], *second[MAX_TERMS], *theirs[MAX_TERMS];
    int of[MAX_TERMS], n_leaves = 0, n_second = 0;
    for (int t = 0; t < e->program->n_terms; t++)
        if (e->program->terms[t].step == GIVEN && e->program->terms[t].requires_grad) {
            of[n_leaves] = t;
            leaves[n_leaves++] = e->tensor[t];
        }
    const stn_status status = stn_grad(e->context, n, losses, cotangents, n_leaves, leaves, 1, 1, grads);
    for (int i = 0; i < n_leaves && status == STN_OK; i++) {
        const struct term term = program_second_cotangent(&e->program->terms[of[i]]);
        if (!stn_requires_grad(grads[i]))
            continue;
        second[n_second] = grads[i];
        theirs[n_second++] = give(e, &term);
    }
    return n_second > 0 ? stn_backward_many(e->context, n_second, second, theirs, 1) : status;
}

/* Who refuses it says so on one rank as on many, and leaves a graph that goes backward once. */
static int twice(struct execution *e, int n, stn_tensor **losses, stn_tensor **cotangents, struct answers *answers)
{
    char text[sizeof answers->refusal] = "";
    if (differentiate_twice(e, n, losses, cotangents) != STN_OK) {
        stn_context_take_error(e->context, text, sizeof text);
        for (int t = 0; t < e->program->n_terms; t++)
            if (e->program->terms[t].step == GIVEN && e->program->terms[t].requires_grad)
                stn_zero_grad(e->tensor[t]);
    }
    if (e->mesh == NULL)
        snprintf(answers->refusal, sizeof answers->refusal, "%s", text);
    if (strcmp(text, answers->refusal) != 0)
        return wrong(e, "a second derivative: expected '%s', got '%s'", answers->refusal, text);
    return 1;
}

/* Differentiated is what nothing reads. */
static int backward(struct execution *e, struct answers *answers)
{
    stn_tensor *losses[MAX_TERMS], *cotangents[MAX_TERMS];
    int n = 0;
    for (int t = 0; t < e->program->n_terms; t++)
        if (e->program->terms[t].step >= 0 && program_uses(e->program, t) == 0 && stn_requires_grad(e->tensor[t])) {
            losses[n] = e->tensor[t];
            cotangents[n++] = execute_given(e, t);
        }
    if (n > 0 && program_goes_twice(e->program) && !twice(e, n, losses, cotangents, answers))
        return 0;
    if (n > 0 && stn_backward_many(e->context, n, losses, cotangents, 0) != STN_OK)
        return failed(e, "backward", "the program");
    return 1;
}

/* Reading */

static void *read_whole(struct execution *e, stn_tensor *tensor, size_t *bytes)
{
    stn_no_grad_begin(e->context);
    stn_tensor *full = stn_spec_mesh(stn_tensor_spec(tensor)) ? stn_full_tensor(tensor) : tensor;
    stn_no_grad_end(e->context);
    void *data = NULL;
    if (!stn_tensor_is_error(full)) {
        *bytes = (size_t)stn_spec_local_numel(stn_tensor_spec(full)) * stn_dtype_size(stn_tensor_dtype(full));
        data = malloc(*bytes + 1);
        if (data != NULL && stn_to_host(full, data, *bytes) != STN_OK) {
            free(data);
            data = NULL;
        }
    }
    return data;
}

static const char *name_of(const struct execution *e, int t, char text[64])
{
    const struct term *term = &e->program->terms[t];
    if (term->step < 0)
        snprintf(text, 64, "t[%d], a leaf", t);
    else
        snprintf(text, 64, "t[%d], output %d of %s", t, term->output,
                 e->program->steps[term->step].op ? e->program->steps[term->step].op : "a redistribution");
    return text;
}

/* Cotangents have the shapes that came. */
static void note_shapes(const struct execution *e, struct program *p)
{
    for (int t = 0; t < p->n_terms; t++) {
        if (p->terms[t].step == LOST)
            continue;
        p->terms[t].dtype = stn_tensor_dtype(e->tensor[t]);
        p->terms[t].ndim = stn_tensor_ndim(e->tensor[t]);
        memcpy(p->terms[t].shape, stn_tensor_shape(e->tensor[t]), sizeof(int64_t) * (size_t)p->terms[t].ndim);
    }
}

static int keep(struct execution *e, const struct program *p, struct answers *answers)
{
    char name[64];
    for (int t = 0; t < p->n_terms; t++) {
        size_t bytes;
        stn_tensor *grad = NULL;
        if (p->terms[t].step == LOST || p->terms[t].is_changed)
            continue;
        if ((answers->value[t] = read_whole(e, e->tensor[t], &bytes)) == NULL)
            return failed(e, "reading", name_of(e, t, name));
        if (p->terms[t].step != GIVEN || !p->terms[t].requires_grad)
            continue;
        if (stn_grad_of(e->tensor[t], &grad) != STN_OK)
            return failed(e, "the gradient", name_of(e, t, name));
        if (grad == NULL)
            continue;
        if ((answers->grad[t] = read_whole(e, grad, &bytes)) == NULL)
            return failed(e, "the gradient", name_of(e, t, name));
        for (int64_t i = 0; i < term_numel(&p->terms[t]) * number_parts(p->terms[t].dtype); i++)
            answers->largest = fmax(answers->largest, fabs(number_at(p->terms[t].dtype, answers->grad[t], i)));
    }
    return 1;
}

stn_status execute_open(struct execution *e)
{
    const stn_context_options options = {.size = sizeof options, .isa = e->program->platform.isa};
    return stn_context_create(&options, &e->context);
}

int execute_alone(struct program *p, struct answers *answers, struct finding *finding)
{
    struct execution e = {.program = p, .finding = finding};
    memset(answers, 0, sizeof *answers);
    *finding = (struct finding){{0}, 0, 0};
    if (execute_open(&e) != STN_OK)
        return 0;
    stn_scope_begin(e.context);
    int good = forward(&e);
    if (good) {
        note_shapes(&e, p);
        good = backward(&e, answers) && keep(&e, p, answers);
        finding->alone = !good;
    }
    stn_scope_end(e.context);
    stn_context_destroy(&e.context);
    return good;
}

void answers_free(struct answers *answers)
{
    for (int t = 0; t < MAX_TERMS; t++) {
        free(answers->value[t]);
        free(answers->grad[t]);
    }
    memset(answers, 0, sizeof *answers);
}

/* Comparing */

/* Rounding errors are checked by the scale of the whole, at least 1: what ought to cancel leaves some. */
static int same(struct execution *e, const char *what, int t, const void *want, const void *got, double largest,
                double slack)
{
    const struct term *term = &e->program->terms[t];
    const int64_t numel = term_numel(term);
    char name[64];
    e->finding->compared++;
    if (number_parts(term->dtype) == 0) {
        if (memcmp(want, got, (size_t)numel * stn_dtype_size(term->dtype)) != 0)
            return wrong(e, "%s of %s: differs", what, name_of(e, t, name));
        return 1;
    }
    for (int64_t i = 0; i < numel * number_parts(term->dtype); i++)
        largest = fmax(largest, fabs(number_at(term->dtype, want, i)));
    const int wide = term->dtype == STN_DTYPE_F64 || term->dtype == STN_DTYPE_C128;
    const double bound = slack * (wide ? 1e-10 : 1e-4) * (1 + largest);
    for (int64_t i = 0; i < numel * number_parts(term->dtype); i++) {
        const double x = number_at(term->dtype, want, i), y = number_at(term->dtype, got, i);
        if (!(fabs(x - y) <= bound) && !(isnan(x) && isnan(y)))
            return wrong(e, "%s of %s: number %lld: expected %.9g, got %.9g", what, name_of(e, t, name), (long long)i,
                         x, y);
    }
    return 1;
}

static int compare_tensor(struct execution *e, const char *what, int t, stn_tensor *tensor, const void *want,
                          double largest, double slack)
{
    const struct term *term = &e->program->terms[t];
    char name[64];
    size_t bytes;
    if (stn_tensor_dtype(tensor) != term->dtype || stn_tensor_ndim(tensor) != term->ndim ||
        memcmp(stn_tensor_shape(tensor), term->shape, sizeof(int64_t) * (size_t)term->ndim) != 0)
        return wrong(e, "%s of %s: has another shape or dtype", what, name_of(e, t, name));
    void *got = read_whole(e, tensor, &bytes);
    if (got == NULL)
        return failed(e, what, name_of(e, t, name));
    const int good = same(e, what, t, want, got, largest, slack);
    free(got);
    return good;
}

static void compare_gradient(struct execution *e, int t, const struct answers *answers)
{
    const struct term *term = &e->program->terms[t];
    stn_tensor *grad = NULL;
    const stn_spec *spec;
    char name[64];
    if (stn_grad_of(e->tensor[t], &grad) != STN_OK) {
        failed(e, "the gradient", name_of(e, t, name));
        return;
    }
    if ((grad == NULL) != (answers->grad[t] == NULL)) {
        wrong(e, "gradient of %s: %s", name_of(e, t, name), grad ? "came, none expected" : "none came");
        return;
    }
    if (grad == NULL)
        return;
    compare_tensor(e, "gradient", t, grad, answers->grad[t], answers->largest, 10);
    const struct layout layout = parts_gradient_layout(&term->layout);
    if (spec_of(e, term, &layout, &spec) != STN_OK)
        return;
    if (spec != stn_tensor_spec(grad))
        wrong(e, "gradient of %s: has another layout than its leaf", name_of(e, t, name));
    stn_spec_release(&spec);
}

struct comparing {
    struct program *program;
    struct answers *answers;   /* read */
    struct finding *findings; /* one per rank */
};

static int64_t alive(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    return stats.live_tensors;
}

static stn_status rank_main(stn_context *context, void *arg)
{
    const struct comparing *c = arg;
    struct program *p = c->program;
    struct execution e = {.context = context, .program = p, .finding = &c->findings[stn_context_rank(context)]};
    stn_status status = stn_mesh_create(context, p->grid.ndim, p->grid.sizes, NULL, NULL, &e.mesh);
    if (status != STN_OK)
        return status;
    const int64_t before = alive(context);
    if (program_goes_round(p))
        stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS);
    stn_scope_begin(context);
    const int went = forward(&e);
    for (int t = 0; t < p->n_terms && stn_context_rank(context) == 0; t++)
        if (p->terms[t].step >= 0 && e.tensor[t] && !stn_tensor_is_error(e.tensor[t]))
            parts_layout(stn_tensor_spec(e.tensor[t]), &p->terms[t].came);
    if (went && backward(&e, c->answers))
        for (int t = 0; t < p->n_terms; t++) {
            if (p->terms[t].step == LOST || p->terms[t].is_changed)
                continue;
            compare_tensor(&e, "value", t, e.tensor[t], c->answers->value[t], 0, 1);
            if (p->terms[t].step == GIVEN && p->terms[t].requires_grad)
                compare_gradient(&e, t, c->answers);
        }
    stn_scope_end(context);
    if (e.finding->text[0] == '\0' && alive(context) != before)
        wrong(&e, "%lld tensors are left alive", (long long)(alive(context) - before));
    return STN_OK;
}

int execute_compare(struct program *p, struct answers *answers, struct finding *finding)
{
    struct finding findings[GRID_MAX_RANKS] = {{{0}, 0, 0}};
    struct comparing comparing = {p, answers, findings};
    char why[256] = "";
    stn_launch_options options = {
        .size = sizeof options,
        .ranks = p->grid.ranks,
        .context = {.size = sizeof options.context,
                    .queue = {.size = sizeof options.context.queue,
                              .kind = p->queue,
                              .delay_seed = p->queue == STN_QUEUE_WORKER ? p->seed | 1 : 0},
                    .deadline_seconds = DEADLINE_SECONDS,
                    .error_text = why,
                    .error_text_size = sizeof why},
    };
    platform_set(&p->platform, &options.context);
    const stn_status status = stn_launch(&options, rank_main, &comparing);
    *finding = findings[0];
    for (int r = 1; r < p->grid.ranks && finding->text[0] == '\0'; r++)
        *finding = findings[r];
    if (finding->text[0] == '\0' && (status != STN_OK || finding->compared == 0))
        snprintf(finding->text, sizeof finding->text, "the ranks could not be run: %s: %s", stn_status_text(status),
                 why);
    return finding->text[0] == '\0';
}
