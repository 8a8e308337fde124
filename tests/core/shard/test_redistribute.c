/* Redistribution between ranks: thousands of random pairs of layouts, and the counts that contract 16 promises. */
#include "harness.h"

#include "core/ranks.h"
#include "core/shard/group.h"
#include "core/shard/random_spec.h"
#include "core/shard/redistribute.h"
#include "core/shard/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORLD = 8 };

static void die(stn_context *context, const char *what, stn_status status)
{
    CHECK_STATUS(status, STN_OK);
    fprintf(stderr, "  %s: %s\n", what, stn_context_error_text(context));
    exit(EXIT_FAILURE);
}

#define MUST(context, call)                    \
    do {                                       \
        stn_status must_ = (call);             \
        if (must_ != STN_OK)                   \
            die((context), #call, must_);      \
    } while (0)

static int next_index(int ndim, const int64_t *shape, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

static int64_t linear(int ndim, const int64_t *shape, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++)
        at = at * shape[d] + index[d];
    return at;
}

static int holds(const stn_spec *spec, int rank, const int64_t *index)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    if (stni_mesh_position(spec->layout.mesh, rank) < 0)
        return 0;
    stn_spec_chunk(spec, rank, shape, offset);
    for (int d = 0; d < spec->layout.ndim; d++)
        if (index[d] < offset[d] || index[d] >= offset[d] + shape[d])
            return 0;
    return 1;
}

/* Scrambles: every bit of the result depends on every bit of the argument (SplitMix64's finaliser). */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Any bits at all, -0.0 and NaN with payloads among them. */
static uint64_t bits_of(int64_t at)
{
    static const uint64_t special[] = {UINT64_C(0x8000000000000000), UINT64_C(0x7ff8000000000123), UINT64_C(0xfff0000000000000)};
    uint64_t bits = scramble((uint64_t)at + 1);
    return bits % 5 < 3 ? special[bits % 3] : bits;
}

/* A small whole number by which ranks at different coordinates along Partial axes differ. */
static double addend_of(const stn_spec *spec, const int *at, int64_t element)
{
    uint64_t seed = (uint64_t)element + 1;
    for (int a = 0; a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_PARTIAL)
            seed = scramble(seed + (uint64_t)(at[a] + 1));
    return (double)(int64_t)(seed % 7) - 3;
}

/* This rank's chunk of the source in row-major order, as bits or as addends. */
static void *make_chunk(const stn_spec *spec, int bits)
{
    int ndim = spec->layout.ndim;
    double *chunk = malloc(((size_t)spec->local_numel + 1) * sizeof *chunk);
    int64_t index[STN_MAX_NDIM] = {0}, global[STN_MAX_NDIM];
    for (int64_t i = 0; i < spec->local_numel; i++) {
        for (int d = 0; d < ndim; d++)
            global[d] = spec->local_offset[d] + index[d];
        int64_t at = linear(ndim, spec->layout.shape, global);
        uint64_t word = bits_of(at);
        if (bits)
            memcpy(&chunk[i], &word, sizeof word);
        else
            chunk[i] = addend_of(spec, spec->layout.mesh->coordinate, at);
        next_index(ndim, spec->local_shape, index);
    }
    return chunk;
}

/* A tensor of the chunk: dense, or with margins around it. */
static stn_tensor *make_tensor(stn_context *context, const stn_spec *spec, const void *chunk, int margins)
{
    static const int64_t low[STN_MAX_NDIM] = {1, 0, 2, 1}, high[STN_MAX_NDIM] = {0, 2, 1, 1};
    stn_tensor *dense = stn_from_host(context, spec, chunk), *wide;
    if (stn_tensor_is_error(dense))
        die(context, "stn_from_host", stn_context_status(context));
    if (!margins || spec->local_numel == 0)
        return dense;
    stn_box from, to;
    MUST(context, stni_tensor_create_margin(context, spec, low, high, &wide));
    stni_tensor_box(dense, &from);
    stni_tensor_box(wide, &to);
    MUST(context, stni_box_copy(context->queue, &to, &from, stn_dtype_size(spec->layout.dtype)));
    stn_tensor_release(&dense);
    return wide;
}

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
    return shared->chunk[rank][linear(spec->layout.ndim, shape, inside)];
}

/* The value that pending reductions stand for, taken from the first axis to the last: the last one is outermost. `at` fixes the
 * coordinates along other axes. Without results: of the source. */
