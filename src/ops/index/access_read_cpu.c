/* Reading by index on the CPU. */
#include "ops/index/access_reader.h"

#include "core/base/isa.h"

#define T uint8_t
#define GATHER stni_gather_none
#define NAME(f) f##_1
#include "ops/index/access_read_tmpl.h"
#define T uint16_t
#define GATHER stni_gather_none
#define NAME(f) f##_2
#include "ops/index/access_read_tmpl.h"
#define T uint32_t
#define GATHER stni_gather_4
#define NAME(f) f##_4
#include "ops/index/access_read_tmpl.h"
#define T uint64_t
#define GATHER stni_gather_8
#define NAME(f) f##_8
#include "ops/index/access_read_tmpl.h"
#define T double _Complex
#define GATHER stni_gather_none
#define NAME(f) f##_16
#include "ops/index/access_read_tmpl.h"

stn_status STNI_ISA_NAME(stni_access_read)(stn_queue *queue, const void *args)
{
    static const struct stni_access_visitor visitor_of[] = {
        [1] = {.direct = read_direct_1, .line = read_line_1, .elements = read_elements_1},
        [2] = {.direct = read_direct_2, .line = read_line_2, .elements = read_elements_2},
        [4] = {.direct = read_direct_4, .line = read_line_4, .elements = read_elements_4},
        [8] = {.direct = read_direct_8, .line = read_line_8, .elements = read_elements_8},
        [16] = {.direct = read_direct_16, .line = read_line_16, .elements = read_elements_16},
    };
    const struct stni_access_read_args *a = args;
    struct stni_access_visitor visitor = visitor_of[a->element_size];
    struct reader reader = {a->at.values, a->at.table, a->keeps};
    visitor.queue = queue;
    visitor.table = reader.table;
    visitor.size = a->element_size;
    visitor.arg = &reader;
    visitor.leaves_missing = a->keeps;
    if (a->keeps) /* it writes zeros */
        visitor.direct = NULL;
    STNI_ISA_NAME(stni_access_walk)(&a->at, &visitor);
    return STN_OK;
}
