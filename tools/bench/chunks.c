/* The course of every benchmark of ops on chunks: inputs, the peer, pairs. */
#include "chunks.h"
#include "buffers.h"
#include "copy.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, QUICK_PART = 16, ONCE_LONG = 1 << 12, LANES = 32 };

struct chunks_world {
    struct world world;
    const char *name;
    const struct chunks_case *c;
    struct samples samples;
};

struct chunks_rank {
    struct chunks_world *world;
    stn_context *context;
    int rank;
    stn_tensor *x[CHUNKS_INPUTS], *given[CHUNKS_INPUTS]; /* given: what the op gets; borrowed but for the prepared one */
    int n_inputs;
    int64_t chunk; /* floats of the first input's */
    float *from, *to;
    rows_fn copy;
    struct peer_primitive *primitive;
    float sum; /* keeps what was read from being unused */
};

static double run_op(chunks_op op, stn_tensor *const *inputs, int64_t n)
{
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        stn_tensor *result = op(inputs);
        if (stn_tensor_is_error(result))
            return -1;
        if (result != inputs[0])
            stn_tensor_release(&result);
    }
    return bench_now() - start;
}

static double run_ours(void *arg, int64_t n)
{
    struct chunks_rank *rank = arg;
    return run_op(rank->world->c->ours, rank->given, n);
}

static double run_other(void *arg, int64_t n)
{
    struct chunks_rank *rank = arg;
    return run_op(rank->world->c->other, rank->x, n);
}

static float read_all(const float *x, int64_t n)
{
    float lane[LANES] = {0}, sum = 0;
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

struct chunks_memory chunks_memory_of(int64_t chunk, int64_t given, double read, double written)
{
    const int64_t copied = (int64_t)((double)chunk * written), rest = (int64_t)((double)chunk * (read - written));
    const int64_t most = copied > given ? copied : given; /* an op may write more than its inputs are */
    return (struct chunks_memory){.copied = copied, .read = rest, .from = most + 1, .to = copied + 1};
}

int64_t chunks_next_read(const struct chunks_memory *memory, int64_t done, int64_t *at)
{
    const int64_t most = memory->from - 1, left = memory->read - done;
    *at = (memory->copied + done) % most;
    return left < most - *at ? left : most - *at;
}

static struct chunks_memory memory_of(const struct chunks_rank *rank)
{
    int64_t given = 0;
    for (int i = 0; i < rank->n_inputs; i++)
        given += stn_spec_local_numel(stn_tensor_spec(rank->x[i]));
    return chunks_memory_of(rank->chunk, given, rank->world->c->read, rank->world->c->written);
}

/* Copies as much as is written, and reads the rest of what is read. */
static double run_memory(void *arg, int64_t n)
{
    struct chunks_rank *rank = arg;
    const struct chunks_memory m = memory_of(rank);
    const struct rows rows = {
        .to = rank->to, .from = rank->from, .n = 1, .length = m.copied, .to_stride = m.copied, .from_stride = m.copied};
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        if (m.copied > 0)
            rank->copy(&rows);
        for (int64_t done = 0, piece, at; done < m.read; done += piece) {
            piece = chunks_next_read(&m, done, &at);
            rank->sum += read_all(rank->from + at, piece);
        }
    }
    return bench_now() - start;
}

static double run_primitive(void *arg, int64_t n)
{
    struct chunks_rank *rank = arg;
    const double start = bench_now();
    return peer_primitive_run(rank->primitive, n) ? bench_now() - start : -1;
}

static void choose_copy(void *arg, int way)
{
    ((struct chunks_rank *)arg)->copy = rows_ways()[way];
}

