/* Memory of a CUDA device that a caller's allocator gives: all of it comes from there and goes back, in every way that
 * a context has of ending; what happens where there is none left or it cannot be used; what ranks and captured steps do
 * with it. */
#include "both.h"
#include "lent_memory.h"
#include "ranks.h"

#include "core/context/context.h"

#include <shardtensor/capture.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 300 };

static stn_context *open_context(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda:0", .device_allocator = &lent_allocator});
    if (context)
        lent_alone(context);
    return context;
}

static const void *stream_of(stn_context *context)
{
    return stn_queue_native(stn_context_queue(context));
}

static stn_tensor *constant(stn_context *context, float value)
{
    const int64_t shape[1] = {N};
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = value;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    stn_spec_release(&spec);
    return tensor;
}

static void check_constant(stn_tensor *tensor, double value)
{
    float host[N];
    memset(host, 0, sizeof host);
    CHECK_STATUS(stn_to_host(tensor, host, sizeof host), STN_OK);
    CHECK_NEAR(host[0], value, 0);
    CHECK_NEAR(host[N - 1], value, 0);
}

/* Ops that want scratch of their own, libraries that do, a sort, and a backward; the loss is the scope's. */
static stn_tensor *work(stn_context *context)
{
    const int64_t square[] = {40, 40}, image[] = {2, 3, 9, 9}, filter[] = {4, 3, 3, 3};
    const int is_lent = context->device->allocator.allocate != NULL;
    stn_tensor *indices = NULL, *x = both_input(context, STN_DTYPE_F32, 2, square, 1);
    stn_tensor *w = stn_detach(both_input(context, STN_DTYPE_F32, 2, square, 2));
    stn_set_requires_grad(w, 1);
    stn_tensor *y = stn_softmax(stn_matmul(x, w), 1);
    stn_tensor *sorted = stn_sort(y, 0, 0, &indices), *line = stn_fft(x, 40, 1, STN_FFT_BACKWARD);
    stn_tensor *c = stn_conv2d(both_input(context, STN_DTYPE_F32, 4, image, 3),
                               both_input(context, STN_DTYPE_F32, 4, filter, 4), NULL, NULL);
    const stn_tensor *const all[] = {x, w, y, sorted, indices, line, c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(stn_tensor_is_error(all[i]) || lent_owns(stn_tensor_data(all[i])) == is_lent);
    stn_tensor *loss = stn_sum(stn_mul(y, y), 0, NULL, 0);
    stn_backward(loss);
    return loss;
}

static void all_memory_is_the_callers(void)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context *context = lent_begin() ? open_context() : NULL;
    double loss = 0, same = 0;
    if (!context)
        return;
    stn_scope_begin(context);
    CHECK_STATUS(stn_item(work(context), &loss), STN_OK);
    CHECK(lent_owns(stn_tensor_data(both_input(context, STN_DTYPE_F32, 1, (const int64_t[]){5}, 0))));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.reserved_bytes, lent_counts().bytes);
    CHECK_I64(stats.allocator_calls, lent_counts().asked);
    CHECK_I64(lent_given_on(stream_of(context)), lent_counts().given);
    CHECK_I64(lent_elsewhere(), 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
    lent_end();
    context = both_open((stn_context_options){.device = "cuda:0"});
    stn_scope_begin(context);
    CHECK_STATUS(stn_item(work(context), &same), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_BYTES(&loss, &same, sizeof loss);
    stn_context_destroy(&context);
}

static void what_is_released_is_used_again_until_it_is_trimmed(void)
{
    stn_context *context = lent_begin() ? open_context() : NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1), *y = stn_mul_number(x, 2);
    const void *stream = stream_of(context), *first = stn_tensor_data(y);
    const int64_t given = lent_counts().given;
    stn_tensor_release(&y);
    CHECK_I64(lent_counts().returned, 0);
    y = stn_mul_number(x, 3);
    CHECK(stn_tensor_data(y) == first);
    CHECK_I64(lent_counts().given, given);
    stn_tensor_release(&y);
    stn_context_trim(context);
    CHECK(lent_counts().returned > 0);
    CHECK_I64(lent_returned_on(stream), lent_counts().returned);
    check_constant(x, 1);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
    lent_end();
}

