/* Stream capture: work that is put on a stream meanwhile is kept in a list, and run again in its order. */
#include "cuda/standin/stream.h"

#include <algorithm>

struct CUgraph_st {
    std::vector<std::function<void()>> steps;
};

struct CUgraphExec_st {
    std::vector<std::function<void()>> steps;
};

namespace standin {

namespace {

typedef std::shared_ptr<recording> shared_recording;

thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
thread_local std::vector<shared_recording> captures; /* that this thread began */

}

cudaError_t refuse_in_capture()
{
    bool is_refused = false;
    for (const shared_recording &r : captures)
        if (mode != cudaStreamCaptureModeRelaxed && !r->is_relaxed)
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
    if (stream->capture)
        return failed(cudaErrorIllegalState);
    stream->capture = std::make_shared<standin::recording>();
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->is_relaxed = mode == cudaStreamCaptureModeRelaxed;
    standin::captures.push_back(stream->capture);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
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
    stream->capture = nullptr;
    standin::captures.erase(std::remove(standin::captures.begin(), standin::captures.end(), ended), standin::captures.end());
    if (ended->is_invalid)
        return failed(cudaErrorStreamCaptureInvalidated);
    *graph = new CUgraph_st{std::move(ended->steps)};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new CUgraphExec_st{graph->steps};
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

/* Its steps are the stream's from here on: what was launched outlives the graph. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    standin::forbid_in_host_functions("cudaGraphLaunch");
    for (const std::function<void()> &step : graph->steps)
        standin::stream_of(stream)->add(step);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete graph;
    return cudaSuccess;
}

}
