/* pytorch/pytorch issue 125484, hybrid sharding with accumulation: 2 replicas x 4 shards, two microbatches. Each is
 * reduced over the shards at once and over the replicas last: (sum over all ranks of g1 + g2) / 8. Adding to gradients
 * that were reduced over the replicas before leaves sum_own(g1) / 4 + sum_all(g2) / 8 instead. That request's tests
 * count collectives, as this one does.
 *
 * Put back by `axes = 0` before `if (axes)` in stni_leaf_take (src/autograd/leaf.c): a microbatch of a no-sync scope
 * is joined over the replicas at once. */
#include "ranks.h"

enum { REPLICAS = 2, SHARDS = 4, N = 10, RANKS = REPLICAS * SHARDS };

/* The gradient of element i that rank r's sample of microbatch b gives: whole numbers, so that every order of sums
 * is exact. */
static double gradient_of(int rank, int b, int64_t i)
{
    return (double)((3 * rank + 5 * b + 2 * i) % 17);
}

/* One sample for each rank, along both axes: element (r, i) is what multiplies w[i]. */
static double first_sample(int64_t at)
{
    return gradient_of((int)(at / N), 0, at % N);
}

static double second_sample(int64_t at)
{
    return gradient_of((int)(at / N), 1, at % N);
}

static int64_t collectives(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.collectives;
}

static stn_status body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, REPLICAS, SHARDS);
    const stn_placement hybrid[] = {stn_replicate(), stn_shard(0)}, batch[] = {stn_shard(0), stn_shard(0)};
    const int64_t n = N, samples[] = {RANKS, N};
    const int64_t *const one_each[] = {(const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1}, NULL};
    stn_tensor *grad = NULL;
    double got[N];
    const int last = *(const int *)arg;
    stn_scope_begin(context);
    stn_tensor *w = test_tensor(context, mesh, hybrid, STN_DTYPE_F32, 1, &n, NULL, test_value);
    stn_set_requires_grad(w, 1);
    for (int b = 0; b < 2; b++) {
        const int deferred = last && b == 0;
        if (deferred)
            stn_no_sync_begin(context);
        stn_tensor *x = test_tensor(context, mesh, batch, STN_DTYPE_F32, 2, samples, one_each,
                                    b == 0 ? first_sample : second_sample);
        stn_tensor *loss = stn_mul_number(stn_sum(stn_mul(x, w), 0, NULL, 0), 1.0 / RANKS);
        const int64_t before = collectives(context);
        CHECK_STATUS(stn_backward(loss), STN_OK);
        CHECK_I64(collectives(context) - before, deferred ? 2 : 3); /* an agreement, a reduce-scatter, and an all-reduce where it is due */
        if (deferred) {
            CHECK_STATUS(stn_grad_of(w, &grad), STN_ERR_PARTIAL); /* nobody takes it for complete */
            stn_context_take_error(context, NULL, 0);
            stn_no_sync_end(context);
        }
    }
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(w));
    test_read(grad, got, N);
    for (int64_t i = 0; i < N; i++) {
        double want = 0;
        for (int r = 0; r < RANKS; r++)
            want += gradient_of(r, 0, i) + gradient_of(r, 1, i);
        CHECK_NEAR(got[i], want / RANKS, 0);
    }
    return stn_scope_end(context);
}

static void microbatches_are_accumulated_before_the_replicas_are_joined(void)
{
    for (int last = 0; last < 2; last++)
        test_ranks(RANKS, body, &last);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"microbatches_are_accumulated_before_the_replicas_are_joined",
         microbatches_are_accumulated_before_the_replicas_are_joined},
    };
    return TEST_MAIN(argc, argv, cases);
}
