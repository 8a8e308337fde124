/* Plans, without ranks: all ranks' plans of one exchange are made in one process, compared with each other, applied
 * to arrays, and counted against what brute force finds to be the least. */
#include "harness.h"

#include "core/redistribute/plan.h"
#include "core/shard/random_spec.h"
#include "core/shard/sample.h"
#include "core/shard/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_WORLD = 8 };

struct exchange {
    stn_context *context;
    const stn_spec *src, *dst;
    struct stni_axis_roles route;
    struct stni_plan plan[MAX_WORLD];
};

/* Elements of one byte that lie in the whole array, in row-major order: then where a box begins tells its offset. */
static char whole[1];

static const int64_t origin[STN_MAX_NDIM];

static struct stni_frame whole_frame(const stn_spec *spec, int64_t strides[STN_MAX_NDIM])
{
    int64_t stride = 1;
    for (int d = spec->layout.ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= spec->layout.shape[d];
    }
    return (struct stni_frame){whole, origin, strides, 1};
}

static void offset_of(const struct exchange *x, const stn_box *box, int64_t *offset)
{
    int64_t at = (char *)box->data - whole;
    for (int d = x->src->layout.ndim - 1; d >= 0; d--) {
        offset[d] = at % x->src->layout.shape[d];
        at /= x->src->layout.shape[d];
    }
}

/* World rank of a peer, found from the coordinates of `rank`. */
static int peer_rank(const struct exchange *x, int rank, int peer)
{
    const stn_mesh *mesh = x->route.src.mesh;
    int at[STN_MAX_MESH_NDIM];
    if (!x->route.same_grid)
        return peer;
    stni_mesh_find(mesh, rank, at);
    for (int a = mesh->ndim - 1; a >= 0; a--) {
        if ((x->route.axes >> a & 1) == 0)
            continue;
        at[a] = peer % mesh->sizes[a];
        peer /= mesh->sizes[a];
    }
    return stn_mesh_rank_at(mesh, at);
}

static int64_t linear(const stn_spec *spec, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < spec->layout.ndim; d++)
        at = at * spec->layout.shape[d] + index[d];
    return at;
}

