/* Stream capture: work that is put on a stream meanwhile is kept, and so is that of streams which wait for an event of
 * it. A launch runs what was put on the first stream where it is launched, and that of each other one on a stream of
 * the graph's own, with no more order between them than events gave: a join that is missing shows in values. */
#include "cuda/standin/stream.h"

#include <algorithm>

struct CUgraph_st {
    std::vector<standin::node> nodes;
    std::size_t lanes;
};

struct CUgraphExec_st {
    std::vector<standin::node> nodes;
    std::vector<std::unique_ptr<CUstream_st>> others; /* for lanes 1 and up */
};

namespace standin {

namespace {

typedef std::shared_ptr<recording> shared_recording;

thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
thread_local std::vector<shared_recording> captures; /* that this thread began */
std::mutex everyones_lock;
std::vector<shared_recording> everyones; /* those of the global mode */

/* All nodes that end before one of `tail` does, and those themselves. */
std::set<std::size_t> behind(const std::vector<node> &nodes, const std::set<std::size_t> &tail)
{
    std::set<std::size_t> all = tail;
    for (std::size_t i = nodes.size(); i-- > 0;)
        if (all.count(i))
            all.insert(nodes[i].after.begin(), nodes[i].after.end());
    return all;
}

/* Whether the first stream waits for all that the others have. */
bool all_joined(const recording &r)
{
    const std::set<std::size_t> joined = behind(r.nodes, r.streams[0]->tail);
    for (const CUstream_st *stream : r.streams)
        if (stream && !std::includes(joined.begin(), joined.end(), stream->tail.begin(), stream->tail.end()))
            return false;
    return true;
}

/* What a launch has passed: mark 1 of each node, and of the launch itself. */
struct passing {
    explicit passing(std::size_t n) : nodes(n) {}
    std::vector<marks> nodes;
    marks begun;
};

/* The nodes of other lanes, for which it has to wait; its own come before it. */
std::vector<std::size_t> others_before(const std::vector<node> &nodes, const node &of)
{
    std::vector<std::size_t> found;
    std::copy_if(of.after.begin(), of.after.end(), std::back_inserter(found),
                 [&](std::size_t i) { return nodes[i].lane != of.lane; });
    return found;
}

void launch(CUgraphExec_st &graph, CUstream_st &stream)
{
    auto passed = std::make_shared<passing>(graph.nodes.size());
    stream.add([passed] { passed->begun.pass(1); });
    for (const auto &other : graph.others)
        other->add([passed] { passed->begun.await(1); });
    for (std::size_t i = 0; i < graph.nodes.size(); i++) {
        const node &n = graph.nodes[i];
        CUstream_st &lane = n.lane == 0 ? stream : *graph.others[n.lane - 1];
        lane.add([passed, i, before = others_before(graph.nodes, n), work = n.make()] {
            for (std::size_t b : before)
                passed->nodes[b].await(1);
            work();
            passed->nodes[i].pass(1);
        });
    }
    stream.add([passed] {
        for (marks &node : passed->nodes)
            node.await(1);
    });
}

}

cudaError_t refuse_in_capture()
{
    bool is_refused = false;
    for (const shared_recording &r : captures)
        if (mode != cudaStreamCaptureModeRelaxed && !r->is_relaxed)
            is_refused = r->is_invalid = true;
    const std::lock_guard<std::mutex> held(everyones_lock);
    for (const shared_recording &r : everyones)
        if (mode == cudaStreamCaptureModeGlobal)
            is_refused = r->is_invalid = true;
    return is_refused ? failed(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

}

using standin::failed;

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    std::swap(*mode, standin::mode);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    standin::forbid_in_host_functions("cudaStreamBeginCapture");
    if (!stream || stream == cudaStreamLegacy)
        return failed(cudaErrorStreamCaptureUnsupported);
    if (stream->capture)
        return failed(cudaErrorIllegalState);
    stream->join(std::make_shared<standin::recording>(), {});
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->is_relaxed = mode == cudaStreamCaptureModeRelaxed;
    standin::captures.push_back(stream->capture);
    const std::lock_guard<std::mutex> held(standin::everyones_lock);
    if (mode == cudaStreamCaptureModeGlobal)
        standin::everyones.push_back(stream->capture);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    stream = standin::stream_of(stream);
    *status = !stream->capture              ? cudaStreamCaptureStatusNone
              : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    const standin::shared_recording ended = stream->capture;
    *graph = nullptr;
    if (!ended)
        return failed(cudaErrorIllegalState);
    if (!ended->is_relaxed && ended->thread != std::this_thread::get_id())
        return failed(cudaErrorStreamCaptureWrongThread);
    if (ended->streams[0] != stream) {
        ended->is_invalid = true;
        return failed(cudaErrorStreamCaptureUnmatched);
    }
    const bool is_joined = standin::all_joined(*ended);
    for (CUstream_st *of : ended->streams)
        if (of)
            of->leave();
    ended->has_ended = true;
    const std::lock_guard<std::mutex> held(standin::everyones_lock);
    for (auto *list : {&standin::captures, &standin::everyones})
        list->erase(std::remove(list->begin(), list->end(), ended), list->end());
    if (ended->is_invalid)
        return failed(cudaErrorStreamCaptureInvalidated);
    if (!is_joined)
        return failed(cudaErrorStreamCaptureUnjoined);
    *graph = new CUgraph_st{std::move(ended->nodes), ended->streams.size()};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new CUgraphExec_st{graph->nodes, {}};
    for (std::size_t lane = 1; lane < graph->lanes; lane++)
        (*out)->others.push_back(std::make_unique<CUstream_st>(0));
    return cudaSuccess;
}

/* How many there are; which ones is not told. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    if (nodes)
        return failed(cudaErrorInvalidValue);
    *n = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

/* What was launched outlives the graph. One that is launched in a capture is recorded in the order in which its own
 * work was. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    standin::forbid_in_host_functions("cudaGraphLaunch");
    stream = standin::stream_of(stream);
    if (!stream->capture) {
        standin::launch(*graph, *stream);
        return cudaSuccess;
    }
    for (const standin::node &node : graph->nodes)
        stream->add_made(node.make);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    if (standin::refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    delete graph;
    return cudaSuccess;
}

}
