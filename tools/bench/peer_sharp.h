/* libsharp's spherical harmonic transforms on several threads: the peer of transforms over sharded latitudes. */
#ifndef BENCH_PEER_SHARP_H
#define BENCH_PEER_SHARP_H

#include <stdint.h>

struct peer_sharp;

/** Fields in f32 on a Gauss grid of `degrees` latitudes and twice as many longitudes, and their coefficients below
 * that degree. It plans nothing beforehand that costs time, and transforms one field after the other. NULL where
 * libsharp was not found or there is no memory. */
struct peer_sharp *peer_sharp_create(int64_t degrees, int64_t fields);
void peer_sharp_destroy(struct peer_sharp **peer);

/** n times: to coefficients, or (`inverse`) back, with `threads` threads. */
void peer_sharp_run(struct peer_sharp *peer, int inverse, int threads, int64_t n);

#endif