static void handles_that_outlive_their_context_give_it_back(void)
{
    stn_context *context = lent_begin() ? open_context() : NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1), *y = constant(context, 2);
    stn_context_destroy(&context);
    CHECK_I64(lent_counts().live, 2);
    stn_tensor_release(&x);
    CHECK_I64(lent_counts().live, 1);
    stn_tensor_release(&y);
    CHECK_I64(lent_counts().live, 0);
    lent_end();
}

/* The n-th allocation fails; 1: it lies behind the end. What was lost once is asked for again, when what is cached has
 * gone back. */
static int fails_at(int64_t n, int for_ever, int *failures)
{
    char text[512] = "";
    stn_context *context = open_context();
    if (!context)
        return 1;
    const int64_t asked = lent_counts().asked;
    lent_fail_at(n, for_ever);
    stn_scope_begin(context);
    double loss = 0;
    stn_item(work(context), &loss);
    const stn_status status = stn_scope_end(context);
    snprintf(text, sizeof text, "%s", stn_context_error_text(context));
    const int ended = lent_counts().asked - asked < n;
    lent_fail_at(0, 0);
    CHECK_STATUS(status, for_ever && !ended ? STN_ERR_MEMORY : STN_OK);
    if (status == STN_ERR_MEMORY &&
        (!CHECK(strstr(text, "out of memory: ") != NULL) || !CHECK(strstr(text, " bytes)") != NULL)))
        fprintf(stderr, "  allocation %d: %s\n", (int)n, text);
    *failures += status != STN_OK;
    stn_tensor *x = constant(context, 3); /* the context works again */
    check_constant(x, 3);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
    CHECK_I64(lent_counts().live, 0);
    return ended;
}

static void a_failed_allocation_is_told_and_loses_nothing(void)
{
    int failures = 0, once = 0;
    int64_t n = 1;
    if (!lent_begin())
        return;
    for (; !fails_at(n, 1, &failures); n++)
        fails_at(n, 0, &once);
    CHECK(n > 10); /* how much scratch libraries want differs between GPUs */
    CHECK_I64(failures, n - 1);
    CHECK_I64(once, 0);
    lent_end();
}

static void an_address_that_is_not_aligned_is_refused(void)
{
    char want[200];
    stn_context *context = lent_begin() ? open_context() : NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1);
    stn_context_trim(context);
    const struct lent_counts before = lent_counts();
    lent_misalign_at(1);
    stn_tensor *y = stn_mul_number(x, 2);
    CHECK(stn_tensor_is_error(y));
    CHECK_I64(lent_counts().asked, before.asked + 1); /* another attempt would be no better */
    CHECK_I64(lent_counts().live, before.live);
    char got[512] = "", *tail;
    CHECK_STATUS(stn_context_take_error(context, got, sizeof got), STN_ERR_CALLBACK);
    snprintf(want, sizeof want, "device_allocator: the address of %d bytes got 0x",
             N * 4 + (N * 4 % 128 ? 128 - N * 4 % 128 : 0));
    CHECK(strncmp(got, want, strlen(want)) == 0);
    const unsigned long long address = strtoull(got + strlen(want), &tail, 16);
    CHECK_I64((int64_t)(address % 256), 64);
    CHECK_STR(tail, ", wanted a multiple of 256");
    stn_tensor_release(&y);
    y = stn_mul_number(x, 2);
    check_constant(y, 2);
    stn_tensor_release(&y);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
    lent_end();
}

/* Memory that a step takes while it is recorded is not asked for on the stream that records, and is the step's until it
 * is destroyed. */
