/* The stand-in for a GPU finds what it is there to find: every planted fault runs in a process of its own, which has to
 * end with the text that names it; the same work without the fault has to be right, in every order of threads. */
#include "harness.h"

#include "cuda/planted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_OUTPUT = 1 << 16 };

static char output[MOST_OUTPUT];

/* Runs this program again on one piece of work, under a seed for the order of threads and one for delays. @return its
 * wait status; what it wrote to stderr is in `output`. */
static int run_child(const char *work, const char *seed, const char *delay)
{
    int ends[2];
    if (!CHECK_I64(pipe(ends), 0))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        setenv("STANDIN_SEED", seed, 1);
        setenv("STANDIN_DELAY", delay, 1);
        setenv("STANDIN_DEVICES", "2", 1);
        execl("/proc/self/exe", "test_standin", "--planted", work, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n < sizeof output - 1 && (got = read(ends[0], output + n, sizeof output - 1 - n)) > 0;)
        n += (size_t)got;
    output[n] = '\0';
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

/* How many of the orders end without success and with the text. */
static int found_in_orders(const char *work, const char *text)
{
    static const char *const seeds[] = {"0", "1", "7"};
    int found = 0;
    for (int i = 0; i < 3; i++)
        found += run_child(work, seeds[i], "3") != 0 && strstr(output, text) != NULL;
    return found;
}

static void check_right(const char *work)
{
    static const char *const seeds[] = {"0", "1", "7"};
    for (int i = 0; i < 3; i++) {
        CHECK_I64(run_child(work, seeds[i], "3"), 0);
        CHECK_STR(output, "");
    }
}

/* In every order. */
static void check_found(const char *work, const char *text)
{
    if (!CHECK_I64(found_in_orders(work, text), 3))
        fprintf(stderr, "  %s: %s\n", work, output);
}

/* Device and shared memory are the C library's under the address sanitizer, which finds what the stand-in's guards
 * would. */
static void check_memory_found(const char *work, const char *text)
{
    check_found(work, planted_has_address_sanitizer() ? "AddressSanitizer" : text);
}

static void work_without_faults_is_right(void)
{
    static const char *const works[] = {"sum", "late copy", "squares", "shared memory", "large shared memory",
                                        "device memory", "free", "memory of a peer",
                                        "copy after its source", "source after its copy", "refusals", "replay",
                                        "replay of two streams", "host function", "capture refusals"};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        check_right(works[i]);
}

/* One order of three may be the one in which nothing is missed. */
static void missing_barrier_changes_values(void)
{
    CHECK(found_in_orders("sum without a barrier", "nan, wanted 1024") >= 2);
}

static void missing_lanes_are_found(void)
{
    check_found("shuffle without half of its lanes", "the mask of a warp operation names a lane that is not there");
    check_found("shuffle outside of its mask", "a lane is in a warp operation whose mask lacks it");
    CHECK(strstr(output, "planted.cpp:") != NULL);
}

static void squares_that_no_gpu_multiplies_are_found(void)
{
    check_found("squares by half a warp", "the mask of a warp operation names a lane that is not there");
    check_found("squares at no multiple of 16 bytes", "a row of a matrix is not at a multiple of 16 bytes");
    CHECK(strstr(output, "tensor_cores.cuh:") != NULL);
}

static void late_copies_that_are_not_waited_for_bring_nothing(void)
{
    check_found("late copy that is not waited for", "nan, wanted 1\n");
}

static void uneven_barriers_are_found(void)
{
    check_found("barrier after an exit", "thread");
    CHECK(strstr(output, "__syncthreads") != NULL);
    check_found("two barriers at once", "threads of a block wait in different __syncthreads");
    CHECK(strstr(output, "planted.cpp:") != NULL);
}

static void shared_memory_that_nobody_wrote_is_nan(void)
{
    check_found("uninitialised shared memory", "nan, wanted 1\n");
}

static void accesses_past_the_end_of_shared_memory_are_found(void)
{
    check_memory_found("past the end of shared memory", "past the end of shared memory values, declared at");
}

static void launches_that_give_less_shared_memory_than_kernels_take_are_found(void)
{
    check_found("less shared memory than a kernel takes", "a launch gives less shared memory than its kernel takes");
    CHECK(strstr(output, "planted.cpp:") != NULL);
}

static void accesses_past_the_end_of_device_memory_are_found(void)
{
    if (planted_has_thread_sanitizer())
        SKIP("device memory has no guards under the thread sanitizer");
    check_memory_found("past the end of device memory",
                       "access past the end of device memory: 4096 bytes into a piece of 4096");
}

static void memory_that_goes_too_early_is_found(void)
{
    if (planted_has_thread_sanitizer())
        SKIP("device memory has no guards under the thread sanitizer");
    check_memory_found("early free", "access to device memory that was freed");
    check_memory_found("replay after a free", "access to device memory that was freed");
}

static void memory_of_a_gpu_that_is_no_peer_is_found(void)
{
    if (planted_has_address_sanitizer() || planted_has_thread_sanitizer())
        SKIP("device memory has no guards under the sanitizers");
    check_found("memory of another GPU", "a kernel touches memory of a GPU that is no peer of its own");
}

static void host_function_that_calls_the_runtime_is_found(void)
{
    check_found("host function that waits for its stream", "a host function on a stream calls cudaStreamSynchronize");
}

static void host_that_touches_device_memory_is_found(void)
{
    if (planted_has_address_sanitizer() || planted_has_thread_sanitizer())
        SKIP("device memory is open to the host under the sanitizers");
    check_found("host reads device memory", "the host touches device memory");
    check_found("host reads device memory beside work", "the host touches device memory");
}

/* Delays are drawn, so that a race is lost in one of several runs of forty rounds at the latest. */
static void check_race_found(const char *work)
{
    static const char *const delays[] = {"1", "2", "3", "4", "5", "6"};
    int found = 0;
    for (int i = 0; i < 6 && !found; i++)
        found = run_child(work, "0", delays[i]) != 0 &&
                (strstr(output, "planted: got") || strstr(output, "ThreadSanitizer: data race"));
    CHECK(found);
}

static void missing_waits_between_streams_are_found(void)
{
    check_race_found("copy without waiting for its source");
    check_race_found("source without waiting for its copy");
    check_race_found("replay without a join");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"work_without_faults_is_right", work_without_faults_is_right},
        {"missing_barrier_changes_values", missing_barrier_changes_values},
        {"missing_lanes_are_found", missing_lanes_are_found},
        {"squares_that_no_gpu_multiplies_are_found", squares_that_no_gpu_multiplies_are_found},
        {"late_copies_that_are_not_waited_for_bring_nothing", late_copies_that_are_not_waited_for_bring_nothing},
        {"uneven_barriers_are_found", uneven_barriers_are_found},
        {"shared_memory_that_nobody_wrote_is_nan", shared_memory_that_nobody_wrote_is_nan},
        {"accesses_past_the_end_of_shared_memory_are_found", accesses_past_the_end_of_shared_memory_are_found},
        {"launches_that_give_less_shared_memory_than_kernels_take_are_found",
         launches_that_give_less_shared_memory_than_kernels_take_are_found},
        {"accesses_past_the_end_of_device_memory_are_found", accesses_past_the_end_of_device_memory_are_found},
        {"memory_that_goes_too_early_is_found", memory_that_goes_too_early_is_found},
        {"memory_of_a_gpu_that_is_no_peer_is_found", memory_of_a_gpu_that_is_no_peer_is_found},
        {"host_function_that_calls_the_runtime_is_found", host_function_that_calls_the_runtime_is_found},
        {"host_that_touches_device_memory_is_found", host_that_touches_device_memory_is_found},
        {"missing_waits_between_streams_are_found", missing_waits_between_streams_are_found},
    };
    if (argc == 3 && strcmp(argv[1], "--planted") == 0)
        return planted_run(argv[2]);
    return TEST_MAIN(argc, argv, cases);
}
