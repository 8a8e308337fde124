/* A halo that goes beside the interior: the same bits, messages and bytes as one that is waited for first; what is computed before it has come; and
 * what becomes of it where a rank fails meanwhile. */
#include "core/comm/comm.h"
#include "ops/conv/cases.h"
#include "ops/conv/conv_kernel.h"
#include "ops/exchange/halo_overlap.h"
#include "ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The same bits, messages and bytes */

enum { FORMS = 4, TENSORS = 4 /* the result, and the gradients by input, weight and bias */ };

struct grid {
    int rows, columns;
};

/* How a case is cut over a grid. */
struct cut {
    const struct conv_case *of;
    struct grid grid;
    int form; /* 0: balanced; 1: all rows but one on the first piece; 2: the same, rows over both axes; 3: on the last piece */
    stn_dtype dtype;
};

/* This rank's chunks of all results, and what they cost. */
struct outcome {
    char *bytes[TENSORS];
    size_t n[TENSORS];
    stn_stats stats;
};

static void lopsided(int64_t n, int pieces, int at, int64_t *sizes)
{
    memset(sizes, 0, (size_t)pieces * sizeof *sizes);
    const int beside = at > 0 ? at - 1 : at + 1;
    sizes[beside] = n > 1 && pieces > 1;
    sizes[at] = n - sizes[beside];
}

static const stn_spec *input_spec(stn_context *context, const stn_mesh *mesh, const struct cut *cut)
{
    static const stn_placement replicate = {STN_PLACE_REPLICATE, 0, 0, 0};
    const struct conv_case *s = cut->of;
    const struct random_shape shape = conv_input_shape(s);
    const int rows = shape.ndim - s->dims, pieces = cut->grid.rows * (cut->form == 2 ? cut->grid.columns : 1);
    const stn_placement plain[] = {stn_shard(rows), s->dims > 1 ? stn_shard(rows + 1) : replicate}, both[] = {stn_shard(rows), stn_shard(rows)};
    int64_t of_rows[8];
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    if (cut->form > 0) {
        lopsided(shape.shape[rows], pieces, cut->form == 3 ? pieces - 1 : 0, of_rows);
        sizes[rows] = of_rows;
    }
    return conv_spec(context, mesh, cut->form == 2 ? both : plain, cut->dtype, &shape, sizes);
}

static stn_tensor *leaf(stn_context *context, const stn_spec *spec, const struct random_shape *shape, uint64_t *state)
{
    double *values = against_one_draw(state, against_one_numel(shape));
    stn_tensor *tensor = against_one_tensor(context, spec, values);
    CHECK_STATUS(stn_set_requires_grad(tensor, 1), STN_OK);
    stn_spec_release(&spec);
    free(values);
    return tensor;
}

static int make_inputs(stn_context *context, const stn_mesh *mesh, const struct cut *cut, stn_tensor **in)
{
    static const stn_placement replicate[] = {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}};
    const struct random_shape shapes[] = {conv_input_shape(cut->of), conv_weight_shape(cut->of), conv_bias_shape(cut->of)};
    uint64_t state = 29;
    in[0] = leaf(context, input_spec(context, mesh, cut), &shapes[0], &state);
    for (int i = 1; i < 3; i++)
        in[i] = leaf(context, conv_spec(context, mesh, replicate, cut->dtype, &shapes[i], NULL), &shapes[i], &state);
    return cut->of->has_bias ? 3 : 2;
}

static void keep_chunk(struct outcome *outcome, int i, stn_tensor *tensor)
{
    const stn_spec *spec = stn_tensor_spec(tensor);
    outcome->n[i] = (size_t)stn_spec_local_numel(spec) * stn_dtype_size(stn_tensor_dtype(tensor));
    outcome->bytes[i] = malloc(outcome->n[i] + 1);
    if (outcome->n[i] > 0)
        memcpy(outcome->bytes[i], stn_tensor_data(tensor), outcome->n[i]);
}