static void a_captured_step_keeps_its_memory(void)
{
    stn_step *step = NULL;
    stn_context *context = lent_begin() ? open_context() : NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1);
    const void *stream = stream_of(context);
    const int64_t on_stream = lent_given_on(stream), given = lent_counts().given;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_scope_begin(context);
    stn_tensor *y = stn_mul_number(stn_mul_number(x, 3), 5);
    CHECK_STATUS(stn_scope_end_keep(context, y, &y), STN_OK);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK(lent_counts().given >= given + 2);
    CHECK_I64(lent_given_on(stream), on_stream);
    CHECK_I64(stn_step_graphs(step), 1);
    check_constant(y, 15);
    stn_context_trim(context);
    const int64_t live = lent_counts().live;
    for (int i = 1; i <= 3; i++) {
        stn_add_(x, x, 1);
        stn_context_trim(context);
        CHECK_STATUS(stn_step_run(step), STN_OK);
        check_constant(y, 15 * (1 << i));
    }
    CHECK_I64(lent_counts().live, live);
    stn_step_destroy(&step);
    CHECK(lent_counts().live < live);
    check_constant(y, 15 * 8);
    stn_tensor_release(&y);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
    CHECK_I64(lent_elsewhere(), 0);
    lent_end();
}

/* Thread ranks, which share the allocator */

enum { ROWS = 7, COLUMNS = 5 };

/* Halves and wholes go between the ranks: exchanges, which are staged, and reductions. */
static stn_status rank_work(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t shape[] = {ROWS, COLUMNS};
    const int size = stn_context_size(context);
    double value = 0;
    lent_alone(context);
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, size == 6 ? 2 : size, size == 6 ? 3 : 0);
    const char *rows = size == 6 ? "S0,S1" : "S0", *columns = size == 6 ? "S1,S0" : "S1";
    stn_tensor *x = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, rows, 2, shape));
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_redistribute(stn_mul_number(x, 2), stn_spec_of(mesh, STN_DTYPE_F32, columns, 2, shape));
    stn_tensor *loss = stn_sum(stn_matmul(y, stn_transpose(y, 0, 1)), 0, NULL, 0);
    stn_backward(loss);
    stn_item(loss, &value);
    stn_agree(context, STN_OK, NULL);
    if (stn_context_status(context) == STN_OK)
        CHECK_NEAR(value, ROWS * ROWS * COLUMNS * 4, 0);
    return stn_scope_end(context);
}

struct outcome {
    stn_status status;
    char text[512];
};

static stn_status rank_outcome(stn_context *context, void *arg)
{
    struct outcome *outcome = (struct outcome *)arg + stn_context_rank(context);
    outcome->status = rank_work(context, NULL);
    snprintf(outcome->text, sizeof outcome->text, "%s", stn_context_error_text(context));
    return outcome->status;
}

static stn_status launch(int ranks, stn_rank_main body, void *arg)
{
    const char *folder = getenv("STN_TEST_CUDA_FOLDER");
    const stn_launch_options options = {.size = sizeof options,
                                        .ranks = ranks,
                                        .context = {.size = sizeof options.context,
                                                    .device = "cuda:0",
                                                    .module_path = folder ? folder : CUDA_FOLDER,
                                                    .deadline_seconds = 60,
                                                    .device_allocator = &lent_allocator}};
    return stn_launch(&options, body, arg);
}

static void ranks_share_an_allocator(void)
{
    static const int worlds[] = {1, 2, 3, 6};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        if (!lent_begin())
            return;
        CHECK_STATUS(launch(worlds[i], rank_work, NULL), STN_OK);
        CHECK(lent_counts().given > worlds[i]);
        CHECK_I64(lent_elsewhere(), 0);
        lent_end();
    }
}

/* Which rank it is the schedule decides: it says what there was no memory for, or what was wrong with it; its peer
 * names it. */
static void check_outcomes(const struct outcome *outcomes, stn_status status, const char *part)
{
    for (int r = 0; r < 2; r++) {
        const struct outcome *o = &outcomes[r];
        if (!CHECK(o->status == status || o->status == STN_ERR_PEER || o->status == STN_OK) ||
            !CHECK(o->status == STN_OK || strstr(o->text, part) != NULL) ||
            !CHECK(o->status != STN_ERR_PEER || strstr(o->text, "rank ") != NULL))
            fprintf(stderr, "  rank %d: %s: %s\n", r, stn_status_text(o->status), o->text);
    }
}

