/* The walk over positions. */
#include "ops/index/access_walk.h"

#include "core/box/nontemporal_line.h"
#include "ops/common/bad_value.h"

#include <string.h>

enum {
    LINES_AHEAD = 8,
    PREFETCHED = 512 /* bytes of a line: what follows them the processor fetches by itself */
};

/* Positions with dims of size 1 left out and neighbours made one where every operand allows. */
struct space {
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    int64_t index[STN_MAX_NDIM], value[STN_MAX_NDIM], table[STN_MAX_NDIM];
};

/* Where a line of the last dim begins. */
struct cursor {
    int64_t at[STN_MAX_NDIM], index, value, table, position;
};

static void make_space(const struct stni_access *a, struct space *s)
{
    s->ndim = 0;
    for (int d = 0; d < a->ndim; d++) {
        int64_t n = a->shape[d];
        int k = s->ndim - 1;
        if (n == 1)
            continue;
        if (k >= 0 && s->index[k] == a->index_strides[d] * n && s->value[k] == a->value_strides[d] * n &&
            s->table[k] == a->table_strides[d] * n)
            n *= s->shape[k];
        else
            k = s->ndim++;
        s->shape[k] = n;
        s->index[k] = a->index_strides[d];
        s->value[k] = a->value_strides[d];
        s->table[k] = a->table_strides[d];
    }
    if (s->ndim == 0) {
        *s = (struct space){.ndim = 1};
        s->shape[0] = 1;
    }
}

static int64_t numel(const struct space *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->ndim; d++)
        n *= s->shape[d];
    return n;
}

static void next_line(const struct space *s, struct cursor *c)
{
    c->position += s->shape[s->ndim - 1];
    for (int d = s->ndim - 2; d >= 0; d--) {
        c->index += s->index[d];
        c->value += s->value[d];
        c->table += s->table[d];
        if (++c->at[d] < s->shape[d])
            return;
        c->index -= s->shape[d] * s->index[d];
        c->value -= s->shape[d] * s->value[d];
        c->table -= s->shape[d] * s->table[d];
        c->at[d] = 0;
    }
}

/* Where the table has what an index names, -1 where it is not here. */
static int64_t locate(const struct stni_access *a, stn_queue *queue, int64_t got, int64_t position)
{
    int is_bad = 0;
    const int64_t at = stni_access_locate(a, got, &is_bad);
    if (is_bad && a->report.on) {
        int64_t numbers[STNI_ACCESS_NUMBERS];
        const int n = stni_access_bad_numbers(a, got, position, numbers);
        stn_queue_value_error(queue, a->report.op, STNI_BAD_INDEX, n, numbers);
    }
    return at;
}

static void read_indices(const struct stni_access *a, int64_t at, int64_t step, int64_t n, int64_t *out)
{
    if (a->index_dtype == STN_DTYPE_I32)
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const int32_t *)a->index)[at + i * step];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const int64_t *)a->index)[at + i * step];
}

/* Whether no index of a block can name anything: so it is of most blocks of slots, where few rows are routed. */
static int names_nothing(const struct stni_access *a, int64_t n, const int64_t *index)
{
    int64_t all = a->wrap || a->report.on ? 0 : -1; /* negative while all are */
    for (int64_t i = 0; i < n; i++)
        all &= index[i];
    return all < 0;
}

/* Offsets of indices of one digit, in place: the usual case, without branches, which indices of several ranks would
 * mislead. 0 where one of them needs a closer look, and then nothing is changed; one out of range does not where it
 * counts for nothing. */
static int locate_plain(const struct stni_access_line *line, int64_t *index)
{
    const struct stni_access *a = line->access;
    const int64_t stride = a->key_strides[0];
    int64_t bad = 0; /* negative where one is */
    if (a->n_keys != 1 || a->skip != 0)
        return 0;
    for (int64_t i = 0; i < line->n; i++)
        bad |= index[i] | (a->n - 1 - index[i]);
    if (bad < 0 && (a->wrap || a->report.on))
        return 0;
    for (int64_t i = 0; i < line->n; i++) {
        const int64_t key = index[i] - a->first, missing = -(int64_t)((uint64_t)key >= (uint64_t)a->key_shape[0]);
        index[i] = missing | (key * stride + line->table + i * line->table_step);
    }
    return 1;
}

