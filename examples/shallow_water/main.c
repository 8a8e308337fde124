/* Rotating shallow water on a plane or a band of the sphere, spread over ranks; and backwards: which water led to what
 * was seen?
 *
 * The equations are an op of the example's own (tendency.c), whose halos the library fetches and whose adjoint it sends
 * home; the rest is made of public ops. */
#include "assimilate.h"
#include "check.h"
#include "job.h"
#include "options.h"
#include "output.h"

#include "common/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BAD_INPUT = 2 };

static int is_first(const struct model *m)
{
    return stn_context_rank(m->context) == 0;
}

static stn_status write_output(const struct model *m, stn_tensor *state, const struct options *o, double hours)
{
    const int number = (int)lround(hours);
    const double middle = o->scenario == DROP ? MODEL_DEPTH : 2600, reach = o->scenario == DROP ? 20 : 450;
    stn_scope_begin(m->context);
    stn_status status = output_picture(m, model_height(state), middle, reach, o->out, number);
    stn_status ended = stn_scope_end(m->context);
    if (status == STN_OK)
        status = ended == STN_OK ? output_tile(m, state, hours, o->out, number) : ended;
    return stn_agree(m->context, status, "no tile");
}

/* From `begin` hours on; pictures and tiles at each multiple of `every`, as near as the steps come to it. */
static stn_status march(const struct model *m, stn_tensor **state, const struct options *o, double begin)
{
    const double left = (o->hours - begin) * 3600 / m->dt;
    const int steps = left > 0 ? (int)ceil(left - 1e-6) : 0, between = (int)fmax(1, round(o->every * 3600 / m->dt));
    const double start = progress_now();
    stn_status status = write_output(m, *state, o, begin);
    for (int done = 0; done < steps && status == STN_OK;) {
        const int now = steps - done < between ? steps - done : between;
        char text[64];
        status = model_advance(m, state, now);
        done += now;
        snprintf(text, sizeof text, "hour %.1f", begin + done * m->dt / 3600);
        if (is_first(m))
            progress_show(done, steps, 1, progress_now() - start, text);
        if (status == STN_OK)
            status = write_output(m, *state, o, begin + done * m->dt / 3600);
    }
    if (is_first(m) && steps > 0)
        printf("%d steps of %.0f s, %.3f ms each with their output\n", steps, m->dt,
               1e3 * (progress_now() - start) / steps);
    return status == STN_OK ? output_state(m, *state, begin + steps * m->dt / 3600, o->out) : status;
}

static stn_status run_forward(const struct model *m, void *arg)
{
    const struct options *o = arg;
    double begin = 0;
    stn_tensor *first = model_start(m, o->scenario, 1), *state = stn_clone(first);
    stn_status status = o->restart ? output_restart(m, o->restart, state, &begin) : stn_context_status(m->context);
    if (status == STN_OK)
        status = march(m, &state, o, begin);
    if (status == STN_OK) {
        const double before = model_volume(m, first), after = model_volume(m, state),
                     moved = model_difference(m, state, first);
        if (is_first(m))
            printf("water: %.1e of it is lost\n", fabs(after / before - 1));
        if (is_first(m) && o->scenario == ZONAL)
            printf("h has moved by %.2e of itself; the exact flow is steady\n", moved);
    }
    stn_tensor_release(&state);
    stn_tensor_release(&first);
    return status;
}

struct search_log {
    int shown; /* on this rank */
    double first;
};

static void show_misfit(void *arg, int iteration, double misfit)
{
    struct search_log *log = arg;
    if (iteration == 0)
        log->first = misfit;
    if (log->shown)
        printf("%4d  %.6e\n", iteration, misfit);
}

/* The height that was there, what was seen in the end, and a guess: water at rest without a dome. */
static stn_status observe(const struct model *m, int steps, stn_tensor **height, stn_tensor **observed,
                          stn_tensor **guess)
{
    stn_tensor *state = model_start(m, DROP, 1), *flat = model_start(m, DROP, 0);
    stn_scope_begin(m->context);
    stn_tensor *both[2] = {stn_clone(model_height(state)), stn_clone(model_height(flat))};
    stn_status status = stn_scope_end_keep_all(m->context, 2, both, both);
    *height = both[0], *guess = both[1];
    if (status == STN_OK)
        status = model_advance(m, &state, steps);
    stn_scope_begin(m->context);
    stn_status kept = stn_scope_end_keep(m->context, stn_clone(model_height(state)), observed);
    stn_tensor_release(&state);
    stn_tensor_release(&flat);
    return status == STN_OK ? kept : status;
}

static stn_status run_backward(const struct model *m, void *arg)
{
    const struct options *o = arg;
    const int steps = (int)ceil(o->hours * 3600 / m->dt);
    const struct assimilation a = {.steps = steps, .segment = (int)ceil(sqrt(steps)), .iterations = o->assimilate};
    stn_tensor *height = NULL, *observed = NULL, *guess = NULL;
    struct search_log log = {is_first(m), NAN};
    double least = NAN;
    stn_status status = observe(m, steps, &height, &observed, &guess);
    if (status == STN_OK && is_first(m))
        printf("%d steps, states kept every %d\niteration, misfit\n", steps, a.segment);
    if (status == STN_OK)
        status = assimilate(m, &a, observed, &guess, &least, show_misfit, &log);
    if (status == STN_OK)
        status = output_picture(m, height, MODEL_DEPTH, 50, o->out, 0);
    if (status == STN_OK)
        status = output_picture(m, guess, MODEL_DEPTH, 50, o->out, 1);
    if (status == STN_OK && is_first(m))
        printf("misfit: %.1e of the first; %s/h_00000.png is the dome, h_00001.png what was found\n", least / log.first,
               o->out);
    stn_tensor_release(&height);
    stn_tensor_release(&observed);
    stn_tensor_release(&guess);
    return status;
}

int main(int argc, char **argv)
{
    struct options o;
    const int parsed = options_parse(argc, argv, &o);
    if (parsed <= 0)
        return parsed < 0 ? EXIT_SUCCESS : BAD_INPUT;
    if (o.check)
        return check_all(o.ranks) ? EXIT_FAILURE : EXIT_SUCCESS;
    if (!output_folder(o.out))
        return BAD_INPUT;
    const struct job job = {
        o.scenario, o.rows, {o.ranks[0], o.ranks[1]}, o.assimilate ? run_backward : run_forward, &o};
    return job_run(&job) ? EXIT_SUCCESS : EXIT_FAILURE;
}
