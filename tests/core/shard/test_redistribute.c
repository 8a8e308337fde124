/* Redistribution between ranks: thousands of random pairs of layouts keep every bit, or the value that pending
 * reductions stand for. */
#include "harness.h"

#include "core/core_ranks.h"
#include "core/shard/random_spec.h"
#include "core/shard/sample.h"
#include "core/shard/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORLD = 8 };

/* What all ranks share: the chunks of the results, and what was sent. */
struct shared {
    uint64_t seed;
    int pairs, one_mesh;
    uint32_t ops;
    double *chunk[MAX_WORLD];
    int64_t bytes_sent[MAX_WORLD], collectives[MAX_WORLD];
    int64_t moved;
};

static double combine(stn_reduce_op op, double a, double b)
{
    switch (op) {
    case STN_SUM:
    case STN_AVG:
        return a + b;
    case STN_PROD:
        return a * b;
    case STN_MIN:
        return fmin(a, b);
    case STN_MAX:
    case STN_REDUCE_OP_COUNT:
        break;
    }
    return fmax(a, b);
}

/* Element `index` of rank's chunk of the result. */
static double result_at(const struct shared *shared, const stn_spec *spec, int rank, const int64_t *index)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM], inside[STN_MAX_NDIM];
    stn_spec_chunk(spec, rank, shape, offset);
    for (int d = 0; d < spec->layout.ndim; d++)
        inside[d] = index[d] - offset[d];
    return shared->chunk[rank][sample_linear(spec->layout.ndim, shape, inside)];
}

/* The value that pending reductions stand for, taken from the first axis to the last: the last one is outermost.
 * `at` fixes the coordinates along other axes. Without results: of the source. */
static double value_of(const struct shared *results, const stn_spec *spec, int *at, int axis, const int64_t *index)
{
    const stn_mesh *mesh = spec->layout.mesh;
    if (axis < 0)
        return results == NULL ? sample_addend(spec, at, sample_linear(spec->layout.ndim, spec->layout.shape, index))
                               : result_at(results, spec, stn_mesh_rank_at(mesh, at), index);
    stn_placement p = spec->layout.placement[axis];
    if (p.kind != STN_PLACE_PARTIAL)
        return value_of(results, spec, at, axis - 1, index);
    int own = at[axis];
    double value = 0;
    for (at[axis] = 0; at[axis] < mesh->sizes[axis]; at[axis]++) {
        double next = value_of(results, spec, at, axis - 1, index);
        value = at[axis] == 0 ? next : combine((stn_reduce_op)p.op, value, next);
    }
    at[axis] = own;
    return p.op == STN_AVG ? value / mesh->sizes[axis] : value;
}

static int near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

/* Every rank that holds an element of the result stands for the source's value. Returns how many do not. */
static int64_t count_wrong(const struct shared *shared, const stn_spec *src, const stn_spec *dst, int bits)
{
    int64_t wrong = 0, index[STN_MAX_NDIM] = {0};
    int ndim = src->layout.ndim;
    for (int64_t i = 0; i < src->numel; i++, sample_next(ndim, src->layout.shape, index)) {
        int at[STN_MAX_MESH_NDIM] = {0};
        double wanted = bits ? 0 : value_of(NULL, src, at, src->layout.mesh->ndim - 1, index);
        uint64_t word = sample_bits(i), got;
        for (int r = 0; r < dst->context->size; r++) {
            if (!sample_holds(dst, r, index))
                continue;
            stni_mesh_find(dst->layout.mesh, r, at);
            double value =
                bits ? result_at(shared, dst, r, index) : value_of(shared, dst, at, dst->layout.mesh->ndim - 1, index);
            memcpy(&got, &value, sizeof got);
            wrong += bits ? got != word : !near(value, wanted);
        }
    }
    return wrong;
}

