/* Ranks of NCCL, each on a device of its own, beside NCCL as a program calls it on the same devices: what goes between
 * them, and what the way through the library costs. */
#include "bench.h"
#include "runtime.h"

#include "cuda/raw_nccl.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <stdio.h>

enum { SMALL = 8 /* times fewer rows and columns */ };

struct link {
    const struct raw_nccl *nccl;
    struct ncclComm *raw; /* of the same ranks */
    stn_comm *ours;
    const stn_mesh *mesh;
    int64_t side;          /* of a square, which has all elements of a call */
    stn_tensor *from, *to; /* on each rank, with room for all of them */
    stn_tensor *rows;      /* the square's, over the ranks */
    int64_t counts[BENCH_MOST_RANKS];
};

static int64_t elements(const struct link *link)
{
    return link->side * link->side;
}

static stn_status said(int answer)
{
    return answer == 0 ? STN_OK : STN_ERR_COMM;
}

static stn_status reduce_ours(struct bench_rank *rank)
{
    const struct link *x = rank->arg;
    return stn_comm_all_reduce(x->ours, stn_tensor_data(x->from), stn_tensor_data(x->to), elements(x), STN_DTYPE_F32,
                               STN_SUM, NULL);
}

static stn_status reduce_raw(struct bench_rank *rank)
{
    const struct link *x = rank->arg;
    return said(x->nccl->ncclAllReduce(stn_tensor_data(x->from), stn_tensor_data(x->to), (size_t)elements(x),
                                       RAW_NCCL_FLOAT, RAW_NCCL_SUM, x->raw, stn_queue_native(rank->context->queue)));
}

static stn_status gather_ours(struct bench_rank *rank)
{
    const struct link *x = rank->arg;
    return stn_comm_all_gather(x->ours, stn_tensor_data(x->from), stn_tensor_data(x->to), x->counts, STN_DTYPE_F32,
                               NULL);
}

static stn_status gather_raw(struct bench_rank *rank)
{
    const struct link *x = rank->arg;
    return said(x->nccl->ncclAllGather(stn_tensor_data(x->from), stn_tensor_data(x->to), (size_t)x->counts[0],
                                       RAW_NCCL_FLOAT, x->raw, stn_queue_native(rank->context->queue)));
}

static stn_status turn_ours(struct bench_rank *rank)
{
    const struct link *x = rank->arg;
    const stn_placement columns = stn_shard(1);
    return stn_tensor_is_error(stn_redistribute_to(x->rows, &columns)) ? STN_ERR_INTERNAL : STN_OK;
}

/* A dense piece to each rank and from each, itself included. */
static stn_status turn_raw(struct bench_rank *rank)
{
    const struct link *x = rank->arg;
    const size_t part = (size_t)(x->counts[0] / rank->size);
    const float *from = stn_tensor_data(x->from);
    float *to = stn_tensor_data(x->to);
    void *stream = stn_queue_native(rank->context->queue);
    int answer = x->nccl->ncclGroupStart();
    for (size_t p = 0; p < (size_t)rank->size && answer == 0; p++) {
        answer = x->nccl->ncclSend(from + p * part, part, RAW_NCCL_FLOAT, (int)p, x->raw, stream);
        answer = answer ? answer : x->nccl->ncclRecv(to + p * part, part, RAW_NCCL_FLOAT, (int)p, x->raw, stream);
    }
    const int ended = x->nccl->ncclGroupEnd();
    return said(answer ? answer : ended);
}

static const struct {
    const char *label;
    bench_call ours, raw;
} kinds[] = {
    {"all_reduce", reduce_ours, reduce_raw},
    {"all_gather", gather_ours, gather_raw},
    {"S(0)->S(1)", turn_ours, turn_raw},
};

static void measure(struct bench_rank *rank, struct link *link, int64_t side)
{
    const int64_t n = side * side, shape[] = {side, side};
    link->side = side;
    link->from = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &n);
    link->to = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &n);
    link->rows = bench_tensor(rank, link->mesh, stn_shard(0), STN_DTYPE_F32, 2, shape);
    for (int r = 0; r < rank->size; r++)
        link->counts[r] = n / rank->size;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct bench_row row = {.name = "links",
                                .ours = kinds[i].ours,
                                .peer = kinds[i].raw,
                                .unit = "GB/s",
                                .work = 1e-9 * (double)n * sizeof(float),
                                .arg = link};
        snprintf(row.label, sizeof row.label, "%s of %.4g MiB, %d GPUs", kinds[i].label,
                 (double)n * sizeof(float) / (1 << 20), rank->size);
        bench_measure(rank, &row);
    }
    stn_tensor_release(&link->from);
    stn_tensor_release(&link->to);
    stn_tensor_release(&link->rows);
}

/* The name of the peer's communicator, which the ranks of one launch share. */
static struct raw_nccl_id id;

static void body(struct bench_rank *rank)
{
    struct link link = {.nccl = raw_nccl(rank->bench->folder), .ours = stn_context_comm(rank->context)};
    stn_status status = said(link.nccl->ncclCommInitRank(&link.raw, rank->size, id, rank->rank));
    if (status == STN_OK)
        status = stn_mesh_create(rank->context, 1, &rank->size, NULL, NULL, &link.mesh);
    if (bench_ready(rank, "links", status)) {
        measure(rank, &link, rank->bench->side);
        measure(rank, &link, rank->bench->side / SMALL);
    }
    if (link.raw)
        link.nccl->ncclCommDestroy(link.raw);
}

static void launch(struct bench *bench, int gpus)
{
    const struct raw_nccl *nccl = raw_nccl(bench->folder);
    if (nccl && nccl->ncclGetUniqueId(&id) == 0) {
        bench_launch_nccl(bench, gpus, body);
        return;
    }
    printf("links, %d GPUs: not measured: NCCL %s\n", gpus, nccl ? "gives no name" : "was not found");
    bench->failed++;
}

void bench_links(struct bench *bench)
{
    static const int gpus[] = {2, 4, BENCH_MOST_RANKS};
    const int devices = runtime_devices();
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        if (gpus[i] <= devices)
            launch(bench, gpus[i]);
        else
            printf("links, %d GPUs: skipped, there %s %d\n", gpus[i], devices == 1 ? "is" : "are", devices);
    }
}