static stn_tensor *make_input(struct chunks_rank *rank, const stn_mesh *mesh, const struct chunks_input *input)
{
    const stn_placement placement = input->cut < 0 ? stn_replicate() : stn_shard(input->cut);
    int64_t shape[CHUNKS_DIMS];
    const stn_spec *spec;
    memcpy(shape, input->shape, sizeof shape);
    for (int d = 0; d < input->ndim && rank->world->world.bench->once; d++)
        shape[d] /= shape[d] >= ONCE_LONG ? QUICK_PART : 1; /* in all inputs alike, which still suit each other */
    if (rank->world->world.bench->quick && input->cut >= 0 && shape[input->cut] >= RANKS * QUICK_PART) /* no rank without a chunk */
        shape[input->cut] /= QUICK_PART;
    else if (rank->world->world.bench->quick && input->cut >= 0)
        shape[input->cut] = RANKS;
    if (stn_spec_create(rank->context, mesh, &placement, STN_DTYPE_F32, input->ndim, shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = world_tensor(rank->context, spec);
    stn_spec_release(&spec);
    return tensor;
}

static stn_status make_inputs(struct chunks_rank *rank)
{
    const struct chunks_case *c = rank->world->c;
    const int sizes[] = {RANKS};
    const stn_mesh *mesh;
    stn_status status = stn_mesh_create(rank->context, 1, sizes, NULL, NULL, &mesh);
    for (int i = 0; status == STN_OK && i < CHUNKS_INPUTS && c->input[i].ndim > 0; i++) {
        rank->x[i] = rank->given[i] = make_input(rank, mesh, &c->input[i]);
        status = rank->x[i] == NULL ? STN_ERR_MEMORY : STN_OK;
        rank->n_inputs++;
    }
    if (status == STN_OK && c->prepare) {
        stn_tensor *prepared = c->prepare(rank->x);
        status = stn_tensor_is_error(prepared) ? stn_context_status(rank->context) : STN_OK;
        rank->given[rank->n_inputs - 1] = prepared;
    }
    return status;
}

static stn_status make_peer(struct chunks_rank *rank)
{
    const struct chunks_case *c = rank->world->c;
    const int64_t *shape = stn_tensor_local_shape(rank->x[0]);
    rank->chunk = stn_spec_local_numel(stn_tensor_spec(rank->x[0]));
    if (c->primitive) {
        struct peer_primitive_shape chunk = *c->primitive;
        chunk.ndim = stn_tensor_ndim(rank->x[0]);
        memcpy(chunk.dims, shape, (size_t)chunk.ndim * sizeof *shape);
        rank->primitive = peer_primitive_create(&chunk);
        return rank->primitive == NULL ? STN_ERR_UNSUPPORTED : STN_OK;
    }
    if (c->other)
        return STN_OK;
    const struct chunks_memory m = memory_of(rank);
    /* The rest of a large page would hide what goes past the end. */
    void *(*const make)(size_t) = rank->world->world.bench->once ? buffer_make : buffer_make_large;
    rank->from = make((size_t)m.from * sizeof(float));
    rank->to = make((size_t)m.to * sizeof(float));
    return rank->from == NULL || rank->to == NULL ? STN_ERR_MEMORY : STN_OK;
}

static void measure(struct chunks_rank *rank)
{
    struct chunks_world *world = rank->world;
    const struct chunks_case *c = world->c;
    const team_trial peer = c->primitive ? run_primitive : c->other ? run_other : run_memory;
    if (peer == run_memory)
        team_choose(&world->world.team, rank->rank, rows_n_ways(), choose_copy, run_memory, rank);
    const struct contest contest = {.ours = run_ours, .peer = peer, .ours_arg = rank, .peer_arg = rank};
    team_measure(&world->world.team, rank->rank, &contest, &world->samples);
    struct row row = {.name = world->name, .unit = "us", .gate = c->gate, .goal = c->goal};
    snprintf(row.label, sizeof row.label, "%s", c->label);
    row_measure(&row, &world->samples, bench_times, 0, 1e-6);
    stn_stats before = world_stats(rank->context);
    run_ours(rank, 1);
    stn_stats after = world_stats(rank->context);
    row_count(&row, "bytes_sent", (double)(after.bytes_sent - before.bytes_sent));
    row_count(&row, "messages", (double)(after.messages - before.messages));
    if (rank->rank == 0)
        row_print(world->world.bench, &row);
}

static stn_status chunks_rank_main(stn_context *context, void *arg)
{
    struct chunks_rank rank = {.world = arg, .context = context, .rank = stn_context_rank(context)};
    stn_status status = make_inputs(&rank);
    if (status == STN_OK)
        status = make_peer(&rank);
    if (status == STN_OK)
        measure(&rank);
    peer_primitive_destroy(&rank.primitive);
    free(rank.from);
    free(rank.to);
    for (int i = 0; i < rank.n_inputs; i++) {
        if (rank.given[i] != rank.x[i])
            stn_tensor_release(&rank.given[i]);
        stn_tensor_release(&rank.x[i]);
    }
    return status;
}

void chunks_run(struct bench *bench, const char *name, const struct chunks_case *cases, int n)
{
    for (int i = 0; i < n; i++) {
        struct chunks_world world = {.name = name, .c = &cases[i]};
        if (cases[i].primitive && !peer_primitive_is_there()) {
            fprintf(stderr, "%s %s: this build has no oneDNN to compare with\n", name, cases[i].label);
            continue;
        }
        world_launch(bench, RANKS, chunks_rank_main, &world.world);
    }
}
