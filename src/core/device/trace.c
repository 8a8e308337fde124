/* Recording spans. */
#include "core/device/trace_spans.h"

#include "core/device/nvtx.h"

#include "core/context/context.h"
#include "core/base/host_alloc.h"

#include <shardtensor/trace.h>

#include <string.h>
#include <time.h>

stn_status stni_trace_create(struct stni_trace **out)
{
    struct stni_trace *trace = stni_calloc(1, sizeof *trace);
    if (!trace)
        return STN_ERR_MEMORY;
    pthread_mutex_init(&trace->mutex, NULL);
    trace->records = 1;
    *out = trace;
    return STN_OK;
}

/* With the mutex held, or while no thread has the trace. */
static void forget_spans(struct stni_trace *trace)
{
    for (int64_t i = 0; i < trace->n; i++) {
        stni_free(trace->spans[i].own_name);
        stni_free(trace->spans[i].args);
    }
    stni_free(trace->spans);
    trace->spans = NULL;
    trace->n = trace->cap = trace->dropped = trace->live_bytes = 0;
}

/* The innermost band first. */
static void end_marks(struct stni_trace *trace)
{
    for (int i = trace->n_ranges < STNI_TRACE_RANGES ? trace->n_ranges : STNI_TRACE_RANGES; i-- > 0;) {
        stni_trace_mark_end(trace->ranges[i].is_marked);
        trace->ranges[i].is_marked = 0;
    }
}

static void forget_ranges(struct stni_trace *trace)
{
    end_marks(trace);
    for (int i = 0; i < trace->n_ranges && i < STNI_TRACE_RANGES; i++)
        stni_free(trace->ranges[i].name);
    trace->n_ranges = 0;
}

void stni_trace_destroy(struct stni_trace **trace)
{
    if (!*trace)
        return;
    forget_ranges(*trace);
    pthread_mutex_destroy(&(*trace)->mutex);
    forget_spans(*trace);
    stni_free(*trace);
    *trace = NULL;
}

int64_t stni_trace_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 1;
}

/* With the mutex held. */
static int thread_number(struct stni_trace *trace)
{
    pthread_t self = pthread_self();
    int i = 0;
    while (i < trace->n_threads && !pthread_equal(trace->threads[i], self))
        i++;
    if (i == STNI_TRACE_THREADS)
        return STNI_TRACE_THREADS - 1;
    if (i == trace->n_threads)
        trace->threads[trace->n_threads++] = self;
    return i;
}

/* With the mutex held. Without memory the span is dropped, and counted. */
static struct stni_trace_span *span_new(struct stni_trace *trace)
{
    if (trace->n == trace->cap) {
        int64_t cap = trace->cap ? 2 * trace->cap : 1024;
        struct stni_trace_span *more = stni_realloc(trace->spans, (size_t)cap * sizeof *more);
        if (!more) {
            trace->dropped++;
            return NULL;
        }
        trace->spans = more;
        trace->cap = cap;
    }
    return &trace->spans[trace->n++];
}

static void drop(struct stni_trace_span *span)
{
    stni_free(span->own_name);
    stni_free(span->args);
}

static void add(struct stni_trace *trace, struct stni_trace_span span)
{
    struct stni_trace_span *slot = NULL;
    span.end = stni_trace_now();
    pthread_mutex_lock(&trace->mutex);
    if (trace->records) {
        span.thread = thread_number(trace);
        slot = span_new(trace);
    }
    if (slot)
        *slot = span;
    pthread_mutex_unlock(&trace->mutex);
    if (!slot)
        drop(&span);
}

void stni_trace_add(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start,
                    int64_t bytes)
{
    add(trace, (struct stni_trace_span){.name = name, .start = start, .bytes = bytes, .category = category});
}

void stni_trace_add_kernel(struct stni_trace *trace, const char *name, int64_t start)
{
    add(trace, (struct stni_trace_span){.name = name, .start = start, .category = STNI_TRACE_KERNEL});
}

/* Without memory the span is there without them. */
void stni_trace_add_args(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start,
                         const struct stni_trace_args *args)
{
    struct stni_trace_span span = {.name = name, .start = start, .bytes = args->bytes, .messages = args->messages,
                                   .waited = args->waited > 0 ? args->waited : 0, .category = category};
    span.args = args->size > 0 ? stni_malloc(args->size + 1) : NULL;
    if (span.args)
        memcpy(span.args, args->text, args->size + 1);
    add(trace, span);
}

void stni_trace_add_memory(struct stni_trace *trace, int64_t live_bytes)
{
    if (!trace->records || live_bytes == trace->live_bytes)
        return;
    trace->live_bytes = live_bytes;
    add(trace,
        (struct stni_trace_span){
            .name = "live bytes", .start = stni_trace_now(), .bytes = live_bytes, .category = STNI_TRACE_MEMORY});
}

void stni_trace_set_clock_offset(struct stni_trace *trace, int64_t offset)
{
    trace->clock_offset = offset;
}

const char *stni_trace_enter(struct stni_trace *trace, const char *op)
{
    const char *before = trace->op;
    trace->op = op;
    return before;
}

