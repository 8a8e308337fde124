/* Per-rank programs cannot deadlock in backward: chains, diamonds, values that nobody uses, losses on some ranks,
 * branches on the rank, chunks of sharded tensors. Gradients are those of the sum of all ranks' losses, by finite
 * differences; what cannot be done is refused on every rank with the reason. */
#include "collectives.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 3 };

/* What one rank computes from its N elements: a local number, or NULL where it has no loss. */
typedef stn_tensor *(*program)(stn_context *context, const stn_mesh *mesh, stn_tensor *x);

static stn_tensor *total(stn_tensor *t)
{
    return stn_sum(t, 0, NULL, 0);
}

static stn_tensor *weighted(stn_context *context, stn_tensor *y)
{
    return stn_mul_number(total(stn_mul(y, y)), 1 + 0.5 * stn_context_rank(context));
}

static stn_tensor *chain(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *all = stn_tanh(stn_dist_all_gather(x, mesh, 0, NULL, STN_GRAD_PER_RANK));
    stn_tensor *sum = stn_dist_all_reduce(stn_mul(all, all), mesh, STN_SUM, STN_GRAD_PER_RANK);
    return weighted(context, stn_dist_reduce_scatter(sum, mesh, 0, NULL, STN_SUM, STN_GRAD_PER_RANK));
}

static stn_tensor *diamond(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *sum = stn_dist_all_reduce(x, mesh, STN_SUM, STN_GRAD_PER_RANK);
    stn_tensor *last = stn_dist_broadcast(x, mesh, stn_mesh_size(mesh) - 1, STN_GRAD_PER_RANK);
    stn_tensor *both = stn_dist_all_reduce(stn_add(stn_mul(sum, last), x), mesh, STN_AVG, STN_GRAD_PER_RANK);
    return weighted(context, stn_add(both, stn_mul(sum, x)));
}

static stn_tensor *shifted(const stn_mesh *mesh, stn_tensor *x, int r)
{
    const int p = stn_mesh_size(mesh);
    const stn_dist_part send = {(r + 1) % p, 0, N}, receive = {(r + p - 1) % p, 0, N};
    const stn_dist_messages messages = {sizeof messages, 1, 1, &send, &receive, N};
    return stn_dist_exchange(x, mesh, 0, &messages, STN_GRAD_PER_RANK);
}

/* Nothing ties the steps together but that each takes the last one's result. */
static stn_tensor *ring(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *seen = x, *sum = stn_mul(x, x);
    for (int step = 1; step < stn_mesh_size(mesh); step++) {
        seen = shifted(mesh, seen, stn_context_rank(context));
        sum = stn_add(sum, stn_mul(x, seen));
    }
    return weighted(context, sum);
}

/* The first rank uses what it received, the others drop it. */
static stn_tensor *unused(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    const int r = stn_context_rank(context);
    stn_tensor *got = shifted(mesh, x, r), *never = shifted(mesh, stn_mul(x, x), r);
    CHECK(!stn_tensor_is_error(never));
    return weighted(context, r == 0 ? stn_mul(got, x) : x);
}

static stn_tensor *one_loss(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *loss = chain(context, mesh, x);
    return stn_context_rank(context) == stn_mesh_size(mesh) - 1 ? loss : NULL;
}

/* Other ops between the same collectives. */
static stn_tensor *branch(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    const int r = stn_context_rank(context);
    stn_tensor *y = r % 2 ? stn_exp(x) : stn_mul(stn_tanh(x), stn_add(x, x));
    stn_tensor *sum = stn_dist_all_reduce(y, mesh, STN_SUM, STN_GRAD_PER_RANK);
    if (r % 3 == 1)
        return NULL;
    return weighted(context, r % 2 ? stn_mul(sum, y) : stn_sin(sum));
}

/* The ranks' elements as one tensor on the mesh, of which each rank has a chunk again. */
static stn_tensor *on_mesh(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    const int64_t n = (int64_t)N * stn_mesh_size(mesh);
    const stn_placement shard = stn_shard(0);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *whole = stn_from_local(x, spec, STN_GRAD_PER_RANK);
    stn_spec_release(&spec);
    return stn_cumsum(stn_tanh(whole), 0);
}

