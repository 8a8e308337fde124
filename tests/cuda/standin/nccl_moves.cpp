/* NCCL of the stand-in: collectives, messages and groups of them. Reductions begin at rank 1 and end at rank 0, so that
 * who counts on the order of ranks finds other bits; minima and maxima lose a NaN or keep it as it comes; means are
 * scaled before they are added. */
#include "cuda/standin/found_by_name.h"
#include "cuda/standin/memory.h"
#include "cuda/standin/nccl_world.h"
#include "cuda/standin/stream.h"

#include "core/base/dtype.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace standin {

namespace {

std::size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
    }
}

struct half {
    uint16_t bits;
    operator float() const { return stni_f16_to_f32(bits); }
    half(float value = 0) : bits(stni_f32_to_f16(value)) {}
};

struct brain {
    uint16_t bits;
    operator float() const { return stni_bf16_to_f32(bits); }
    brain(float value = 0) : bits(stni_f32_to_bf16(value)) {}
};

template <class T> T combine(T a, T b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd: return static_cast<T>(a * b);
    case ncclMax: return b > a ? b : a;
    case ncclMin: return b < a ? b : a;
    default: return static_cast<T>(a + b);
    }
}

template <class T>
void reduce_as(std::vector<char> &out, const std::vector<nccl_part *> &parts, std::size_t count, ncclRedOp_t op)
{
    const std::size_t n = parts.size();
    const T scale = op == ncclAvg ? static_cast<T>(1.0f / static_cast<float>(n)) : static_cast<T>(1.0f);
    T *to = reinterpret_cast<T *>(out.data());
    for (std::size_t i = 0; i < count; i++) {
        const auto value = [&](std::size_t r) {
            return static_cast<T>(static_cast<const T *>(parts[r % n]->send)[i] * scale);
        };
        T sum = value(1);
        for (std::size_t r = 2; r <= n; r++)
            sum = combine<T>(sum, value(r), op);
        to[i] = sum;
    }
}

/* What the reduction of all parts gives, `count` numbers. */
std::vector<char> reduced(const std::vector<nccl_part *> &parts, std::size_t count)
{
    const nccl_part &p = *parts[0];
    std::vector<char> out(count * bytes_of(p.type) + 8);
    switch (p.type) {
    case ncclInt8: reduce_as<int8_t>(out, parts, count, p.op); break;
    case ncclUint8: reduce_as<uint8_t>(out, parts, count, p.op); break;
    case ncclInt32: reduce_as<int32_t>(out, parts, count, p.op); break;
    case ncclUint32: reduce_as<uint32_t>(out, parts, count, p.op); break;
    case ncclInt64: reduce_as<int64_t>(out, parts, count, p.op); break;
    case ncclUint64: reduce_as<uint64_t>(out, parts, count, p.op); break;
    case ncclFloat16: reduce_as<half>(out, parts, count, p.op); break;
    case ncclFloat32: reduce_as<float>(out, parts, count, p.op); break;
    case ncclFloat64: reduce_as<double>(out, parts, count, p.op); break;
    case ncclBfloat16: reduce_as<brain>(out, parts, count, p.op); break;
    default: nccl_refuse("a type that it does not have");
    }
    return out;
}

void gather_all(const std::vector<nccl_part *> &parts, std::size_t bytes)
{
    std::vector<char> all(parts.size() * bytes + 1);
    for (std::size_t r = 0; r < parts.size(); r++)
        std::memcpy(all.data() + r * bytes, parts[r]->send, bytes);
    for (nccl_part *p : parts)
        std::memcpy(p->recv, all.data(), parts.size() * bytes);
}

void reduce_all(const std::vector<nccl_part *> &parts, std::size_t bytes)
{
    const function what = parts[0]->what;
    const std::size_t n = parts.size(), scattered = what == function::reduce_scatter;
    const std::vector<char> out = reduced(parts, parts[0]->count * (scattered ? n : 1));
    for (std::size_t r = 0; r < n; r++)
        if (what != function::reduce || parts[0]->root == static_cast<int>(r))
            std::memcpy(parts[r]->recv, out.data() + scattered * r * bytes, bytes);
}

/* With all ranks' parts. */
void do_collective(const std::vector<nccl_part *> &parts)
{
    const nccl_part &first = *parts[0];
    const std::size_t bytes = first.count * bytes_of(first.type);
    for (const nccl_part *p : parts)
        if (p->what != first.what || p->count != first.count || p->type != first.type || p->op != first.op ||
            p->root != first.root)
            nccl_refuse("ranks call different collectives");
    for (const nccl_part *p : parts)
        if (p->captured != first.captured)
            nccl_refuse("a collective of a graph meets another one");
    if (first.what == function::broadcast) {
        const std::vector<char> root(static_cast<const char *>(parts[first.root]->send),
                                     static_cast<const char *>(parts[first.root]->send) + bytes);
        for (nccl_part *p : parts)
            std::memcpy(p->recv, root.data(), bytes);
    } else if (first.what == function::all_gather) {
        gather_all(parts, bytes);
    } else {
        reduce_all(parts, bytes);
    }
}

