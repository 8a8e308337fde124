/* Plans of foreign libraries by problem. */
#include "core/device/cuda/library.h"

#include <string.h>

/* FNV-1a: Fowler, Noll and Vo. */
static uint64_t hash_of(const void *problem, size_t bytes)
{
    const unsigned char *at = problem;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

struct stni_cuda_plan *stni_cuda_plan_find(const struct stni_cuda_plans *plans, const void *problem, size_t bytes)
{
    const uint64_t hash = hash_of(problem, bytes);
    struct stni_cuda_plan *plan = plans->list[hash % STNI_CUDA_PLAN_LISTS];
    while (plan && (plan->hash != hash || memcmp(plan + 1, problem, bytes) != 0))
        plan = plan->next;
    return plan;
}

void stni_cuda_plan_add(struct stni_cuda_plans *plans, struct stni_cuda_plan *plan, size_t problem_bytes)
{
    plan->hash = hash_of(plan + 1, problem_bytes);
    struct stni_cuda_plan **list = &plans->list[plan->hash % STNI_CUDA_PLAN_LISTS];
    plan->next = *list;
    *list = plan;
    plans->n++;
}

void stni_cuda_plans_clear(struct stni_cuda_plans *plans, void (*destroy)(struct stni_cuda_plan *plan))
{
    for (int i = 0; i < STNI_CUDA_PLAN_LISTS; i++)
        for (struct stni_cuda_plan *plan = plans->list[i], *next; plan; plan = next) {
            next = plan->next;
            destroy(plan);
        }
    memset(plans, 0, sizeof *plans);
}
