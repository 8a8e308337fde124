/* Traces: what is recorded, by which thread, and that the file is JSON whatever the names are. */
#include "harness.h"

#include "core/context/context.h"
#include "core/device/trace.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads one JSON value; NULL where there is none. */
static const char *json_value(const char *at);

static const char *json_space(const char *at)
{
    while (at && isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\') {
            at++;
            if (*at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") < 4)
                return NULL;
            if (!strchr("\"\\/bfnrtu", *at))
                return NULL;
        }
    }
    return at + 1;
}

static const char *json_list(const char *at, char end, int keys)
{
    at = json_space(at + 1);
    for (int first = 1; at && *at != end; first = 0) {
        if (!first && *at++ != ',')
            return NULL;
        at = json_space(at);
        if (keys) {
            at = json_space(json_string(at));
            if (!at || *at++ != ':')
                return NULL;
        }
        at = json_space(json_value(json_space(at)));
    }
    return at ? at + 1 : NULL;
}

static const char *json_value(const char *at)
{
    char *end;
    if (!at)
        return NULL;
    if (*at == '{' || *at == '[')
        return json_list(at, *at == '{' ? '}' : ']', *at == '{');
    if (*at == '"')
        return json_string(at);
    strtod(at, &end);
    return end == at ? NULL : end;
}

