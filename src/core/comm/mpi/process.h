/* What the module knows of MPI in this process: who initialised it, how many threads it allows, whether it may still
 * be finalised. */
#ifndef STNI_CORE_COMM_MPI_PROCESS_H
#define STNI_CORE_COMM_MPI_PROCESS_H

#include "core/base/status.h"

#include <mpi.h>

/* Writes a message into an error; returns `status`. */
stn_status stni_mpi_say(struct stni_error *error, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/* Makes MPI ready for the module: initialises it where nobody has, with MPI_THREAD_MULTIPLE, and then also finalises
 * it when the process exits. */
stn_status stni_mpi_start(struct stni_error *error);

/* The key of stni_mpi_openings among a communicator's attributes, and what deletes one. */
int stni_mpi_openings_key(void);
int stni_mpi_openings_delete(MPI_Comm comm, int keyval, void *attribute, void *extra);

/* No call of MPI is made outside of these two. Nothing to do where MPI allows several threads at once. */
void stni_mpi_lock(void);
void stni_mpi_unlock(void);

/* 0: MPI was initialised for one thread, and the calling one is another. */
int stni_mpi_thread_allowed(void);

/* 1: MPI was initialised for more than one thread. */
int stni_mpi_any_thread(void);

/* After an abort, MPI_Finalize could wait for a rank that is dead or for a message that nobody receives: this
 * process will not call it. */
void stni_mpi_give_up(void);

int stni_mpi_is_finalised(void);

/* Where the process ends without leaving its families: tells their other ranks that it sends nothing more
 * (leaving.c). */
void stni_mpi_tell_exit(void);

struct stni_mpi_peer;

/* How long the end of the process waits for the other ranks of MPI_COMM_WORLD before it leaves without MPI_Finalize;
 * negative: for ever. It leaves at once where one of `peers`, copied, has ended. */
void stni_mpi_expect(double seconds, const struct stni_mpi_peer *peers, int n_peers);

/* How to wait for others (backoff.c) */

struct stni_mpi_backoff {
    int polls;
    int64_t begin; /* nanoseconds, 0 until it was looked at */
    int64_t now;
    int64_t sleep_after; /* nanoseconds; 0: STNI_MPI_SLEEP_AFTER */
};

enum { STNI_MPI_SLEEP_AFTER = 4000000 };

int64_t stni_mpi_now(void); /* nanoseconds */

/* Lets time pass between two polls: none at first, then the processor is yielded, then sleep. Returns 1 when it is
 * time to look at more than the requests; backoff->now is set then. */
int stni_mpi_wait_a_little(struct stni_mpi_backoff *backoff);

/* Who a process is on its machine, and whether it still runs (peers.c) */

struct stni_mpi_peer {
    uint64_t machine;     /* with its own table of processes */
    int64_t pid, started; /* clock ticks after the machine's start */
};

struct stni_mpi_peer stni_mpi_this_process(void);

/* 0 where it is known to have ended; of another machine nothing is known. */
int stni_mpi_may_live(const struct stni_mpi_peer *peer, const struct stni_mpi_peer *self);

struct stni_mpi_peer *stni_mpi_copy_peers(const struct stni_mpi_peer *peers, int n);

enum { STNI_MPI_PEERS_EVERY = 50000000 /* nanoseconds between two looks at the processes of peers */ };

#endif
