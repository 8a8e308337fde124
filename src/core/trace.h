/* The trace of one rank: what ran from when to when, for Chrome's and Perfetto's viewers.
 *
 * Off, it costs one test of a pointer. On, spans are added by the context's thread and by its queue's, under a lock. Names are kept as pointers:
 * they outlive the trace. */
#ifndef STNI_CORE_TRACE_H
#define STNI_CORE_TRACE_H

#include <shardtensor/device.h>

struct stni_trace;

enum stni_trace_category { STNI_TRACE_OP, STNI_TRACE_KERNEL, STNI_TRACE_VERB, STNI_TRACE_CATEGORY_COUNT };

stn_status stni_trace_create(struct stni_trace **out);
void stni_trace_destroy(struct stni_trace **trace);

/* Writes what was recorded as JSON; `rank` becomes the process of the viewers. STN_ERR_IO where the file cannot be written. */
stn_status stni_trace_write(struct stni_trace *trace, int rank, const char *path);

int64_t stni_trace_now(void); /* nanoseconds, never 0 */
void stni_trace_add(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start, int64_t bytes);

/* Spans of kernels are recorded where they run, which knows the function alone: whoever launches one says what it is called. */
void stni_trace_add_kernel(struct stni_trace *trace, stn_kernel_fn kernel, int64_t start);
void stni_trace_name_kernel(struct stni_trace *trace, stn_kernel_fn kernel, const char *name);

/* Around the work; `trace` may be NULL. `bytes` 0: not told. */
static inline int64_t stni_trace_span_begin(const struct stni_trace *trace)
{
    return trace ? stni_trace_now() : 0;
}

static inline void stni_trace_span_end(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start,
                                       int64_t bytes)
{
    if (trace && start)
        stni_trace_add(trace, category, name, start, bytes);
}

#endif