/* Elements that some rank gets and has not, where nothing is reduced. */
static int64_t least_moves(const stn_spec *src, const stn_spec *dst)
{
    int64_t least = 0, index[STN_MAX_NDIM] = {0};
    for (int64_t i = 0; i < src->numel; i++, sample_next(src->layout.ndim, src->layout.shape, index))
        for (int r = 0; r < src->context->size; r++)
            least += sample_holds(dst, r, index) && !sample_holds(src, r, index);
    return least;
}

static void describe_pair(const stn_spec *src, const stn_spec *dst)
{
    char a[300], b[300];
    stn_spec_describe(src, a, sizeof a);
    stn_spec_describe(dst, b, sizeof b);
    fprintf(stderr, "    %s -> %s\n", a, b);
}

static void judge(struct shared *shared, const stn_spec *src, const stn_spec *dst, int bits)
{
    int64_t sent = 0, collectives = 0;
    for (int r = 0; r < src->context->size; r++) {
        sent += shared->bytes_sent[r];
        collectives = collectives > shared->collectives[r] ? collectives : shared->collectives[r];
    }
    shared->moved += sent;
    int fine = CHECK_I64(count_wrong(shared, src, dst, bits), 0);
    if (bits) {
        fine &= CHECK_I64(sent, (int64_t)sizeof(double) * least_moves(src, dst));
        fine &= CHECK(collectives <= 1);
    }
    if (!fine)
        describe_pair(src, dst);
}

/* Ranks that are processes give each other their results; threads have them in sight. */
static void collect(stn_context *context, struct shared *shared, const stn_spec *dst)
{
    for (int r = 0; r < context->size && ranks_are_processes; r++) {
        int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM], n = 1;
        stn_spec_chunk(dst, r, shape, offset);
        for (int d = 0; d < dst->layout.ndim; d++)
            n *= shape[d];
        n = stni_mesh_position(dst->layout.mesh, r) < 0 ? 0 : n;
        if (r != context->rank)
            shared->chunk[r] = malloc((size_t)n * sizeof(double) + 1);
        MUST(context, stn_comm_broadcast(context->comm, shared->chunk[r], n, STN_DTYPE_F64, r, NULL));
        MUST(context, stn_comm_broadcast(context->comm, &shared->bytes_sent[r], 1, STN_DTYPE_I64, r, NULL));
        MUST(context, stn_comm_broadcast(context->comm, &shared->collectives[r], 1, STN_DTYPE_I64, r, NULL));
    }
}

static void redistribute_pair(stn_context *context, struct shared *shared, const stn_spec *src, const stn_spec *dst,
                              int gaps)
{
    int bits = shared->ops == 0;
    void *chunk = sample_chunk(src, bits);
    stn_tensor *from = sample_tensor(context, src, chunk, gaps), *to = NULL;
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    MUST(context, stni_redistribute(from, dst, &to));
    stn_context_stats(context, &stats);
    shared->bytes_sent[context->rank] = stats.bytes_sent;
    shared->collectives[context->rank] = stats.collectives;
    CHECK(to->spec == dst);
    CHECK(src == dst || gaps || (to->flags & STNI_TENSOR_VIEW) != 0 || stni_tensor_is_dense(to));

    size_t bytes = (size_t)dst->local_numel * sizeof(double);
    shared->chunk[context->rank] = malloc(bytes + 1);
    MUST(context, stn_to_host(to, shared->chunk[context->rank], bytes));
    collect(context, shared, dst);
    MUST(context, stn_comm_barrier(context->comm, NULL));
    if (context->rank == 0 || ranks_are_processes)
        judge(shared, src, dst, bits);
    MUST(context, stn_comm_barrier(context->comm, NULL));
    for (int r = 0; r < context->size; r++)
        if (r == context->rank || ranks_are_processes)
            free(shared->chunk[r]);
    stn_tensor_release(&from);
    stn_tensor_release(&to);
    free(chunk);
}

