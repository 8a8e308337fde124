/* Sums by expansions: what exact sums are compared with. */
#ifndef SHARDTENSOR_TESTS_REDUCE_EXPANSION_H
#define SHARDTENSOR_TESTS_REDUCE_EXPANSION_H

#include <stdint.h>

/** Draws 64 bits. */
uint64_t expansion_next(uint64_t *state);

/** Draws any finite number below 2^most, subnormal ones among them. */
double expansion_wide(uint64_t *state, int most);

/** The number nearest to the exact sum, ties to even. Source: Shewchuk 1997, as math.fsum of Python does it. */
double expansion_sum(int n, const double *v);

/** The same to f32, of numbers of f32: rounded once. */
float expansion_sum_f32(int n, const double *v);

#endif
