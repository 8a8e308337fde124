/* What a trace of a step tells: shapes and layouts of ops, redistributions and what they are for, collectives,
 * bands; and the summary over ranks. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 1 << 20 };

static char folder[] = "/tmp/stn-spans-XXXXXX";

static const char *file_of(int rank, char path[128])
{
    snprintf(path, 128, "%s/rank-%d.json", folder, rank);
    return path;
}

static char *read_trace(int rank)
{
    char path[128], *text = calloc(1, TEXT);
    FILE *file = fopen(file_of(rank, path), "r");
    if (CHECK_PTR(file)) {
        CHECK(fread(text, 1, TEXT - 1, file) > 0);
        fclose(file);
    }
    unlink(path);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

/* One step of a product whose operands lie in other layouts than it wants. */
static void train_step(stn_context *context, const stn_mesh *mesh)
{
    static const int64_t shape[] = {6, 6};
    stn_optimizer *optimizer = NULL;
    stn_tensor *w = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, shape));
    stn_tensor *x = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F64, "S1", 2, shape));
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    const stn_named_tensor named = {"w", w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    CHECK_STATUS(stn_sgd_create(context, NULL, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    CHECK_STATUS(stn_trace_range_begin(context, "forward \"1\""), STN_OK);
    stn_tensor *loss = stn_sum(stn_mul(w, x), 0, NULL, 0);
    CHECK_STATUS(stn_trace_range_end(context), STN_OK);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    double value;
    CHECK_STATUS(stn_item(loss, &value), STN_OK);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    stn_optimizer_destroy(&optimizer);
}

static stn_status spans_body(stn_context *context, void *arg)
{
    char path[128];
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    CHECK_STATUS(stn_trace_range_begin(context, "while it is off"), STN_OK);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    CHECK_STATUS(stn_trace_range_end(context), STN_OK); /* none is open in this trace */
    train_step(context, mesh);
    CHECK_STATUS(stn_trace_range_begin(context, "still open"), STN_OK);
    CHECK_STATUS(stn_trace_end(context, file_of(stn_context_rank(context), path)), STN_OK);
    return stn_scope_end(context);
}

static void check_trace(const char *text, int ranks)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "\"ranks\":%d,\"rank\":", ranks);
    CHECK_I64(count(text, "{\"name\":\"mul\",\"cat\":\"op\""), 2); /* forward, backward */
    CHECK(count(text, ranks == 1 ? "\"in0\":\"f64 (6, 6) on y=1: Replicate\""
                                 : "\"in0\":\"f64 (6, 6) on y=2: Shard(0) sizes 3 3\"") > 0);
    CHECK(count(text, "\"out0\":\"f64 () on y=") > 0);
    CHECK_I64(count(text, "{\"name\":\"forward \\\"1\\\"\",\"cat\":\"range\""), 1);
    CHECK_I64(count(text, "{\"name\":\"backward\",\"cat\":\"range\""), 1);
    CHECK_I64(count(text, "{\"name\":\"step\",\"cat\":\"range\""), 1);
    CHECK_I64(count(text, "\"cat\":\"range\""), 3);
    CHECK_I64(count(text, "{\"name\":\"kernel\""), 0);
    CHECK_I64(count(text, "{\"name\":\"collective\""), 0);
    CHECK(count(text, "{\"name\":\"factory.values\",\"cat\":\"kernel\"") == 2);
    CHECK((count(text, "\"cat\":\"redistribute\"") > 0) == (ranks > 1));
    CHECK((count(text, "\"for\":\"mul\"") > 0) == (ranks > 1));
    CHECK((count(text, "\"from\":\"f64 (6, 6) on y=2: Shard(") > 0) == (ranks > 1));
    CHECK((count(text, "\"call\":\"all_reduce f64 count 1 sum\"") > 0) == (ranks > 1));
    CHECK((count(text, wanted) > 0) == (ranks > 1));
    CHECK((count(text, "\"waited_ns\":") > 0) == (ranks > 1));
}