static int next_index(int ndim, const int64_t *shape, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

static int64_t volume(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

/* Coordinate of a world rank along the axis of `spec`'s mesh; the mesh is the same for both specs where this is
 * asked. */
static int coordinate(const stn_spec *spec, int rank, int axis)
{
    int at[STN_MAX_MESH_NDIM];
    return stni_mesh_find(spec->layout.mesh, rank, at) ? at[axis] : -1;
}

/* What rank `rank` holds of element `at` where axes are Partial: depends on its coordinates along those alone. */
static uint64_t addend(const stn_spec *spec, int rank, int64_t at)
{
    uint64_t value = (uint64_t)at + 1;
    for (int a = 0; a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_PARTIAL)
            value = (value ^ (uint64_t)(coordinate(spec, rank, a) + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    return value;
}

/* The axis of `to` that is `axis` of `from`, counting those of more than one rank; -1 where the grids differ. */
static int twin(const stn_mesh *from, int axis, const stn_mesh *to)
{
    int place = 0;
    for (int a = 0; a < axis; a++)
        place += from->sizes[a] > 1;
    for (int a = 0; a < to->ndim; a++)
        if (to->sizes[a] > 1 && place-- == 0)
            return stni_mesh_same_grid(from, to) ? a : -1;
    return -1;
}

static stn_placement twin_placement(const stn_spec *spec, int axis, const stn_spec *other)
{
    int at = twin(spec->layout.mesh, axis, other->layout.mesh);
    return at < 0 ? stn_replicate() : other->layout.placement[at];
}

/* Whether the axis of `spec` is Partial there and on the other side. */
static int kept(const stn_spec *spec, int axis, const stn_spec *other)
{
    return spec->layout.placement[axis].kind == STN_PLACE_PARTIAL &&
           twin_placement(spec, axis, other).kind == STN_PLACE_PARTIAL;
}

/* Whether `receiver` is to get element `index`: it is in its chunk, and where a Partial is to be it is the one that
 * keeps it. */
static int wanted(const struct exchange *x, int receiver, const int64_t *index)
{
    if (!sample_holds(x->dst, receiver, index))
        return 0;
    for (int a = 0; a < x->dst->layout.mesh->ndim; a++) {
        if (x->dst->layout.placement[a].kind != STN_PLACE_PARTIAL || kept(x->dst, a, x->src))
            continue;
        int at = coordinate(x->dst, receiver, a), keeper = 0;
        if (twin_placement(x->dst, a, x->src).kind == STN_PLACE_SHARD)
            for (int r = 0; r < x->context->size; r++)
                if (sample_holds(x->src, r, index))
                    keeper = coordinate(x->dst, r, a);
        if (at != keeper)
            return 0;
    }
    return 1;
}

/* Sum of all addends of the element that `receiver` is to get, and how many they are: one sender for each
 * combination of coordinates along the axes that are reduced. */
static uint64_t expected(const struct exchange *x, int receiver, const int64_t *index, int *n)
{
    uint64_t sum = 0, seen[MAX_WORLD];
    *n = 0;
    for (int r = 0; r < x->context->size; r++) {
        int counts = sample_holds(x->src, r, index);
        for (int a = 0; a < x->src->layout.mesh->ndim; a++)
            counts &= !kept(x->src, a, x->dst) || coordinate(x->src, r, a) == coordinate(x->src, receiver, a);
        uint64_t value = addend(x->src, r, linear(x->src, index));
        for (int i = 0; i < *n; i++)
            counts &= seen[i] != value;
        if (!counts)
            continue;
        seen[(*n)++] = value;
        sum += value;
    }
    return sum;
}

static int same_box(const stn_box *a, const stn_box *b)
{
    return a->data == b->data && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

static void check_mirror(const struct exchange *x)
{
    int sends = 0, receives = 0;
    for (int r = 0; r < x->context->size; r++) {
        const struct stni_plan_messages *send = &x->plan[r].send, *recv = &x->plan[r].recv;
        sends += send->n;
        receives += recv->n;
        for (int i = 0; i < send->n; i++) {
            int to = peer_rank(x, r, send->items[i].peer), found = 0;
            const struct stni_plan_messages *other = &x->plan[to].recv;
            for (int j = 0; j < other->n; j++)
                found +=
                    peer_rank(x, to, other->items[j].peer) == r && same_box(&other->items[j].box, &send->items[i].box);
            CHECK_I64(found, 1);
            CHECK(i == 0 || send->items[i].peer > send->items[i - 1].peer);
        }
        for (int j = 1; j < recv->n; j++)
            CHECK(recv->items[j].peer > recv->items[j - 1].peer);
    }
    CHECK_I64(sends, receives);
}

static int64_t elements_sent(const struct exchange *x, int rank)
{
    const struct stni_plan_messages *send = &x->plan[rank].send;
    int64_t sum = 0;
    for (int i = 0; i < send->n; i++)
        if (send->items[i].peer != stni_plan_self(&x->route, rank))
            sum += volume(send->items[i].box.ndim, send->items[i].box.shape);
    return sum;
}

/* Applies the receives of a rank: sums of what arrives, and how often. */
static void receive(const struct exchange *x, int rank, uint64_t *sum, int *times)
{
    const struct stni_plan_messages *recv = &x->plan[rank].recv;
    for (int i = 0; i < recv->n; i++) {
        int from = peer_rank(x, rank, recv->items[i].peer);
        const stn_box *box = &recv->items[i].box;
        int64_t index[STN_MAX_NDIM] = {0}, global[STN_MAX_NDIM], offset[STN_MAX_NDIM];
        CHECK(volume(box->ndim, box->shape) > 0);
        offset_of(x, box, offset);
        do {
            for (int d = 0; d < box->ndim; d++)
                global[d] = offset[d] + index[d];
            CHECK(sample_holds(x->src, from, global));
            int64_t at = linear(x->dst, global);
            sum[at] += addend(x->src, from, at);
            times[at]++;
        } while (next_index(box->ndim, box->shape, index));
    }
}

/* Compares with brute force, element by element; returns how many elements have to travel at least. */
static int64_t check_rank(const struct exchange *x, int rank)
{
    int64_t numel = x->src->numel, least = 0, index[STN_MAX_NDIM] = {0};
    uint64_t *sum = calloc((size_t)numel + 1, sizeof *sum);
    int *times = calloc((size_t)numel + 1, sizeof *times), wrong = 0;
    receive(x, rank, sum, times);
    for (int64_t at = 0; at < numel; at++) {
        int n = 0;
        uint64_t value = wanted(x, rank, index) ? expected(x, rank, index, &n) : 0;
        wrong += times[at] != n || sum[at] != value;
        least += n > 0 ? n - sample_holds(x->src, rank, index) : 0;
        next_index(x->src->layout.ndim, x->src->layout.shape, index);
    }
    CHECK_I64(wrong, 0);
    free(sum);
    free(times);
    return least;
}

static int64_t check_exchange(stn_context *context, const stn_spec *src, const stn_spec *dst)
{
    struct exchange x = {.context = context, .src = src, .dst = dst};
    int64_t sent = 0, least = 0, strides[STN_MAX_NDIM] = {0};
    struct stni_frame frame = whole_frame(src, strides);
    stni_axis_roles_make(src, dst, &x.route);
    for (int r = 0; r < context->size; r++) {
        CHECK_STATUS(stni_plan_make(context, &x.route, r, &frame, &frame, &x.plan[r]), STN_OK);
        sent += elements_sent(&x, r);
    }
    check_mirror(&x);
    for (int r = 0; r < context->size; r++)
        least += check_rank(&x, r);
    if (!CHECK_I64(sent, least)) {
        char a[300], b[300];
        stn_spec_describe(src, a, sizeof a);
        stn_spec_describe(dst, b, sizeof b);
        fprintf(stderr, "    %s -> %s\n", a, b);
    }
    for (int r = 0; r < context->size; r++)
        stni_plan_free(&x.plan[r]);
    return sent;
}

static void check_pairs(uint64_t seed, int pairs, int one_mesh, uint32_t ops)
{
    int64_t moved = 0;
    for (int size = 1; size <= MAX_WORLD; size++) {
        stn_context *context = world_rank(0, size);
        uint64_t state = seed + (uint64_t)size;
        for (int i = 0; i < pairs; i++) {
            struct random_shape shape;
            random_shape(&state, &shape);
            const stn_mesh *a = random_mesh(&state, context), *b = one_mesh ? a : random_mesh(&state, context);
            const stn_spec *src = random_spec(&state, context, a, &shape, STN_DTYPE_F32, ops);
            const stn_spec *dst = random_spec(&state, context, b, &shape, STN_DTYPE_F32, ops);
            moved += check_exchange(context, src, dst);
            stn_spec_release(&src);
            stn_spec_release(&dst);
        }
        world_end(context);
    }
    CHECK(moved > 10 * pairs);
}

static void pairs_on_one_mesh_move_the_least(void)
{
    check_pairs(1, 400, 1, 0);
}

static void pairs_across_meshes_move_the_least(void)
{
    check_pairs(2, 400, 0, 0);
}

static void pairs_with_pending_sums_move_the_least(void)
{
    check_pairs(3, 400, 1, 1u << STN_SUM);
}

static void pairs_with_pending_sums_across_meshes_move_the_least(void)
{
    check_pairs(4, 400, 0, 1u << STN_SUM);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best time of planning for one rank in the middle of the world, and its messages. */
static double time_plan(stn_context *context, const stn_spec *src, const stn_spec *dst, int *messages)
{
    double best = 1e9;
    int64_t strides[STN_MAX_NDIM];
    struct stni_frame frame = whole_frame(src, strides);
    struct stni_plan plan = {0};
    for (int i = 0; i < 15; i++) {
        struct stni_axis_roles route;
        double begin = seconds();
        stni_axis_roles_make(src, dst, &route);
        CHECK_STATUS(stni_plan_make(context, &route, context->rank, &frame, &frame, &plan), STN_OK);
        double took = seconds() - begin;
        best = took < best ? took : best;
        *messages = plan.send.n + plan.recv.n;
    }
    stni_plan_free(&plan);
    return best;
}

static const stn_spec *make(stn_context *context, const stn_mesh *mesh, stn_placement p, stn_placement q,
                            const int64_t *shape, const int64_t *rows)
{
    stn_placement placements[] = {p, q};
    const int64_t *const sizes[] = {rows, NULL};
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, STN_DTYPE_F32, 2, shape, &options, &spec), STN_OK);
    return spec;
}

/* Prints the time; what is asserted has space for slow machines, sanitizers and neighbours. */
static void report(const char *what, int world, double took, int messages, double limit)
{
    printf("     %-34s world %6d: %8.1f us, %6d messages\n", what, world, 1e6 * took, messages);
    CHECK(took < 20 * limit);
}

static int64_t *uneven_rows(int world, int64_t n)
{
    int64_t *rows = calloc((size_t)world, sizeof *rows);
    for (int r = 0; r < world; r++)
        rows[r] = n / world + (r % 2 == 0 ? 1 : -1);
    return rows;
}

static void plans_take_time_by_messages_not_by_world(void)
{
    static const int worlds[] = {2, 1000, 100000};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        int world = worlds[i],
            side = world == 2      ? 1
                   : world == 1000 ? 25
                                   : 250,
            flat[] = {world, 1}, square[] = {side, world / side};
        int messages = 0;
        double limit = world <= 1000 ? 1e-3 : 10e-3, took;
        int64_t shape[] = {(int64_t)world * 4, (int64_t)world * 2}, *rows = uneven_rows(world, shape[0]);
        stn_context *context = world_rank(world / 2, world);
        const stn_mesh *line = NULL, *grid = NULL;
        CHECK_STATUS(stn_mesh_create(context, 2, flat, NULL, NULL, &line), STN_OK);
        CHECK_STATUS(stn_mesh_create(context, 2, square, NULL, NULL, &grid), STN_OK);
        stn_placement none = stn_replicate();
        const stn_spec *uneven = make(context, line, stn_shard(0), none, shape, rows);
        const stn_spec *even = make(context, line, stn_shard(0), none, shape, NULL),
                       *columns = make(context, line, stn_shard(1), none, shape, NULL);
        took = time_plan(context, uneven, even, &messages);
        report("uneven to balanced, 1-D", world, took, messages, 200e-6);
        took = time_plan(context, even, make(context, line, none, none, shape, NULL), &messages);
        report("S(0) to Replicate", world, took, messages, limit);
        took = time_plan(context, even, columns, &messages);
        report("S(0) to S(1)", world, took, messages, limit);
        took = time_plan(context, uneven, columns, &messages);
        report("uneven S(0) to S(1)", world, took, messages, limit);
        took = time_plan(context, make(context, grid, stn_shard(0), stn_shard(1), shape, NULL),
                         make(context, grid, stn_shard(1), stn_shard(0), shape, NULL), &messages);
        report("S(0)S(1) to S(1)S(0), 2-D", world, took, messages, limit);
        took = time_plan(context, make(context, grid, stn_shard(0), stn_shard(0), shape, NULL),
                         make(context, grid, stn_shard(1), stn_shard(1), shape, NULL), &messages);
        report("S(0)S(0) to S(1)S(1), 2-D", world, took, messages, limit);
        took = time_plan(context, even, make(context, grid, stn_shard(0), stn_shard(1), shape, NULL), &messages);
        report("S(0) on a line to S(0)S(1)", world, took, messages, limit);
        took = time_plan(context, make(context, line, none, none, shape, NULL),
                         make(context, grid, stn_shard(0), stn_shard(1), shape, NULL), &messages);
        report("Replicate on a line to S(0)S(1)", world, took, messages, limit);
        free(rows);
        world_end(context);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pairs_on_one_mesh_move_the_least", pairs_on_one_mesh_move_the_least},
        {"pairs_across_meshes_move_the_least", pairs_across_meshes_move_the_least},
        {"pairs_with_pending_sums_move_the_least", pairs_with_pending_sums_move_the_least},
        {"pairs_with_pending_sums_across_meshes_move_the_least", pairs_with_pending_sums_across_meshes_move_the_least},
        {"plans_take_time_by_messages_not_by_world", plans_take_time_by_messages_not_by_world},
    };
    return TEST_MAIN(argc, argv, cases);
}
