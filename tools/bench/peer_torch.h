/* PyTorch in a process of its own: a Python that is told what to do line by line. */
#ifndef BENCH_PEER_TORCH_H
#define BENCH_PEER_TORCH_H

#include <stddef.h>
#include <stdint.h>

struct peer_torch;

/** Starts `python` with so many compute threads. `text` becomes its version, or why there is none. @return NULL where
 * there is none. */
struct peer_torch *peer_torch_open(const char *python, int threads, char *text, size_t size);
void peer_torch_close(struct peer_torch **peer);

/** Forgets the inputs. @return 0 on failure, as the next two. */
int peer_torch_clear(struct peer_torch *peer);

/** Adds an input of random numbers, of integers below `high`. */
int peer_torch_input(struct peer_torch *peer, const char *dtype, int64_t high, int constant, int ndim,
                     const int64_t *shape);

/** What is measured: a Python expression of the list x of inputs. */
int peer_torch_op(struct peer_torch *peer, const char *expression, int with_gradient);

/** Seconds of `n` repetitions; negative on failure. Its threads sleep when it returns. */
double peer_torch_run(struct peer_torch *peer, int64_t n);

#endif
