/* What a trace holds: recorded in trace.c, written in trace_write.c, added up in trace_summary.c. */
#ifndef STNI_CORE_DEVICE_TRACE_SPANS_H
#define STNI_CORE_DEVICE_TRACE_SPANS_H

#include "core/device/trace.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STNI_TRACE_THREADS = 16, STNI_TRACE_RANGES = 64 };

struct stni_trace_span {
    const char *name; /* NULL: a kernel without one */
    int64_t start, end; /* nanoseconds */
    int64_t bytes, messages, waited;
    char *own_name, *args; /* the trace's; NULL: none */
    enum stni_trace_category category;
    int thread;
};

struct stni_trace_range {
    char *name;
    int64_t start;
    int is_marked; /* a range of NVTX is open for it */
};

struct stni_trace {
    pthread_mutex_t mutex;
    /* Spans are kept; ranges of NVTX are on: one of the two, or both. Set while nothing runs but collectives with a
     * request. */
    atomic_int records, marks;
    struct stni_trace_span *spans;
    int64_t n, cap, dropped;
    pthread_t threads[STNI_TRACE_THREADS]; /* in the order in which they first recorded; later ones count as the last */
    int n_threads;
    int64_t clock_offset; /* added to times that are written, nanoseconds */
    int64_t live_bytes;   /* the last that was recorded */
    const char *op; /* the context's thread is in it */
    struct stni_trace_range ranges[STNI_TRACE_RANGES];
    int n_ranges; /* open ones, those beyond the array among them */
};

/* What a span is called; NULL where it is not to be shown. After recording, or with the mutex held. */
const char *stni_trace_span_name(const struct stni_trace *trace, const struct stni_trace_span *span);

extern const char *const stni_trace_category_names[STNI_TRACE_CATEGORY_COUNT];

#endif
