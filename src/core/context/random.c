/* Where a context stands in its random numbers. */
#include "core/context/context.h"

void stn_context_random_state(const stn_context *context, uint64_t *seed, uint64_t *stream)
{
    *seed = context->seed;
    *stream = context->random_stream;
}

void stn_context_set_random_state(stn_context *context, uint64_t seed, uint64_t stream)
{
    context->seed = seed;
    context->random_stream = stream;
}
