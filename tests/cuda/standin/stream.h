/* Streams and events of the stand-in: a stream is a thread, which begins each piece of work after a random delay if the
 * settings ask for it; an event counts how often it was recorded. */
#ifndef STANDIN_STREAM_H
#define STANDIN_STREAM_H

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace standin {

/* Keeps an error for cudaGetLastError; returns it. */
cudaError_t failed(cudaError_t error);

/* At the head of what a host function on a stream may not call: CUDA leaves open what would happen, here the program
 * ends. */
void forbid_in_host_functions(const char *function);

/* How often an event was recorded, and which of the records streams have passed, and when. */
class marks {
public:
    long record();
    long last();
    void pass(long mark);
    void await(long mark);
    bool has_passed(long mark);
    std::chrono::steady_clock::time_point passed_at(); /* the last one that was */

private:
    std::mutex lock;
    std::condition_variable passed;
    long recorded = 0, done = 0;
    std::chrono::steady_clock::time_point at;
};

/* A piece of work that a graph has. */
struct node {
    std::function<std::function<void()>()> make; /* what one launch of the graph runs */
    std::size_t lane;                            /* which of the recorded streams it was put on; 0: where the capture began */
    std::set<std::size_t> after;                 /* nodes, by their numbers, that end before it begins */
};

/* Work that is kept to be run later, of the stream where the capture began and of those that it went on to by
 * events. */
struct recording {
    std::vector<node> nodes;
    std::vector<CUstream_st *> streams; /* by their lanes */
    std::thread::id thread; /* that began it */
    bool is_relaxed, has_ended;
    std::atomic<bool> is_invalid;
};

/* The thread is about to do what a capture of its own does not allow, or one of any thread's in the global mode while
 * the thread is in that mode, too: such captures become invalid. */
cudaError_t refuse_in_capture();

/* The thread's current GPU. */
int current_gpu();

/* Where the runtime begins to use that, if it has not: an error where another process has it to itself. */
cudaError_t use_current_gpu();

enum { ANY_GPU = -1 /* of the default streams */ };

/* Whether kernels of a GPU may use memory of another one, or its own. */
bool are_peers(int gpu, int other);

}

struct CUevent_st {
    std::shared_ptr<standin::marks> marks = std::make_shared<standin::marks>();
    std::shared_ptr<standin::recording> captured; /* in which it was recorded last; none: on a stream that ran */
    std::set<std::size_t> tail; /* the nodes that it stands behind there */
    const int gpu = standin::current_gpu();
};

struct CUstream_st {
    explicit CUstream_st(int priority, int gpu = standin::ANY_GPU);
    ~CUstream_st();
    void add(std::function<void()> work); /* runs it, or keeps it in the capture */
    void add_made(std::function<std::function<void()>()> make); /* the same of work that each launch of a graph makes anew */
    /* Work that touches device memory: a kernel's, of a GPU, or a copy's. */
    void add_on_memory(std::function<void()> work, int of = standin::ANY_GPU);
    void add_in_line(std::function<void()> work); /* kernels, copies, events, waits: waits while the line is full */
    void wait();
    void join(const std::shared_ptr<standin::recording> &recording, const std::set<std::size_t> &behind); /* is captured, too, from now on */
    void leave(); /* is captured no more */
    bool is_of(int other) const; /* whether a GPU's kernels and events may come here */

    std::shared_ptr<standin::recording> capture; /* where work is kept; none: it runs. The capturing thread's */
    std::size_t lane = 0;                        /* of the capture */
    std::set<std::size_t> tail;                  /* nodes of the capture that the next one comes behind */
    const int priority, gpu;

private:
    void run();
    void delay();
    bool take(std::function<void()> &work);

    std::mutex lock;
    std::condition_variable more, ended;
    std::deque<std::function<void()>> queued;
    bool stops = false;
    long put = 0, done = 0, in_line = 0;
    uint64_t random;
    std::thread thread;
};

namespace standin {

/* The stream itself, of the two default streams, which the runtime knows by the numbers 0, 1 and 2, too. No stream
 * waits for the legacy one by itself: the library's own are all of the kind that does not. */
CUstream_st *stream_of(cudaStream_t stream);

}

#endif
