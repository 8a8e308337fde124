/* Ranges of NVTX, as a tool sees them: one for each op, redistribution, collective and band, each of which ends on the
 * thread on which it began, whatever fails between. */
#include "nvtx_counter.h"

#include "ranks.h"

#include "core/context/context.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, ROWS = 5, COLUMNS = 4 };

static struct nvtx_counter counter(void)
{
    static nvtx_counter_fn read;
    if (!read) {
        void *tool = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
        void *symbol = tool ? dlsym(tool, "nvtx_counter") : NULL;
        if (!symbol) {
            fprintf(stderr, "NVTX_INJECTION64_PATH: got no tool that counts\n");
            abort();
        }
        memcpy(&read, &symbol, sizeof read);
    }
    return read();
}

/* Runs `body` on ranks, and checks that what they have begun has ended. */
static struct nvtx_counter count(stn_rank_main body, void *arg)
{
    counter().reset();
    test_ranks(RANKS, body, arg);
    const struct nvtx_counter c = counter();
    CHECK_I64(c.pops, c.pushes);
    CHECK_I64(c.unmatched, 0);
    CHECK_I64(c.elsewhere, 0);
    return c;
}

static stn_tensor *sharded(stn_context *context, int dim)
{
    const stn_placement place = stn_shard(dim);
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &place, STN_DTYPE_F32, 2,
                       (const int64_t[]){ROWS, COLUMNS}, NULL, test_value);
}

/* A softmax over chunks is two all-reduces; a change of the sharded dim is an exchange. */
static stn_status some_ops(stn_context *context, void *arg)
{
    const int *on = arg;
    const stn_placement columns = stn_shard(1);
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 0);
    if (on)
        CHECK_STATUS(stn_trace_nvtx(context, *on), STN_OK);
    CHECK(!stn_tensor_is_error(stn_redistribute_to(stn_softmax(x, 0), &columns)));
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    return stn_scope_end(context);
}

static void ranges_are_off_until_they_are_asked_for(void)
{
    static int off = 0;
    CHECK_I64(count(some_ops, NULL).pushes, 0);
    CHECK_I64(count(some_ops, &off).pushes, 0);
}

static void each_op_and_collective_is_one(void)
{
    static int on = 1;
    const struct nvtx_counter c = count(some_ops, &on);
    CHECK_I64(c.begun("softmax"), RANKS);
    CHECK_I64(c.begun("redistribute"), RANKS);
    CHECK_I64(c.begun("all_reduce"), 2 * RANKS);
    CHECK_I64(c.begun("exchange"), RANKS);
}

/* What a trace has written to the file. */
static int occurrences(const char *path, const char *part)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");
    int n = 0;
    if (CHECK(text && file) && CHECK(fread(text, 1, (1 << 20) - 1, file) > 0))
        for (const char *at = text; (at = strstr(at, part)); at++)
            n++;
    if (file)
        fclose(file);
    free(text);
    return n;
}

static stn_status beside_a_trace(stn_context *context, void *arg)
{
    char path[64];
    (void)arg;
    snprintf(path, sizeof path, "nvtx_trace.%d.json", stn_context_rank(context));
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 0);
    CHECK_STATUS(stn_trace_nvtx(context, 1), STN_OK);
    CHECK_STATUS(stn_trace_end(context, path), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "trace_end: no trace is on");
    stn_exp(x);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    CHECK_STATUS(stn_trace_range_begin(context, "a band"), STN_OK);
    stn_sin(x);
    CHECK_STATUS(stn_trace_range_end(context), STN_OK);
    CHECK_STATUS(stn_trace_end(context, path), STN_OK);
    stn_cos(x);
    CHECK_STATUS(stn_trace_nvtx(context, 0), STN_OK);
    stn_tanh(x);
    CHECK_I64(occurrences(path, "\"name\":\"sin\",\"cat\":\"op\""), 1);
    CHECK_I64(occurrences(path, "\"a band\""), 1);
    CHECK_I64(occurrences(path, "\"exp\"") + occurrences(path, "\"cos\""), 0);
    remove(path);
    return stn_scope_end(context);
}

static void a_trace_begins_and_ends_beside_them(void)
{
    const struct nvtx_counter c = count(beside_a_trace, NULL);
    CHECK_I64(c.begun("exp"), RANKS);
    CHECK_I64(c.begun("sin"), RANKS);
    CHECK_I64(c.begun("a band"), RANKS);
    CHECK_I64(c.begun("cos"), RANKS);
    CHECK_I64(c.begun("tanh"), 0);
}

