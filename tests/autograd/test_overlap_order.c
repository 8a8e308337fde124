/* That a reduction beside the backward hides: told by the order of what happens, on a wire that delivers when the
 * backward has come to its last node, and not before. A backward that waited for a bucket as soon as it had begun it
 * would not come there. */
#include "ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The two large weights fill a bucket of 4 MiB together, when the gradient of the small one is still to come. */
enum { ROWS = 3, LARGE = (2 << 20) / sizeof(double) };
enum { PATIENCE = 20 /* seconds, after which whoever waits goes on, and the test fails */ };

enum event { BEGUN, LAST_NODE, DELIVERED, READ, EVENTS };

/* The wire of rank 0 of two: what comes over it is nothing, so that a sum is this rank's own part. */
struct wire {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int overlap, n;
    enum event order[EVENTS];
};

static void note(struct wire *wire, enum event event)
{
    pthread_mutex_lock(&wire->lock);
    if (CHECK(wire->n < EVENTS))
        wire->order[wire->n++] = event;
    pthread_cond_broadcast(&wire->moved);
    pthread_mutex_unlock(&wire->lock);
}

static int is_noted(const struct wire *wire, enum event event)
{
    for (int i = 0; i < wire->n; i++)
        if (wire->order[i] == event)
            return 1;
    return 0;
}

static void await(struct wire *wire, enum event event)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    pthread_mutex_lock(&wire->lock);
    while (!is_noted(wire, event) && CHECK(pthread_cond_timedwait(&wire->moved, &wire->lock, &until) == 0)) {
    }
    pthread_mutex_unlock(&wire->lock);
}

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    (void)queue, (void)op;
    if (count >= LARGE) {
        note(impl, BEGUN);
        await(impl, LAST_NODE);
    }
    if (send != recv)
        memcpy(recv, send, (size_t)count * stn_dtype_size(dtype));
    if (count >= LARGE)
        note(impl, DELIVERED);
    return STN_OK;
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    (void)impl, (void)queue, (void)messages;
    return STN_OK;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    (void)queue, (void)ranks, (void)n_ranks;
    *out = impl;
    return STN_OK;
}

static stn_status agree(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op)
{
    (void)impl, (void)queue, (void)words, (void)n, (void)op;
    return STN_OK;
}

static stn_status agree_broadcast(void *impl, stn_queue *queue, void *bytes, size_t n, int root)
{
    (void)impl, (void)queue, (void)bytes, (void)n, (void)root;
    return STN_OK;
}

static void destroy(void *impl)
{
    (void)impl; /* the test's */
}

static const stn_comm_ops ops = {.size = sizeof ops,
                                 .name = "held wire",
                                 .all_reduce = all_reduce,
                                 .group = group,
                                 .subset = subset,
                                 .destroy = destroy,
                                 .agree = agree,
                                 .agree_broadcast = agree_broadcast};

/* Of what the small weight has scaled: all but its own node has run. */
static stn_status come_to_the_last_node(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct wire *wire = arg;
    (void)gradient, (void)instead;
    if (wire->overlap)
        await(wire, BEGUN); /* on a thread that may come to it late */
    note(wire, LAST_NODE);
    return STN_OK;
}

static double weight(int64_t i)
{
    return 0.1 * test_value(i + 3);
}

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, int64_t columns)
{
    const stn_placement whole = stn_replicate();
    stn_tensor *t = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, (const int64_t[]){1, columns}, NULL, weight);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

static void backward(stn_context *context, struct wire *wire, double *gradients)
{
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_tensor *small = leaf(context, mesh, 1), *large[] = {leaf(context, mesh, LARGE), leaf(context, mesh, LARGE)};
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, (const int64_t[]){ROWS, 1}, NULL, test_value);
    stn_tensor *y = stn_mul(x, small), *z = stn_mul(stn_mul(y, large[0]), large[1]);
    CHECK_STATUS(stn_add_tensor_hook(y, come_to_the_last_node, wire, NULL), STN_OK);
    CHECK_STATUS(stn_backward(stn_mean(z, 0, NULL, 0)), STN_OK);
    for (int k = 0; k < 2; k++) {
        stn_tensor *grad = NULL;
        CHECK_STATUS(stn_grad_of(large[k], &grad), STN_OK);
        if (CHECK_PTR(grad))
            test_read(grad, gradients + k * LARGE, LARGE);
    }
    note(wire, READ);
}

/* A backward on the queue that the test is run with. */
static void play(int overlap, const enum event *wanted, double *gradients)
{
    struct wire wire = {.overlap = overlap};
    const int worker = test_queue() == TEST_QUEUE_WORKER;
    stn_context_options options = {.size = sizeof options};
    options.queue = (stn_queue_options){.size = sizeof options.queue,
                                        .kind = worker ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE,
                                        .delay_seed = worker ? 7 : 0};
    stn_context *context = NULL;
    pthread_mutex_init(&wire.lock, NULL);
    pthread_cond_init(&wire.moved, NULL);
    CHECK_STATUS(stn_comm_create(&ops, &wire, 0, 2, &options.comm), STN_OK);
    if (CHECK_STATUS(stn_context_create(&options, &context), STN_OK)) {
        stn_scope_begin(context);
        stn_set_grad_overlap(context, overlap);
        backward(context, &wire, gradients);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    stn_context_destroy(&context);
    CHECK_I64(wire.n, EVENTS);
    for (int i = 0; i < wire.n; i++)
        CHECK_I64(wire.order[i], wanted[i]);
    pthread_cond_destroy(&wire.moved);
    pthread_mutex_destroy(&wire.lock);
}

static void a_bucket_is_under_way_until_the_last_node_has_come(void)
{
    static const enum event beside[] = {BEGUN, LAST_NODE, DELIVERED, READ};
    static const enum event after[] = {LAST_NODE, BEGUN, DELIVERED, READ};
    double *gradients[2] = {calloc(2 * LARGE, sizeof(double)), calloc(2 * LARGE, sizeof(double))};
    if (CHECK(gradients[0] && gradients[1])) {
        play(0, after, gradients[0]);
        play(1, beside, gradients[1]);
        CHECK_BYTES(gradients[1], gradients[0], 2 * LARGE * sizeof(double));
    }
    free(gradients[0]);
    free(gradients[1]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_bucket_is_under_way_until_the_last_node_has_come", a_bucket_is_under_way_until_the_last_node_has_come},
    };
    return TEST_MAIN(argc, argv, cases);
}
