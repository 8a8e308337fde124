/* Recording spans and writing them as trace events in JSON. */
#include "core/trace.h"

#include "core/context.h"
#include "core/host_alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

struct span {
    const char *name;     /* NULL: that of `kernel` */
    stn_kernel_fn kernel;
    int64_t start, end; /* nanoseconds */
    int64_t bytes;
    enum stni_trace_category category;
    int thread;
};

struct kernel_name {
    stn_kernel_fn kernel;
    const char *name;
};

enum { MAX_THREADS = 16 };

struct stni_trace {
    pthread_mutex_t mutex;
    struct span *spans;
    int64_t n, cap, dropped;
    struct kernel_name *names;
    int n_names, cap_names;
    pthread_t threads[MAX_THREADS]; /* in the order in which they first recorded; later ones count as the last */
    int n_threads;
};

static const char *const category_names[STNI_TRACE_CATEGORY_COUNT] = {
    [STNI_TRACE_OP] = "op", [STNI_TRACE_KERNEL] = "kernel", [STNI_TRACE_VERB] = "verb"};

stn_status stni_trace_create(struct stni_trace **out)
{
    struct stni_trace *trace = stni_calloc(1, sizeof *trace);
    if (!trace)
        return STN_ERR_MEMORY;
    pthread_mutex_init(&trace->mutex, NULL);
    *out = trace;
    return STN_OK;
}

void stni_trace_destroy(struct stni_trace **trace)
{
    if (!*trace)
        return;
    pthread_mutex_destroy(&(*trace)->mutex);
    stni_free((*trace)->spans);
    stni_free((*trace)->names);
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
    if (i == MAX_THREADS)
        return MAX_THREADS - 1;
    if (i == trace->n_threads)
        trace->threads[trace->n_threads++] = self;
    return i;
}

/* With the mutex held. Without memory the span is dropped, and counted. */
static struct span *span_new(struct stni_trace *trace)
{
    if (trace->n == trace->cap) {
        int64_t cap = trace->cap ? 2 * trace->cap : 1024;
        struct span *more = stni_realloc(trace->spans, (size_t)cap * sizeof *more);
        if (!more) {
            trace->dropped++;
            return NULL;
        }
        trace->spans = more;
        trace->cap = cap;
    }
    return &trace->spans[trace->n++];
}

static void add(struct stni_trace *trace, struct span span)
{
    span.end = stni_trace_now();
    pthread_mutex_lock(&trace->mutex);
    span.thread = thread_number(trace);
    struct span *slot = span_new(trace);
    if (slot)
        *slot = span;
    pthread_mutex_unlock(&trace->mutex);
}

void stni_trace_add(struct stni_trace *trace, enum stni_trace_category category, const char *name, int64_t start, int64_t bytes)
{
    add(trace, (struct span){.name = name, .start = start, .bytes = bytes, .category = category});
}

void stni_trace_add_kernel(struct stni_trace *trace, stn_kernel_fn kernel, int64_t start)
{
    add(trace, (struct span){.kernel = kernel, .start = start, .category = STNI_TRACE_KERNEL});
}

/* With the mutex held, or after recording. */
static const char *kernel_name(const struct stni_trace *trace, stn_kernel_fn kernel)
{
    for (int i = 0; i < trace->n_names; i++)
        if (trace->names[i].kernel == kernel)
            return trace->names[i].name;
    return NULL;
}

/* Without memory the kernel stays nameless. */
void stni_trace_name_kernel(struct stni_trace *trace, stn_kernel_fn kernel, const char *name)
{
    pthread_mutex_lock(&trace->mutex);
    if (!kernel_name(trace, kernel)) {
        if (trace->n_names == trace->cap_names) {
            int cap = trace->cap_names ? 2 * trace->cap_names : 64;
            struct kernel_name *more = stni_realloc(trace->names, (size_t)cap * sizeof *more);
            trace->names = more ? more : trace->names;
            trace->cap_names = more ? cap : trace->cap_names;
        }
        if (trace->n_names < trace->cap_names)
            trace->names[trace->n_names++] = (struct kernel_name){kernel, name};
    }
    pthread_mutex_unlock(&trace->mutex);
}

/* A JSON string; bytes from 0x80 on pass as the UTF-8 that they are. */
static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void write_span(FILE *file, const struct stni_trace *trace, const struct span *span, int rank)
{
    const char *name = span->name ? span->name : kernel_name(trace, span->kernel);
    int64_t start = span->start, length = span->end - span->start;
    fprintf(file, ",\n{\"name\":");
    write_string(file, name ? name : "kernel");
    fprintf(file, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld",
            category_names[span->category], rank, span->thread, (long long)(start / 1000), (long long)(start % 1000),
            (long long)(length / 1000), (long long)(length % 1000));
    if (span->bytes > 0)
        fprintf(file, ",\"args\":{\"bytes\":%lld}", (long long)span->bytes);
    fputc('}', file);
}

stn_status stni_trace_write(struct stni_trace *trace, int rank, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return STN_ERR_IO;
    fprintf(file, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"rank\":%d,\"dropped\":%lld},\"traceEvents\":[\n", rank,
            (long long)trace->dropped);
    fprintf(file, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank, rank);
    for (int64_t i = 0; i < trace->n; i++)
        write_span(file, trace, &trace->spans[i], rank);
    fprintf(file, "\n]}\n");
    int failed = ferror(file);
    failed |= fclose(file) != 0;
    return failed ? STN_ERR_IO : STN_OK;
}

/* What the caller of tracing sees. Works on a context that has failed too: then a trace is wanted most. */

stn_status stn_trace_begin(stn_context *context)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    if (context->trace)
        return stni_fail(context, STN_ERR_STATE, "trace_begin: a trace is on already");
    if (stni_trace_create(&context->trace) != STN_OK)
        return stni_fail(context, STN_ERR_MEMORY, "trace_begin: out of memory");
    atomic_store(&context->queue->trace, context->trace);
    return STN_OK;
}

stn_status stn_trace_end(stn_context *context, const char *path)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    if (!path)
        return stni_fail(context, STN_ERR_ARGUMENT, "trace_end: path got NULL");
    if (!context->trace)
        return stni_fail(context, STN_ERR_STATE, "trace_end: no trace is on");
    stn_queue_sync(context->queue);
    atomic_store(&context->queue->trace, NULL);
    stn_status status = stni_trace_write(context->trace, context->rank, path);
    stni_trace_destroy(&context->trace);
    if (status != STN_OK)
        return stni_fail(context, status, "trace_end: cannot write \"%s\"", path);
    return STN_OK;
}