static stn_status fail(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead, (void)arg;
    return STN_ERR_CALLBACK;
}

/* An op that is refused, and a backward that a hook ends. */
static stn_status refusals(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 0);
    CHECK_STATUS(stn_trace_nvtx(context, 1), STN_OK);
    CHECK(stn_tensor_is_error(stn_matmul(x, x)));
    CHECK_ERROR_PART(context, STN_ERR_SHAPE, "matmul");
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_exp(x);
    CHECK_STATUS(stn_add_tensor_hook(y, fail, NULL, NULL), STN_OK);
    CHECK_STATUS(stn_backward(stn_mean(stn_softmax(y, 0), 0, NULL, 0)), STN_ERR_CALLBACK);
    CHECK_ERROR_PART(context, STN_ERR_CALLBACK, "hook");
    return stn_scope_end(context);
}

/* A device that refuses all further work: ops fail while they run, and so do the collectives in them, on every rank. */
static stn_status failures(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 0);
    CHECK_STATUS(stn_trace_nvtx(context, 1), STN_OK);
    if (stn_context_rank(context) == 1)
        stn_queue_fail(stn_context_queue(context), STN_ERR_DEVICE, "the fuse has blown");
    stn_tensor *y = stn_softmax(x, 0);
    CHECK(stn_tensor_is_error(y) || stn_queue_sync(stn_context_queue(context)) != STN_OK);
    stn_scope_end(context);
    stni_context_sync(context, STN_SYNC_CALLER);
    stn_context_take_error(context, NULL, 0);
    return STN_OK;
}

static void what_fails_ends_its_ranges(void)
{
    CHECK_I64(count(failures, NULL).begun("softmax"), RANKS);
}

static void what_is_refused_ends_its_ranges(void)
{
    const struct nvtx_counter c = count(refusals, NULL);
    CHECK_I64(c.begun("matmul"), RANKS);
    CHECK_I64(c.begun("backward"), RANKS);
}

/* Switches ranges off from within the op and the band that they are in. */
static stn_status switch_off(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                             stn_tensor **out, void *arg)
{
    (void)op, (void)n_in, (void)attrs, (void)n_out;
    CHECK_STATUS(stn_trace_nvtx(arg, 0), STN_OK);
    out[0] = stn_exp(in[0]);
    return stn_context_status(arg);
}

static stn_status switched_within(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, 0);
    CHECK_STATUS(stn_trace_nvtx(context, 1), STN_OK);
    CHECK_STATUS(stn_trace_range_begin(context, "outer"), STN_OK);
    CHECK_STATUS(stn_handler_set(context, "exp", switch_off, context), STN_OK);
    CHECK(!stn_tensor_is_error(stn_exp(x)));
    CHECK_STATUS(stn_trace_range_end(context), STN_OK);
    CHECK_STATUS(stn_trace_range_begin(context, "off"), STN_OK);
    CHECK_STATUS(stn_trace_nvtx(context, 1), STN_OK);
    CHECK_STATUS(stn_trace_range_end(context), STN_OK);
    CHECK_STATUS(stn_trace_range_begin(context, "left open"), STN_OK);
    return stn_scope_end(context);
}

static void ranges_that_are_open_when_they_are_switched_off_end(void)
{
    const struct nvtx_counter c = count(switched_within, NULL);
    CHECK_I64(c.begun("outer"), RANKS);
    CHECK_I64(c.begun("exp"), RANKS);
    CHECK_I64(c.begun("off"), 0);
    CHECK_I64(c.begun("left open"), RANKS);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranges_are_off_until_they_are_asked_for", ranges_are_off_until_they_are_asked_for},
        {"each_op_and_collective_is_one", each_op_and_collective_is_one},
        {"a_trace_begins_and_ends_beside_them", a_trace_begins_and_ends_beside_them},
        {"what_fails_ends_its_ranges", what_fails_ends_its_ranges},
        {"what_is_refused_ends_its_ranges", what_is_refused_ends_its_ranges},
        {"ranges_that_are_open_when_they_are_switched_off_end", ranges_that_are_open_when_they_are_switched_off_end},
    };
    return TEST_MAIN(argc, argv, cases);
}
