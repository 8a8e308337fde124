/* Runs the configurations of a case on a mesh: thread ranks or the processes of a job, one launch for many
 * configurations. */
#ifndef CONFORM_RUN_H
#define CONFORM_RUN_H

#include "case.h"
#include "layouts.h"

enum { RUN_MAX_TEXT = 384 };

struct run_options {
    stn_queue_kind queue;
    uint64_t seed;
    int64_t placements; /* combinations at most per case and mesh; INT64_MAX: all */
    int64_t only;       /* number of the only configuration to run; -1: all */
    stn_dtype dtype;    /* of floating inputs; F32: as the cases have them */
    const char *without; /* libraries that contexts do without; NULL: none */
    const char *isa;    /* instruction set of the kernels; NULL: the widest */
    const char *device; /* as stn_context_options has it; NULL: the CPU */
    const char *module_path; /* where the device's module is looked for first; NULL: nowhere */
    int pullbacks;      /* gradients are those of each call's pullback, not of the tape */
    int processes;      /* ranks are the processes of a job: each runs this program */
    stn_ring_attention ring_attention;
    int64_t scratch;    /* bytes that foreign libraries may hold beside what an op may */
    int nccl;           /* ranks are threads whose data NCCL moves, each on a CUDA device of its own */
    stn_comm *hosts;    /* the job's processes, in memory of the host whatever `device` is: how they tell each other what they found. NULL: threads */
};

/** One combination of layouts with one kind of cuts. */
struct configuration {
    int64_t number; /* within its case and mesh */
    int uneven;     /* drawn cuts and a dual cotangent; else balanced ones and a Replicate cotangent */
    int pullbacks; /* as in run_options */
    int on_device; /* the ranks compute on a module's device, not on the CPU */
    int64_t scratch; /* as in run_options */
    uint64_t seed;
    struct layout *layouts; /* one per input of the case */
};

/** What one rank found. */
struct outcome {
    int begun;
    stn_status status; /* of the library; STN_OK also where only values differ */
    int refused;       /* the op itself returned the status */
    int communicated;  /* it did so after a collective or a message */
    char text[RUN_MAX_TEXT]; /* the first thing that is wrong, "" if nothing is */
    int compared;      /* tensors */
    double error;      /* the worst norm(diff) / norm(expected) */
    int64_t bytes;     /* sent by forward and backward */
    double peak;       /* what was held at once over what may be (peak.h), in the worse of forward and backward */
    int64_t fallbacks;
    uint64_t specs;    /* a hash of the descriptions of the specs that came out */
};

/** What all ranks found together. */
struct verdict {
    int passed, compared, fallback;
    int unsupported;    /* every rank's device lacks a kernel, which the text names: neither passed nor failed */
    double error, peak; /* the worst rank's */
    int64_t bytes;      /* of all ranks */
    char text[RUN_MAX_TEXT + 128];
};

/** Called for each configuration, in order. */
typedef void (*run_report_fn)(void *arg, const struct conform_case *c, const struct grid *grid,
                              const struct configuration *configuration, const struct verdict *verdict);

/** Joins the job that this process was started in, and leaves it. *size: its ranks; 1 where there is none. @return 0
 * with the reason in `error`. */
int run_find_job(int *rank, int *size, char *error, size_t error_size);

/** Joins it again for run_options.hosts, which the caller destroys at its end. Collective over the job. @return 0
 * with the reason in `error`. */
int run_join_hosts(const char *module_path, stn_comm **hosts, char *error, size_t error_size);

/** Whether contexts take such a list of libraries to do without. */
int run_takes_without(const char *without);

/** Runs all configurations of the case on a mesh of that shape. @return 0 when memory is out. */
int run_case(const struct run_options *options, const struct conform_case *c, const struct grid *grid,
             run_report_fn report, void *arg);

#endif
