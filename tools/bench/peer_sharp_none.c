/* Without libsharp. */
#include "peer_sharp.h"

#include <stddef.h>

struct peer_sharp *peer_sharp_create(int64_t degrees, int64_t fields)
{
    (void)degrees, (void)fields;
    return NULL;
}

void peer_sharp_destroy(struct peer_sharp **peer)
{
    (void)peer;
}

void peer_sharp_run(struct peer_sharp *peer, int inverse, int threads, int64_t n)
{
    (void)peer, (void)inverse, (void)threads, (void)n;
}
