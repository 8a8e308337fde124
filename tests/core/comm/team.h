/* Thread ranks for the tests of communicators: one thread and one communicator each. */
#ifndef SHARDTENSOR_TESTS_TEAM_H
#define SHARDTENSOR_TESTS_TEAM_H

#include "harness.h"

#include "core/comm/threads/threads.h"

#include <stdlib.h>
#include <string.h>

typedef void (*team_body)(stn_comm *comm, void *arg);

/** Runs `body` on `n` threads and destroys their communicators (each on its own thread, as contexts do). `hook` may
 * be NULL. */
void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg);

/** The same without a hook and with a deadline of a minute. */
void team_run(int n, team_body body, void *arg);

/** A thread for each of these communicators, which it destroys. */
void team_run_on(int n, stn_comm *const *comms, team_body body, void *arg);

/** Element i of rank r: an integer from 1 to 5 (AVG: a multiple of `size`), so that every dtype holds all results
 * exactly. */
int team_value(int rank, int64_t i, int size, stn_dtype dtype, stn_reduce_op op);

/** Writes an integer as element i; complex numbers get it as their imaginary part too, but for PROD. */
void team_put(void *data, stn_dtype dtype, int64_t i, int value, stn_reduce_op op);

/** Rank r's buffer of n elements from index `from` on. malloc; never NULL. */
void *team_buffer(int rank, int64_t from, int64_t n, int size, stn_dtype dtype, stn_reduce_op op);

/** What a reduction of all ranks' buffers [from, from + n) gives, computed one after the other. */
void *team_reduced(int64_t from, int64_t n, int size, stn_dtype dtype, stn_reduce_op op);

/** Seconds of a clock that only goes forward. */
double team_seconds(void);

/** A millisecond, for whoever waits for a deadline: yields would take the core from others all the while. */
void team_pause(void);

#endif