static void random_pairs(stn_context *context, void *arg)
{
    struct shared *shared = arg;
    uint64_t state = shared->seed + (uint64_t)context->size;
    for (int i = 0; i < shared->pairs; i++) {
        struct random_shape shape;
        random_shape(&state, &shape);
        const stn_mesh *a = random_mesh(&state, context), *b = shared->one_mesh ? a : random_mesh(&state, context);
        const stn_spec *src = random_spec(&state, context, a, &shape, STN_DTYPE_F64, shared->ops);
        const stn_spec *dst = random_spec(&state, context, b, &shape, STN_DTYPE_F64, shared->ops);
        redistribute_pair(context, shared, src, dst, i % 4 == 0);
        stn_spec_release(&src);
        stn_spec_release(&dst);
    }
    stni_context_reap(context);
}

/* The worker queue has a turn for missing waits, which a third of the pairs shows as well: values are the same
 * code's. */
static void check_pairs(uint64_t seed, int pairs, int one_mesh, uint32_t ops)
{
    int64_t moved = 0;
    if (test_queue() == TEST_QUEUE_WORKER)
        pairs /= 3;
    for (int size = 1; size <= MAX_WORLD; size++) {
        struct shared shared = {.seed = seed, .pairs = pairs, .one_mesh = one_mesh, .ops = ops};
        on_ranks(size, random_pairs, &shared);
        moved += shared.moved;
    }
    CHECK(moved > 100 * pairs);
}

static void random_pairs_on_one_mesh_keep_every_bit(void)
{
    check_pairs(11, 150, 1, 0);
}

static void random_pairs_across_meshes_keep_every_bit(void)
{
    check_pairs(12, 150, 0, 0);
}

static void random_pending_sums_keep_their_value(void)
{
    check_pairs(13, 150, 1, 1u << STN_SUM);
}

static void random_pending_reductions_of_all_ops_keep_their_value(void)
{
    check_pairs(14, 200, 1, (1u << STN_REDUCE_OP_COUNT) - 1);
}

static void random_pending_reductions_across_meshes_keep_their_value(void)
{
    check_pairs(15, 150, 0, (1u << STN_REDUCE_OP_COUNT) - 1);
}

/* Every pair of placements on two axes: all orders in which reductions of different ops end and begin. */
static stn_placement nth_placement(int i)
{
    const stn_placement all[] = {stn_replicate(),       stn_shard(0),          stn_shard(1),          stn_partial(STN_SUM),
                                 stn_partial(STN_AVG),  stn_partial(STN_PROD), stn_partial(STN_MIN),  stn_partial(STN_MAX)};
    return all[i];
}

static void all_placements(stn_context *context, void *arg)
{
    struct shared *shared = arg;
    static const int64_t shape[] = {3, 2};
    int sizes[] = {2, context->size / 2};
    const stn_mesh *mesh;
    MUST(context, stn_mesh_create(context, 2, sizes, NULL, NULL, &mesh));
    for (int i = 0; i < 8 * 8 * 8 * 8; i++) {
        stn_placement from[] = {nth_placement(i % 8), nth_placement(i / 8 % 8)};
        stn_placement to[] = {nth_placement(i / 64 % 8), nth_placement(i / 512)};
        const stn_spec *src, *dst;
        MUST(context, stn_spec_create(context, mesh, from, STN_DTYPE_F64, 2, shape, NULL, &src));
        MUST(context, stn_spec_create(context, mesh, to, STN_DTYPE_F64, 2, shape, NULL, &dst));
        redistribute_pair(context, shared, src, dst, 0);
        stn_spec_release(&src);
        stn_spec_release(&dst);
    }
    stni_context_reap(context);
}

static void all_placements_on_two_axes_keep_their_value(void)
{
    for (int size = 4; size <= 6; size += 2) {
        struct shared shared = {.ops = (1u << STN_REDUCE_OP_COUNT) - 1};
        on_ranks(size, all_placements, &shared);
        CHECK(shared.moved > 0);
    }
}