void do_message(nccl_part &from, nccl_part &to)
{
    if (from.count * bytes_of(from.type) != to.count * bytes_of(to.type))
        nccl_refuse("a message has different sizes at its ends");
    if (from.captured != to.captured)
        nccl_refuse("a message of a graph meets one that was called");
    std::memcpy(to.recv, from.send, to.count * bytes_of(to.type));
    from.is_done = to.is_done = true;
}

void bring_collective(nccl_end &end, nccl_part &part)
{
    nccl_world &w = *end.world;
    std::vector<nccl_part *> &parts = w.meetings[part.number];
    parts.resize(static_cast<std::size_t>(w.n));
    parts[static_cast<std::size_t>(end.rank)] = &part;
    if (std::count(parts.begin(), parts.end(), nullptr) > 0)
        return;
    work_begins(ANY_GPU);
    do_collective(parts);
    work_ends();
    for (nccl_part *p : parts)
        p->is_done = true;
    w.meetings.erase(part.number);
}

void bring_message(nccl_end &end, nccl_part &part)
{
    nccl_world &w = *end.world;
    const bool sends = part.what == function::send;
    const auto way = sends ? std::make_pair(end.rank, part.peer) : std::make_pair(part.peer, end.rank);
    (sends ? w.sent : w.wanted)[way].push_back(&part);
    if (w.sent[way].empty() || w.wanted[way].empty())
        return;
    work_begins(ANY_GPU);
    do_message(*w.sent[way].front(), *w.wanted[way].front());
    work_ends();
    w.sent[way].pop_front();
    w.wanted[way].pop_front();
}

}

void nccl_bring(nccl_end &end, nccl_part &part)
{
    if (part.is_lost)
        return;
    if (part.what == function::send || part.what == function::receive)
        bring_message(end, part);
    else
        bring_collective(end, part);
}

void nccl_take_back(nccl_end &end, nccl_part &part)
{
    nccl_world &w = *end.world;
    const auto forget = [&](std::deque<nccl_part *> &all) {
        all.erase(std::remove(all.begin(), all.end(), &part), all.end());
    };
    if (part.is_done || part.is_lost)
        return;
    if (part.what == function::send)
        forget(w.sent[{end.rank, part.peer}]);
    else if (part.what == function::receive)
        forget(w.wanted[{part.peer, end.rank}]);
    else
        w.meetings[part.number][static_cast<std::size_t>(end.rank)] = nullptr;
}

