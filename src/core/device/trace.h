/* The trace of one rank: what ran from when to when, for Chrome's and Perfetto's viewers, and for a summary.
 *
 * Off, it costs one test of a pointer. On, spans are added by the context's thread and by its queue's, under a lock.
 * Names are kept as pointers: they outlive the trace. */
#ifndef STNI_CORE_DEVICE_TRACE_H
#define STNI_CORE_DEVICE_TRACE_H

#include <shardtensor/tensor.h>

struct stni_trace;

enum stni_trace_category {
    STNI_TRACE_OP,
    STNI_TRACE_KERNEL,
    STNI_TRACE_COLL,
    STNI_TRACE_MOVE, /* a redistribution */
    STNI_TRACE_RANGE,
    STNI_TRACE_MEMORY, /* no span: how many bytes are live from `start` on */
    STNI_TRACE_CATEGORY_COUNT
};

/* One that records spans. */
stn_status stni_trace_create(struct stni_trace **out);
void stni_trace_destroy(struct stni_trace **trace);

/* Writes what was recorded as JSON; `rank` becomes the process of the viewers. STN_ERR_IO where the file cannot be
 * written. */
stn_status stni_trace_write(struct stni_trace *trace, int rank, const char *path);

/* Times are written with this many nanoseconds added. */
void stni_trace_set_clock_offset(struct stni_trace *trace, int64_t offset);

int64_t stni_trace_now(void); /* nanoseconds, never 0 */
void stni_trace_add(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start,
                    int64_t bytes);

/* What a span tells beside its name and times: members of a JSON object, and numbers for the summary. Zero at first. */
enum { STNI_TRACE_ARGS_BYTES = 2048 };

struct stni_trace_args {
    int64_t bytes, messages; /* sent to other ranks; 0: not told */
    int64_t waited;          /* for them, nanoseconds; 0 or less: not told */
    size_t size;
    char text[STNI_TRACE_ARGS_BYTES];
};

/* Adds a member; one that does not fit any more is left out. */
void stni_trace_arg(struct stni_trace_args *args, const char *key, const char *value);
void stni_trace_arg_number(struct stni_trace_args *args, const char *key, int64_t value);
void stni_trace_arg_spec(struct stni_trace_args *args, const char *key, const stn_spec *spec); /* NULL: left out */
void stni_trace_arg_tensors(struct stni_trace_args *args, const char *key, int n, stn_tensor *const *tensors); /* KEY0, KEY1, …: the first 8 */

void stni_trace_add_args(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start,
                         const struct stni_trace_args *args);

/* Whether spans are kept, or the trace is on for ranges of NVTX alone. NULL: 0. */
int stni_trace_records(const struct stni_trace *trace);

/* A range of NVTX on the calling thread, where those are on. Begin returns whether there is one, which end is told:
 * the trace may be gone by then. */
int stni_trace_mark_begin(const struct stni_trace *trace, const char *name);
void stni_trace_mark_end(int is_begun);

/* How many bytes of memory are live now; nothing is recorded where that is what it was. */
void stni_trace_add_memory(struct stni_trace *trace, int64_t live_bytes);

/* Which op the context's thread is in: NULL outside of any. Entering gives the one around it, to be entered again at
 * the end. */
const char *stni_trace_enter(struct stni_trace *trace, const char *op);
const char *stni_trace_op(const struct stni_trace *trace);

/* Bands on the context's thread, one within the other; the name is copied. An end without a beginning is ignored. */
void stni_trace_range_begin(struct stni_trace *trace, const char *name);
void stni_trace_range_end(struct stni_trace *trace);

/* Spans of kernels are recorded where they run, under the name of their launch (stni_queue_launch_named); NULL: there
 * was none. "" stands for the kernel of a collective, which records a span of its own that tells more. */
void stni_trace_add_kernel(struct stni_trace *trace, const char *name, int64_t start);

/* Around the work; `trace` may be NULL. `bytes` 0: not told. */
static inline int64_t stni_trace_span_begin(const struct stni_trace *trace)
{
    return trace ? stni_trace_now() : 0;
}

static inline void stni_trace_span_end(struct stni_trace *trace, enum stni_trace_category category, const char *name,
                                       int64_t start, int64_t bytes)
{
    if (trace && start)
        stni_trace_add(trace, category, name, start, bytes);
}

#endif