/* Through offsets: reports bad indices, and knows those of several digits and those that name nothing. */
static void visit_offsets(const struct stni_access_line *line, int64_t position,
                          const struct stni_access_visitor *visitor)
{
    const struct stni_access *a = line->access;
    int64_t offsets[STNI_ACCESS_BLOCK];
    read_indices(a, line->index, line->index_step, line->n, offsets);
    if (visitor->leaves_missing && names_nothing(a, line->n, offsets))
        return;
    if (!locate_plain(line, offsets))
        for (int64_t j = 0; j < line->n; j++) {
            const int64_t at = locate(a, visitor->queue, offsets[j], position + j);
            offsets[j] = at < 0 ? -1 : at + line->table + j * line->table_step;
        }
    visitor->elements(visitor->arg, line->value, line->value_step, offsets, line->n);
}

/* A line along which the index changes. */
static void visit_elements(const struct stni_access *a, const struct space *s, const struct cursor *c,
                           const struct stni_access_visitor *visitor)
{
    const int last = s->ndim - 1, direct = visitor->direct && a->n_keys == 1 && a->skip == 0 && a->key_shape[0] > 0;
    struct stni_access_line line = {a, c->index, s->index[last], c->value, s->value[last], c->table, s->table[last], 0};
    for (int64_t i = 0; i < s->shape[last]; i += line.n) {
        line.n = s->shape[last] - i < STNI_ACCESS_BLOCK ? s->shape[last] - i : STNI_ACCESS_BLOCK;
        if (!direct || !visitor->direct(visitor->arg, &line))
            visit_offsets(&line, c->position + i, visitor);
        line.index += line.n * line.index_step;
        line.value += line.n * line.value_step;
        line.table += line.n * line.table_step;
    }
}

/* The processor cannot know where the index leads. */
static void prefetch_line_ahead(const struct stni_access *a, const struct space *s, const struct cursor *c,
                                const struct stni_access_visitor *visitor)
{
    const int last = s->ndim - 1, outer = last - 1;
    int is_bad = 0;
    if (outer < 0 || s->table[last] != 1 || c->at[outer] + LINES_AHEAD >= s->shape[outer])
        return;
    const int64_t got = stni_access_index(a->index, a->index_dtype, c->index + LINES_AHEAD * s->index[outer]);
    const int64_t at = stni_access_locate(a, got, &is_bad);
    if (at < 0)
        return;
    const int64_t size = (int64_t)visitor->size, bytes = s->shape[last] * size;
    const char *from = (const char *)visitor->table + (at + c->table + LINES_AHEAD * s->table[outer]) * size;
    for (int64_t b = 0; b < bytes && b < PREFETCHED; b += STNI_LINE)
        stni_prefetch(from + b);
}

void STNI_ISA_NAME(stni_access_walk)(const struct stni_access *a, const struct stni_access_visitor *visitor)
{
    struct cursor c = {.table = a->base};
    struct space s;
    make_space(a, &s);
    int last = s.ndim - 1;
    int64_t lines = numel(&s) > 0 ? numel(&s) / s.shape[last] : 0;
    for (int64_t i = 0; i < lines; i++, next_line(&s, &c)) {
        if (s.index[last] != 0) {
            visit_elements(a, &s, &c, visitor);
            continue;
        }
        prefetch_line_ahead(a, &s, &c, visitor);
        int64_t at = locate(a, visitor->queue, stni_access_index(a->index, a->index_dtype, c.index), c.position);
        visitor->line(visitor->arg, c.value, s.value[last], at < 0 ? -1 : at + c.table, s.table[last], s.shape[last]);
    }
}
