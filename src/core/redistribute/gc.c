/* Garbage collection of the tables of specs and splits: unused ones are freed together, between ops. */
#include "core/context/context.h"
#include "core/base/hash.h"
#include "core/shard/group.h"
#include "core/redistribute/plan.h"

/* Fewer specs than this are never worth a collection. */
enum { COLLECT_LEAST = 1024 };

static void collect_specs(stn_context *context)
{
    stn_spec *spec, *next;
    HASH_ITER(hh, context->shard.specs, spec, next)
        if (spec->refs == 0 && atomic_load_explicit(&spec->held, memory_order_acquire) == 0)
            stni_spec_free(spec);
}

static void collect_splits(stn_context *context)
{
    struct stni_split *split, *next;
    HASH_ITER(hh, context->shard.splits, split, next)
        if (split->refs == 0) {
            HASH_DEL(context->shard.splits, split);
            context->shard.n_splits--;
            stni_free(split);
        }
}

static void free_plan(struct stni_shard_tables *tables)
{
    if (tables->plan == NULL)
        return;
    stni_plan_free(tables->plan);
    stni_free(tables->plan);
    tables->plan = NULL;
}

void stni_shard_collect(stn_context *context, int all)
{
    struct stni_shard_tables *tables = &context->shard;
    int64_t used = tables->n_specs + tables->n_splits;
    if (tables->collect_at < COLLECT_LEAST)
        tables->collect_at = COLLECT_LEAST;
    if (all)
        free_plan(tables);
    else if (used < tables->collect_at)
        return;
    collect_specs(context);
    collect_splits(context);
    /* Twice what is alive, so that the work of collecting is a constant share of the work of making. */
    tables->collect_at = 2 * (tables->n_specs + tables->n_splits);
}

void stni_shard_tables_fini(stn_context *context)
{
    struct stni_shard_tables *tables = &context->shard;
    stn_spec *spec, *next;
    HASH_ITER(hh, tables->specs, spec, next)
        stni_spec_free(spec);
    collect_splits(context);
    free_plan(tables);
    for (int i = 0; i < tables->n_meshes; i++)
        stni_mesh_destroy(tables->meshes[i]);
    stni_free(tables->meshes);
    tables->meshes = NULL;
    tables->n_meshes = tables->cap_meshes = 0;
}