static void a_trace_tells_layouts_redistributions_collectives_and_bands(void)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        test_ranks(ranks, spans_body, NULL);
        for (int r = 0; r < ranks; r++) {
            char *text = read_trace(r);
            check_trace(text, ranks);
            free(text);
        }
    }
}

struct log {
    int lines, long_lines;
};

static void take_line(void *arg, stn_log_level level, int rank, const char *text)
{
    struct log *log = arg;
    (void)level, (void)rank;
    log->lines++;
    log->long_lines += strlen(text) > 90;
}

static char summaries[3][8192];

static stn_status summary_body(stn_context *context, void *arg)
{
    char path[128], small[20];
    const int rank = stn_context_rank(context), alone = rank == 1;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    CHECK_STATUS(stn_trace_summary(context, small, sizeof small), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    if (alone) /* a name that one rank alone has */
        stn_trace_range_begin(context, "of one rank");
    train_step(context, mesh);
    if (alone)
        stn_trace_range_end(context);
    CHECK_STATUS(stn_trace_summary(context, summaries[rank], sizeof summaries[rank]), STN_OK);
    CHECK_STATUS(stn_trace_summary(context, small, sizeof small), STN_OK);
    CHECK_I64((int64_t)strlen(small), sizeof small - 1);
    CHECK_STATUS(stn_trace_summary(context, NULL, 0), STN_OK);
    CHECK_STATUS(stn_trace_end(context, file_of(rank, path)), STN_OK);
    unlink(path);
    CHECK_STATUS(stn_trace_summary(NULL, NULL, 0), STN_ERR_ARGUMENT);
    return stn_scope_end(context);
}

/* "WHAT NAME CALLS" at the beginning of a line; the rest of the line. */
static const char *row(const char *text, const char *what, const char *name)
{
    char begin[80];
    snprintf(begin, sizeof begin, "\n%-12s %-40s ", what, name);
    const char *at = strstr(text, begin);
    return at ? at + strlen(begin) : NULL;
}

static void a_summary_is_the_same_on_every_rank_and_has_a_row_a_name(void)
{
    struct log log = {0, 0};
    stn_context_options options = {
        .size = sizeof options, .log = take_line, .log_arg = &log, .log_level = STN_LOG_INFO};
    CHECK_STATUS(test_launch(3, &options, summary_body, NULL), STN_OK);
    CHECK_STR(summaries[1], summaries[0]);
    CHECK_STR(summaries[2], summaries[0]);
    const char *mul = row(summaries[0], "op", "mul"), *alone = row(summaries[0], "range", "of one rank"),
               *reduce = row(summaries[0], "collective", "all_reduce");
    long long calls = 0, bytes = 0, messages = 0;
    double most = 0, least = -1, ratio = 0;
    if (CHECK_PTR(mul) &&
        CHECK(sscanf(mul, "%lld %lf %lf %lf %lld %lld", &calls, &most, &least, &ratio, &bytes, &messages) == 6)) {
        CHECK_I64(calls, 2);
        CHECK(most >= least && least > 0 && ratio >= 1);
        CHECK(bytes > 0 && messages > 0);
    }
    if (CHECK_PTR(alone))
        CHECK(sscanf(alone, "%lld %lf %lf", &calls, &most, &least) == 3 && calls == 1 && most > 0 && least == 0 &&
              strstr(alone, " - ") != NULL);
    CHECK_PTR(reduce);
    CHECK_PTR(row(summaries[0], "range", "step"));
    CHECK(log.lines > 8 && log.long_lines >= log.lines - 1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_trace_tells_layouts_redistributions_collectives_and_bands",
         a_trace_tells_layouts_redistributions_collectives_and_bands},
        {"a_summary_is_the_same_on_every_rank_and_has_a_row_a_name",
         a_summary_is_the_same_on_every_rank_and_has_a_row_a_name},
    };
    if (!mkdtemp(folder))
        return 1;
    const int code = TEST_MAIN(argc, argv, cases);
    rmdir(folder);
    return code;
}
