#include "assimilate.h"

#include <stdlib.h>

struct segment {
    const struct model *model;
    int steps;
};

/* The part of the run that is computed again. */
static stn_status run_segment(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                              stn_tensor **outputs)
{
    const struct segment *segment = user;
    (void)context, (void)n_inputs, (void)n_outputs;
    outputs[0] = inputs[0];
    for (int s = 0; s < segment->steps; s++)
        outputs[0] = model_step(segment->model, outputs[0]);
    return STN_OK;
}

/* Only its first and its last state are kept. A failure is kept by the context, and all that follows returns it. */
static stn_tensor *later(const struct model *m, stn_tensor *state, int steps)
{
    struct segment *segment = malloc(sizeof *segment);
    stn_tensor *end = state;
    if (!segment)
        return NULL; /* an op refuses it */
    *segment = (struct segment){m, steps};
    stn_recompute(m->context, run_segment, segment, free, 1, &state, 1, &end);
    return end;
}

static stn_tensor *at_rest(const struct model *m, stn_tensor *height)
{
    stn_tensor *still = stn_mul_number(stn_detach(height), 0);
    return stn_redistribute(stn_cat(FIELDS, (stn_tensor *[]){height, still, still}, 0), m->spec);
}

stn_tensor *assimilation_misfit(const struct model *m, const struct assimilation *a, stn_tensor *height,
                                stn_tensor *observed)
{
    stn_tensor *state = at_rest(m, height);
    for (int done = 0; done < a->steps; done += a->segment)
        state = later(m, state, a->steps - done < a->segment ? a->steps - done : a->segment);
    stn_tensor *apart = stn_sub(model_height(state), observed);
    return stn_mul_number(stn_sum(stn_mul(apart, apart), 0, NULL, 0), 0.5);
}

static double dot(stn_tensor *a, stn_tensor *b)
{
    double value = 0;
    stn_item(stn_sum(stn_mul(a, b), 0, NULL, 0), &value);
    return value;
}

/* What the search remembers from one iteration to the next; the handles are its own. */
struct search {
    stn_tensor *height, *gradient;
    double length;
};

static void search_fini(struct search *s)
{
    stn_tensor_release(&s->height);
    stn_tensor_release(&s->gradient);
}

/* The misfit of s->height, its gradient, and the next length: <s, s> / <s, y> for the last step s and the change y of
 * the gradient along it. */
static stn_status look(const struct model *m, const struct assimilation *a, stn_tensor *observed,
                       const struct search *last, struct search *s, double *misfit)
{
    stn_tensor *gradient = NULL;
    stn_scope_begin(m->context);
    stn_set_requires_grad(s->height, 1);
    stn_tensor *loss = assimilation_misfit(m, a, s->height, observed);
    stn_item(loss, misfit);
    stn_backward(loss);
    stn_grad_of(s->height, &gradient);
    s->length = 1; /* the model takes h to h, and to no more of it */
    if (last->gradient && gradient) {
        stn_tensor *step = stn_sub(stn_detach(s->height), stn_detach(last->height)),
                   *change = stn_sub(gradient, last->gradient);
        const double along = dot(step, change);
        if (along > 0)
            s->length = dot(step, step) / along;
    }
    return stn_scope_end_keep(m->context, gradient, &s->gradient);
}

static stn_status advance(const struct model *m, const struct search *s, struct search *next)
{
    stn_scope_begin(m->context);
    return stn_scope_end_keep(m->context, stn_add_scaled(stn_detach(s->height), s->gradient, -s->length),
                              &next->height);
}

/* Keeps the best height of all: lengths of this kind lead up now and then. */
static void remember(const struct search *here, double misfit, struct search *best, double *least)
{
    if (best->height && misfit >= *least)
        return;
    stn_tensor_release(&best->height);
    best->height = stn_tensor_retain(here->height);
    *least = misfit;
}

stn_status assimilate(const struct model *m, const struct assimilation *a, stn_tensor *observed, stn_tensor **height,
                      double *least, void (*show)(void *arg, int iteration, double misfit), void *arg)
{
    struct search last = {0}, here = {.height = *height}, best = {0};
    stn_status status = STN_OK;
    for (int i = 0; i <= a->iterations && status == STN_OK; i++) {
        struct search next = {0};
        double misfit;
        status = look(m, a, observed, &last, &here, &misfit);
        if (status != STN_OK)
            break;
        remember(&here, misfit, &best, least);
        if (show)
            show(arg, i, misfit);
        status = advance(m, &here, &next);
        search_fini(&last);
        last = here;
        here = next;
    }
    *height = stn_detach(best.height);
    search_fini(&here);
    search_fini(&last);
    search_fini(&best);
    return status;
}
