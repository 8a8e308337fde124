/* A neural emulator of global monthly winds, trained on real data with its fields spread over ranks.
 *
 * 73 latitudes never divide evenly: that is the point. Each rank reads its own part of the globe; convolutions fetch
 * their neighbours' rows; norms merge their statistics; the loss is one number over the globe. */
#include "check.h"
#include "report.h"
#include "scores.h"
#include "train.h"

#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAD_INPUT = 2 };

struct job {
    struct options options;
    int agrees; /* --check */
};

static stn_status run_epochs(struct training *t, const struct job *job, double *seconds_per_epoch)
{
    const struct options *o = &job->options;
    int first = stn_context_rank(t->data->context) == 0, all = o->epochs * training_batches(t->data);
    double begin = progress_now(), sum = 0, count = 0;
    for (int s = 0; s < all; s++) {
        double loss;
        int samples;
        char text[64];
        stn_status status = training_step(t, &loss, &samples, NULL, NULL);
        if (status != STN_OK)
            return status;
        sum += loss * samples, count += samples;
        snprintf(text, sizeof text, "epoch %d, loss %.5f", s / training_batches(t->data) + 1, sum / count);
        if (first)
            progress_show(s + 1, all, training_batches(t->data), progress_now() - begin, text);
        if ((s + 1) % training_batches(t->data) == 0)
            sum = count = 0;
    }
    *seconds_per_epoch = o->epochs ? (progress_now() - begin) / o->epochs : 0;
    return STN_OK;
}

static stn_status score(struct report *report, struct training *t, const struct options *o)
{
    stn_stats stats = {.size = sizeof stats};
    stn_status status = stn_average_swap(t->average);
    if (status == STN_OK)
        status = scores_compute(t->data, t->model, &report->scores);
    if (status == STN_OK)
        status = rollout_score(t->model, o->lead, &report->rollout);
    stn_context_stats(t->data->context, &stats);
    report->peak_bytes = stats.peak_bytes;
    return status == STN_OK ? report_write(report, t->data, t->model, o) : status;
}

static stn_status train_and_score(const struct data *data, const struct job *job)
{
    const struct options *o = &job->options;
    struct model model;
    struct training training = {0};
    struct report report = {0};
    stn_status status = model_create(data, o->seed, &model);
    if (status == STN_OK && o->parameters)
        status = stn_load(data->context, o->parameters, PARAMETERS, model.parameter);
    if (status == STN_OK)
        status = training_create(data, &model, o->seed, o->epochs, &training);
    if (status == STN_OK)
        status = run_epochs(&training, job, &report.seconds_per_epoch);
    if (status == STN_OK)
        status = score(&report, &training, o);
    training_fini(&training);
    model_fini(&model);
    return status;
}

static stn_status traced(stn_context *context, const struct data *data, const struct job *job)
{
    char path[1100];
    int rank = stn_context_rank(context);
    snprintf(path, sizeof path, rank ? "%s.%d" : "%s", job->options.trace ? job->options.trace : "", rank);
    if (!job->options.trace)
        return train_and_score(data, job);
    stn_status status = stn_trace_begin(context);
    if (status == STN_OK)
        status = train_and_score(data, job);
    stn_status written = stn_trace_end(context, path);
    return status == STN_OK ? stn_agree(context, written, "the trace cannot be written") : status;
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct job *job = arg;
    struct data data;
    if (job->options.check)
        return check_run(context, &job->options, &job->agrees);
    stn_status status = report_prepare(context, &job->options);
    if (status != STN_OK)
        return status;
    status = data_read(context, job->options.mesh, &job->options.source, &data);
    if (status == STN_OK)
        status = traced(context, &data, job);
    data_fini(&data);
    return status;
}

static int run(struct job *job)
{
    char error[700] = "";
    stn_launch_options launch = {.size = sizeof launch, .ranks = job->options.ranks};
    launch.context = (stn_context_options){.size = sizeof launch.context,
                                           .seed = job->options.seed,
                                           .threads = job->options.threads,
                                           .error_text = error,
                                           .error_text_size = sizeof error};
    job->agrees = 1;
    stn_status status = stn_launch(&launch, rank_main, job);
    if (status == STN_OK)
        return job->agrees ? 0 : 1;
    fprintf(stderr, "wind_emulator: %s\n", error[0] ? error : stn_status_text(status));
    static const stn_status input[] = {STN_ERR_IO, STN_ERR_ARGUMENT, STN_ERR_NOT_FOUND, STN_ERR_SHAPE, STN_ERR_DTYPE};
    for (size_t i = 0; i < sizeof input / sizeof *input; i++)
        if (status == input[i])
            return BAD_INPUT;
    return 1;
}

int main(int argc, char **argv)
{
    struct job job;
    int code = BAD_INPUT;
    if (options_parse(argc, argv, &job.options)) {
        if (job.options.help)
            options_print_help();
        code = job.options.help ? 0 : run(&job);
    }
    options_fini(&job.options);
    return code;
}
