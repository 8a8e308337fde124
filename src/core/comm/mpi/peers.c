/* A process by its number and the time it was started at, as /proc tells: on one machine a rank that was killed is
 * found long before the deadline. */
#include "core/comm/mpi/process.h"

#include "core/base/fnv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The state letter and field 22 (the start time) of /proc/PID/stat; the name before them, in parentheses, may hold
 * anything. */
static int read_stat(int64_t pid, char *state, int64_t *started)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    long long ticks;
    if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                       state, &ticks) != 2)
        return 0;
    *started = ticks;
    return 1;
}

/* The machine's boot and the table of processes that numbers are looked up in: containers of one machine have tables
 * of their own. */
static uint64_t machine(void)
{
    char boot[64] = "";
    struct stat table;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t n = file ? fread(boot, 1, sizeof boot, file) : 0;
    if (file)
        fclose(file);
    if (n == 0 || stat("/proc/self/ns/pid", &table) != 0)
        return 0;
    return stni_fnv(stni_fnv(STNI_FNV_EMPTY, boot, n), &table.st_ino, sizeof table.st_ino) | 1;
}

struct stni_mpi_peer stni_mpi_this_process(void)
{
    char state;
    struct stni_mpi_peer self = {.machine = machine(), .pid = getpid()};
    if (!read_stat(self.pid, &state, &self.started))
        self.machine = 0;
    return self;
}

int stni_mpi_may_live(const struct stni_mpi_peer *peer, const struct stni_mpi_peer *self)
{
    char state;
    int64_t started;
    if (self->machine == 0 || peer->machine != self->machine)
        return 1;
    return read_stat(peer->pid, &state, &started) && started == peer->started && state != 'Z' && state != 'X';
}

struct stni_mpi_peer *stni_mpi_copy_peers(const struct stni_mpi_peer *peers, int n)
{
    struct stni_mpi_peer *copy = malloc((size_t)n * sizeof *copy);
    if (copy)
        memcpy(copy, peers, (size_t)n * sizeof *copy);
    return copy;
}
