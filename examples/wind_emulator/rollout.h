/* The emulator run on its own forecasts, month after month, and how good they are by lead time. */
#ifndef WIND_EMULATOR_ROLLOUT_H
#define WIND_EMULATOR_ROLLOUT_H

#include "scores.h"

enum { FREE_RUN = 5 * YEAR };

/* One forecast begun at each of `starts` months. */
struct rollout {
    const struct model *model;
    int starts;
    struct sample sample[TEST_MONTHS]; /* whose months the next step forecasts */
    stn_tensor *lag[LAGS + 1];         /* [k]: k months before them, a forecast after k steps; held to the end */
};

/* The first forecasts are of the first `starts` test months. Collective over the mesh, as all that follows. */
stn_status rollout_begin(const struct model *model, int starts, struct rollout *rollout);
void rollout_end(struct rollout *rollout);

/* Goes on by a month: anomalies (starts, components, rows, columns) of the innermost scope, with the graph of the steps
 * before; a failure is the context's. */
stn_tensor *rollout_step(struct rollout *rollout);

/* Scores by lead, all from the same starts: the test months from which the data reach `leads` months. Then what comes of
 * the forecasts in a run of FREE_RUN months, in the file's units: the largest mean over the globe of any start and
 * component, and the deviation from the mean (its square averaged over starts and components). [0] is the truth's, in
 * the months of lead 1. */
struct rollout_scores {
    int leads, starts;
    struct scores lead[MOST_LEAD];
    double mean[1 + FREE_RUN], deviation[1 + FREE_RUN];
};
stn_status rollout_score(const struct model *model, int leads, struct rollout_scores *scores);

#endif
