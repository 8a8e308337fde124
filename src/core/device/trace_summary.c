/* A trace added up: rows of all ranks, gathered and joined by name, so that every rank writes the same table. */
#include "core/context/context.h"
#include "core/base/host_alloc.h"
#include "core/base/text.h"
#include "core/tensor/storage.h"
#include "core/device/trace_spans.h"

#include <shardtensor/trace.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 40 };

/* What one rank knows of one name; as it travels. */
struct row {
    int64_t category, count, nanoseconds, bytes, messages, waited;
    char name[NAME_BYTES];
};

/* The same over ranks. */
struct line {
    const struct row *first;
    int64_t ranks, count, least, most, bytes, messages, waited; /* waited: of the rank that waited most */
};

static int64_t find_row(struct row *rows, int64_t n, const struct stni_trace_span *span, const char *name)
{
    int64_t i = 0;
    while (i < n && (rows[i].category != (int64_t)span->category || strncmp(rows[i].name, name, NAME_BYTES - 1) != 0))
        i++;
    return i;
}

/* Rows of this rank; `rows` has space for one per distinct name. */
static int64_t add_up(const struct stni_trace *trace, struct row *rows, int64_t cap)
{
    int64_t n = 0;
    for (int64_t s = 0; s < trace->n; s++) {
        const struct stni_trace_span *span = &trace->spans[s];
        const char *name = span->category == STNI_TRACE_MEMORY ? NULL : stni_trace_span_name(trace, span);
        const int64_t i = name ? find_row(rows, n, span, name) : cap;
        if (i >= cap)
            continue;
        if (i == n) {
            rows[n++] = (struct row){.category = (int64_t)span->category};
            snprintf(rows[i].name, NAME_BYTES, "%s", name);
        }
        rows[i].count++;
        rows[i].nanoseconds += span->end - span->start;
        rows[i].bytes += span->bytes;
        rows[i].messages += span->messages;
        rows[i].waited += span->waited;
    }
    return n;
}

/* Bytes of all ranks, one behind the other, by counts; both in device memory of the context's. */
static stn_status gather_bytes(stn_context *context, const void *own, void *all, const int64_t *counts)
{
    struct stni_storage *buffer = NULL;
    size_t bytes = 0;
    for (int r = 0; r < context->size; r++)
        bytes += (size_t)counts[r];
    STNI_TRY(stni_storage_create(context, bytes + (size_t)counts[context->rank] + 1, &buffer));
    stn_queue *queue = context->queue;
    char *sent = (char *)buffer->data + bytes;
    stn_status status = stni_queue_copy(queue, sent, own, (size_t)counts[context->rank], STNI_COPY_TO_DEVICE);
    if (status == STN_OK)
        status = stni_comm_all_gather(context->comm, queue, sent, buffer->data, counts, STN_DTYPE_U8);
    if (status == STN_OK)
        status = stni_queue_copy(queue, all, buffer->data, bytes, STNI_COPY_TO_HOST);
    const stn_status waited =
        stni_queue_sync_for(queue, STN_SYNC_TRACE); /* also after a failure: copies read and write the host's arrays */
    stni_storage_release(buffer);
    return stni_fail_queue(context, status != STN_OK ? status : waited);
}

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->category != y->category ? (x->category < y->category ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_time(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->first->category != y->first->category)
        return x->first->category < y->first->category ? -1 : 1;
    return x->most != y->most ? (x->most > y->most ? -1 : 1) : strcmp(x->first->name, y->first->name);
}

/* Rows of one name stand together once they are sorted. A rank without the name spent no time on it. */
static int64_t join(struct row *rows, int64_t n, int ranks, struct line *lines)
{
    int64_t made = 0;
    if (n > 0)
        qsort(rows, (size_t)n, sizeof *rows, by_name);
    for (int64_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        if (made == 0 || by_name(lines[made - 1].first, row) != 0)
            lines[made++] = (struct line){.first = row, .least = INT64_MAX};
        struct line *line = &lines[made - 1];
        line->ranks++;
        line->count = row->count > line->count ? row->count : line->count;
        line->least = row->nanoseconds < line->least ? row->nanoseconds : line->least;
        line->most = row->nanoseconds > line->most ? row->nanoseconds : line->most;
        line->bytes += row->bytes;
        line->messages += row->messages;
        line->waited = row->waited > line->waited ? row->waited : line->waited;
    }
    for (int64_t i = 0; i < made; i++)
        lines[i].least = lines[i].ranks < ranks ? 0 : lines[i].least;
    if (made > 0)
        qsort(lines, (size_t)made, sizeof *lines, by_time);
    return made;
}