namespace {

/* On the stream: brings everything, then waits for everything. */
void run(const std::shared_ptr<nccl_end> &end, std::vector<nccl_part> &parts)
{
    std::unique_lock<std::mutex> held(end->world->lock);
    const auto is_done = [](const nccl_part &p) { return p.is_done; };
    for (nccl_part &p : parts)
        if (!end->is_aborted)
            nccl_bring(*end, p);
        else
            p.is_lost = true;
    end->world->moved.notify_all();
    end->world->moved.wait(held, [&] { return end->is_aborted || std::all_of(parts.begin(), parts.end(), is_done); });
    for (nccl_part &p : parts)
        nccl_take_back(*end, p);
    end->under_way--;
    end->world->moved.notify_all();
}

void count_under_way(nccl_end &end)
{
    std::lock_guard<std::mutex> held(end.world->lock);
    end.under_way++;
}

struct group {
    int depth = 0;
    ncclResult_t answer = ncclSuccess; /* the first error within */
    std::shared_ptr<nccl_end> end;
    cudaStream_t stream = nullptr;
    std::vector<nccl_part> parts;
};

thread_local group open_group;

bool is_message(const nccl_part &part)
{
    return part.what == function::send || part.what == function::receive;
}

/* A graph that has captured calls of an end's. */
struct graph_of {
    explicit graph_of(std::shared_ptr<nccl_end> end_) : end(std::move(end_)) { end->graphs++; }
    ~graph_of() { end->graphs--; }
    const std::shared_ptr<nccl_end> end;
};

/* The parts of one launch of a graph: their place among the end's collectives is that of the launch. */
std::shared_ptr<std::vector<nccl_part>> parts_again(nccl_end &end, const std::vector<nccl_part> &captured)
{
    auto parts = std::make_shared<std::vector<nccl_part>>(captured);
    for (nccl_part &part : *parts) {
        const nccl_verdict verdict = nccl_ask((std::string(part.name) + " of a graph").c_str(), end.rank);
        if (verdict.is_told && verdict.fate == STANDIN_NCCL_ANSWERS)
            nccl_refuse("a call of a graph answers nobody");
        std::lock_guard<std::mutex> held(end.world->lock);
        part.is_lost = verdict.is_told;
        part.number = is_message(part) ? 0 : end.collectives++;
        if (verdict.is_told && verdict.fate == STANDIN_NCCL_LATER)
            end.later = verdict.result;
    }
    return parts;
}

void put_on_stream(const std::shared_ptr<nccl_end> &end, cudaStream_t stream,
                   const std::shared_ptr<std::vector<nccl_part>> &parts)
{
    if (stream->capture)
        stream->add_made([graph = std::make_shared<graph_of>(end), parts]() -> std::function<void()> {
            count_under_way(*graph->end);
            return [end = graph->end, again = parts_again(*graph->end, *parts)] { run(end, *again); };
        });
    else {
        count_under_way(*end);
        stream->add([end, parts] { run(end, *parts); });
    }
}

ncclResult_t end_group()
{
    group g;
    std::swap(g, open_group);
    if (g.answer != ncclSuccess || g.parts.empty())
        return g.answer;
    auto parts = std::make_shared<std::vector<nccl_part>>(std::move(g.parts));
    return nccl_launch(*g.end, [end = g.end, stream = g.stream, parts] { put_on_stream(end, stream, parts); });
}

void check_memory(const void *data, bool is_used)
{
    if (is_used && !device_owns(data))
        nccl_refuse("a buffer is no memory of a device");
}

/* One call: of the open group, or a group of its own. */
ncclResult_t call(const char *function, ncclComm_t comm, cudaStream_t stream, nccl_part part)
{
    const nccl_verdict verdict = nccl_ask(function, comm->end->rank);
    forbid_in_host_functions(function);
    if (part.count == 0)
        nccl_refuse("a call without elements, which the module leaves out");
    check_memory(part.send,
                 part.what != function::receive && (part.what != function::broadcast || part.root == comm->end->rank));
    check_memory(part.recv,
                 part.what != function::send && (part.what != function::reduce || part.root == comm->end->rank));
    if (open_group.end && (open_group.end != comm->end || open_group.stream != stream))
        nccl_refuse("a group over two communicators or streams");
    if (verdict.is_told && verdict.fate == STANDIN_NCCL_ANSWERS) {
        open_group.answer = open_group.depth > 0 ? verdict.result : ncclSuccess;
        return verdict.result;
    }
    {
        std::lock_guard<std::mutex> held(comm->end->world->lock);
        if (comm->end->at != phase::ready && !comm->end->is_blocking)
            nccl_refuse("a call on a communicator that is in progress");
        part.is_lost = verdict.is_told;
        part.name = function;
        if (stream->capture)
            part.captured = is_message(part) ? 1 : ++comm->end->captured;
        else
            part.number = is_message(part) ? 0 : comm->end->collectives++;
        if (verdict.is_told && verdict.fate == STANDIN_NCCL_LATER)
            comm->end->later = verdict.result;
    }
    open_group.end = comm->end;
    open_group.stream = stream;
    open_group.parts.push_back(part);
    return open_group.depth > 0 ? ncclSuccess : end_group();
}

nccl_part part_of(function what, const void *send, void *recv, std::size_t count, ncclDataType_t type)
{
    return {what, send, recv, count, type, ncclSum, 0, 0, 0, false, false};
}

}

}

using standin::part_of;
using standin::function;

extern "C" {

STANDIN_FOUND_BY_NAME
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    auto part = part_of(function::all_reduce, send, recv, count, type);
    part.op = op;
    return standin::call("ncclAllReduce", comm, stream, part);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    auto part = part_of(function::reduce, send, recv, count, type);
    part.op = op;
    part.root = root;
    return standin::call("ncclReduce", comm, stream, part);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    auto part = part_of(function::broadcast, send, recv, count, type);
    part.root = root;
    return standin::call("ncclBroadcast", comm, stream, part);
}

STANDIN_FOUND_BY_NAME
ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return standin::call("ncclAllGather", comm, stream, part_of(function::all_gather, send, recv, count, type));
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    auto part = part_of(function::reduce_scatter, send, recv, count, type);
    part.op = op;
    return standin::call("ncclReduceScatter", comm, stream, part);
}

STANDIN_FOUND_BY_NAME
ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    auto part = part_of(function::send, send, nullptr, count, type);
    part.peer = peer;
    return standin::call("ncclSend", comm, stream, part);
}

STANDIN_FOUND_BY_NAME
ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    auto part = part_of(function::receive, nullptr, recv, count, type);
    part.peer = peer;
    return standin::call("ncclRecv", comm, stream, part);
}

STANDIN_FOUND_BY_NAME ncclResult_t ncclGroupStart(void)
{
    standin::open_group.depth++;
    return ncclSuccess;
}

STANDIN_FOUND_BY_NAME ncclResult_t ncclGroupEnd(void)
{
    standin::open_group.depth--;
    return standin::open_group.depth > 0 ? ncclSuccess : standin::end_group();
}

}