/* The convolution and its gradients. */
static void convolve(stn_context *context, const stn_mesh *mesh, const struct cut *cut, stn_halo_overlap when, struct outcome *outcome)
{
    stn_tensor *in[3], *results[TENSORS];
    memset(outcome, 0, sizeof *outcome);
    outcome->stats.size = sizeof outcome->stats;
    stn_scope_begin(context);
    const int n = make_inputs(context, mesh, cut, in);
    CHECK_STATUS(stn_set_halo_overlap(context, when), STN_OK);
    stn_context_stats_reset(context);
    results[0] = conv_call(in, cut->of);
    stn_tensor *loss = stn_sum(stn_mul(results[0], results[0]), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, n, in, 0, 0, results + 1), STN_OK);
    CHECK_STATUS(stn_context_stats(context, &outcome->stats), STN_OK);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    for (int i = 0; i <= n && stn_context_status(context) == STN_OK; i++)
        keep_chunk(outcome, i, results[i]);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_WHERE_IT_PAYS), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static void compare(stn_context *context, const stn_mesh *mesh, const struct cut *cut)
{
    struct outcome first, beside;
    convolve(context, mesh, cut, STN_HALO_OVERLAP_NEVER, &first);
    convolve(context, mesh, cut, STN_HALO_OVERLAP_ALWAYS, &beside);
    CHECK_I64(beside.stats.messages, first.stats.messages);
    CHECK_I64(beside.stats.bytes_sent, first.stats.bytes_sent);
    CHECK_I64(beside.stats.collectives, first.stats.collectives);
    for (int i = 0; i < TENSORS; i++) {
        CHECK_I64((int64_t)beside.n[i], (int64_t)first.n[i]);
        if (beside.n[i] == first.n[i] && first.n[i] > 0)
            CHECK_BYTES(beside.bytes[i], first.bytes[i], first.n[i]);
        free(first.bytes[i]);
        free(beside.bytes[i]);
    }
}

static stn_status same_body(stn_context *context, void *arg)
{
    const struct grid *grid = arg;
    const stn_mesh *mesh = test_mesh(context, grid->rows, grid->columns);
    for (int i = 0; i < conv_n_cases; i++)
        for (int form = 0; form < FORMS; form++) {
            const struct cut cut = {&conv_cases[i], *grid, form, (i + form) % 2 ? STN_DTYPE_F32 : STN_DTYPE_F64};
            if (form != 2 || grid->columns > 0)
                compare(context, mesh, &cut);
        }
    return STN_OK;
}

static void bits_messages_and_bytes_are_those_of_a_halo_that_comes_first(void)
{
    static struct grid grids[] = {{1, 0}, {2, 0}, {3, 0}, {2, 2}, {2, 3}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        test_ranks(grids[i].rows * (grids[i].columns ? grids[i].columns : 1), same_body, &grids[i]);
}

/* Ranks of MPI run this one. */
static void two_ranks_get_the_bits_of_a_halo_that_comes_first(void)
{
    static struct grid grid = {2, 0};
    test_ranks(2, same_body, &grid);
}

/* What is done meanwhile */

enum meanwhile { NOTHING, FAILS, ABORTS, TELLS };

enum { UNUSUAL = 1 /* the rank to which something happens */ };

/* The first kernel of this rank's convolution, which solves the interior. On the thread that runs the queue. */
static _Atomic(enum meanwhile) at_first[2];
static _Atomic(stn_comm *) own_comm;
static atomic_int interior_done;

static int rank_of(const stn_queue *queue)
{
    return stn_context_rank(queue->context);
}

static stn_status first_kernel(stn_queue *queue, const void *args)
{
    const int rank = rank_of(queue);
    const enum meanwhile happens = rank < 2 ? atomic_exchange(&at_first[rank], NOTHING) : NOTHING;
    if (happens == FAILS)
        return stn_queue_fail(queue, STN_ERR_DEVICE, "a fan has stopped");
    if (happens == ABORTS)
        stni_comm_abort(atomic_load(&own_comm), STN_ERR_DEVICE, "a fan has stopped");
    const stn_status status = stni_conv_cpu(queue, args);
    if (happens == TELLS)
        atomic_store(&interior_done, 1);
    return status;
}

static void watch_kernels(stn_context *context)
{
    const stn_kernel kernel = {.size = sizeof kernel, .name = "conv2d.solve", .device = "cpu", .dtypes = STNI_CONV_DTYPES,
                               .args_size = sizeof(struct stni_conv_args), .function = first_kernel, .workspace = stni_conv_cpu_workspace};
    CHECK_STATUS(stn_kernel_register(context, &kernel), STN_OK);
}

static stn_tensor *call(stn_context *context, const stn_mesh *mesh)
{
    static const int64_t x[] = {1, 2, 24, 9}, w[] = {3, 2, 3, 3};
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}};
    stn_tensor *in[] = {conv_filled(context, mesh, stn_shard(2), 4, x, NULL), conv_filled(context, mesh, stn_replicate(), 4, w, NULL)};
    return stn_conv2d(in[0], in[1], NULL, &attrs);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The last rank comes when the first one's interior is done: which, waiting for its halo first, would never be. */
