/* The ranks that lines join, of which each rank knows its own lines alone: ranks of each line tell each other of
 * whom they know, until nobody knows of a rank that has not told of its own lines. A line falls silent when all of
 * its ranks know all: that is the same finding on each of them. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/shard/group.h"

#include <string.h>

/* What a rank knows of another one: nothing; that it is on a line; that, and its lines. */
enum { UNKNOWN, KNOWN, MET };

struct search {
    struct stni_pass *pass;
    int64_t *words; /* whether some are known and not met, then what is known of each rank of the world */
    uint8_t *marks; /* of as many ranks */
    uint8_t *open;  /* of each line: not silent yet */
};

static int64_t has_unmet(const int64_t *known, int size)
{
    for (int r = 0; r < size; r++)
        if (known[r] == KNOWN)
            return 1;
    return 0;
}

/* The greatest of what its ranks know is what they know together. */
static stn_status tell(struct search *s, int line)
{
    const struct stni_pass *pass = s->pass;
    const int size = pass->context->size;
    s->words[0] = has_unmet(s->words + 1, size);
    STNI_TRY(stni_comm_agree(pass->lines[line].comm, pass->context->queue, s->words, size + 1, STN_MAX));
    s->open[line] = s->words[0] != 0;
    return STN_OK;
}

static stn_status tell_all(struct search *s, int *open)
{
    *open = 0;
    for (int l = 0; l < s->pass->n_lines; l++) {
        if (s->open[l])
            STNI_TRY(tell(s, l));
        *open |= s->open[l];
    }
    return STN_OK;
}

static void begin(struct search *s)
{
    const int size = s->pass->context->size;
    memset(s->words, 0, (size_t)(size + 1) * sizeof *s->words);
    memset(s->open, 1, (size_t)s->pass->n_lines);
    for (int l = 0; l < s->pass->n_lines; l++) {
        stni_line_mark(s->pass, l, s->marks);
        for (int r = 0; r < size; r++)
            if (s->marks[r])
                s->words[1 + r] = KNOWN;
    }
    s->words[1 + s->pass->context->rank] = MET;
}

static stn_status search(struct search *s)
{
    struct stni_pass *pass = s->pass;
    const struct stni_group_comm *group = NULL;
    begin(s);
    for (int open = 1; open;)
        STNI_TRY(tell_all(s, &open));
    for (int r = 0; r < pass->context->size; r++)
        s->marks[r] = s->words[1 + r] != UNKNOWN;
    STNI_TRY(stni_mesh_group_marked(pass->context, s->marks, &group));
    pass->comm = group->comm;
    return STN_OK;
}

stn_status stni_pass_find_ranks(struct stni_pass *pass)
{
    const size_t size = (size_t)pass->context->size, words = (size + 1) * sizeof(int64_t),
                 bytes = words + size + (size_t)pass->n_lines;
    if (pass->n_lines == 1 && !pass->lines[0].words[STNI_LINE_SEVERAL]) {
        pass->comm = pass->lines[0].comm;
        return STN_OK;
    }
    int64_t *memory = stni_malloc(bytes);
    if (!memory)
        return stni_fail_rank(pass->context, STN_ERR_MEMORY,
                              "stn_backward: no memory to find the ranks that it concerns");
    struct search s = {
        .pass = pass, .words = memory, .marks = (uint8_t *)memory + words, .open = (uint8_t *)memory + words + size};
    stn_status status = search(&s);
    stni_free(memory);
    return status;
}
