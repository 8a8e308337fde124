/* Speaks with the helper through two pipes: a line with an order, a line with seconds. */
#include "peer_mpi.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct peer_mpi {
    pid_t process;
    FILE *orders, *answers;
};

/* The helper lies beside this program. */
static int helper_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0)
        return 0;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    static const char name[] = "stn-bench-mpi";
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof name > size)
        return 0;
    strcpy(slash + 1, name);
    return access(path, X_OK) == 0;
}

static void run_helper(const char *path, int ranks, int orders, int answers)
{
    char count[16];
    snprintf(count, sizeof count, "%d", ranks);
    signal(SIGPIPE, SIG_DFL);
    dup2(orders, 0);
    dup2(answers, 1);
    /* Open MPI refuses to run as root, or with more ranks than cores, unless told. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    execlp("mpirun", "mpirun", "-n", count, path, (char *)NULL);
    _exit(127);
}

struct peer_mpi *peer_mpi_start(int ranks)
{
    signal(SIGPIPE, SIG_IGN); /* a peer that has died is found by what the calls return */
    char path[4096];
    int orders[2], answers[2];
    if (!helper_path(path, sizeof path) || pipe2(orders, O_CLOEXEC) != 0)
        return NULL;
    struct peer_mpi *peer = calloc(1, sizeof *peer);
    if (peer == NULL || pipe2(answers, O_CLOEXEC) != 0) {
        close(orders[0]);
        close(orders[1]);
        free(peer);
        return NULL;
    }
    peer->process = fork();
    if (peer->process == 0)
        run_helper(path, ranks, orders[0], answers[1]);
    close(orders[0]);
    close(answers[1]);
    peer->orders = fdopen(orders[1], "w");
    peer->answers = fdopen(answers[0], "r");
    if (peer->process < 0 || peer_mpi_run(peer, "barrier", 0, 0, 1) < 0)
        peer_mpi_stop(&peer);
    return peer;
}

void peer_mpi_stop(struct peer_mpi **peer)
{
    if (*peer == NULL)
        return;
    fclose((*peer)->orders); /* the end of its orders ends the helper */
    fclose((*peer)->answers);
    if ((*peer)->process > 0)
        waitpid((*peer)->process, NULL, 0);
    free(*peer);
    *peer = NULL;
}

double peer_mpi_run(struct peer_mpi *peer, const char *coll, int64_t first, int64_t second, int64_t n)
{
    char line[256];
    fprintf(peer->orders, "%s %lld %lld %lld\n", coll, (long long)first, (long long)second, (long long)n);
    if (fflush(peer->orders) != 0 || fgets(line, sizeof line, peer->answers) == NULL)
        return -1;
    char *end;
    double seconds = strtod(line, &end);
    return end != line ? seconds : -1;
}