const char *stni_trace_op(const struct stni_trace *trace)
{
    return trace->op;
}

void stni_trace_range_begin(struct stni_trace *trace, const char *name)
{
    if (trace->n_ranges++ >= STNI_TRACE_RANGES)
        return;
    struct stni_trace_range *range = &trace->ranges[trace->n_ranges - 1];
    *range = (struct stni_trace_range){stni_malloc(strlen(name) + 1), stni_trace_now(), stni_trace_mark_begin(trace, name)};
    if (range->name)
        strcpy(range->name, name);
}

void stni_trace_range_end(struct stni_trace *trace)
{
    if (trace->n_ranges == 0 || trace->n_ranges-- > STNI_TRACE_RANGES)
        return;
    const struct stni_trace_range *range = &trace->ranges[trace->n_ranges];
    stni_trace_mark_end(range->is_marked);
    add(trace, (struct stni_trace_span){.name = range->name ? range->name : "range",
                                        .own_name = range->name,
                                        .start = range->start,
                                        .category = STNI_TRACE_RANGE});
}

int stni_trace_records(const struct stni_trace *trace)
{
    return trace && trace->records;
}

int stni_trace_mark_begin(const struct stni_trace *trace, const char *name)
{
    const int marks = trace && trace->marks;
    if (marks)
        stni_nvtx_push(name);
    return marks;
}

void stni_trace_mark_end(int is_begun)
{
    if (is_begun)
        stni_nvtx_pop();
}

const char *stni_trace_span_name(const struct stni_trace *trace, const struct stni_trace_span *span)
{
    const char *name = span->name;
    (void)trace;
    return !name ? "kernel" : name[0] || span->category != STNI_TRACE_KERNEL ? name : NULL;
}

/* What the caller of tracing sees. Works on a context that has failed too: then a trace is wanted most. */

/* What is to be switched on, with nothing on the queue that reads its switches. */
static stn_status find_or_create(stn_context *context, const char *call)
{
    if (context->trace) {
        stni_queue_sync_for(context->queue, STN_SYNC_TRACE);
        return STN_OK;
    }
    if (!context->idle_trace && stni_trace_create(&context->idle_trace) != STN_OK)
        return stni_fail(context, STN_ERR_MEMORY, "%s: out of memory", call);
    context->trace = context->idle_trace;
    context->idle_trace = NULL;
    context->trace->records = 0;
    stni_context_name_launches(context);
    return STN_OK;
}

stn_status stn_trace_begin(stn_context *context)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    if (stni_trace_records(context->trace))
        return stni_fail(context, STN_ERR_STATE, "trace_begin: a trace is on already");
    STNI_TRY(find_or_create(context, "trace_begin"));
    context->trace->records = 1;
    stni_trace_set_clock_offset(context->trace, context->clock_offset);
    stni_trace_add_memory(context->trace, stni_mempool_stats(context->pool)->live_bytes);
    atomic_store(&context->queue->trace, context->trace);
    return STN_OK;
}

/* After a switch: the trace is laid aside where both are off. */
static void use_or_lay_aside(stn_context *context)
{
    struct stni_trace *trace = context->trace;
    if (!trace->marks && !trace->records) {
        forget_ranges(trace);
        trace->op = NULL;
        context->idle_trace = trace;
        context->trace = NULL;
        stni_context_name_launches(context);
    }
    atomic_store(&context->queue->trace, context->trace);
}

stn_status stn_trace_end(stn_context *context, const char *path)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    if (!path)
        return stni_fail(context, STN_ERR_ARGUMENT, "trace_end: path got NULL");
    if (!stni_trace_records(context->trace))
        return stni_fail(context, STN_ERR_STATE, "trace_end: no trace is on");
    stni_queue_sync_for(context->queue, STN_SYNC_TRACE);
    atomic_store(&context->queue->trace, NULL);
    pthread_mutex_lock(&context->trace->mutex);
    stn_status status = stni_trace_write(context->trace, context->rank, path);
    forget_spans(context->trace);
    context->trace->records = 0;
    pthread_mutex_unlock(&context->trace->mutex);
    use_or_lay_aside(context);
    if (status != STN_OK)
        return stni_fail(context, status, "trace_end: cannot write \"%s\"", path);
    return STN_OK;
}

stn_status stn_trace_nvtx(stn_context *context, int on)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    if (on && !stni_nvtx_open())
        return stni_fail(context, STN_ERR_UNSUPPORTED, "trace_nvtx: this build has no NVTX (-Dnvtx)");
    if ((on != 0) == (context->trace && context->trace->marks))
        return STN_OK;
    STNI_TRY(find_or_create(context, "trace_nvtx"));
    if (!on)
        end_marks(context->trace);
    context->trace->marks = on != 0;
    use_or_lay_aside(context);
    return STN_OK;
}

stn_status stn_trace_range_begin(stn_context *context, const char *text)
{
    if (!context || !text)
        return STN_ERR_ARGUMENT;
    if (context->trace)
        stni_trace_range_begin(context->trace, text);
    return STN_OK;
}

stn_status stn_trace_range_end(stn_context *context)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (context->trace)
        stni_trace_range_end(context->trace);
    return STN_OK;
}