static int is_json(const char *text)
{
    const char *end = json_space(json_value(json_space(text)));
    return end && *end == '\0';
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

struct file {
    char path[64];
    char *text;
};

static struct file file_new(void)
{
    struct file file = {"/tmp/stn-trace-XXXXXX", NULL};
    int descriptor = mkstemp(file.path);
    CHECK(descriptor >= 0);
    close(descriptor);
    return file;
}

static void file_read(struct file *file)
{
    FILE *in = fopen(file->path, "r");
    file->text = calloc(1, 1 << 20);
    if (CHECK_PTR(in)) {
        CHECK(fread(file->text, 1, (1 << 20) - 1, in) > 0);
        fclose(in);
    }
    unlink(file->path);
}

static stn_context *context_of_run(void)
{
    stn_context_options options = {.size = sizeof options, .queue = {.size = sizeof options.queue}};
    options.queue.kind = test_queue() == TEST_QUEUE_WORKER ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE;
    options.queue.delay_seed = 3;
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static stn_status nothing(stn_queue *queue, const void *args)
{
    (void)queue;
    (void)args;
    return STN_OK;
}

static void names_are_escaped_and_the_file_is_json(void)
{
    struct stni_trace *trace = NULL;
    struct file file = file_new();
    CHECK_STATUS(stni_trace_create(&trace), STN_OK);
    int64_t start = stni_trace_span_begin(trace);
    stni_trace_span_end(trace, STNI_TRACE_OP, "a \"quoted\"\\ name\n\twith \x01 and \xc3\xa4", start, 0);
    stni_trace_span_end(trace, STNI_TRACE_COLL, "all_reduce", start, 4096);
    stni_trace_span_end(trace, STNI_TRACE_RANGE, "caf\xe9 \xe2\x82\xac, cut \xe2\x82", start, 0);
    CHECK_STATUS(stni_trace_write(trace, 3, file.path), STN_OK);
    stni_trace_destroy(&trace);
    CHECK(trace == NULL);
    file_read(&file);
    CHECK(is_json(file.text));
    CHECK(strstr(file.text, "\"caf\\ufffd \xe2\x82\xac, cut \\ufffd\\ufffd\"") != NULL);
    CHECK(strstr(file.text, "a \\\"quoted\\\"\\\\ name\\u000a\\u0009with \\u0001 and \xc3\xa4") != NULL);
    CHECK(strstr(file.text, "\"cat\":\"collective\",\"ph\":\"X\",\"pid\":3,\"tid\":0") != NULL);
    CHECK_I64(count(file.text, "\"args\":{\"bytes\":4096}"), 1);
    CHECK_I64(count(file.text, "\"ph\":\"X\""), 3);
    free(file.text);
}

static void spans_beyond_the_first_buffer_are_all_written(void)
{
    struct stni_trace *trace = NULL;
    struct file file = file_new();
    CHECK_STATUS(stni_trace_create(&trace), STN_OK);
    for (int i = 0; i < 3000; i++)
        stni_trace_span_end(trace, STNI_TRACE_OP, "x", stni_trace_span_begin(trace), i);
    CHECK_STATUS(stni_trace_write(trace, 0, file.path), STN_OK);
    stni_trace_destroy(&trace);
    file_read(&file);
    CHECK(is_json(file.text));
    CHECK_I64(count(file.text, "\"ph\":\"X\""), 3000);
    CHECK_I64(count(file.text, "\"bytes\":2999}"), 1);
    free(file.text);
}

static void trace_that_is_off_records_nothing(void)
{
    CHECK_I64(stni_trace_span_begin(NULL), 0);
    stni_trace_span_end(NULL, STNI_TRACE_OP, "x", 5, 0);
    struct stni_trace *trace = NULL;
    struct file file = file_new();
    CHECK_STATUS(stni_trace_create(&trace), STN_OK);
    stni_trace_span_end(trace, STNI_TRACE_OP, "begun before it was on", stni_trace_span_begin(NULL), 0);
    CHECK_STATUS(stni_trace_write(trace, 0, file.path), STN_OK);
    stni_trace_destroy(&trace);
    file_read(&file);
    CHECK(is_json(file.text));
    CHECK_I64(count(file.text, "\"ph\":\"X\""), 0);
    free(file.text);
}

/* One function under several names, as pointwise ops have it, on the caller's thread or the queue's own; and where it
 * was recorded. */
static void kernels_are_recorded_where_they_run_under_their_names(void)
{
    stn_context *context = context_of_run();
    struct file file = file_new();
    if (!context)
        return;
    stn_queue *queue = stn_context_queue(context);
    CHECK_STATUS(stn_queue_launch(queue, nothing, NULL, 0), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    stn_graph *graph = NULL;
    CHECK_STATUS(stn_queue_capture_begin(queue), STN_OK);
    CHECK_STATUS(stni_queue_launch_named(queue, nothing, NULL, 0, "recorded"), STN_OK);
    CHECK_STATUS(stn_queue_capture_end(queue, &graph), STN_OK);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    for (int i = 0; i < 5; i++) {
        CHECK_STATUS(stni_queue_launch_named(queue, nothing, NULL, 0, "nothing.at_all"), STN_OK);
        CHECK_STATUS(stni_queue_launch_named(queue, nothing, NULL, 0, i < 3 ? "another name" : ""), STN_OK);
    }
    CHECK_STATUS(stn_queue_launch(queue, nothing, NULL, 0), STN_OK);
    CHECK_STATUS(stn_graph_launch(graph, queue), STN_OK);
    CHECK_STATUS(stn_trace_end(context, file.path), STN_OK);
    stn_graph_destroy(&graph);
    CHECK_STATUS(stn_queue_launch(queue, nothing, NULL, 0), STN_OK);
    stn_context_destroy(&context);
    file_read(&file);
    CHECK(is_json(file.text));
    CHECK_I64(count(file.text, "{\"name\":\"nothing.at_all\",\"cat\":\"kernel\""), 5);
    CHECK_I64(count(file.text, "{\"name\":\"another name\",\"cat\":\"kernel\""), 3);
    CHECK_I64(count(file.text, "{\"name\":\"recorded\",\"cat\":\"kernel\""), 1);
    CHECK_I64(count(file.text, "{\"name\":\"kernel\",\"cat\":\"kernel\""), 1);
    CHECK_I64(count(file.text, "\"ph\":\"X\""), 10);
    free(file.text);
}

static void ending_what_is_not_on_and_beginning_twice_are_refused(void)
{
    stn_context *context = context_of_run();
    char text[128];
    if (!context)
        return;
    CHECK_STATUS(stn_trace_end(context, "/tmp/never-written"), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    CHECK_STATUS(stn_trace_begin(context), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK_STATUS(stn_trace_end(context, "/no-such-folder/trace.json"), STN_ERR_IO);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_IO);
    CHECK(strstr(text, "/no-such-folder/trace.json") != NULL);
    CHECK_STATUS(stn_trace_begin(context), STN_OK); /* still on when the context goes */
    stn_context_destroy(&context);
    CHECK(context == NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"names_are_escaped_and_the_file_is_json", names_are_escaped_and_the_file_is_json},
        {"spans_beyond_the_first_buffer_are_all_written", spans_beyond_the_first_buffer_are_all_written},
        {"trace_that_is_off_records_nothing", trace_that_is_off_records_nothing},
        {"kernels_are_recorded_where_they_run_under_their_names",
         kernels_are_recorded_where_they_run_under_their_names},
        {"ending_what_is_not_on_and_beginning_twice_are_refused",
         ending_what_is_not_on_and_beginning_twice_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
