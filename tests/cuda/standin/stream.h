/* Streams and events of the stand-in: a stream is a thread, which begins each piece of work after a random delay if the settings ask for it; an event
 * counts how often it was recorded. */
#ifndef STANDIN_STREAM_H
#define STANDIN_STREAM_H

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace standin {

/* Keeps an error for cudaGetLastError; returns it. */
cudaError_t failed(cudaError_t error);

/* At the head of what a host function on a stream may not call: CUDA leaves open what would happen, here the program ends. */
void forbid_in_host_functions(const char *function);

/* How often an event was recorded, and which of the records streams have passed. */
class marks {
public:
    long record();
    long last();
    void pass(long mark);
    void await(long mark);
    bool has_passed(long mark);

private:
    std::mutex lock;
    std::condition_variable passed;
    long recorded = 0, done = 0;
};

/* Work that is kept to be run later, in the order in which it was put on the stream. */
struct recording {
    std::vector<std::function<void()>> steps;
    std::thread::id thread; /* that began it */
    bool is_relaxed, is_invalid;
};

/* The thread is about to do what a capture of its own does not allow: such captures become invalid. */
cudaError_t refuse_in_capture();

}

struct CUevent_st {
    std::shared_ptr<standin::marks> marks = std::make_shared<standin::marks>();
    std::shared_ptr<standin::recording> captured; /* in which it was recorded last; none: on a stream that ran */
};

struct CUstream_st {
    explicit CUstream_st(int priority);
    ~CUstream_st();
    void add(std::function<void()> work); /* runs it, or keeps it in the capture */
    void add_on_memory(std::function<void()> work); /* work that touches device memory */
    void wait();

    std::shared_ptr<standin::recording> capture; /* where work is kept; none: it runs. The capturing thread's */
    const int priority;

private:
    void run();
    void delay();
    bool take(std::function<void()> &work);

    std::mutex lock;
    std::condition_variable more, ended;
    std::deque<std::function<void()>> queued;
    bool stops = false;
    long put = 0, done = 0;
    uint64_t random;
    std::thread thread;
};

namespace standin {

/* The stream itself, of the two default streams, which the runtime knows by the numbers 1 and 2, too. No stream waits for the legacy one by itself:
 * the library's own are all of the kind that does not. */
CUstream_st *stream_of(cudaStream_t stream);

}

#endif
