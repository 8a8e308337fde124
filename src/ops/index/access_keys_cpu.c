/* The keys of routed indices, on the CPU. */
#include "core/base/isa.h"
#include "ops/index/access_walk.h"

static void key_line(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n)
{
    const struct stni_access_keys_args *a = arg;
    for (int64_t i = 0; i < n; i++)
        a->keys[value + i * value_step] = table < 0 ? -1 : table + i * table_step;
}

static void key_elements(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n)
{
    const struct stni_access_keys_args *a = arg;
    for (int64_t i = 0; i < n; i++)
        a->keys[value + i * value_step] = table[i];
}

stn_status STNI_ISA_NAME(stni_access_keys)(stn_queue *queue, const void *args)
{
    struct stni_access_keys_args a = *(const struct stni_access_keys_args *)args;
    const struct stni_access_visitor visitor = {.queue = queue, .arg = &a, .line = key_line, .elements = key_elements};
    STNI_ISA_NAME(stni_access_walk)(&a.at, &visitor);
    return STN_OK;
}
