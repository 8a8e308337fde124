/* What a redistribution sends, and to whom: the counts that contract 16 promises. */
#include "harness.h"

#include "core/core_ranks.h"
#include "core/shard/sample.h"

#include <stdlib.h>

enum { MAX_WORLD = 8 };

/* Redistributes a sample and gives what this rank sent; the specs are released. */
static stn_stats send_sample(stn_context *context, const stn_spec *src, const stn_spec *dst)
{
    double *chunk = sample_chunk(src, 0);
    stn_tensor *from = sample_tensor(context, src, chunk, 0), *to = NULL;
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    MUST(context, stni_redistribute(from, dst, &to));
    MUST(context, stn_queue_sync(context->queue));
    stn_context_stats(context, &stats);
    stn_tensor_release(&from);
    stn_tensor_release(&to);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
    return stats;
}

/* Moves a tensor of `shape` along one axis of all ranks from placement p to q; gives what this rank sent. */
struct count {
    stn_placement from, to;
    int64_t shape[2];
    int64_t elements[MAX_WORLD], messages[MAX_WORLD], collectives[MAX_WORLD], redistributions[MAX_WORLD];
};

static void count_one(stn_context *context, void *arg)
{
    struct count *count = arg;
    const stn_spec *src = sample_line_spec(context, count->from, count->shape),
                   *dst = sample_line_spec(context, count->to, count->shape);
    const stn_stats stats = send_sample(context, src, dst);
    count->elements[context->rank] = stats.bytes_sent / (int64_t)sizeof(double);
    count->messages[context->rank] = stats.messages;
    count->collectives[context->rank] = stats.collectives;
    count->redistributions[context->rank] = stats.redistributions;
}

static void pending_sum_to_replicate_sends_twice_p_less_one_times_n(void)
{
    for (int p = 1; p <= 5; p++) {
        struct count count = {.from = stn_partial(STN_SUM), .to = stn_replicate(), .shape = {13, 7}};
        on_ranks(p, count_one, &count);
        int64_t n = 13 * 7, sum = 0;
        for (int r = 0; r < p; r++) {
            int64_t own = stni_balanced_offset(n, p, r + 1) - stni_balanced_offset(n, p, r);
            CHECK_I64(count.elements[r], p == 1 ? 0 : n + (p - 2) * own);
            sum += count.elements[r];
        }
        CHECK_I64(sum, 2 * (p - 1) * n);
    }
}

static void pending_sum_to_shard_is_one_exchange(void)
{
    struct count count = {.from = stn_partial(STN_SUM), .to = stn_shard(0), .shape = {13, 7}};
    on_ranks(3, count_one, &count);
    static const int64_t rows[] = {5, 4, 4};
    for (int r = 0; r < 3; r++) {
        CHECK_I64(count.collectives[r], 1);
        CHECK_I64(count.elements[r], (13 - rows[r]) * 7);
        CHECK_I64(count.messages[r], 2);
    }
}

static void shard_to_shard_is_one_exchange(void)
{
    struct count count = {.from = stn_shard(0), .to = stn_shard(1), .shape = {13, 7}};
    on_ranks(3, count_one, &count);
    static const int64_t rows[] = {5, 4, 4}, columns[] = {3, 2, 2};
    for (int r = 0; r < 3; r++) {
        CHECK_I64(count.collectives[r], 1);
        CHECK_I64(count.elements[r], rows[r] * (7 - columns[r]));
        CHECK_I64(count.redistributions[r], 1);
    }
}

static void slicing_a_replica_and_spreading_to_partial_send_nothing(void)
{
    static const stn_placement from[] = {
        {STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}};
    static const stn_placement to[] = {
        {STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_PARTIAL, 0, STN_SUM, 0}, {STN_PLACE_PARTIAL, 0, STN_SUM, 0}};
    for (int i = 0; i < 3; i++) {
        struct count count = {.from = from[i], .to = to[i], .shape = {13, 7}};
        on_ranks(3, count_one, &count);
        for (int r = 0; r < 3; r++) {
            CHECK_I64(count.collectives[r], 0);
            CHECK_I64(count.elements[r], 0);
            CHECK_I64(count.redistributions[r], 1);
        }
    }
}

/* What one redistribution on 2 x 2 sends, and how many ranks talk to each other in it. */
struct square {
    stn_placement from[2], to[2];
    int64_t shape[2];
    int64_t elements[4], collectives[4];
    int group; /* ranks of the one communicator that was made; 0 where it is the world's */
};

