/* The stand-in's NCCL: worlds of ranks, which are threads of this process, and what each of them has asked for.
 *
 * A call puts one piece of work on its stream, which brings its parts to the world, waits there until all peers' have
 * come, or until its own communicator is aborted, and takes them back then. The last part to come does the work of all.
 * As with NCCL, a rank that aborts tells nobody, and its abort returns when its communicator's own work has left the
 * streams, whatever that stands behind, and graphs of its calls are gone. */
#ifndef STANDIN_NCCL_WORLD_H
#define STANDIN_NCCL_WORLD_H

#include "cuda/standin/nccl_script.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace standin {

enum class function { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };

/* What one rank brings to a collective, or one end of a message. */
struct nccl_part {
    function what;
    const void *send;
    void *recv;
    std::size_t count; /* as the call has it */
    ncclDataType_t type;
    ncclRedOp_t op;
    int root, peer;
    long number; /* of the collective */
    bool is_lost, is_done;
    const char *name = nullptr; /* of the function */
    long captured = 0; /* the number of the collective among those that its end has had captured, from 1; a message: 1 where it was captured */
};

struct nccl_world {
    explicit nccl_world(int ranks) : n(ranks) {}
    std::mutex lock;
    std::condition_variable moved;
    const int n;
    int joined = 0, finalized = 0;
    std::set<int> devices; /* of ranks that joined; two of one device are refused */
    std::map<long, std::vector<nccl_part *>> meetings;
    std::map<std::pair<int, int>, std::deque<nccl_part *>> sent, wanted; /* by from and to */
    std::map<long, std::shared_ptr<nccl_world>> splits;
};

enum class phase { beginning, ready, finalizing };

/* A rank's end of a world. What is behind the constants is guarded by the world's lock. */
struct nccl_end {
    nccl_end(std::shared_ptr<nccl_world> world_, int rank_, int device_, bool is_blocking_)
        : world(std::move(world_)), rank(rank_), device(device_), is_blocking(is_blocking_) {}
    const std::shared_ptr<nccl_world> world;
    const int rank, device;
    const bool is_blocking;
    phase at = phase::beginning;
    bool is_aborted = false, is_lost = false;
    int polls = 0; /* how often it will be in progress still */
    ncclResult_t later = ncclSuccess;
    long collectives = 0, captured = 0, splits = 0;
    std::atomic<int> graphs{0}; /* captured calls in graphs that live: it does not end before them */
    int under_way = 0; /* pieces of work on streams: an abort waits for them */
    std::vector<std::function<void()>> launches; /* put on streams when polls are through */
};

/* The script's word on a call; counts it. */
struct nccl_verdict {
    bool is_told;
    standin_nccl_fate fate;
    ncclResult_t result;
};
nccl_verdict nccl_ask(const char *function, int rank);
int nccl_polls();

/* What a call of this end answers: in progress, or success at once, after which `launch` is on its stream. */
ncclResult_t nccl_launch(nccl_end &end, std::function<void()> launch);

/* With the lock held: brings a part to the world; whoever completes something does its work. */
void nccl_bring(nccl_end &end, nccl_part &part);
void nccl_take_back(nccl_end &end, nccl_part &part);

/* Ends the program: what NCCL leaves open. */
[[noreturn]] void nccl_refuse(const char *what);

}

struct ncclComm {
    std::shared_ptr<standin::nccl_end> end;
};

#endif
