#include "common/same_results.h"

#include <math.h>
#include <stdio.h>

void results_add(struct results *results, stn_tensor *tensor)
{
    stn_tensor *whole = stn_full_tensor(tensor);
    const int64_t n = stn_spec_numel(stn_tensor_spec(whole));
    if (results->n + n > (int64_t)(sizeof results->value / sizeof *results->value))
        results->value[0] = NAN; /* too many: the same as nothing */
    else if (stn_to_host(whole, results->value + results->n, (size_t)n * sizeof(double)) == STN_OK)
        results->n += (int)n;
}

struct run {
    stn_rank_main program;
    int variant;
    struct results of_first_rank;
};

static stn_status rank_main(stn_context *ctx, void *arg)
{
    struct run *run = arg;
    struct results own = {.variant = run->variant};
    stn_status status = run->program(ctx, &own);
    if (stn_context_rank(ctx) == 0)
        run->of_first_rank = own;
    return status;
}

static int launch(const char *name, int ranks, struct run *run)
{
    char error[512] = "";
    const stn_launch_options options = {.size = sizeof options,
                                        .ranks = ranks,
                                        .context = {.seed = 1, .error_text = error, .error_text_size = sizeof error}};
    stn_status status = stn_launch(&options, rank_main, run);
    if (status != STN_OK)
        fprintf(stderr, "%s on %d ranks: %s\n", name, ranks, error);
    return status == STN_OK;
}

static double difference(const struct results *a, const struct results *b)
{
    double worst = a->n == b->n && a->n > 0 ? 0 : INFINITY;
    for (int i = 0; i < a->n; i++)
        worst = fmax(worst, isnan(b->value[i]) ? INFINITY : fabs(a->value[i] - b->value[i]));
    return worst;
}

int same_results(const char *name, int n_variants, stn_rank_main program)
{
    static const int ranks[] = {1, 3, 9};
    struct run one = {.program = program};
    int same = launch(name, 1, &one);
    for (int i = 0; same && i < 3 * n_variants; i++) {
        struct run run = {.program = program, .variant = i / 3};
        same = launch(name, ranks[i % 3], &run);
        const double apart = difference(&one.of_first_rank, &run.of_first_rank);
        printf("%s, variant %d on %d ranks: first number %.6f, %.1e from one rank's\n", name, run.variant, ranks[i % 3],
               run.of_first_rank.value[0], apart);
        same = same && apart < 1e-12;
    }
    return same ? 0 : 1;
}
