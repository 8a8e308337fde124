/* Hosts agree with hosts: ranks whose tensors live in memory that the host cannot read compare words of their own
 * memory. Value errors, which kernels write where their device can, become texts there. */
#include "harness.h"
#include "module/door.h"
#include "module/probe.h"

#include "core/tensor/tensor.h"

#include <shardtensor/shardtensor.h>
#include <shardtensor/module.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef void (*rank_body)(stn_context *context);

/* Who the ranks are: threads of the library's communicator, or of the module's; `words` goes to that. */
struct world {
    int size, checks;
    const char *device, *words; /* words NULL: thread ranks */
    stn_comm **comms;
    rank_body body;
    int number;
};

struct rank {
    pthread_t thread;
    const struct world *world;
    int rank;
};

static stn_comm *comm_of(const struct rank *rank)
{
    char words[64];
    stn_comm *comm = NULL;
    if (!rank->world->words)
        return rank->world->comms[rank->rank];
    snprintf(words, sizeof words, "world=a%d rank=%d size=%d%s", rank->world->number, rank->rank, rank->world->size,
             rank->world->words);
    const stn_comm_options options = {.size = sizeof options, .module_path = PROBE_FOLDER, .text = words};
    CHECK_STATUS(stn_comm_open("probe", &options, &comm), STN_OK);
    return comm;
}

static void *rank_main(void *arg)
{
    const struct rank *rank = arg;
    test_set_rank(rank->rank);
    stn_context_options options = {.size = sizeof options,
                                   .device = rank->world->device,
                                   .module_path = PROBE_FOLDER,
                                   .comm = comm_of(rank),
                                   .queue = door_queue((uint64_t)rank->rank + 1),
                                   .checks = rank->world->checks};
    stn_context *context = NULL;
    if (!CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        return NULL;
    rank->world->body(context);
    stn_context_destroy(&context);
    return NULL;
}

static void run(struct world world)
{
    static int worlds;
    struct rank ranks[8];
    stn_comm *comms[8];
    world.number = ++worlds;
    world.comms = comms;
    if (!world.words)
        CHECK_STATUS(stn_comm_create_threads(world.size, comms), STN_OK);
    for (int r = 0; r < world.size; r++) {
        ranks[r] = (struct rank){.world = &world, .rank = r};
        pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < world.size; r++)
        pthread_join(ranks[r].thread, NULL);
}

static void run_all(rank_body body, int checks)
{
    for (int size = 1; size <= 3; size++) {
        run((struct world){.size = size, .checks = checks, .device = "probe:0", .body = body});
        run((struct world){.size = size, .checks = checks, .device = "probe:1", .body = body});
        run((struct world){.size = size, .checks = checks, .device = "probe:0", .words = "", .body = body});
    }
}

static void agree(stn_context *context)
{
    const int found = context->size - 1;
    char want[64] = "no file";
    if (context->size > 1)
        snprintf(want, sizeof want, "rank %d: no file", found);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    CHECK_STATUS(stn_agree(context, context->rank == found ? STN_ERR_IO : STN_OK, "no file"), STN_ERR_IO);
    CHECK_STR(stn_context_error_text(context), want);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
}

static void ranks_on_a_device_agree_in_memory_of_the_host(void)
{
    run_all(agree, 0);
    run_all(agree, 1);
}

/* More words than one piece, by each op; -1 so that MIN and MAX differ. */
static void agree_on_words(stn_context *context)
{
    enum { N = 1111 };
    static const stn_reduce_op ops[] = {STN_MIN, STN_MAX, STN_SUM};
    const int64_t most = context->size - 1;
    for (int o = 0; o < 3; o++) {
        int64_t words[N];
        for (int64_t i = 0; i < N; i++)
            words[i] = i + context->rank;
        CHECK_STATUS(stni_comm_agree(context->comm, context->queue, words, N, ops[o]), STN_OK);
        const int64_t want = ops[o] == STN_MIN   ? N - 1
                             : ops[o] == STN_MAX ? N - 1 + most
                                                 : (N - 1) * (most + 1) + most * (most + 1) / 2;
        CHECK_I64(words[N - 1], want);
    }
}

static void many_words_are_agreed_on_in_pieces(void)
{
    run_all(agree_on_words, 0);
}

/* Collectives of different sizes: checks mode names the rank that differs. The buffers are not touched. */
static void differ(stn_context *context)
{
    void *data = door_upload(context, &(int64_t){0}, sizeof(int64_t));
    stn_status status = stni_comm_all_reduce(context->comm, context->queue, data, data, context->rank == 1 ? 0 : 1,
                                             STN_DTYPE_I64, STN_SUM);
    if (status == STN_OK)
        status = stn_queue_sync(context->queue);
    CHECK(status == STN_ERR_MISMATCH || status == STN_ERR_PEER);
    CHECK(strstr(stn_queue_error_text(context->queue), "rank 1 makes call 1, all_reduce") != NULL);
    stni_queue_recover(context->queue);
    door_discard(context, data, sizeof(int64_t));
}

static void checks_compare_in_memory_of_the_host(void)
{
    run((struct world){.size = 3, .checks = 1, .device = "probe:0", .body = differ});
    run((struct world){.size = 3, .checks = 1, .device = "probe:0", .words = "", .body = differ});
}

static void refuse(stn_context *context)
{
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_UNSUPPORTED);
    CHECK(strstr(stn_context_error_text(context), "communicator 'probe' has no entries agree and agree_broadcast") !=
          NULL);
}