/* A loss on one rank only, of its chunk of a sharded tensor. */
static stn_tensor *chunk_loss(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *chunk = stn_to_local(on_mesh(context, mesh, x), STN_GRAD_PER_RANK);
    return stn_context_rank(context) == stn_mesh_size(mesh) - 1 ? weighted(context, chunk) : NULL;
}

/* The same of a replica, through another crossing, one of which nobody uses. */
static stn_tensor *replica_loss(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    const stn_placement replicate = stn_replicate();
    stn_tensor *y = on_mesh(context, mesh, x), *whole = stn_redistribute_to(y, &replicate);
    stn_tensor *copy = stn_to_local(stn_mul(whole, whole), STN_GRAD_PER_RANK),
               *never = stn_to_local(y, STN_GRAD_PER_RANK);
    CHECK(!stn_tensor_is_error(never));
    if (stn_context_rank(context) != 0)
        return NULL;
    return weighted(context, copy);
}

/* A chunk goes on through a collective of dist.h. */
static stn_tensor *chunk_then_sum(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *chunk = stn_to_local(on_mesh(context, mesh, x), STN_GRAD_PER_RANK);
    stn_tensor *sum = stn_dist_all_reduce(stn_mul(chunk, chunk), mesh, STN_SUM, STN_GRAD_PER_RANK);
    return stn_context_rank(context) == 0 ? weighted(context, sum) : NULL;
}

/* Rank 0's loss is its own affair, the others' are of chunks. */
static stn_tensor *own_or_chunk(stn_context *context, const stn_mesh *mesh, stn_tensor *x)
{
    stn_tensor *chunk = stn_to_local(on_mesh(context, mesh, x), STN_GRAD_PER_RANK);
    return weighted(context, stn_context_rank(context) == 0 ? stn_sin(x) : chunk);
}

static const struct {
    const char *name;
    program run;
} programs[] = {
    {"chain", chain},           {"diamond", diamond},           {"ring", ring},
    {"unused", unused},         {"one_loss", one_loss},         {"branch", branch},
    {"chunk_loss", chunk_loss}, {"replica_loss", replica_loss}, {"chunk_then_sum", chunk_then_sum},
    {"own_or_chunk", own_or_chunk},
};

static double element(int rank, int i)
{
    return 0.4 * test_value(5 * rank + i) + 0.1;
}

static stn_tensor *input(stn_context *context, int odd_rank, int odd, double step)
{
    const int64_t n = N;
    const int r = stn_context_rank(context);
    const stn_spec *spec;
    double values[N];
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    for (int i = 0; i < N; i++)
        values[i] = element(r, i) + (r == odd_rank && i == odd ? step : 0);
    stn_tensor *x = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return x;
}

/* The sum of all ranks' losses. */
static double evaluate(stn_context *context, const stn_mesh *mesh, program run, int rank, int i, double step)
{
    double value = 0;
    stn_scope_begin(context);
    stn_no_grad_begin(context);
    stn_tensor *loss = run(context, mesh, input(context, rank, i, step));
    if (loss)
        CHECK_STATUS(stn_item(loss, &value), STN_OK);
    stn_no_grad_end(context);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    test_sum(context, &value, 1);
    return value;
}

