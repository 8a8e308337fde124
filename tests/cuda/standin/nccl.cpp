/* NCCL of the stand-in: making and ending communicators, their state, and the script. */
#include "cuda/standin/found_by_name.h"
#include "cuda/standin/nccl_world.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace standin {

namespace {

struct told {
    standin_nccl_line line;
    int before; /* calls still to come before it */
};

struct script {
    std::mutex lock;
    std::vector<told> lines;
    std::map<std::string, int> calls;
    int polls = 0, live = 0;
    long ids = 0;
    std::map<long, std::shared_ptr<nccl_world>> worlds; /* by id; of those that not all ranks have joined */
};

script &the_script()
{
    static script one;
    return one;
}

}

void nccl_refuse(const char *what)
{
    fprintf(stderr, "stand-in: nccl: %s\n", what);
    abort();
}

nccl_verdict nccl_ask(const char *function, int rank)
{
    script &s = the_script();
    std::lock_guard<std::mutex> held(s.lock);
    s.calls[function]++;
    for (told &t : s.lines)
        if (t.line.rank == rank && std::strcmp(t.line.function, function) == 0 && t.before-- == 0)
            return {true, t.line.fate, static_cast<ncclResult_t>(t.line.result)};
    return {false, STANDIN_NCCL_ANSWERS, ncclSuccess};
}

int nccl_polls()
{
    std::lock_guard<std::mutex> held(the_script().lock);
    return the_script().polls;
}

namespace {

void count_live(int more)
{
    std::lock_guard<std::mutex> held(the_script().lock);
    the_script().live += more;
}

std::shared_ptr<nccl_world> world_of(const ncclUniqueId &id, int n)
{
    long number;
    script &s = the_script();
    std::memcpy(&number, id.internal, sizeof number);
    std::lock_guard<std::mutex> held(s.lock);
    std::shared_ptr<nccl_world> &world = s.worlds[number];
    if (!world)
        world = std::make_shared<nccl_world>(n);
    if (world->n != n)
        nccl_refuse("ranks of one id differ in their number");
    return world;
}

/* With the lock held. */
ncclResult_t state_of(nccl_end &end)
{
    const nccl_world &w = *end.world;
    if (end.later != ncclSuccess)
        return end.later;
    if (end.polls > 0 && end.polls--)
        return ncclInProgress;
    if (end.is_lost || (end.at == phase::beginning && w.joined < w.n) ||
        (end.at == phase::finalizing && (w.finalized < w.n || end.graphs > 0)))
        return ncclInProgress;
    if (static_cast<int>(w.devices.size()) < w.n)
        return ncclInvalidUsage;
    end.at = end.at == phase::beginning ? phase::ready : end.at;
    return ncclSuccess;
}

/* Launches are put on their streams once they are no longer in progress. */
ncclResult_t poll(nccl_end &end)
{
    std::vector<std::function<void()>> launches;
    ncclResult_t state;
    {
        std::lock_guard<std::mutex> held(end.world->lock);
        state = state_of(end);
        if (state == ncclSuccess)
            launches.swap(end.launches);
    }
    for (auto &launch : launches)
        launch();
    return state;
}

/* This rank has come to its world. */
ncclResult_t join(ncclComm_t *out, std::shared_ptr<nccl_world> world, int rank, bool is_blocking,
                  const nccl_verdict &verdict)
{
    int device = 0;
    cudaGetDevice(&device);
    auto end = std::make_shared<nccl_end>(world, rank, device, is_blocking);
    std::unique_lock<std::mutex> held(world->lock);
    *out = new ncclComm{end};
    count_live(1);
    end->polls = nccl_polls();
    if (verdict.is_told && verdict.fate == STANDIN_NCCL_LATER)
        end->later = verdict.result;
    end->is_lost = verdict.is_told && verdict.fate == STANDIN_NCCL_LOST;
    if (!verdict.is_told) {
        world->joined++;
        world->devices.insert(device);
        world->moved.notify_all();
    }
    if (!is_blocking)
        return ncclInProgress;
    world->moved.wait(held, [&] { return world->joined == world->n; });
    end->polls = 0;
    return state_of(*end);
}

}

ncclResult_t nccl_launch(nccl_end &end, std::function<void()> launch)
{
    {
        std::lock_guard<std::mutex> held(end.world->lock);
        end.polls = end.is_blocking ? 0 : nccl_polls();
        if (end.polls > 0)
            end.launches.push_back(std::move(launch));
        if (end.polls > 0)
            return ncclInProgress;
    }
    launch();
    return ncclSuccess;
}

}