static void a_communicator_that_cannot_agree_is_refused_on_a_device(void)
{
    run((struct world){.size = 2, .device = "probe:0", .words = " old", .body = refuse});
    run((struct world){.size = 2, .device = "cpu", .words = " old", .body = agree});
    run((struct world){.size = 2, .checks = 1, .device = "cpu", .words = " old", .body = agree});
}

/* Value errors of an op of the test's, whose kernel the device runs */

struct find_args {
    int op, what;
    double number;
};

static void write_record(stn_value_record *record, const struct find_args *a)
{
    uint32_t none = STN_VALUE_FREE;
    if (!__atomic_compare_exchange_n(&record->state, &none, STN_VALUE_CLAIMED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    record->op = a->op;
    record->what = a->what;
    record->n = 5;
    memcpy(record->numbers, (const int64_t[]){41, 0, 2, 6, 7}, 5 * sizeof(int64_t));
    memcpy(&record->numbers[1], &a->number, sizeof a->number);
    __atomic_store_n(&record->state, STN_VALUE_WRITTEN, __ATOMIC_RELEASE);
}

/* As the launcher of a device's kernel does: it asks where the record is, and writes there as the device would. */
static stn_status find_kernel(stn_queue *queue, const void *args)
{
    write_record(probe_true(stn_queue_value_record(queue)), args);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    call->out_meta[0] = (stn_meta){.dtype = STN_DTYPE_F64, .ndim = 0};
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status run_find(stn_op_call *call)
{
    struct find_args args = {stn_op_number(call->op), 1, 2.5};
    return stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static const stn_op_desc *find_op(void)
{
    static const stn_input_schema inputs[] = {{.name = "input"}};
    static const stn_kernel_slot slots[] = {{"values", sizeof(struct find_args)}};
    static const stn_kernel kernels[] = {
        {.size = sizeof(stn_kernel),
         .name = "values",
         .device = "probe",
         .dtypes = 1u << STN_DTYPE_F64,
         .args_size = sizeof(struct find_args),
         .function = find_kernel},
        {.size = sizeof(stn_kernel),
         .name = "values",
         .device = "cpu",
         .dtypes = 1u << STN_DTYPE_F64,
         .args_size = sizeof(struct find_args),
         .function = find_kernel},
    };
    static const char *const texts[] = {"unused", "value {0} at {2*} is not {1g}"};
    static const stn_op_impl impl = {.check = check,
                                     .place = place,
                                     .run = run_find,
                                     STN_SLOTS(slots),
                                     STN_KERNELS(kernels),
                                     .value_texts = texts,
                                     .n_value_texts = STN_ROWS_OF(texts)};
    static const stn_op_desc desc = {
        .size = sizeof desc, .name = "find", STN_INPUTS(inputs), .n_outputs = 1, .impl = &impl};
    return &desc;
}

static void report_values(stn_context *context)
{
    const stn_op *op = NULL;
    const stn_spec *spec = NULL;
    const double number = 1;
    char want[80];
    CHECK_STATUS(stn_op_register(context, find_op(), &op), STN_OK);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F64, 0, NULL, &spec), STN_OK);
    stn_tensor *in = stn_from_host(context, spec, &number), *out = NULL;
    snprintf(want, sizeof want, "%sfind: value 41 at (6, 7) is not 2.5", context->size > 1 ? "rank 0: " : "");
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(stn_op_apply(op, 1, &in, NULL, 1, &out), STN_OK);
        stn_tensor_release(&out);
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
        CHECK_STR(stn_context_error_text(context), want);
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_VALUE);
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    }
    stn_tensor_release(&in);
}

static void value_errors_of_a_device_become_texts_at_the_agreement(void)
{
    run_all(report_values, 0);
    run((struct world){.size = 3, .device = "cpu", .body = report_values});
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranks_on_a_device_agree_in_memory_of_the_host", ranks_on_a_device_agree_in_memory_of_the_host},
        {"many_words_are_agreed_on_in_pieces", many_words_are_agreed_on_in_pieces},
        {"checks_compare_in_memory_of_the_host", checks_compare_in_memory_of_the_host},
        {"a_communicator_that_cannot_agree_is_refused_on_a_device",
         a_communicator_that_cannot_agree_is_refused_on_a_device},
        {"value_errors_of_a_device_become_texts_at_the_agreement",
         value_errors_of_a_device_become_texts_at_the_agreement},
        {"door_gave_all_memory_back", door_gave_all_memory_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
