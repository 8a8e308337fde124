/* A neural emulator of global monthly winds, trained on real data with its fields cut by latitude over thread ranks.
 *
 * 73 latitudes never divide evenly: that is the point. Each rank reads its own rows; convolutions fetch their neighbours' rows; the loss is one
 * number over the globe. docs and README tell what the scores mean. */
#include "options.h"
#include "scores.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { CHECK_STEPS = 20, BAD_INPUT = 2 };

struct job {
    const struct options *options;
    struct scores scores;
    double seconds_per_epoch;
    double losses[CHECK_STEPS];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stn_status train(struct job *job, const struct winds *winds, struct model *model)
{
    int first = stn_context_rank(winds->context) == 0, epochs = job->options->epochs;
    double begin = now(), loss = 0;
    for (int e = 0; e < epochs; e++) {
        stn_status status = train_epoch(winds, model, job->options->seed, e, &loss);
        if (status != STN_OK)
            return status;
        if (first)
            printf("epoch %2d of %d: loss %.5f, %.2f s\n", e + 1, epochs, loss, (now() - begin) / (e + 1));
    }
    if (first)
        job->seconds_per_epoch = epochs ? (now() - begin) / epochs : 0;
    return STN_OK;
}

static stn_status train_and_score(struct job *job, const struct winds *winds, struct model *model)
{
    struct scores scores;
    stn_status status = train(job, winds, model);
    if (status == STN_OK)
        status = scores_compute(winds, model, &scores);
    if (status == STN_OK && stn_context_rank(winds->context) == 0)
        job->scores = scores;
    return status;
}

/* Exactly CHECK_STEPS steps, running on into a further epoch where one has fewer. */
static stn_status train_to_check(struct job *job, const struct winds *winds, struct model *model)
{
    int order[TARGETS], step = 0;
    for (int e = 0; step < CHECK_STEPS; e++) {
        train_shuffle(job->options->seed, e, order);
        for (int first = 0; first < TARGETS && step < CHECK_STEPS; first += BATCH, step++) {
            double loss = 0;
            stn_status status = train_step(winds, model, TARGETS - first < BATCH ? TARGETS - first : BATCH, order + first, &loss);
            if (status != STN_OK)
                return status;
            if (stn_context_rank(winds->context) == 0)
                job->losses[step] = loss;
        }
    }
    return STN_OK;
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct job *job = arg;
    struct winds winds;
    struct model model = {0};
    stn_status status = winds_read(context, job->options->data, &winds);
    if (status == STN_OK)
        status = model_create(context, winds.mesh, job->options->seed, &model);
    if (status == STN_OK)
        status = job->options->check ? train_to_check(job, &winds, &model) : train_and_score(job, &winds, &model);
    model_fini(&model);
    winds_fini(&winds);
    return status;
}

static int run(struct job *job, int ranks)
{
    char error[512] = "";
    stn_launch_options launch = {.size = sizeof launch, .ranks = ranks};
    launch.context.size = sizeof launch.context;
    launch.context.error_text = error;
    launch.context.error_text_size = sizeof error;
    stn_status status = stn_launch(&launch, rank_main, job);
    if (status == STN_OK)
        return 0;
    fprintf(stderr, "wind_emulator: %s\n", error[0] ? error : stn_status_text(status));
    return status == STN_ERR_IO ? BAD_INPUT : 1;
}

static int check(const struct options *options)
{
    struct job one = {.options = options}, many = {.options = options};
    int code = run(&one, 1);
    if (!code)
        code = run(&many, options->ranks);
    if (code)
        return code;
    double worst = 0;
    for (int s = 0; s < CHECK_STEPS; s++) {
        double difference = fabs(one.losses[s] - many.losses[s]) / fabs(one.losses[s]);
        worst = difference > worst || isnan(difference) ? difference : worst;
        printf("step %2d: loss %.8f on 1 rank, %.8f on %d\n", s + 1, one.losses[s], many.losses[s], options->ranks);
    }
    int agrees = worst <= 1e-5;
    printf("check: the losses of %d steps differ by at most %.1e: %s\n", CHECK_STEPS, worst, agrees ? "they agree" : "THEY DO NOT AGREE");
    return agrees ? 0 : 1;
}

static int make_folder(const char *path)
{
    char part[1024];
    if (strlen(path) >= sizeof part)
        return 0;
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return 0;
    }
    return 1;
}

static int write_metrics(const struct job *job)
{
    char path[1100];
    const struct scores *s = &job->scores;
    snprintf(path, sizeof path, "%s/metrics.json", job->options->out);
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    fprintf(file,
            "{\n  \"ranks\": %d,\n  \"seed\": %llu,\n  \"epochs\": %d,\n  \"seconds_per_epoch\": %.4f,\n"
            "  \"test_rmse\": {\n    \"emulator\": %.6f,\n    \"climatology\": %.6f,\n    \"persistence\": %.6f,\n"
            "    \"damped_persistence\": %.6f\n  }\n}\n",
            job->options->ranks, (unsigned long long)job->options->seed, job->options->epochs, job->seconds_per_epoch, s->emulator,
            s->climatology, s->persistence, s->damped_persistence);
    return fclose(file) == 0;
}

static void print_scores(const struct job *job)
{
    const struct scores *s = &job->scores;
    printf("\ntest RMSE, m/s (months %d to %d, area-weighted)\n", FIRST_TEST, MONTHS - 1);
    printf("  emulator            %.3f\n  climatology         %.3f\n  persistence         %.3f\n  damped persistence  %.3f  (factor %.3f)\n",
           s->emulator, s->climatology, s->persistence, s->damped_persistence, s->damping);
}

int main(int argc, char **argv)
{
    struct options options;
    if (!options_parse(argc, argv, &options))
        return BAD_INPUT;
    if (options.help) {
        options_print_help();
        return 0;
    }
    if (options.check)
        return check(&options);
    if (!make_folder(options.out)) {
        fprintf(stderr, "wind_emulator: %s cannot be made: %s\n", options.out, strerror(errno));
        return BAD_INPUT;
    }
    struct job job = {.options = &options};
    int code = run(&job, options.ranks);
    if (code)
        return code;
    print_scores(&job);
    if (!write_metrics(&job)) {
        fprintf(stderr, "wind_emulator: %s/metrics.json cannot be written: %s\n", options.out, strerror(errno));
        return BAD_INPUT;
    }
    printf("written to %s/metrics.json\n", options.out);
    return 0;
}