/* Gradients of all ranks; none stands for zeros. */
static void differentiate(stn_context *context, const stn_mesh *mesh, program run, double *out)
{
    stn_tensor *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *x = input(context, -1, 0, 0);
    stn_set_requires_grad(x, 1);
    stn_tensor *loss = run(context, mesh, x);
    CHECK_STATUS(stn_backward_many(context, loss != NULL, &loss, NULL, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    memset(out, 0, N * sizeof *out);
    if (grad)
        test_read(grad, out, N);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status programs_body(stn_context *context, void *arg)
{
    const double h = 1e-5;
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    for (size_t k = 0; k < sizeof programs / sizeof programs[0]; k++) {
        double got[N];
        differentiate(context, mesh, programs[k].run, got);
        for (int rank = 0; rank < p; rank++)
            for (int i = 0; i < N; i++) {
                const double above = evaluate(context, mesh, programs[k].run, rank, i, h);
                const double want = (above - evaluate(context, mesh, programs[k].run, rank, i, -h)) / (2 * h);
                if (rank == r && !CHECK(fabs(got[i] - want) <= 1e-7 * (1 + fabs(want))))
                    printf("  %s: element %d of rank %d: got %.12g, wanted %.12g\n", programs[k].name, i, r, got[i],
                           want);
            }
    }
    return STN_OK;
}

static void gradients_are_those_of_the_sum_of_all_losses(void)
{
    on_each_size(programs_body, NULL);
}

/* All ranks get this failure, and the mesh is usable. */
static void expect_failure(stn_context *context, stn_status status, stn_status wanted, const char *text)
{
    double one = 1;
    CHECK_STATUS(status, wanted);
    CHECK_ERROR_PART(context, wanted, text);
    test_sum(context, &one, 1);
    CHECK_NEAR(one, stn_context_size(context), 0);
}

static stn_tensor *leaf(stn_context *context)
{
    stn_tensor *x = input(context, -1, 0, 0);
    stn_set_requires_grad(x, 1);
    return x;
}

/* One rank fails between the collectives and backward, all alone. */
static stn_status failed_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context);
    stn_tensor *all = stn_dist_all_gather(x, mesh, 0, NULL, STN_GRAD_PER_RANK);
    stn_tensor *y = r == p - 1 ? stn_matmul(all, stn_unsqueeze(stn_cat(2, (stn_tensor *[]){x, all}, 0), 1)) : all;
    expect_failure(context, stn_backward(total(y)), STN_ERR_SHAPE, p > 1 ? "rank 1: matmul" : "matmul");
    CHECK_STATUS(stn_backward(total(all)), STN_OK); /* nothing was done */
    return stn_scope_end(context);
}

static void a_failure_of_one_rank_is_told_by_backward(void)
{
    test_ranks(2, failed_body, NULL);
}

/* One rank has called to_local once more than its peers. */
static stn_status uneven_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context);
    stn_tensor *y = on_mesh(context, mesh, x), *chunk = stn_to_local(y, STN_GRAD_PER_RANK);
    if (r == 1)
        CHECK(!stn_tensor_is_error(stn_to_local(y, STN_GRAD_PER_RANK)));
    expect_failure(context, stn_backward(total(chunk)), STN_ERR_MISMATCH,
                   "times to_local of a mesh, others from 1 to 2");
    return stn_scope_end(context);
}

static void crossings_that_one_rank_made_alone_are_refused(void)
{
    test_ranks(2, uneven_body, NULL);
}

/* What comes from one rank's local tensor requires grad on that rank alone: the tensor on the mesh would on some. */
static stn_status one_requires_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = input(context, -1, 0, 0);
    if (r == 0)
        stn_set_requires_grad(x, 1);
    stn_tensor *loss = total(on_mesh(context, mesh, x));
    expect_failure(context, stn_backward(loss), STN_ERR_STATE,
                   "rank 1: stn_backward: output 0 does not depend on anything that requires grad");
    return stn_scope_end(context);
}

static void a_tensor_on_a_mesh_that_requires_grad_on_one_rank_is_refused(void)
{
    test_ranks(2, one_requires_body, NULL);
}

/* A rank that leaves does not keep its peers beyond the deadline. */
static stn_status leaver_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context);
    stn_tensor *loss = chunk_loss(context, mesh, x);
    if (stn_context_rank(context) == 1)
        return stn_scope_end(context);
    stn_status status = stn_backward_many(context, loss != NULL, &loss, NULL, 0);
    CHECK(status == STN_ERR_PEER || status == STN_ERR_TIMEOUT);
    return stn_scope_end(context);
}

static void a_rank_that_never_goes_backward_is_not_waited_for_for_ever(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 2};
    CHECK(test_launch(3, &options, leaver_body, NULL) != STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_are_those_of_the_sum_of_all_losses", gradients_are_those_of_the_sum_of_all_losses},
        {"a_failure_of_one_rank_is_told_by_backward", a_failure_of_one_rank_is_told_by_backward},
        {"crossings_that_one_rank_made_alone_are_refused", crossings_that_one_rank_made_alone_are_refused},
        {"a_tensor_on_a_mesh_that_requires_grad_on_one_rank_is_refused",
         a_tensor_on_a_mesh_that_requires_grad_on_one_rank_is_refused},
        {"a_rank_that_never_goes_backward_is_not_waited_for_for_ever",
         a_rank_that_never_goes_backward_is_not_waited_for_for_ever},
    };
    return TEST_MAIN(argc, argv, cases);
}