static stn_status late_body(stn_context *context, void *arg)
{
    const double start = now(), soon = 20; /* seconds */
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    watch_kernels(context);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    if (stn_context_rank(context) != 0)
        while (!atomic_load(&interior_done) && now() - start < soon)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(stn_context_rank(context) == 0 || atomic_load(&interior_done));
    call(context, mesh);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    return stn_scope_end(context);
}

static void interior_is_done_before_the_halo_has_come(void)
{
    atomic_store(&at_first[0], TELLS);
    atomic_store(&interior_done, 0);
    test_ranks(2, late_body, NULL);
    CHECK(atomic_load(&at_first[0]) == NOTHING);
}

/* What happens to one rank while its halo is on its way: all are told which one and why, by this op or by their next collective. */
static stn_status failing_body(stn_context *context, void *arg)
{
    const enum meanwhile happens = *(const enum meanwhile *)arg;
    const int rank = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const double start = now(), soon = 25; /* seconds, long before the deadline */
    char text[512] = "";
    stn_status status = STN_OK;
    stn_scope_begin(context);
    watch_kernels(context);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    if (rank == UNUSUAL) {
        atomic_store(&own_comm, stn_context_comm(context));
        atomic_store(&at_first[UNUSUAL], happens);
    }
    while (status == STN_OK && now() - start < soon) {
        call(context, mesh);
        status = stn_queue_sync(stn_context_queue(context));
        status = stn_context_status(context) != STN_OK ? stn_context_status(context) : status;
    }
    stn_queue_sync(stn_context_queue(context));
    if (stn_context_status(context) == STN_OK)
        stn_agree(context, STN_OK, NULL);
    status = stn_context_take_error(context, text, sizeof text);
    CHECK(now() - start < soon);
    CHECK_STATUS(status, rank == UNUSUAL ? STN_ERR_DEVICE : STN_ERR_PEER);
    if (!CHECK(strstr(text, "a fan has stopped") != NULL))
        printf("  rank %d got \"%s\"\n", rank, text);
    CHECK(rank == UNUSUAL || strstr(text, "rank 1") != NULL);
    stn_scope_end(context);
    return STN_OK;
}

static void a_rank_that_fails_meanwhile_is_named_by_all(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int i = FAILS; i <= ABORTS; i++) {
            enum meanwhile happens = (enum meanwhile)i;
            test_launch(ranks, &options, failing_body, &happens);
            CHECK(atomic_load(&at_first[UNUSUAL]) == NOTHING);
        }
}

/* Ranks of MPI run this one, once a job. */
static void a_rank_that_aborts_meanwhile_is_named_by_two(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    enum meanwhile happens = ABORTS;
    test_launch(2, &options, failing_body, &happens);
}

/* When */

static void it_pays_where_cores_are_free_and_both_take_time(void)
{
    const int64_t kib = 1 << 10, million = 1000 * 1000;
    CHECK_I64(stni_halo_pays(1, 16 * kib, 10 * million), 1);
    CHECK_I64(stni_halo_pays(1, INT64_MAX, INT64_MAX), 1);
    CHECK_I64(stni_halo_pays(0, INT64_MAX, INT64_MAX), 0);
    CHECK_I64(stni_halo_pays(1, 16 * kib - 1, INT64_MAX), 0);
    CHECK_I64(stni_halo_pays(1, INT64_MAX, 10 * million - 1), 0);
}

static stn_status choice_body(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_set_halo_overlap(NULL, STN_HALO_OVERLAP_NEVER), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_set_halo_overlap(context, (stn_halo_overlap)3), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "set_halo_overlap: when got 3, wanted 0 to 2");
    return STN_OK;
}

static void another_choice_is_refused(void)
{
    test_ranks(1, choice_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"bits_messages_and_bytes_are_those_of_a_halo_that_comes_first", bits_messages_and_bytes_are_those_of_a_halo_that_comes_first},
        {"two_ranks_get_the_bits_of_a_halo_that_comes_first", two_ranks_get_the_bits_of_a_halo_that_comes_first},
        {"interior_is_done_before_the_halo_has_come", interior_is_done_before_the_halo_has_come},
        {"a_rank_that_fails_meanwhile_is_named_by_all", a_rank_that_fails_meanwhile_is_named_by_all},
        {"a_rank_that_aborts_meanwhile_is_named_by_two", a_rank_that_aborts_meanwhile_is_named_by_two},
        {"it_pays_where_cores_are_free_and_both_take_time", it_pays_where_cores_are_free_and_both_take_time},
        {"another_choice_is_refused", another_choice_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
