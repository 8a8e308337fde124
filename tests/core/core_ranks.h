/* Contexts of the core alone, for its own tests: on this thread, or one on each of several rank threads. Their
 * memory is counted (counted.h), their queue is the one that the run asks for. */
#ifndef SHARDTENSOR_TESTS_CORE_CORE_RANKS_H
#define SHARDTENSOR_TESTS_CORE_CORE_RANKS_H

#include "core/context/context.h"

/* Options that the tests share; edit a copy. */
stn_context_options ranks_options(void);

typedef void (*ranks_body)(stn_context *context, void *arg);

/* Runs `body` with a context of a world of one, and checks that nothing is left when the context is gone. */
void on_one_rank(ranks_body body, void *arg);

/* The same on `size` threads at once. In a program that links core_ranks_mpi.c: on the first ranks of a job of MPI,
 * at most on all. */
void on_ranks(int size, ranks_body body, void *arg);

/* What a rank writes into memory is seen by no other. */
extern const int ranks_are_processes;

#endif
