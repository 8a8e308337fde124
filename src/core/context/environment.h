/* What a launch reads from the environment. */
#ifndef STNI_CORE_CONTEXT_ENVIRONMENT_H
#define STNI_CORE_CONTEXT_ENVIRONMENT_H

#include "core/context/launcher.h"
#include "core/base/status.h"

/* Of a rank. OpenMP asks for memory of so many without looking whether it came. */
enum { STNI_MAX_THREADS = 1024 };

/* How a launch is to be traced. */
struct stni_environment_trace {
    const char *prefix; /* STN_TRACE, NULL where it is not set; borrowed */
    int nvtx;           /* STN_NVTX */
};

/* Fills what `options` leave open (is 0) from the variables that <shardtensor/context.h> lists at stn_launch, and
 * checks those that it does not need as well, and what there is no option for into `*trace`. An empty value is as if it
 * were not set.
 * @return STN_ERR_ARGUMENT with a text that lists what the variable accepts. */
stn_status stni_environment_fill(stni_environment get, void *arg, stn_context_options *options,
                                 struct stni_environment_trace *trace, struct stni_error *error);

/* Refuses a variable that begins with STN_ and is none of the library's: spelled wrongly, it would be as if it were
 * not set. Those of tests begin with STN_TEST_. `variables`: "NAME=value" each, NULL after the last. */
stn_status stni_environment_check_names(const char *const *variables, struct stni_error *error);

/* Both, of this process. */
stn_status stni_environment_fill_here(stn_context_options *options, struct stni_environment_trace *trace,
                                      struct stni_error *error);

#endif
