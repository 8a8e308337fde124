/* Gradients that are reduced while the backward goes on: the same bits, messages and bytes as at its end, whatever the
 * layouts; what hooks, accumulation and failures see. */
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 6, LAYERS = 7, BIG = 700 /* a weight of BIG x BIG doubles fills most of a bucket */ };

static double weight(int64_t i)
{
    return 0.4 * test_value(i + 5);
}

/* A chain of layers: y = tanh(y w + b), of which some are used twice, one is not used, one is shared between two
 * layers. */
struct model {
    stn_tensor *w[LAYERS], *b[LAYERS], *idle;
};

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, const stn_placement *place, int ndim, int64_t rows)
{
    stn_tensor *t =
        test_tensor(context, mesh, place, STN_DTYPE_F64, ndim, (const int64_t[]){rows, WIDTH}, NULL, weight);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

/* How a layer's parameters lie: replicas, chunks, chunks along one axis of two. */
static const stn_placement places[][2] = {{{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}},
                                          {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}},
                                          {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}},
                                          {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}}};

static void make(struct model *m, stn_context *context, const stn_mesh *mesh)
{
    for (int k = 0; k < LAYERS; k++) {
        m->w[k] = leaf(context, mesh, places[k % 4], 2, WIDTH);
        m->b[k] =
            test_tensor(context, mesh, places[k % 2 ? 1 : 0], STN_DTYPE_F64, 1, (const int64_t[]){WIDTH}, NULL, weight);
        CHECK_STATUS(stn_set_requires_grad(m->b[k], 1), STN_OK);
    }
    m->idle = leaf(context, mesh, places[0], 2, WIDTH);
}

static stn_tensor *loss_of(const struct model *m, stn_tensor *x)
{
    stn_tensor *y = x;
    for (int k = 0; k < LAYERS; k++)
        y = stn_tanh(stn_add(stn_matmul(y, m->w[k]), m->b[k]));
    return stn_mean(stn_mul(stn_matmul(y, m->w[1]), stn_add(y, m->b[2])), 0, NULL, 0);
}

/* Samples of 5, 6, 7 rows along both axes: uneven chunks, and none on some ranks. */
static stn_tensor *sample(stn_context *context, const stn_mesh *mesh, int step)
{
    static const stn_placement rows[] = {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}};
    return test_tensor(context, mesh, rows, STN_DTYPE_F64, 2, (const int64_t[]){5 + step, WIDTH}, NULL, test_value);
}

enum { MOST = (2 * LAYERS + 1) * WIDTH * WIDTH };

/* This rank's chunks of all gradients. */
static int64_t read_all(stn_context *context, const struct model *m, double *out)
{
    int64_t n = 0;
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    for (int k = 0; k < 2 * LAYERS; k++) {
        stn_tensor *grad = NULL;
        CHECK_STATUS(stn_grad_of(k % 2 ? m->b[k / 2] : m->w[k / 2], &grad), STN_OK);
        if (!CHECK_PTR(grad))
            continue;
        const int64_t *shape = stn_tensor_local_shape(grad),
                      own = shape[0] * (stn_tensor_ndim(grad) > 1 ? shape[1] : 1);
        if (own > 0)
            memcpy(out + n, stn_tensor_data(grad), (size_t)own * sizeof *out);
        n += own;
    }
    stn_tensor *none = NULL;
    CHECK_STATUS(stn_grad_of(m->idle, &none), STN_OK);
    CHECK(none == NULL);
    return n;
}

