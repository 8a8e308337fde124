/* Spans as trace events in JSON. */
#include "core/device/trace_spans.h"
#include "core/device/trace_text.h"

#include <stdio.h>
#include <string.h>

const char *const stni_trace_category_names[STNI_TRACE_CATEGORY_COUNT] = {
    [STNI_TRACE_OP] = "op",           [STNI_TRACE_KERNEL] = "kernel",
    [STNI_TRACE_COLL] = "collective", [STNI_TRACE_MOVE] = "redistribute",
    [STNI_TRACE_RANGE] = "range",     [STNI_TRACE_MEMORY] = "memory"};

static void write_string(FILE *file, const char *text)
{
    char c[STNI_TRACE_CHARACTER];
    fputc('"', file);
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        n = stni_trace_character(text, left, c);
        fputs(c, file);
    }
    fputc('"', file);
}

static void write_args(FILE *file, const struct stni_trace_span *span)
{
    if (!span->args && span->bytes == 0)
        return;
    fprintf(file, ",\"args\":{%s", span->args ? span->args : "");
    if (span->bytes > 0)
        fprintf(file, "%s\"bytes\":%lld", span->args ? "," : "", (long long)span->bytes);
    fputc('}', file);
}

/* A counter's new value. */
static void write_memory(FILE *file, const struct stni_trace *trace, const struct stni_trace_span *span, int rank)
{
    const int64_t start = span->start + trace->clock_offset;
    fprintf(
        file,
        ",\n{\"name\":\"%s\",\"cat\":\"memory\",\"ph\":\"C\",\"pid\":%d,\"ts\":%lld.%03lld,\"args\":{\"bytes\":%lld}}",
        span->name, rank, (long long)(start / 1000), (long long)(start % 1000), (long long)span->bytes);
}

static void write_span(FILE *file, const struct stni_trace *trace, const struct stni_trace_span *span, int rank)
{
    const char *name = stni_trace_span_name(trace, span);
    int64_t start = span->start + trace->clock_offset, length = span->end - span->start;
    if (!name)
        return;
    fprintf(file, ",\n{\"name\":");
    write_string(file, name);
    fprintf(file, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld",
            stni_trace_category_names[span->category], rank, span->thread, (long long)(start / 1000),
            (long long)(start % 1000), (long long)(length / 1000), (long long)(length % 1000));
    write_args(file, span);
    fputc('}', file);
}

stn_status stni_trace_write(struct stni_trace *trace, int rank, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return STN_ERR_IO;
    fprintf(file,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"rank\":%d,\"dropped\":%lld,\"clock_offset_ns\":%lld},"
            "\"traceEvents\":[\n",
            rank, (long long)trace->dropped, (long long)trace->clock_offset);
    fprintf(file, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank, rank);
    for (int64_t i = 0; i < trace->n; i++)
        (trace->spans[i].category == STNI_TRACE_MEMORY ? write_memory : write_span)(file, trace, &trace->spans[i],
                                                                                    rank);
    fprintf(file, "\n]}\n");
    int failed = ferror(file);
    failed |= fclose(file) != 0;
    return failed ? STN_ERR_IO : STN_OK;
}
