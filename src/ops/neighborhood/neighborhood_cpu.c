/* Neighborhood attention on the CPU, compiled once per instruction set: tiles of targets next to each other. */
#include "ops/neighborhood/neighborhood_tile.h"

#define TEMPLATE "ops/neighborhood/neighborhood_tmpl.h"
#include "core/box/each_float.h"

typedef void (*run_fn)(const struct stni_neighborhood_args *p);

stn_status STNI_ISA_NAME(stni_neighborhood_forward)(stn_queue *queue, const void *args)
{
    static const run_fn of[] = {forward_f32, forward_f64, forward_bf16, forward_f16};
    const struct stni_neighborhood_args *p = args;
    (void)queue;
    of[p->dtype](p);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_neighborhood_queries)(stn_queue *queue, const void *args)
{
    static const run_fn of[] = {queries_f32, queries_f64, queries_bf16, queries_f16};
    const struct stni_neighborhood_args *p = args;
    (void)queue;
    of[p->dtype](p);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_neighborhood_keys)(stn_queue *queue, const void *args)
{
    static const run_fn of[] = {keys_f32, keys_f64, keys_bf16, keys_f16};
    const struct stni_neighborhood_args *p = args;
    (void)queue;
    of[p->dtype](p);
    return STN_OK;
}