/* Three samples; the first two without reducing, if so wanted. */
static int64_t train(stn_context *context, const stn_mesh *mesh, int overlap, int no_sync, double *out,
                     stn_stats *stats)
{
    struct model m;
    stn_scope_begin(context);
    stn_set_grad_overlap(context, overlap);
    make(&m, context, mesh);
    test_stats_reset(context);
    for (int step = 0; step < 3; step++) {
        if (no_sync && step < 2)
            stn_no_sync_begin(context);
        CHECK_STATUS(stn_backward(loss_of(&m, sample(context, mesh, step))), STN_OK);
        if (no_sync && step < 2)
            stn_no_sync_end(context);
    }
    *stats = test_stats_reset(context);
    const int64_t n = read_all(context, &m, out);
    stn_set_grad_overlap(context, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return n;
}

static stn_status same_body(stn_context *context, void *arg)
{
    const int *sizes = arg;
    const stn_mesh *mesh = test_mesh(context, sizes[0], sizes[1]);
    for (int no_sync = 0; no_sync < 2; no_sync++) {
        double beside[MOST], after[MOST];
        stn_stats with, without;
        const int64_t n = train(context, mesh, 0, no_sync, after, &without);
        CHECK_I64(train(context, mesh, 1, no_sync, beside, &with), n);
        if (n > 0)
            CHECK_BYTES(beside, after, (size_t)n * sizeof *after);
        CHECK_I64(with.messages, without.messages);
        CHECK_I64(with.bytes_sent, without.bytes_sent);
        CHECK_I64(with.collectives, without.collectives);
    }
    return STN_OK;
}

static void gradients_messages_and_bytes_are_those_without(void)
{
    static int grids[][2] = {{1, 1}, {2, 1}, {3, 1}, {2, 2}, {2, 3}, {3, 2}, {1, 3}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        test_ranks(grids[i][0] * grids[i][1], same_body, grids[i]);
}

/* Weights that fill buckets on their own, between small ones. */
static stn_status large_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement whole = stn_replicate(), rows = stn_shard(0);
    double *got[2] = {calloc(BIG * BIG, sizeof(double)), calloc(BIG * BIG, sizeof(double))};
    int64_t messages[2];
    for (int overlap = 0; overlap < 2 && CHECK(got[0] && got[1]); overlap++) {
        stn_tensor *w[3], *grad = NULL;
        stn_scope_begin(context);
        stn_set_grad_overlap(context, overlap);
        for (int k = 0; k < 3; k++) {
            w[k] = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, (const int64_t[]){BIG, k == 1 ? 1 : BIG}, NULL,
                               weight);
            CHECK_STATUS(stn_set_requires_grad(w[k], 1), STN_OK);
        }
        stn_tensor *x =
            test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, (const int64_t[]){3, BIG}, NULL, test_value);
        test_stats_reset(context);
        CHECK_STATUS(stn_backward(stn_mean(stn_matmul(stn_matmul(stn_matmul(x, w[0]), w[2]), w[1]), 0, NULL, 0)),
                     STN_OK);
        messages[overlap] = test_stats_reset(context).messages;
        CHECK_STATUS(stn_grad_of(w[0], &grad), STN_OK);
        if (CHECK_PTR(grad))
            test_read(grad, got[overlap], BIG * BIG);
        stn_set_grad_overlap(context, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_I64(messages[1], messages[0]);
    CHECK_BYTES(got[1], got[0], BIG * BIG * sizeof(double));
    free(got[0]);
    free(got[1]);
    return STN_OK;
}

static void large_gradients_go_on_their_own(void)
{
    test_ranks(2, large_body, NULL);
    test_ranks(3, large_body, NULL);
}

/* Ranks of MPI run this one. */
static void two_ranks_get_what_they_get_without(void)
{
    static int grid[] = {2, 1};
    test_ranks(2, same_body, grid);
    test_ranks(2, large_body, NULL);
}

struct heard {
    stn_tensor *leaf;
    int hooks, told;
};

/* The gradient is complete when a hook of it is told, and until then nobody reads half of it. */
static stn_status told(stn_tensor *tensor, void *arg)
{
    struct heard *heard = arg;
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(tensor, &grad), STN_OK);
    CHECK_PTR(grad);
    heard->told++;
    return STN_OK;
}

static stn_status halve(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct heard *heard = arg;
    heard->hooks++;
    *instead = stn_mul_number(gradient, 0.5);
    return STN_OK;
}

/* A hook of the first layer's output, when the gradients of all later layers are under way. */
static stn_status look(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct heard *heard = arg;
    stn_context *context = stn_tensor_context(gradient);
    stn_tensor *grad = NULL;
    (void)instead;
    CHECK_STATUS(stn_grad_of(heard->leaf, &grad), STN_ERR_PARTIAL);
    CHECK_ERROR_PART(context, STN_ERR_PARTIAL, "a reduction is pending");
    heard->hooks++;
    return STN_OK;
}

