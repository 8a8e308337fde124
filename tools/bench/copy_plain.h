/* With the ordinary stores of the C library and the compiler. */
#ifndef BENCH_COPY_PLAIN_H
#define BENCH_COPY_PLAIN_H

#include "copy.h"

void rows_plain(const struct rows *rows);

#endif
