/* A fault in device memory opens it to the work of a stream. Any other in device or shared memory becomes a text, and
 * the rest go to whoever handled faults before. */
#include "cuda/standin/faults.h"

#include "cuda/standin/grid_cpu.h"
#include "cuda/standin/guard.h"
#include "cuda/standin/memory.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace standin {

namespace {

struct sigaction before_segv, before_bus;

void print_place()
{
    if (!here)
        return;
    const uint3 b = here->block, i = here->thread;
    fprintf(stderr, ": block (%u, %u, %u), thread (%u, %u, %u)", b.x, b.y, b.z, i.x, i.y, i.z);
}

void handle(int number, siginfo_t *info, void *)
{
    const int error = errno;
    if (device_opens(info->si_addr)) {
        errno = error;
        return;
    }
    char text[512];
    if (!guarded_describes(info->si_addr, text, sizeof text) && !device_describes(info->si_addr, text, sizeof text)) {
        sigaction(number, number == SIGBUS ? &before_bus : &before_segv, nullptr);
        return; /* it faults again */
    }
    fprintf(stderr, "grid: %s", text);
    print_place();
    fprintf(stderr, "\n");
    abort();
}

}

void explain_faults()
{
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &before_segv);
        sigaction(SIGBUS, &action, &before_bus);
    });
}

}