static void every_rank_learns_of_memory_that_one_does_not_get(void)
{
    int failures = 0, ended = 0;
    for (int64_t n = 1; !ended; n++) {
        struct outcome none[2] = {{STN_OK, ""}, {STN_OK, ""}}, wrong[2] = {{STN_OK, ""}, {STN_OK, ""}};
        if (!lent_begin())
            return;
        lent_fail_at(n, 1);
        const stn_status status = launch(2, rank_outcome, none);
        ended = lent_counts().asked < n;
        CHECK_STATUS(status, ended ? STN_OK : STN_ERR_MEMORY);
        check_outcomes(none, STN_ERR_MEMORY, "out of memory: ");
        failures += status != STN_OK;
        lent_end();
        if (!lent_begin())
            return;
        lent_misalign_at(n);
        CHECK_STATUS(launch(2, rank_outcome, wrong), ended ? STN_OK : STN_ERR_CALLBACK);
        check_outcomes(wrong, STN_ERR_CALLBACK, "device_allocator: the address of ");
        lent_end();
    }
    CHECK(failures > 5);
}

/* Contexts that are not made */

static void check_creation(stn_context_options options, stn_status status, const char *text)
{
    char got[512] = "";
    const char *folder = getenv("STN_TEST_CUDA_FOLDER");
    stn_context *context = NULL;
    options.size = sizeof options;
    options.module_path = folder ? folder : CUDA_FOLDER;
    options.error_text = got;
    options.error_text_size = sizeof got;
    CHECK_STATUS(stn_context_create(&options, &context), status);
    CHECK_STR(got, text);
    stn_context_destroy(&context);
}

static void what_is_no_devices_allocator_is_refused(void)
{
    stn_device_allocator small = lent_allocator, half = lent_allocator, other = lent_allocator;
    char text[200];
    small.size = sizeof small - 1;
    half.allocate = NULL;
    other.deallocate = NULL;
    snprintf(text, sizeof text,
             "context: device_allocator->size got %d bytes, wanted sizeof(stn_device_allocator) = %d",
             (int)sizeof small - 1, (int)sizeof small);
    check_creation((stn_context_options){.device = "cuda:0", .device_allocator = &small}, STN_ERR_ARGUMENT, text);
    check_creation((stn_context_options){.device = "cuda:0", .device_allocator = &half}, STN_ERR_ARGUMENT,
                   "context: device_allocator->allocate got NULL, wanted a function");
    check_creation((stn_context_options){.device = "cuda:0", .device_allocator = &other}, STN_ERR_ARGUMENT,
                   "context: device_allocator->deallocate got NULL, wanted a function");
    check_creation(
        (stn_context_options){.device_allocator = &lent_allocator}, STN_ERR_ARGUMENT,
        "context: device_allocator got functions, wanted NULL for device 'cpu': its memory is of `allocator`");
}

/* Options of a program that was compiled before there was such an allocator: what stands behind them is not read. */
static void shorter_options_have_none(void)
{
    const char *folder = getenv("STN_TEST_CUDA_FOLDER");
    stn_context_options options = {.size = offsetof(stn_context_options, device_allocator), .device = "cuda:0",
                                   .module_path = folder ? folder : CUDA_FOLDER, .device_allocator = &lent_allocator};
    stn_context *context = NULL;
    if (!lent_begin() || !CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        return;
    stn_tensor *x = constant(context, 1);
    check_constant(x, 1);
    CHECK_I64(lent_counts().asked, 0);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
    lent_end();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"all_memory_is_the_callers", all_memory_is_the_callers},
        {"what_is_released_is_used_again_until_it_is_trimmed", what_is_released_is_used_again_until_it_is_trimmed},
        {"handles_that_outlive_their_context_give_it_back", handles_that_outlive_their_context_give_it_back},
        {"a_failed_allocation_is_told_and_loses_nothing", a_failed_allocation_is_told_and_loses_nothing},
        {"an_address_that_is_not_aligned_is_refused", an_address_that_is_not_aligned_is_refused},
        {"a_captured_step_keeps_its_memory", a_captured_step_keeps_its_memory},
        {"ranks_share_an_allocator", ranks_share_an_allocator},
        {"every_rank_learns_of_memory_that_one_does_not_get", every_rank_learns_of_memory_that_one_does_not_get},
        {"what_is_no_devices_allocator_is_refused", what_is_no_devices_allocator_is_refused},
        {"shorter_options_have_none", shorter_options_have_none},
    };
    return TEST_MAIN(argc, argv, cases);
}