/* Identities of every dtype: replicas become Partial, and the pending reduction gives them back. */
static void spread_and_reduce(stn_context *context, void *arg)
{
    static const int ops[] = {STN_SUM, STN_PROD, STN_MIN, STN_MAX};
    static const int64_t shape[] = {5};
    const stn_mesh *mesh;
    (void)arg;
    MUST(context, stn_mesh_create(context, 1, &context->size, NULL, NULL, &mesh));
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++)
        for (int i = 0; i < 4; i++) {
            stn_placement whole = stn_replicate(), part = stn_partial((stn_reduce_op)ops[i]);
            unsigned char data[5 * 16] = {0}, back[5 * 16];
            const stn_spec *replica, *partial;
            if (!stni_box_reduces((stn_dtype)dtype, (stn_reduce_op)ops[i]))
                continue;
            for (size_t k = 0; k < sizeof data; k++)
                data[k] = dtype == STN_DTYPE_BOOL ? k % 2 : (unsigned char)(k % 16 * 4); /* no NaN in any dtype */
            MUST(context, stn_spec_create(context, mesh, &whole, (stn_dtype)dtype, 1, shape, NULL, &replica));
            MUST(context, stn_spec_create(context, mesh, &part, (stn_dtype)dtype, 1, shape, NULL, &partial));
            size_t bytes = 5 * stn_dtype_size((stn_dtype)dtype);
            stn_tensor *from = stn_from_host(context, replica, data), *between = NULL, *to = NULL;
            MUST(context, stni_redistribute(from, partial, &between));
            MUST(context, stni_redistribute(between, replica, &to));
            MUST(context, stn_to_host(to, back, bytes));
            CHECK_BYTES(back, data, bytes);
            stn_tensor_release(&from);
            stn_tensor_release(&between);
            stn_tensor_release(&to);
            stni_context_reap(context);
            stn_spec_release(&replica);
            stn_spec_release(&partial);
        }
}

static void identities_of_every_dtype_change_nothing(void)
{
    on_ranks(3, spread_and_reduce, NULL);
}

static void turn_in_memory(stn_context *context, void *arg)
{
    (void)arg;
    static const int order[] = {1, 0};
    static const int64_t shape[] = {13, 7};
    stn_placement p = stn_shard(0);
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *src = sample_line_spec(context, p, shape), *dst;
    MUST(context, stn_spec_create(context, src->layout.mesh, &p, STN_DTYPE_F64, 2, shape, &options, &dst));
    double *chunk = sample_chunk(src, 0);
    stn_tensor *from = sample_tensor(context, src, chunk, 0), *to = NULL;
    MUST(context, stni_redistribute(from, dst, &to));
    MUST(context, stn_queue_sync(context->queue));
    const double *turned = to->data;
    int64_t rows = src->local_shape[0];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < 7; j++)
            CHECK_NEAR(turned[j * rows + i], chunk[i * 7 + j], 0);
    CHECK_I64(context->comm_stats.collectives, 0);
    CHECK_I64(context->stats.redistributions, 0);
    stn_tensor_release(&from);
    stn_tensor_release(&to);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
}

static void memory_order_alone_changes_by_a_local_copy(void)
{
    on_one_rank(turn_in_memory, NULL);
    on_ranks(3, turn_in_memory, NULL);
}