using standin::nccl_ask;
using standin::nccl_refuse;

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

STANDIN_FOUND_BY_NAME ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const auto verdict = nccl_ask("ncclGetUniqueId", 0);
    if (verdict.is_told)
        return verdict.result;
    standin::script &s = standin::the_script();
    std::lock_guard<std::mutex> held(s.lock);
    const long number = ++s.ids;
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, &number, sizeof number);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    const auto verdict = nccl_ask("ncclCommInitRankConfig", rank);
    if (verdict.is_told && verdict.fate == STANDIN_NCCL_ANSWERS)
        return verdict.result;
    return standin::join(comm, standin::world_of(id, nranks), rank, config->blocking != 0, verdict);
}

/* A program's own, which blocks. */
STANDIN_FOUND_BY_NAME ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    const auto verdict = nccl_ask("ncclCommInitRank", rank);
    if (verdict.is_told && verdict.fate == STANDIN_NCCL_ANSWERS)
        return verdict.result;
    return standin::join(comm, standin::world_of(id, nranks), rank, true, verdict);
}

/* All ranks of one colour, in their order. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    standin::nccl_end &end = *comm->end;
    const auto verdict = nccl_ask("ncclCommSplit", end.rank);
    if (verdict.is_told && verdict.fate == STANDIN_NCCL_ANSWERS)
        return verdict.result;
    if (color != 0 || key != end.rank)
        nccl_refuse("ncclCommSplit into other than all ranks in their order");
    std::shared_ptr<standin::nccl_world> world;
    {
        std::lock_guard<std::mutex> held(end.world->lock);
        world = end.world->splits[end.splits];
        if (!world)
            world = end.world->splits[end.splits] = std::make_shared<standin::nccl_world>(end.world->n);
        end.splits++;
    }
    return standin::join(newcomm, world, key, config->blocking != 0, verdict);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    standin::nccl_end &end = *comm->end;
    const auto verdict = nccl_ask("ncclCommFinalize", end.rank);
    if (verdict.is_told && verdict.fate == STANDIN_NCCL_ANSWERS)
        return verdict.result;
    std::lock_guard<std::mutex> held(end.world->lock);
    end.at = standin::phase::finalizing;
    end.is_lost = verdict.is_told;
    end.polls = standin::nccl_polls();
    end.world->finalized += !verdict.is_told;
    return ncclInProgress;
}

STANDIN_FOUND_BY_NAME ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    nccl_ask("ncclCommDestroy", comm->end->rank);
    if (!comm->end->is_blocking &&
        (comm->end->at != standin::phase::finalizing || standin::poll(*comm->end) != ncclSuccess))
        nccl_refuse("ncclCommDestroy of a communicator that is not finalized");
    standin::count_live(-1);
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    standin::nccl_end &end = *comm->end;
    nccl_ask("ncclCommAbort", end.rank);
    {
        std::unique_lock<std::mutex> held(end.world->lock);
        end.is_aborted = true;
        end.launches.clear();
        end.world->moved.notify_all();
        while (end.under_way > 0 || end.graphs > 0)
            end.world->moved.wait_for(held, std::chrono::milliseconds(1));
    }
    standin::count_live(-1);
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    *state = standin::poll(*comm->end);
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->end->world->n;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->end->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->end->rank;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",         "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage",        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return texts[result];
}

const char *ncclGetLastError(ncclComm_t)
{
    return "";
}

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void standin_nccl_tell(const struct standin_nccl_line *line)
{
    standin::script &s = standin::the_script();
    std::lock_guard<std::mutex> held(s.lock);
    s.lines.push_back({*line, line->call});
}

VISIBLE void standin_nccl_delay(int polls)
{
    std::lock_guard<std::mutex> held(standin::the_script().lock);
    standin::the_script().polls = polls;
}

VISIBLE void standin_nccl_reset(void)
{
    standin::script &s = standin::the_script();
    std::lock_guard<std::mutex> held(s.lock);
    s.lines.clear();
    s.calls.clear();
    s.worlds.clear();
    s.polls = 0;
}

VISIBLE int standin_nccl_live(void)
{
    std::lock_guard<std::mutex> held(standin::the_script().lock);
    return standin::the_script().live;
}

VISIBLE int standin_nccl_calls(const char *function)
{
    std::lock_guard<std::mutex> held(standin::the_script().lock);
    return standin::the_script().calls[function];
}

VISIBLE int standin_stream_priority(void *stream)
{
    int priority = 0;
    cudaStreamGetPriority(static_cast<cudaStream_t>(stream), &priority);
    return priority;
}

}