static double value_of(const struct shared *results, const stn_spec *spec, int *at, int axis, const int64_t *index)
{
    const stn_mesh *mesh = spec->layout.mesh;
    if (axis < 0)
        return results == NULL ? addend_of(spec, at, linear(spec->layout.ndim, spec->layout.shape, index))
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
    for (int64_t i = 0; i < src->numel; i++, next_index(ndim, src->layout.shape, index)) {
        int at[STN_MAX_MESH_NDIM] = {0};
        double wanted = bits ? 0 : value_of(NULL, src, at, src->layout.mesh->ndim - 1, index);
        uint64_t word = bits_of(i), got;
        for (int r = 0; r < dst->context->size; r++) {
            if (!holds(dst, r, index))
                continue;
            stni_mesh_find(dst->layout.mesh, r, at);
            double value = bits ? result_at(shared, dst, r, index) : value_of(shared, dst, at, dst->layout.mesh->ndim - 1, index);
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
    for (int64_t i = 0; i < src->numel; i++, next_index(src->layout.ndim, src->layout.shape, index))
        for (int r = 0; r < src->context->size; r++)
            least += holds(dst, r, index) && !holds(src, r, index);
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

static void redistribute_pair(stn_context *context, struct shared *shared, const stn_spec *src, const stn_spec *dst, int margins)
{
    int bits = shared->ops == 0;
    void *chunk = make_chunk(src, bits);
    stn_tensor *from = make_tensor(context, src, chunk, margins), *to = NULL;
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    MUST(context, stni_redistribute(from, dst, &to));
    stn_context_stats(context, &stats);
    shared->bytes_sent[context->rank] = stats.bytes_sent;
    shared->collectives[context->rank] = stats.collectives;
    CHECK(to->spec == dst);
    CHECK(src == dst || margins || (to->flags & STNI_TENSOR_VIEW) != 0 || stni_tensor_is_dense(to));

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

static void check_pairs(uint64_t seed, int pairs, int one_mesh, uint32_t ops)
{
    int64_t moved = 0;
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

/* Moves a tensor of `shape` along one axis of all ranks from placement p to q; gives what this rank sent. */
struct count {
    stn_placement from, to;
    int64_t shape[2];
    int64_t elements[MAX_WORLD], messages[MAX_WORLD], collectives[MAX_WORLD], redistributions[MAX_WORLD];
};

static const stn_spec *line_spec(stn_context *context, stn_placement p, const int64_t *shape)
{
    const stn_mesh *mesh;
    const stn_spec *spec;
    MUST(context, stn_mesh_create(context, 1, &context->size, NULL, NULL, &mesh));
    MUST(context, stn_spec_create(context, mesh, &p, STN_DTYPE_F64, 2, shape, NULL, &spec));
    return spec;
}

static void count_one(stn_context *context, void *arg)
{
    struct count *count = arg;
    const stn_spec *src = line_spec(context, count->from, count->shape), *dst = line_spec(context, count->to, count->shape);
    double *chunk = make_chunk(src, 0);
    stn_tensor *from = make_tensor(context, src, chunk, 0), *to = NULL;
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    MUST(context, stni_redistribute(from, dst, &to));
    MUST(context, stn_queue_sync(context->queue));
    stn_context_stats(context, &stats);
    count->elements[context->rank] = stats.bytes_sent / (int64_t)sizeof(double);
    count->messages[context->rank] = stats.messages;
    count->collectives[context->rank] = stats.collectives;
    count->redistributions[context->rank] = stats.redistributions;
    stn_tensor_release(&from);
    stn_tensor_release(&to);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
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
    static const stn_placement from[] = {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}};
    static const stn_placement to[] = {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_PARTIAL, 0, STN_SUM, 0}, {STN_PLACE_PARTIAL, 0, STN_SUM, 0}};
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
    double *chunk = make_chunk(src, 0);
    stn_tensor *tensor = make_tensor(context, src, chunk, 0), *out = NULL;
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    MUST(context, stni_redistribute(tensor, dst, &out));
    MUST(context, stn_queue_sync(context->queue));
    stn_context_stats(context, &stats);
    square->elements[context->rank] = stats.bytes_sent / (int64_t)sizeof(double);
    square->collectives[context->rank] = stats.collectives;
    if (context->rank == 0)
        square->group = mesh->n_comms > 0 ? mesh->comms[0].group->n : 0;
    stn_tensor_release(&tensor);
    stn_tensor_release(&out);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
}

static void only_ranks_along_the_changing_axis_talk(void)
{
    struct square reduced = {{stn_partial(STN_SUM), stn_shard(0)}, {stn_replicate(), stn_shard(0)}, {6, 5}, {0}, {0}, 0};
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

/* P(sum) S(0) -> R S(1) on 4 x 4: sums meet in quarters, 2 x 2 elements each. A rank gets two addends of its quarter, and half of the
 * ranks have one of them: 4 * 8 - 2 * 4. Then each gets the quarter of its neighbour: 4 * 4. One exchange would send 48. */
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
    double *chunk = make_chunk(src, 0);
    stn_tensor *from = make_tensor(context, src, chunk, 0), *to = NULL;
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    MUST(context, stni_redistribute(from, dst, &to));
    MUST(context, stn_queue_sync(context->queue));
    stn_context_stats(context, &stats);
    sent[context->rank] = stats.bytes_sent / (int64_t)sizeof(double);
    CHECK_I64(stats.collectives, context->rank < 6);
    CHECK_I64(to->spec->local_numel, context->rank >= 3 && context->rank < 6 ? 20 : 0);
    stn_tensor_release(&from);
    stn_tensor_release(&to);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
}

static void replicas_take_turns_in_serving_another_mesh(void)
{
    int64_t sent[7] = {0};
    on_ranks(7, serve_outsiders, sent);
    for (int r = 0; r < 7; r++)
        CHECK_I64(sent[r], r < 3 ? 20 : 0);
}

static void turn_in_memory(stn_context *context, void *arg)
{
    (void)arg;
    static const int order[] = {1, 0};
    static const int64_t shape[] = {13, 7};
    stn_placement p = stn_shard(0);
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *src = line_spec(context, p, shape), *dst;
    MUST(context, stn_spec_create(context, src->layout.mesh, &p, STN_DTYPE_F64, 2, shape, &options, &dst));
    double *chunk = make_chunk(src, 0);
    stn_tensor *from = make_tensor(context, src, chunk, 0), *to = NULL;
    MUST(context, stni_redistribute(from, dst, &to));
    MUST(context, stn_queue_sync(context->queue));
    const double *turned = to->data;
    int64_t rows = src->local_shape[0];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < 7; j++)
            CHECK_NEAR(turned[j * rows + i], chunk[i * 7 + j], 0);
    CHECK_I64(context->comm_stats.collectives, 0);
    stn_tensor_release(&from);
    stn_tensor_release(&to);
    stni_context_reap(context);
    stn_spec_release(&src);
    stn_spec_release(&dst);
    free(chunk);
}

static void memory_order_alone_changes_by_a_local_copy(void)
{
    on_ranks(3, turn_in_memory, NULL);
}

static void rename_axes(stn_context *context, void *arg)
{
    (void)arg;
    static const char *const names[] = {"other"};
    static const int64_t shape[] = {13, 7};
    stn_placement p = stn_shard(0);
    const stn_mesh *mesh;
    const stn_spec *src = line_spec(context, p, shape), *dst;
    MUST(context, stn_mesh_create(context, 1, &context->size, names, NULL, &mesh));
    MUST(context, stn_spec_create(context, mesh, &p, STN_DTYPE_F64, 2, shape, NULL, &dst));
    double *chunk = make_chunk(src, 0);
    stn_tensor *from = make_tensor(context, src, chunk, 0), *same = NULL, *renamed = NULL;
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
    const stn_spec *src = line_spec(context, p, shape);
    double *chunk = make_chunk(src, 0);
    stn_tensor *from = make_tensor(context, src, chunk, 0), *to = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        int64_t other[] = {r->rows, 7};
        const stn_spec *spec;
        MUST(context, stn_spec_create(context, r->local ? NULL : src->layout.mesh, r->local ? NULL : &p, (stn_dtype)r->dtype, r->ndim,
                                      other, NULL, &spec));
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
        {"random_pending_reductions_of_all_ops_keep_their_value", random_pending_reductions_of_all_ops_keep_their_value},
        {"random_pending_reductions_across_meshes_keep_their_value", random_pending_reductions_across_meshes_keep_their_value},
        {"all_placements_on_two_axes_keep_their_value", all_placements_on_two_axes_keep_their_value},
        {"identities_of_every_dtype_change_nothing", identities_of_every_dtype_change_nothing},
        {"pending_sum_to_replicate_sends_twice_p_less_one_times_n", pending_sum_to_replicate_sends_twice_p_less_one_times_n},
        {"pending_sum_to_shard_is_one_exchange", pending_sum_to_shard_is_one_exchange},
        {"shard_to_shard_is_one_exchange", shard_to_shard_is_one_exchange},
        {"slicing_a_replica_and_spreading_to_partial_send_nothing", slicing_a_replica_and_spreading_to_partial_send_nothing},
        {"only_ranks_along_the_changing_axis_talk", only_ranks_along_the_changing_axis_talk},
        {"a_sum_that_several_ranks_want_is_made_once", a_sum_that_several_ranks_want_is_made_once},
        {"replicas_take_turns_in_serving_another_mesh", replicas_take_turns_in_serving_another_mesh},
        {"memory_order_alone_changes_by_a_local_copy", memory_order_alone_changes_by_a_local_copy},
        {"no_change_and_new_names_share_memory", no_change_and_new_names_share_memory},
        {"specs_that_do_not_fit_are_refused_with_numbers", specs_that_do_not_fit_are_refused_with_numbers},
    };
    return TEST_MAIN(argc, argv, cases);
}
