/* What a run leaves behind: a table on the terminal; metrics, parameters and maps in a folder. */
#ifndef WIND_EMULATOR_REPORT_H
#define WIND_EMULATOR_REPORT_H

#include "options.h"
#include "rollout.h"

struct report {
    struct scores scores; /* one month ahead */
    struct rollout_scores rollout;
    double seconds_per_epoch;
    int64_t peak_bytes; /* of this rank's tensors */
};

/* Makes the folder that the report goes to, before anything is computed for it. Collective, as the next one. */
stn_status report_prepare(stn_context *context, const struct options *options);

/* Collective: what rank 0 cannot write is the failure of all (STN_ERR_IO). */
stn_status report_write(const struct report *report, const struct data *data, const struct model *model,
                        const struct options *options);

#endif