static void rename_axes(stn_context *context, void *arg)
{
    (void)arg;
    static const char *const names[] = {"other"};
    static const int64_t shape[] = {13, 7};
    stn_placement p = stn_shard(0);
    const stn_mesh *mesh;
    const stn_spec *src = sample_line_spec(context, p, shape), *dst;
    MUST(context, stn_mesh_create(context, 1, &context->size, names, NULL, &mesh));
    MUST(context, stn_spec_create(context, mesh, &p, STN_DTYPE_F64, 2, shape, NULL, &dst));
    double *chunk = sample_chunk(src, 0);
    stn_tensor *from = sample_tensor(context, src, chunk, 0), *same = NULL, *renamed = NULL;
    MUST(context, stni_redistribute(from, src, &same));
    CHECK(same == from);
    MUST(context, stni_redistribute(from, dst, &renamed));
    CHECK(renamed != from);
    CHECK(renamed->data == from->data && renamed->storage == from->storage);
    CHECK(renamed->spec == dst);
    CHECK_I64(context->stats.redistributions, 0);
    stn_tensor_release(&from);
    stn_tensor_release(&same);
    stn_tensor_release(&renamed);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
}

static void no_change_and_new_names_share_memory(void)
{
    on_ranks(3, rename_axes, NULL);
}

struct refusal {
    int dtype, ndim, local;
    int64_t rows;
    stn_status status;
    const char *text;
};

static void misfits(stn_context *context, void *arg)
{
    (void)arg;
    static const struct refusal refusals[] = {
        {STN_DTYPE_F32, 2, 0, 13, STN_ERR_DTYPE, "redistribute: spec has dtype f32, wanted the tensor's f64"},
        {STN_DTYPE_F64, 1, 0, 13, STN_ERR_SHAPE, "redistribute: spec has 1 dims, wanted the tensor's 2"},
        {STN_DTYPE_F64, 2, 0, 14, STN_ERR_SHAPE, "redistribute: spec has shape[0] = 14, wanted the tensor's 13"},
        {STN_DTYPE_F64, 2, 1, 13, STN_ERR_LAYOUT, "redistribute: spec is local, wanted one on a mesh as the tensor"},
    };
    static const int64_t shape[] = {13, 7};
    stn_placement p = stn_replicate();
    const stn_spec *src = sample_line_spec(context, p, shape);
    double *chunk = sample_chunk(src, 0);
    stn_tensor *from = sample_tensor(context, src, chunk, 0), *to = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        int64_t other[] = {r->rows, 7};
        const stn_spec *spec;
        MUST(context, stn_spec_create(context, r->local ? NULL : src->layout.mesh, r->local ? NULL : &p,
                                      (stn_dtype)r->dtype, r->ndim, other, NULL, &spec));
        CHECK_STATUS(stni_redistribute(from, spec, &to), r->status);
        CHECK_STR(world_error(context), r->text);
        stn_spec_release(&spec);
    }
    CHECK(to == NULL);
    stn_tensor_release(&from);
    stni_context_reap(context);
    stn_spec_release(&src);
    free(chunk);
}

static void specs_that_do_not_fit_are_refused_with_numbers(void)
{
    on_one_rank(misfits, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_pairs_on_one_mesh_keep_every_bit", random_pairs_on_one_mesh_keep_every_bit},
        {"random_pairs_across_meshes_keep_every_bit", random_pairs_across_meshes_keep_every_bit},
        {"random_pending_sums_keep_their_value", random_pending_sums_keep_their_value},
        {"random_pending_reductions_of_all_ops_keep_their_value",
         random_pending_reductions_of_all_ops_keep_their_value},
        {"random_pending_reductions_across_meshes_keep_their_value",
         random_pending_reductions_across_meshes_keep_their_value},
        {"all_placements_on_two_axes_keep_their_value", all_placements_on_two_axes_keep_their_value},
        {"identities_of_every_dtype_change_nothing", identities_of_every_dtype_change_nothing},
        {"memory_order_alone_changes_by_a_local_copy", memory_order_alone_changes_by_a_local_copy},
        {"no_change_and_new_names_share_memory", no_change_and_new_names_share_memory},
        {"specs_that_do_not_fit_are_refused_with_numbers", specs_that_do_not_fit_are_refused_with_numbers},
    };
    return TEST_MAIN(argc, argv, cases);
}
