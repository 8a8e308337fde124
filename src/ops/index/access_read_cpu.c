/* Reading by index, and the keys of routed indices, on the CPU. */
#include "ops/index/access_walk.h"

#include <string.h>

struct reader {
    void *values;
    const void *table;
};

#define T uint8_t
#define NAME(f) f##_1
#include "ops/index/access_read_tmpl.h"
#define T uint16_t
#define NAME(f) f##_2
#include "ops/index/access_read_tmpl.h"
#define T uint32_t
#define NAME(f) f##_4
#include "ops/index/access_read_tmpl.h"
#define T uint64_t
#define NAME(f) f##_8
#include "ops/index/access_read_tmpl.h"
#define T double _Complex
#define NAME(f) f##_16
#include "ops/index/access_read_tmpl.h"

stn_status stni_access_read_cpu(stn_queue *queue, const void *args)
{
    static const struct stni_access_visitor visitor_of[] = {
        [1] = {NULL, read_line_1, read_elements_1}, [2] = {NULL, read_line_2, read_elements_2},    [4] = {NULL, read_line_4, read_elements_4},
        [8] = {NULL, read_line_8, read_elements_8}, [16] = {NULL, read_line_16, read_elements_16},
    };
    const struct stni_access_read_args *a = args;
    struct stni_access_visitor visitor = visitor_of[a->element_size];
    struct reader reader = {a->at.values, a->at.table};
    (void)queue;
    visitor.arg = &reader;
    stni_access_walk(&a->at, &visitor);
    return STN_OK;
}

static void key_line(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n)
{
    const struct stni_access_keys_args *a = arg;
    for (int64_t i = 0; i < n; i++)
        a->keys[value + i * value_step] = table < 0 ? -1 : table + i * table_step;
}

static void key_elements(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        key_line(arg, value + i * value_step, 0, table[i], 0, 1);
}

stn_status stni_access_keys_cpu(stn_queue *queue, const void *args)
{
    struct stni_access_keys_args a = *(const struct stni_access_keys_args *)args;
    (void)queue;
    stni_access_walk(&a.at, &(struct stni_access_visitor){&a, key_line, key_elements});
    return STN_OK;
}