static void put_line(struct stni_text *table, const struct line *line)
{
    char ratio[16] = "-";
    if (line->least > 0)
        snprintf(ratio, sizeof ratio, "%.2f", (double)line->most / (double)line->least);
    stni_text_put(table, "%-12s %-40s %8lld %12.3f %12.3f %7s %14lld %10lld %12.3f\n",
                  stni_trace_category_names[line->first->category], line->first->name, (long long)line->count,
                  1e-6 * (double)line->most, 1e-6 * (double)line->least, ratio, (long long)line->bytes,
                  (long long)line->messages, 1e-6 * (double)line->waited);
}

static void put_table(struct stni_text *table, const struct line *lines, int64_t n, int ranks)
{
    stni_text_put(
        table,
        "%d ranks: calls of the rank with most, milliseconds of the slowest and of the fastest rank, bytes and "
        "messages sent by all, "
        "milliseconds of waiting for peers of the rank that waited most\n",
        ranks);
    stni_text_put(table, "%-12s %-40s %8s %12s %12s %7s %14s %10s %12s\n", "what", "name", "calls", "max ms", "min ms",
                  "ratio", "bytes", "messages", "waited ms");
    for (int64_t i = 0; i < n; i++)
        put_line(table, &lines[i]);
}

/* Line by line, so that none is truncated. */
static void log_table(stn_context *context, char *text)
{
    for (char *end; context->rank == 0 && (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = '\0';
        stni_log(context, STN_LOG_INFO, "%s", text);
    }
}

static stn_status write_table(stn_context *context, const struct line *lines, int64_t n, char *text, size_t size)
{
    struct stni_text table = {text, size, 0};
    put_table(&table, lines, n, context->size);
    if (text)
        return STN_OK;
    char *own = stni_malloc(table.length + 1);
    if (!own)
        return stni_fail_memory(context, "a trace's summary", table.length + 1);
    table = (struct stni_text){own, table.length + 1, 0};
    put_table(&table, lines, n, context->size);
    log_table(context, own);
    stni_free(own);
    return STN_OK;
}

/* counts[r]: bytes of rank r's rows. */
static stn_status gather_counts(stn_context *context, int64_t own, int64_t *counts, int64_t *sum)
{
    int64_t *sizes = counts + context->size;
    for (int r = 0; r < context->size; r++)
        sizes[r] = sizeof own;
    STNI_TRY(gather_bytes(context, &own, counts, sizes));
    *sum = 0;
    for (int r = 0; r < context->size; r++)
        *sum += counts[r];
    return STN_OK;
}

static stn_status gather_rows(stn_context *context, const struct row *own, int64_t n, char *text, size_t size)
{
    int64_t *counts = stni_calloc(2 * (size_t)context->size, sizeof *counts), all_bytes = 0;
    struct row *all = NULL;
    struct line *lines = NULL;
    stn_status status = STN_ERR_MEMORY;
    if (!counts)
        return stni_fail_memory(context, "a trace's summary", 2 * (size_t)context->size * sizeof *counts);
    STNI_TRY_GOTO(gather_counts(context, n * (int64_t)sizeof *own, counts, &all_bytes), out);
    const int64_t n_all = all_bytes / (int64_t)sizeof *all;
    all = stni_malloc((size_t)all_bytes + 1);
    lines = stni_malloc(((size_t)n_all + 1) * sizeof *lines);
    if (!all || !lines)
        STNI_TRY_GOTO(stni_fail_memory(context, "a trace's summary", (size_t)all_bytes), out);
    STNI_TRY_GOTO(gather_bytes(context, own, all, counts), out);
    status = write_table(context, lines, join(all, n_all, context->size, lines), text, size);
out:
    stni_free(counts);
    stni_free(all);
    stni_free(lines);
    return status;
}

/* What the gathering itself records is not counted: rows are made before. */
static stn_status summary(stn_context *context, char *text, size_t size)
{
    enum { ROWS = 4096 };
    struct row *rows = stni_malloc(ROWS * sizeof *rows);
    if (!rows)
        return stni_fail_memory(context, "a trace's summary", ROWS * sizeof *rows);
    pthread_mutex_lock(&context->trace->mutex);
    const int64_t n = add_up(context->trace, rows, ROWS);
    pthread_mutex_unlock(&context->trace->mutex);
    const stn_status status = gather_rows(context, rows, n, text, size);
    stni_free(rows);
    return status;
}

stn_status stn_trace_summary(stn_context *context, char *text, size_t size)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (text && size > 0)
        text[0] = '\0';
    STNI_TRY(stn_agree(context, stni_trace_records(context->trace) ? STN_OK : STN_ERR_STATE,
                       "trace_summary: no trace is on"));
    return summary(context, text, text ? size : 0);
}
