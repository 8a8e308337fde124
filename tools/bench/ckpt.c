/* 12. A file of 1,000 tensors that two ranks save and load, beside both ranks writing and reading as many bytes of a
 * file of the same folder, in pieces of 1 MiB: $TMPDIR, or /tmp. Written is what is on the disk; what is read may
 * still be in memory. */
#include "buffers.h"
#include "world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 2, TENSORS = 1000, QUICK_TENSORS = 50, COLUMNS = 1000, PIECE = 1 << 20, PATH_SIZE = 512 };

struct ckpt_world {
    struct world world;
    int tensors;
    char path[PATH_SIZE], peer[PATH_SIZE];
};

struct ckpt_rank {
    struct ckpt_world *world;
    stn_context *context;
    int rank;
    int64_t bytes;                       /* this rank's of the peer's file */
    stn_named_tensor *tensors, *columns; /* cut along rows as they are saved; and along columns */
    char (*names)[24];
    char *data; /* as many bytes */
};

/* What is saved, or loaded. */
struct ckpt_list {
    struct ckpt_rank *rank;
    const stn_named_tensor *tensors;
};

static double run_save(void *arg, int64_t n)
{
    const struct ckpt_list *list = arg;
    const struct ckpt_world *world = list->rank->world;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++)
        if (stn_save(list->rank->context, world->path, world->tensors, list->tensors, 0, NULL) != STN_OK)
            return -1;
    return bench_now() - start;
}

static double run_load(void *arg, int64_t n)
{
    const struct ckpt_list *list = arg;
    const struct ckpt_world *world = list->rank->world;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++)
        if (stn_load(list->rank->context, world->path, world->tensors, list->tensors) != STN_OK)
            return -1;
    return bench_now() - start;
}

/* This rank's half of the peer's file, a piece after the other; 0 where that fails. */
static int move_pieces(struct ckpt_rank *rank, int file, int writes)
{
    const off_t first = (off_t)rank->rank * rank->bytes;
    for (int64_t at = 0; at < rank->bytes; at += PIECE) {
        const size_t size = (size_t)(rank->bytes - at < PIECE ? rank->bytes - at : PIECE);
        const ssize_t moved =
            writes ? pwrite(file, rank->data + at, size, first + at) : pread(file, rank->data + at, size, first + at);
        if (moved != (ssize_t)size)
            return 0;
    }
    return 1;
}

static double run_write(void *arg, int64_t n)
{
    struct ckpt_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        if (rank->rank == 0)
            unlink(rank->world->peer);
        team_wait(&rank->world->world.team);
        const int file = open(rank->world->peer, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        const int done = file >= 0 && move_pieces(rank, file, 1) && fsync(file) == 0;
        if (file >= 0)
            close(file);
        team_wait(&rank->world->world.team);
        if (!done)
            return -1;
    }
    return bench_now() - start;
}

static double run_read(void *arg, int64_t n)
{
    struct ckpt_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        const int file = open(rank->world->peer, O_RDONLY | O_CLOEXEC);
        const int done = file >= 0 && move_pieces(rank, file, 0);
        if (file >= 0)
            close(file);
        if (!done)
            return -1;
    }
    return bench_now() - start;
}

static void measure(struct ckpt_rank *rank, const char *label, const stn_named_tensor *tensors, team_trial ours,
                    team_trial peer, double gate)
{
    struct ckpt_list list = {rank, tensors};
    const struct contest contest = {.ours = ours, .peer = peer, .ours_arg = &list, .peer_arg = rank};
    struct row row = {.name = "ckpt", .gate = gate, .goal = 0.95};
    snprintf(row.label, sizeof row.label, "%s, %lld MiB", label, (long long)(RANKS * rank->bytes >> 20));
    world_contest(&rank->world->world, rank->context, &contest, &row);
}

/* Of 16 to 112 rows. */
static stn_status make_tensors(struct ckpt_rank *rank, const stn_mesh *mesh, int dim, stn_named_tensor *out)
{
    const stn_placement cut = stn_shard(dim);
    for (int i = 0; i < rank->world->tensors; i++) {
        const int64_t shape[] = {16 + i * 37 % 97, COLUMNS};
        const stn_spec *spec;
        const stn_status status = stn_spec_create(rank->context, mesh, &cut, STN_DTYPE_F32, 2, shape, NULL, &spec);
        if (status != STN_OK)
            return status;
        snprintf(rank->names[i], sizeof rank->names[i], "tensor%d", i);
        out[i] = (stn_named_tensor){rank->names[i], world_tensor(rank->context, spec)};
        rank->bytes += dim == 0 ? shape[0] * shape[1] * (int64_t)sizeof(float) / RANKS : 0;
        stn_spec_release(&spec);
        if (out[i].tensor == NULL)
            return STN_ERR_MEMORY;
    }
    return STN_OK;
}

static stn_status make(struct ckpt_rank *rank)
{
    const int ranks = RANKS;
    const size_t n = (size_t)rank->world->tensors;
    const stn_mesh *mesh;
    rank->tensors = calloc(n, sizeof *rank->tensors);
    rank->columns = calloc(n, sizeof *rank->columns);
    rank->names = calloc(n, sizeof *rank->names);
    if (!rank->tensors || !rank->columns || !rank->names)
        return STN_ERR_MEMORY;
    stn_status status = stn_mesh_create(rank->context, 1, &ranks, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = make_tensors(rank, mesh, 0, rank->tensors);
    if (status == STN_OK)
        status = make_tensors(rank, mesh, 1, rank->columns);
    rank->data = buffer_make((size_t)rank->bytes);
    return status == STN_OK && !rank->data ? STN_ERR_MEMORY : status;
}

static void drop(struct ckpt_rank *rank)
{
    for (int i = 0; rank->tensors && rank->columns && i < rank->world->tensors; i++) {
        stn_tensor_release(&rank->tensors[i].tensor);
        stn_tensor_release(&rank->columns[i].tensor);
    }
    free(rank->tensors);
    free(rank->columns);
    free(rank->names);
    free(rank->data);
}

static stn_status ckpt_rank_main(stn_context *context, void *arg)
{
    struct ckpt_rank rank = {.world = arg, .context = context, .rank = stn_context_rank(context)};
    const stn_status status = make(&rank);
    if (status == STN_OK) {
        measure(&rank, "save", rank.tensors, run_save, run_write, 0.85);
        measure(&rank, "save cut along columns", rank.columns, run_save, run_write, 0.85);
        measure(&rank, "load", rank.tensors, run_load, run_read, 0.8);
        measure(&rank, "load cut along columns", rank.columns, run_load, run_read, 0.8);
    }
    drop(&rank);
    return status;
}

void bench_ckpt(struct bench *bench)
{
    const char *folder = getenv("TMPDIR");
    struct ckpt_world world = {.tensors = bench->quick ? QUICK_TENSORS : TENSORS};
    snprintf(world.path, sizeof world.path, "%s/stn-bench-%ld.safetensors", folder ? folder : "/tmp", (long)getpid());
    snprintf(world.peer, sizeof world.peer, "%s/stn-bench-%ld.peer", folder ? folder : "/tmp", (long)getpid());
    world_launch(bench, RANKS, ckpt_rank_main, &world.world);
    unlink(world.path);
    unlink(world.peer);
}