static void count_square(stn_context *context, void *arg)
{
    struct square *square = arg;
    static const int sizes[] = {2, 2};
    const stn_mesh *mesh;
    const stn_spec *src, *dst;
    MUST(context, stn_mesh_create(context, 2, sizes, NULL, NULL, &mesh));
    MUST(context, stn_spec_create(context, mesh, square->from, STN_DTYPE_F64, 2, square->shape, NULL, &src));
    MUST(context, stn_spec_create(context, mesh, square->to, STN_DTYPE_F64, 2, square->shape, NULL, &dst));
    const stn_stats stats = send_sample(context, src, dst);
    square->elements[context->rank] = stats.bytes_sent / (int64_t)sizeof(double);
    square->collectives[context->rank] = stats.collectives;
    if (context->rank == 0)
        square->group = mesh->n_comms > 0 ? mesh->comms[0].group->n : 0;
}

static void only_ranks_along_the_changing_axis_talk(void)
{
    struct square reduced = {
        {stn_partial(STN_SUM), stn_shard(0)}, {stn_replicate(), stn_shard(0)}, {6, 5}, {0}, {0}, 0};
    struct square gathered = {{stn_shard(1), stn_shard(0)}, {stn_replicate(), stn_shard(0)}, {6, 4}, {0}, {0}, 0};
    on_ranks(4, count_square, &reduced);
    on_ranks(4, count_square, &gathered);
    for (int r = 0; r < 4; r++) {
        CHECK_I64(reduced.elements[r], 15);
        CHECK_I64(reduced.collectives[r], 1);
        CHECK_I64(gathered.elements[r], 6);
        CHECK_I64(gathered.collectives[r], 1);
    }
    CHECK_I64(reduced.group, 2);
    CHECK_I64(gathered.group, 2);
}

/* P(sum) S(0) -> R S(1) on 4 x 4: sums meet in quarters, 2 x 2 elements each. A rank gets two addends of its
 * quarter, and half of the ranks have one of them: 4 * 8 - 2 * 4. Then each gets the quarter of its neighbour: 4 *
 * 4. One exchange would send 48. */
static void a_sum_that_several_ranks_want_is_made_once(void)
{
    struct square square = {{stn_partial(STN_SUM), stn_shard(0)}, {stn_replicate(), stn_shard(1)}, {4, 4}, {0}, {0}, 0};
    on_ranks(4, count_square, &square);
    int64_t sum = 0;
    for (int r = 0; r < 4; r++) {
        sum += square.elements[r];
        CHECK_I64(square.collectives[r], 2);
    }
    CHECK_I64(sum, 24 + 16);
}

static void serve_outsiders(stn_context *context, void *arg)
{
    int64_t *sent = arg;
    static const int three[] = {3}, later[] = {3, 4, 5};
    static const int64_t shape[] = {4, 5};
    stn_placement p = stn_replicate();
    const stn_mesh *first, *last;
    const stn_spec *src, *dst;
    MUST(context, stn_mesh_create(context, 1, three, NULL, NULL, &first));
    MUST(context, stn_mesh_create(context, 1, three, NULL, later, &last));
    MUST(context, stn_spec_create(context, first, &p, STN_DTYPE_F64, 2, shape, NULL, &src));
    MUST(context, stn_spec_create(context, last, &p, STN_DTYPE_F64, 2, shape, NULL, &dst));
    CHECK_I64(dst->local_numel, context->rank >= 3 && context->rank < 6 ? 20 : 0);
    const stn_stats stats = send_sample(context, src, dst);
    sent[context->rank] = stats.bytes_sent / (int64_t)sizeof(double);
    CHECK_I64(stats.collectives, context->rank < 6);
}

static void replicas_take_turns_in_serving_another_mesh(void)
{
    int64_t sent[7] = {0};
    on_ranks(7, serve_outsiders, sent);
    for (int r = 0; r < 7; r++)
        CHECK_I64(sent[r], r < 3 ? 20 : 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pending_sum_to_replicate_sends_twice_p_less_one_times_n",
         pending_sum_to_replicate_sends_twice_p_less_one_times_n},
        {"pending_sum_to_shard_is_one_exchange", pending_sum_to_shard_is_one_exchange},
        {"shard_to_shard_is_one_exchange", shard_to_shard_is_one_exchange},
        {"slicing_a_replica_and_spreading_to_partial_send_nothing",
         slicing_a_replica_and_spreading_to_partial_send_nothing},
        {"only_ranks_along_the_changing_axis_talk", only_ranks_along_the_changing_axis_talk},
        {"a_sum_that_several_ranks_want_is_made_once", a_sum_that_several_ranks_want_is_made_once},
        {"replicas_take_turns_in_serving_another_mesh", replicas_take_turns_in_serving_another_mesh},
    };
    return TEST_MAIN(argc, argv, cases);
}
