/* Gradients of ranks of NCCL that are reduced beside the backward: a bucket's reduction is on its stream while later
 * nodes run and end, though a peer has not come to it yet; and the bits are those of a backward that reduces at its
 * end. */
#include "nccl_ranks.h"

#include "ranks.h"

#include <stdlib.h>

/* The two large weights fill a bucket of 4 MiB together, when the gradient of the small one is still to come. They
 * scale columns: products of matrices of that size take the thread sanitizer minutes. */
enum { ROWS = 3, BUCKET = 4 << 20, LARGE = BUCKET / 2 / sizeof(double), MOST_WAIT = 60 /* seconds */ };

struct scene {
    int overlap;
    struct nccl_gate gate;  /* the last rank comes to its bucket when rank 0 has opened it */
    int reductions_by_then; /* that ranks had begun when rank 0's last node but one had run */
    int64_t sent_by_then;   /* bytes: by rank 0 until then */
    double *gradients[2];   /* rank 0's, of the large weights, without and with overlap */
};

static stn_status hold_back(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead;
    nccl_gate_pass(arg, MOST_WAIT);
    return STN_OK;
}

static int64_t bytes_sent(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.bytes_sent;
}

/* Of what the small weight has scaled: the bucket was full before. All that the backward has put on the queue ends,
 * with the reduction under way. */
static stn_status look_and_open(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct scene *scene = arg;
    (void)instead;
    CHECK_STATUS(stn_queue_sync(stn_context_queue(stn_tensor_context(gradient))), STN_OK);
    scene->reductions_by_then = nccl_calls("ncclAllReduce");
    scene->sent_by_then = bytes_sent(stn_tensor_context(gradient));
    nccl_gate_open(&scene->gate);
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

static void read_gradient(stn_tensor *of, double *out)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(of, &grad), STN_OK);
    if (CHECK_PTR(grad))
        test_read(grad, out, LARGE);
}

static void backward(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    const stn_placement rows = stn_shard(0);
    double *own = calloc(2 * LARGE, sizeof *own);
    stn_scope_begin(r->context);
    stn_set_grad_overlap(r->context, scene->overlap);
    const stn_mesh *mesh = test_mesh(r->context, r->size, 0);
    stn_tensor *small = leaf(r->context, mesh, 1),
               *large[] = {leaf(r->context, mesh, LARGE), leaf(r->context, mesh, LARGE)};
    stn_tensor *x =
        test_tensor(r->context, mesh, &rows, STN_DTYPE_F64, 2, (const int64_t[]){ROWS, 1}, NULL, test_value);
    stn_tensor *y = stn_mul(x, small), *z = stn_mul(y, large[0]);
    if (r->rank == 0)
        CHECK_STATUS(stn_add_tensor_hook(y, look_and_open, scene, NULL), STN_OK);
    if (r->rank == r->size - 1)
        CHECK_STATUS(stn_add_tensor_hook(z, hold_back, &scene->gate, NULL), STN_OK);
    CHECK_STATUS(stn_backward(stn_mean(stn_mul(z, large[1]), 0, NULL, 0)), STN_OK);
    for (int k = 0; k < 2 && CHECK_PTR(own); k++)
        read_gradient(large[k], own + k * LARGE);
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
    if (r->rank == 0)
        scene->gradients[scene->overlap] = own;
    else
        free(own);
}

static int play(struct scene *scene, int ranks, int overlap)
{
    scene->overlap = overlap;
    scene->reductions_by_then = -1;
    nccl_gate_init(&scene->gate);
    nccl_reset();
    const int has_run = nccl_run(ranks, 2 * MOST_WAIT, 0, backward, scene);
    nccl_gate_fini(&scene->gate);
    if (has_run)
        CHECK_I64(scene->gate.was_late, 0);
    if (has_run && nccl_is_scripted())
        CHECK(nccl_calls("ncclAllReduce") >= ranks);
    return has_run;
}

static void check_ranks(int ranks)
{
    struct scene scene = {0};
    if (!play(&scene, ranks, 0))
        return;
    CHECK(scene.reductions_by_then <= 0);
    CHECK(scene.sent_by_then < BUCKET);
    play(&scene, ranks, 1);
    if (nccl_is_scripted())
        CHECK(scene.reductions_by_then >= 1 && scene.reductions_by_then < ranks);
    CHECK(scene.sent_by_then >= BUCKET);
    if (CHECK(scene.gradients[0] && scene.gradients[1]))
        CHECK_BYTES(scene.gradients[1], scene.gradients[0], 2 * LARGE * sizeof(double));
    free(scene.gradients[0]);
    free(scene.gradients[1]);
}

static void a_bucket_is_reduced_while_two_ranks_run_later_nodes(void)
{
    check_ranks(2);
}

static void a_bucket_is_reduced_while_three_ranks_run_later_nodes(void)
{
    check_ranks(3);
}

/* Work of several sources. */
static void compute_anew(struct nccl_rank *r)
{
    const int64_t shape[] = {ROWS, ROWS};
    stn_scope_begin(r->context);
    stn_tensor *x = test_tensor(r->context, NULL, NULL, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_tensor *y = stn_softmax(stn_matmul(stn_exp(x), x), 1);
    double sum = 0;
    CHECK_STATUS(stn_item(stn_sum(y, 0, NULL, 0), &sum), STN_OK);
    CHECK_NEAR(sum, ROWS, 1e-5);
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
}

/* A kernel that is loaded at its first launch may wait there for a collective that waits for a lost rank, and nobody
 * would see that one meanwhile. */
static void kernels_are_on_the_gpu_when_the_ranks_have_met(void)
{
    nccl_reset();
    if (!nccl_run(2, MOST_WAIT, 0, compute_anew, NULL) || !nccl_is_scripted())
        return;
    const int by_launches = nccl_script()->loaded_by_launches();
    if (getenv("STANDIN_CAPABILITY")) /* of a GPU that there is PTX for, which is compiled as it is needed */
        CHECK(by_launches > 0);
    else
        CHECK_I64(by_launches, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"kernels_are_on_the_gpu_when_the_ranks_have_met", kernels_are_on_the_gpu_when_the_ranks_have_met},
        {"a_bucket_is_reduced_while_two_ranks_run_later_nodes", a_bucket_is_reduced_while_two_ranks_run_later_nodes},
        {"a_bucket_is_reduced_while_three_ranks_run_later_nodes",
         a_bucket_is_reduced_while_three_ranks_run_later_nodes},
    };
    return TEST_MAIN(argc, argv, cases);
}