static stn_status hooks_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement whole = stn_replicate();
    double plain[WIDTH * WIDTH], halved[WIDTH * WIDTH];
    for (int hooked = 0; hooked < 2; hooked++) {
        struct heard heard = {0}, looked = {0};
        stn_tensor *grad = NULL;
        stn_scope_begin(context);
        stn_set_grad_overlap(context, 1);
        stn_tensor *first = leaf(context, mesh, &whole, 2, WIDTH), *last = leaf(context, mesh, &whole, 2, WIDTH);
        stn_tensor *y = stn_matmul(sample(context, mesh, 1), first);
        looked.leaf = last;
        if (hooked) {
            CHECK_STATUS(stn_add_tensor_hook(last, halve, &heard, NULL), STN_OK);
            CHECK_STATUS(stn_add_grad_hook(last, told, &heard, NULL), STN_OK);
            CHECK_STATUS(stn_add_tensor_hook(y, look, &looked, NULL), STN_OK);
        }
        CHECK_STATUS(stn_backward(stn_mean(stn_tanh(stn_matmul(y, last)), 0, NULL, 0)), STN_OK);
        CHECK_I64(heard.hooks + heard.told + looked.hooks, 3 * hooked);
        CHECK_STATUS(stn_grad_of(last, &grad), STN_OK);
        if (CHECK_PTR(grad))
            test_read(grad, hooked ? halved : plain, WIDTH * WIDTH);
        stn_set_grad_overlap(context, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    for (int i = 0; i < WIDTH * WIDTH; i++)
        CHECK_NEAR(halved[i], plain[i] / 2, 0);
    return STN_OK;
}

static void hooks_see_their_gradients_and_nobody_half_a_one(void)
{
    test_ranks(2, hooks_body, NULL);
    test_ranks(3, hooks_body, NULL);
}

static stn_status fail(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead, (void)arg;
    return STN_ERR_CALLBACK;
}

/* A backward that fails when reductions are under way leaves the gradients, complete or pending, that were there. */
static stn_status failing_body(stn_context *context, void *arg)
{
    const int pending = *(const int *)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement whole = stn_replicate();
    double before[WIDTH * WIDTH], after[WIDTH * WIDTH];
    stn_tensor *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *first = leaf(context, mesh, &whole, 2, WIDTH), *last = leaf(context, mesh, &whole, 2, WIDTH);
    for (int round = 0; round < 2; round++) {
        stn_tensor *y = stn_matmul(sample(context, mesh, 1), first);
        stn_tensor *loss = stn_mean(stn_tanh(stn_matmul(y, last)), 0, NULL, 0);
        if (round == 0 && pending)
            stn_no_sync_begin(context);
        if (round == 1) {
            stn_set_grad_overlap(context, 1);
            CHECK_STATUS(stn_add_tensor_hook(y, fail, NULL, NULL), STN_OK);
        }
        CHECK_STATUS(stn_backward(loss), round ? STN_ERR_CALLBACK : STN_OK);
        if (round == 0 && pending)
            stn_no_sync_end(context);
        if (round == 0 && !pending && stn_grad_of(last, &grad) == STN_OK)
            test_read(grad, before, WIDTH * WIDTH);
    }
    CHECK_ERROR_PART(context, STN_ERR_CALLBACK, "hook");
    if (pending)
        CHECK_STATUS(stn_grad_sync(context, 2, (stn_tensor *[]){first, last}), STN_OK);
    CHECK_STATUS(stn_grad_of(last, &grad), STN_OK);
    if (CHECK_PTR(grad))
        test_read(grad, pending ? before : after, WIDTH * WIDTH);
    if (pending) { /* what pended was one backward's */
        CHECK_STATUS(stn_zero_grad(last), STN_OK);
        CHECK_STATUS(
            stn_backward(stn_mean(stn_tanh(stn_matmul(stn_matmul(sample(context, mesh, 1), first), last)), 0, NULL, 0)),
            STN_OK);
        CHECK_STATUS(stn_grad_of(last, &grad), STN_OK);
        if (CHECK_PTR(grad))
            test_read(grad, after, WIDTH * WIDTH);
    }
    CHECK_BYTES(after, before, sizeof before);
    stn_set_grad_overlap(context, 0);
    return stn_scope_end(context);
}

static void a_backward_that_fails_leaves_what_was_there(void)
{
    for (int pending = 0; pending < 2; pending++)
        for (int ranks = 2; ranks <= 3; ranks++)
            test_ranks(ranks, failing_body, &pending);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_messages_and_bytes_are_those_without", gradients_messages_and_bytes_are_those_without},
        {"large_gradients_go_on_their_own", large_gradients_go_on_their_own},
        {"two_ranks_get_what_they_get_without", two_ranks_get_what_they_get_without},
        {"hooks_see_their_gradients_and_nobody_half_a_one", hooks_see_their_gradients_and_nobody_half_a_one},
        {"a_backward_that_fails_leaves_what_was_there", a_backward_that_fails_leaves_what_was_there},
    };
    return TEST_MAIN(argc, argv, cases);
}
