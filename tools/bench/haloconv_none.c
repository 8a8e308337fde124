/* Without oneDNN there is no peer. */
#include "bench.h"

#include <stdio.h>

void bench_haloconv(struct bench *bench)
{
    (void)bench;
    fprintf(stderr, "haloconv: this build has no oneDNN to compare with\n");
}
