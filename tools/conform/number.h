/* Elements of any floating or complex dtype as doubles. */
#ifndef CONFORM_NUMBER_H
#define CONFORM_NUMBER_H

#include <shardtensor/dtype.h>

/** Numbers per element: 1 floating, 2 complex, 0 for what is neither. */
int number_parts(stn_dtype dtype);

/** Number i of an array: of complex elements 2 i is the real part of element i. */
double number_at(stn_dtype dtype, const void *data, int64_t i);

/** Stores x as number i, rounded to nearest even. */
void number_put(stn_dtype dtype, void *data, int64_t i, double x);

/** x as the dtype holds it. */
double number_round(stn_dtype dtype, double x);

#endif
