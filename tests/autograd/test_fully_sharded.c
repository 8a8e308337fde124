/* Fully sharded training: parameters lie in chunks and are gathered for their layer. Whoever gathers them (the
 * program, before they are wanted or when they are, or the op), whether backward keeps or repeats that, and whether
 * it reduces beside itself: the same gradients to the bit, those of one process, and as many messages and bytes. */
#include "ranks.h"

#include "core/comm/comm.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 5, ROWS = 13 /* of a sample: more elements than a weight, so that ops gather weights and not samples */, LAYERS = 5 };

enum gathering { BY_THE_OP, AT_ONCE, AHEAD };

struct way {
    enum gathering gathering;
    int again, overlap;
};

/* How weights lie on a grid, one kind for each layer: in chunks along an axis, along both, in groups that are
 * replicas of each other, by columns. */
static const stn_placement places[][2] = {{{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}},
                                          {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}},
                                          {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}},
                                          {{STN_PLACE_SHARD, 1, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}}};

struct model {
    stn_tensor *w[LAYERS];
    const stn_spec *whole;
};

static double weight(int64_t i)
{
    return 0.4 * test_value(i + 5);
}

/* Every other weight has all of its rows on the last rank of the first axis. */
static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, int layer)
{
    const int rows = mesh ? stn_mesh_axis_size(mesh, 0) : 1;
    const stn_placement *place = places[layer % 4];
    int64_t last[8] = {0};
    const int64_t *sizes[] = {last, NULL};
    last[rows - 1] = WIDTH;
    const int uneven = mesh && layer % 2 == 0 && place[0].kind == STN_PLACE_SHARD && rows > 1;
    stn_tensor *t = test_tensor(context, mesh, mesh ? place : NULL, STN_DTYPE_F64, 2, (const int64_t[]){WIDTH, WIDTH},
                                uneven ? sizes : NULL, weight);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

static void make(struct model *m, stn_context *context, const stn_mesh *mesh)
{
    const stn_placement whole[] = {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}};
    *m = (struct model){0};
    for (int k = 0; k < LAYERS; k++)
        m->w[k] = leaf(context, mesh, k);
    if (mesh)
        CHECK_STATUS(
            stn_spec_create(context, mesh, whole, STN_DTYPE_F64, 2, (const int64_t[]){WIDTH, WIDTH}, NULL, &m->whole),
            STN_OK);
}

static stn_tensor *sample(stn_context *context, const stn_mesh *mesh)
{
    static const stn_placement rows[] = {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}};
    return test_tensor(context, mesh, mesh ? rows : NULL, STN_DTYPE_F64, 2, (const int64_t[]){ROWS, WIDTH}, NULL,
                       test_value);
}

static stn_tensor *gather(const struct model *m, int layer, enum gathering gathering)
{
    if (layer == LAYERS)
        return NULL;
    return gathering == BY_THE_OP ? m->w[layer] : gathering == AT_ONCE ? stn_redistribute(m->w[layer], m->whole)
                                                                       : stn_redistribute_begin(m->w[layer], m->whole);
}

/* A layer, in a scope of its own: of what it makes only its output lives on, and the next layer's weight. */
static stn_tensor *run_layer(stn_tensor *y, const struct model *m, int layer, enum gathering gathering, stn_tensor **w)
{
    stn_context *context = stn_tensor_context(y);
    stn_tensor *kept[2] = {NULL, NULL};
    stn_scope_begin(context);
    stn_tensor *next = gathering == AHEAD ? gather(m, layer + 1, AHEAD) : NULL;
    y = stn_tanh(stn_matmul(y, *w));
    next = gathering == AHEAD ? next : gather(m, layer + 1, gathering);
    CHECK_STATUS(
        stn_scope_end_keep_all(context, next && next != m->w[layer + 1] ? 2 : 1, (stn_tensor *[]){y, next}, kept),
        STN_OK);
    *w = kept[1] ? kept[1] : next;
    return kept[0];
}

