/* Ranks of worlds without threads. */
#include "core/shard/world.h"

#include "core/base/hash.h"
#include "core/context/context.h"
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

/* What a case still holds of specs goes with its world: a held spec would outlive its context. */
static void release_specs(stn_context *context)
{
    stn_spec *spec, *next;
    HASH_ITER(hh, context->shard.specs, spec, next)
        for (int held = atomic_load(&spec->held); held > 0; held--) {
            const stn_spec *one = spec;
            stn_spec_release(&one);
        }
}

void world_end(stn_context *context)
{
    release_specs(context);
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
