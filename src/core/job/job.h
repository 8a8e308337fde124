/* The world of a process that a launcher started. */
#ifndef STNI_CORE_JOB_JOB_H
#define STNI_CORE_JOB_JOB_H

#include "core/context/launcher.h"

#include "core/base/status.h"

/* Joins the job's other processes: a world of as many ranks as the options ask for, for a context on the options'
 * device. `error` is empty. Collective over the job. */
stn_status stni_world_join(const struct stni_job *job, const stn_launch_options *options, stn_comm **out,
                           struct stni_error *error);

/* The ranks' data on CUDA devices is moved by NCCL, over what joined their hosts; where NCCL is not there, the
 * communicator stays, and the library stages. Collective over `*comm`, which is the caller's also where it fails. */
void stni_world_use_nccl(const stn_launch_options *options, stn_comm **comm, struct stni_error *error);

#endif
