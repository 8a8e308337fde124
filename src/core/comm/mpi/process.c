/* MPI as this process has it: initialised, locked where it must be, finalised. */
#include "core/comm/mpi/process.h"

#include "core/comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* MPI is initialised once for the whole process, so this state belongs to the process too. */
static struct {
    pthread_mutex_t starting, calling;
    int started;
    int serial;      /* MPI allows one thread at a time */
    int main_thread; /* and only that which initialised it */
    int openings_key;
    atomic_int given_up;
    double patience; /* seconds */
    struct stni_mpi_peer *peers;
    int n_peers;
} process = {
    .starting = PTHREAD_MUTEX_INITIALIZER, .calling = PTHREAD_MUTEX_INITIALIZER, .patience = STNI_DEADLINE_SECONDS};

stn_status stni_mpi_say(struct stni_error *error, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return error->status = status;
}

void stni_mpi_lock(void)
{
    if (process.serial)
        pthread_mutex_lock(&process.calling);
}

void stni_mpi_unlock(void)
{
    if (process.serial)
        pthread_mutex_unlock(&process.calling);
}

int stni_mpi_openings_key(void)
{
    return process.openings_key;
}

int stni_mpi_thread_allowed(void)
{
    int is_main = 1;
    if (process.main_thread)
        MPI_Is_thread_main(&is_main);
    return is_main;
}

int stni_mpi_any_thread(void)
{
    return !process.main_thread;
}

void stni_mpi_give_up(void)
{
    atomic_store(&process.given_up, 1);
}

int stni_mpi_is_finalised(void)
{
    int over = 0;
    MPI_Finalized(&over);
    return over;
}

void stni_mpi_expect(double seconds, const struct stni_mpi_peer *peers, int n_peers)
{
    pthread_mutex_lock(&process.starting);
    process.patience = seconds;
    if (peers && !process.peers) {
        process.peers = stni_mpi_copy_peers(peers, n_peers);
        process.n_peers = process.peers ? n_peers : 0;
    }
    pthread_mutex_unlock(&process.starting);
}

static int all_live(void)
{
    struct stni_mpi_peer self = stni_mpi_this_process();
    int r = 0;
    while (r < process.n_peers && stni_mpi_may_live(&process.peers[r], &self))
        r++;
    return r == process.n_peers;
}

/* MPI_Finalize waits for all ranks, without bound: it is called when all have come to their end. */
static int all_leave(void)
{
    MPI_Request request;
    struct stni_mpi_backoff backoff = {0};
    int64_t looked = 0;
    int there = 0;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return 0;
    for (;;) {
        if (MPI_Test(&request, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 0;
        if (there)
            return 1;
        if (!stni_mpi_wait_a_little(&backoff))
            continue;
        if (process.patience >= 0 && (double)(backoff.now - backoff.begin) > process.patience * 1e9)
            return 0;
        if (backoff.now - looked < STNI_MPI_PEERS_EVERY)
            continue;
        looked = backoff.now;
        if (!all_live())
            return 0;
    }
}

/* At the end of a process whose MPI was initialised by the module. A launcher takes a process that ends without
 * MPI_Finalize as failed, and here it has failed. One that calls exit while it is in a family is still alive here: its
 * peers are told that it sends nothing more, since they would wait for it, and it for them. */
static void finish(void)
{
    if (!stni_mpi_is_finalised() && !atomic_load(&process.given_up)) {
        stni_mpi_tell_exit();
        if (all_leave())
            MPI_Finalize();
    }
    free(process.peers);
    process.peers = NULL;
}

/* Some MPIs pass the error of a request to the error handler of one of these communicators, which by default ends
 * the process. Where the caller has initialised MPI, these handlers are the caller's. */
static void return_errors(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static stn_status initialise(struct stni_error *error)
{
    int level = MPI_THREAD_SINGLE, there;
    if (stni_mpi_is_finalised())
        return stni_mpi_say(error, STN_ERR_STATE, "MPI has been finalised");
    MPI_Initialized(&there);
    if (there)
        MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return stni_mpi_say(error, STN_ERR_COMM, "MPI_Init_thread failed");
    else
        return_errors();
    if (!there && atexit(finish) != 0)
        return stni_mpi_say(error, STN_ERR_MEMORY, "out of memory: the end of MPI");
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stni_mpi_openings_delete, &process.openings_key, NULL) !=
        MPI_SUCCESS)
        return stni_mpi_say(error, STN_ERR_COMM, "MPI_Comm_create_keyval failed");
    process.serial = level < MPI_THREAD_MULTIPLE;
    process.main_thread = level < MPI_THREAD_SERIALIZED;
    process.started = 1;
    return STN_OK;
}

stn_status stni_mpi_start(struct stni_error *error)
{
    stn_status status = STN_OK;
    pthread_mutex_lock(&process.starting);
    if (!process.started)
        status = initialise(error);
    else if (stni_mpi_is_finalised())
        status = stni_mpi_say(error, STN_ERR_STATE, "MPI has been finalised");
    pthread_mutex_unlock(&process.starting);
    return status;
}
