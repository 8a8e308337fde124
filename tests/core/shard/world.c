/* Ranks of worlds without threads. */
#include "core/shard/world.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

stn_context *world_rank(int rank, int size)
{
    stn_context_options options = {.size = sizeof options};
    struct stni_error error = {.status = STN_OK};
    stn_context *context = NULL;
    CHECK_STATUS(stn_comm_create_fake(rank, size, 1e-6, 1e-9, &options.comm), STN_OK);
    CHECK_STATUS(stni_context_create_core(&options, &context, &error), STN_OK);
    if (context == NULL) {
        fprintf(stderr, "no context: %s\n", error.text);
        exit(EXIT_FAILURE);
    }
    return context;
}

void world_end(stn_context *context)
{
    stni_context_drop_graph(context);
    stni_context_destroy_core(context);
}

const char *world_error(stn_context *context)
{
    static char text[STNI_ERROR_TEXT];
    stn_context_take_error(context, text, sizeof text);
    return text;
}

uint64_t world_random(uint64_t *state, uint64_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % n;
}