static stn_tensor *loss_of(const struct model *m, stn_tensor *x, enum gathering gathering)
{
    stn_tensor *y = x, *w = gather(m, 0, gathering);
    for (int k = 0; k < LAYERS; k++)
        y = run_layer(y, m, k, gathering, &w);
    return stn_mean(stn_mul(y, y), 0, NULL, 0);
}

enum { MOST = LAYERS * WIDTH * WIDTH };

static void train(stn_context *context, const stn_mesh *mesh, const struct way *way, double *out, stn_stats *stats)
{
    struct model m;
    stn_scope_begin(context);
    make(&m, context, mesh);
    stn_tensor *x = sample(context, mesh);
    stn_set_grad_overlap(context, way->overlap);
    stn_set_gather_again(context, way->again);
    test_stats_reset(context);
    for (int step = 0; step < 2; step++)
        CHECK_STATUS(stn_backward(loss_of(&m, x, way->gathering)), STN_OK);
    *stats = test_stats_reset(context);
    stn_set_gather_again(context, 0);
    stn_set_grad_overlap(context, 0);
    for (int k = 0; k < LAYERS; k++) {
        stn_tensor *grad = NULL;
        CHECK_STATUS(stn_grad_of(m.w[k], &grad), STN_OK);
        if (CHECK_PTR(grad))
            test_read(grad, out + (ptrdiff_t)k * WIDTH * WIDTH, WIDTH * WIDTH);
    }
    stn_spec_release(&m.whole);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status same_body(stn_context *context, void *arg)
{
    const int *sizes = arg;
    const struct way plain = {AT_ONCE, 0, 0};
    const stn_mesh *mesh = test_mesh(context, sizes[0], sizes[1]);
    double alone[MOST], wanted[MOST], got[MOST];
    stn_stats stats, kept;
    train(context, NULL, &(struct way){BY_THE_OP, 0, 0}, alone, &stats);
    train(context, mesh, &plain, wanted, &kept);
    for (int i = 0; i < MOST; i++)
        CHECK_NEAR(wanted[i], alone[i], 1e-12);
    for (int gathering = BY_THE_OP; gathering <= AHEAD; gathering++)
        for (int again = 0; again < 2; again++) {
            int64_t messages = 0, bytes = 0;
            for (int overlap = 0; overlap < 2; overlap++) {
                train(context, mesh, &(struct way){(enum gathering)gathering, again, overlap}, got, &stats);
                CHECK_BYTES(got, wanted, sizeof got);
                if (overlap) {
                    CHECK_I64(stats.messages, messages);
                    CHECK_I64(stats.bytes_sent, bytes);
                }
                messages = stats.messages;
                bytes = stats.bytes_sent;
            }
            if (!again) {
                CHECK_I64(messages, kept.messages);
                CHECK_I64(bytes, kept.bytes_sent);
            } else if (stn_context_rank(context) == sizes[0] * (sizes[1] ? sizes[1] : 1) - 1 &&
                       stn_context_size(context) > 1) {
                CHECK(bytes > kept.bytes_sent); /* the last rank has some of each weight */
            }
        }
    return STN_OK;
}

static void gradients_are_the_same_however_weights_are_gathered(void)
{
    static int grids[][2] = {{1, 0}, {2, 0}, {3, 0}, {2, 2}, {2, 3}, {3, 2}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        test_ranks(grids[i][0] * (grids[i][1] ? grids[i][1] : 1), same_body, grids[i]);
}

/* Ranks of MPI run this one. */
static void two_ranks_get_the_same_gradients(void)
{
    static int grid[] = {2, 0};
    test_ranks(2, same_body, grid);
}

/* Bytes that live once the forward is through. */
static int64_t live_after_forward(stn_context *context, const stn_mesh *mesh, int again, enum gathering gathering)
{
    struct model m;
    stn_scope_begin(context);
    make(&m, context, mesh);
    stn_tensor *x = sample(context, mesh);
    stn_set_gather_again(context, again);
    stn_tensor *loss = loss_of(&m, x, gathering);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    const int64_t live = test_stats_reset(context).live_bytes;
    CHECK_STATUS(stn_backward(loss), STN_OK);
    stn_set_gather_again(context, 0);
    stn_spec_release(&m.whole);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return live;
}

static stn_status memory_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const int64_t weights = (int64_t)(LAYERS - 2) * WIDTH * WIDTH * (int64_t)sizeof(double);
    /* No backward wants that of the first layer, and on one axis one of them is replicas. */
    live_after_forward(context, mesh, 0, BY_THE_OP); /* what is made once, and kept */
    const int64_t kept = live_after_forward(context, mesh, 0, BY_THE_OP),
                  again = live_after_forward(context, mesh, 1, BY_THE_OP);
    CHECK(kept - again >= weights);
    return STN_OK;
}

static void whole_weights_do_not_live_until_backward(void)
{
    test_ranks(2, memory_body, NULL);
    test_ranks(3, memory_body, NULL);
}

/* Changed between a gather and the op, the weight that was gathered is another than the one that could be gathered
 * again; changed between the op and backward it is told. Every rank the same. */
static stn_status changed_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double grads[2][WIDTH * WIDTH];
    for (int again = 0; again < 2; again++) {
        struct model m;
        stn_tensor *grad = NULL;
        stn_scope_begin(context);
        make(&m, context, mesh);
        stn_tensor *x = sample(context, mesh);
        stn_set_requires_grad(x, 1);
        stn_set_gather_again(context, again);
        stn_tensor *w = stn_redistribute(stn_detach(m.w[1]), m.whole), *own = stn_redistribute(m.w[1], m.whole);
        stn_no_grad_begin(context);
        stn_mul_number_(m.w[1], 3);
        stn_no_grad_end(context);
        CHECK_STATUS(stn_backward(stn_mean(stn_tanh(stn_matmul(x, w)), 0, NULL, 0)), STN_OK);
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        if (again) {
            CHECK_STATUS(stn_backward(stn_mean(stn_matmul(x, own), 0, NULL, 0)), STN_ERR_STATE);
            CHECK_ERROR_PART(context, STN_ERR_STATE, "was changed in place after it was saved");
        }
        stn_set_gather_again(context, 0);
        if (CHECK_PTR(grad))
            test_read(stn_sum(grad, 1, (const int[]){0}, 0), grads[again], WIDTH);
        stn_spec_release(&m.whole);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_BYTES(grads[1], grads[0], WIDTH * sizeof(double));
    return STN_OK;
}

static void a_weight_that_was_changed_is_not_gathered_again(void)
{
    test_ranks(2, changed_body, NULL);
    test_ranks(3, changed_body, NULL);
}

/* A layer on a mesh, with a collective in its backward. */
static stn_tensor *normed(stn_tensor *y, stn_tensor *w)
{
    return stn_softmax(stn_matmul(y, w), 0);
}

/* Rows and columns of a grid; a column's layer is recorded before those of the rows, or between them, as its own
 * ranks like. */
static void train_slices(stn_context *context, const stn_mesh *row, const stn_mesh *column, int overlap,
                         double out[3][WIDTH * WIDTH])
{
    stn_tensor *w[3], *loss[2];
    stn_scope_begin(context);
    stn_set_grad_overlap(context, overlap);
    stn_set_gather_again(context, 1);
    for (int k = 0; k < 3; k++)
        w[k] = leaf(context, k < 2 ? row : column, 3);
    stn_tensor *x = sample(context, row), *z = sample(context, column);
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(z, 1);
    const int first = stn_context_rank(context) % 2;
    stn_tensor *u = first ? normed(z, w[2]) : NULL, *y = normed(x, w[0]);
    u = first ? u : normed(z, w[2]);
    y = normed(y, w[1]);
    loss[0] = stn_sum(stn_mul(y, y), 0, NULL, 0);
    loss[1] = stn_sum(stn_mul(u, u), 0, NULL, 0);
    CHECK_STATUS(stn_backward_many(context, 2, loss, NULL, 0), STN_OK);
    for (int k = 0; k < 3; k++) {
        stn_tensor *grad = NULL;
        CHECK_STATUS(stn_grad_of(w[k], &grad), STN_OK);
        if (CHECK_PTR(grad))
            test_read(grad, out[k], WIDTH * WIDTH);
    }
    stn_set_gather_again(context, 0);
    stn_set_grad_overlap(context, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status slices_body(stn_context *context, void *arg)
{
    double after[3][WIDTH * WIDTH], beside[3][WIDTH * WIDTH];
    const stn_mesh *grid = test_mesh(context, 2, 2), *row = NULL, *column = NULL;
    (void)arg;
    CHECK_STATUS(stn_mesh_slice(grid, 1, (const int[]){1}, &row), STN_OK);
    CHECK_STATUS(stn_mesh_slice(grid, 1, (const int[]){0}, &column), STN_OK);
    train_slices(context, row, column, 0, after);
    for (int i = 0; i < 5; i++) {
        train_slices(context, row, column, 1, beside);
        CHECK_BYTES(beside, after, sizeof after);
    }
    return STN_OK;
}

static void ranks_have_other_gathers_of_other_meshes_between(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 20};
    CHECK_STATUS(test_launch(4, &options, slices_body, NULL), STN_OK);
}

/* Ranks that do not say the same are told before anything is done. */
static stn_status differs_body(stn_context *context, void *arg)
{
    (void)arg;
    struct model m;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    make(&m, context, mesh);
    stn_set_gather_again(context, stn_context_rank(context) == 1);
    CHECK_STATUS(stn_backward(loss_of(&m, sample(context, mesh), BY_THE_OP)), STN_ERR_MISMATCH);
    stn_set_gather_again(context, 0);
    CHECK_ERROR_PART(context, STN_ERR_MISMATCH, "stn_backward: ranks would communicate differently: step ");
    CHECK_STATUS(stn_backward(loss_of(&m, sample(context, mesh), BY_THE_OP)), STN_OK);
    stn_spec_release(&m.whole);
    return stn_scope_end(context);
}

static void ranks_that_gather_again_alone_are_refused(void)
{
    test_ranks(2, differs_body, NULL);
    test_ranks(3, differs_body, NULL);
}

/* A hook in the middle of the backward, when a gather and a reduction are under way. */
static stn_status stop(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    stn_context *context = stn_tensor_context(gradient);
    (void)instead;
    if (stn_context_rank(context) == *(const int *)arg)
        stni_comm_abort(stn_context_comm(context), STN_ERR_DEVICE, "the fuse has blown");
    return STN_OK;
}

/* A rank that fails in the middle: every other is told which and why, long before the deadline. */
static stn_status stopped_body(stn_context *context, void *arg)
{
    struct model m;
    static int stopper = 1;
    struct timespec from, to;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    make(&m, context, mesh);
    stn_set_grad_overlap(context, 1);
    stn_set_gather_again(context, *(const int *)arg);
    stn_tensor *y = stn_tanh(stn_matmul(sample(context, mesh), m.w[0]));
    CHECK_STATUS(stn_add_tensor_hook(y, stop, &stopper, NULL), STN_OK);
    stn_tensor *loss = loss_of(&m, y, AHEAD);
    clock_gettime(CLOCK_MONOTONIC, &from);
    const stn_status status = stn_backward(loss);
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK(to.tv_sec - from.tv_sec < 10);
    if (stn_context_rank(context) != stopper) {
        CHECK_STATUS(status, STN_ERR_PEER);
        CHECK_ERROR_PART(context, STN_ERR_PEER, "rank 1: the fuse has blown");
    } else {
        CHECK(status != STN_OK);
        stn_context_take_error(context, NULL, 0);
    }
    stn_spec_release(&m.whole);
    stn_scope_end(context);
    return STN_OK;
}

static void a_rank_that_fails_is_known_to_all(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    for (int again = 0; again < 2; again++)
        for (int ranks = 2; ranks <= 3; ranks++)
            test_launch(ranks, &options, stopped_body, &again);
}

/* A part that is recomputed does not keep what its ops have gathered either, and gathers it when it runs again. */
static stn_status layers(stn_context *context, void *user, int n_in, stn_tensor *const *in, int n_out, stn_tensor **out)
{
    const struct model *m = user;
    (void)context, (void)n_in, (void)n_out;
    out[0] = loss_of(m, in[0], BY_THE_OP);
    return STN_OK;
}

static stn_status recomputed_body(stn_context *context, void *arg)
{
    (void)arg;
    double got[MOST], wanted[MOST];
    stn_stats stats;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const int64_t weights = (int64_t)LAYERS * WIDTH * WIDTH * (int64_t)sizeof(double);
    int64_t live[2];
    train(context, mesh, &(struct way){BY_THE_OP, 0, 0}, wanted, &stats);
    for (int again = 0; again < 2; again++) {
        struct model m;
        stn_scope_begin(context);
        make(&m, context, mesh);
        stn_tensor *x = sample(context, mesh), *loss = NULL;
        stn_set_gather_again(context, again);
        const int64_t before = test_stats_reset(context).live_bytes;
        CHECK_STATUS(stn_recompute(context, layers, &m, NULL, 1, &x, 1, &loss), STN_OK);
        CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
        live[again] = test_stats_reset(context).live_bytes - before;
        CHECK(live[again] < weights);
        CHECK_STATUS(stn_backward(loss), STN_OK);
        CHECK_STATUS(stn_backward(loss_of(&m, x, BY_THE_OP)), STN_OK);
        stn_set_gather_again(context, 0);
        for (int k = 0; k < LAYERS; k++) {
            stn_tensor *grad = NULL;
            CHECK_STATUS(stn_grad_of(m.w[k], &grad), STN_OK);
            if (CHECK_PTR(grad))
                test_read(grad, got + (ptrdiff_t)k * WIDTH * WIDTH, WIDTH * WIDTH);
        }
        CHECK_BYTES(got, wanted, sizeof got);
        stn_spec_release(&m.whole);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_I64(live[1], live[0]);
    return STN_OK;
}

static void a_recomputed_part_keeps_no_whole_weights(void)
{
    test_ranks(2, recomputed_body, NULL);
    test_ranks(3, recomputed_body, NULL);
}

/* The square of a weight: what its backward sends. */
static int64_t sent_backward(stn_context *context, int twice)
{
    struct model m;
    stn_scope_begin(context);
    make(&m, context, test_mesh(context, stn_context_size(context), 0));
    stn_set_gather_again(context, 1);
    stn_tensor *w = gather(&m, 0, AT_ONCE), *grad = NULL;
    stn_tensor *loss = stn_sum(twice ? stn_mul(w, w) : stn_square(w), 0, NULL, 0);
    test_stats_reset(context);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    const int64_t bytes = test_stats_reset(context).bytes_sent;
    stn_set_gather_again(context, 0);
    CHECK_STATUS(stn_grad_of(m.w[0], &grad), STN_OK);
    double got[WIDTH * WIDTH];
    test_read(grad, got, WIDTH * WIDTH);
    for (int64_t i = 0; i < WIDTH * WIDTH; i++)
        CHECK_NEAR(got[i], 2 * weight(i), 1e-12);
    stn_spec_release(&m.whole);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return bytes;
}

static stn_status square_body(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t once = sent_backward(context, 0);
    CHECK_I64(sent_backward(context, 1), once);
    return STN_OK;
}

static void what_stands_twice_is_gathered_again_once(void)
{
    test_ranks(2, square_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_are_the_same_however_weights_are_gathered", gradients_are_the_same_however_weights_are_gathered},
        {"two_ranks_get_the_same_gradients", two_ranks_get_the_same_gradients},
        {"whole_weights_do_not_live_until_backward", whole_weights_do_not_live_until_backward},
        {"a_weight_that_was_changed_is_not_gathered_again", a_weight_that_was_changed_is_not_gathered_again},
        {"ranks_have_other_gathers_of_other_meshes_between", ranks_have_other_gathers_of_other_meshes_between},
        {"ranks_that_gather_again_alone_are_refused", ranks_that_gather_again_alone_are_refused},
        {"a_rank_that_fails_is_known_to_all", a_rank_that_fails_is_known_to_all},
        {"a_recomputed_part_keeps_no_whole_weights", a_recomputed_part_keeps_no_whole_weights},
        {"what_stands_twice_is_gathered_again_once", what_stands_twice_is_gathered_again_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
