#include "ops/dist/halo_line.h"

static int owner_of(const int64_t *offsets, int p, int64_t element)
{
    int low = 0, high = p;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (offsets[middle] <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The two lists in the making. */
struct route {
    const struct stni_halo_line *line;
    struct stni_ranges *send, *receive;
};

/* One piece of what `reader` sees: elements first … of one owner, which stand at `at` of the reader's result. */
static stn_status add_piece(const struct route *r, int reader, int owner, int64_t first, int64_t at, int64_t length)
{
    const struct stni_halo_line *l = r->line;
    if (owner == l->me)
        STNI_TRY(stni_ranges_add(l->context, r->send, reader, first - l->offsets[owner], length));
    return reader == l->me ? stni_ranges_add(l->context, r->receive, owner, at, length) : STN_OK;
}

/* Cuts a run at the ends of chunks. Runs that go backwards or stand still go element by element. */
static stn_status add_run(const struct route *r, int reader, struct stni_run run, int64_t at)
{
    const int64_t *offsets = r->line->offsets;
    for (int64_t done = 0, n; done < run.length; done += n) {
        const int64_t first = run.first + run.step * done;
        const int owner = owner_of(offsets, r->line->p, first);
        n = run.step == 1 ? offsets[owner + 1] - first : 1;
        n = n < run.length - done ? n : run.length - done;
        STNI_TRY(add_piece(r, reader, owner, first, at + done, n));
    }
    return STN_OK;
}

/* All that a rank sees: its chunk and the margins, of which those beyond the ends of the line follow from the mode.
 * An empty chunk has none. */
static stn_status add_reader(const struct route *r, int reader)
{
    const struct stni_halo_line *l = r->line;
    const int64_t begin = l->offsets[reader] - l->below, end = l->offsets[reader + 1] + l->above;
    struct stni_run run;
    if (l->offsets[reader] == l->offsets[reader + 1])
        return STN_OK;
    for (int64_t at = begin; at < end; at += run.length) {
        run = stni_boundary_run(l->boundary, l->offsets[l->p], at, end);
        if (run.first >= 0)
            STNI_TRY(add_run(r, reader, run, at - begin));
    }
    return STN_OK;
}

stn_status stni_halo_line_route(const struct stni_halo_line *line, struct stni_ranges *send,
                                struct stni_ranges *receive)
{
    const struct route r = {line, send, receive};
    for (int reader = 0; reader < line->p; reader++)
        STNI_TRY(add_reader(&r, reader));
    return STN_OK;
}

int64_t stni_halo_line_length(const struct stni_halo_line *line)
{
    const int64_t n = line->offsets[line->me + 1] - line->offsets[line->me];
    return n > 0 ? line->below + n + line->above : 0;
}

/* Margins that repeat the line's elements are made of as many pieces as they go round it, or have elements: the plan
 * would have no end. */
enum { MOST_REPEATED = 1 << 24 };

static int is_repeated(enum stni_boundary boundary)
{
    return boundary == STNI_BOUNDARY_REPLICATE || boundary == STNI_BOUNDARY_CIRCULAR;
}

stn_status stni_halo_line_check(const struct stni_halo_line *line, const char *name)
{
    const int64_t n = line->offsets[line->p], most = n > MOST_REPEATED ? n : MOST_REPEATED;
    const long long below = line->below, above = line->above;
    if (below < 0 || above < 0 || below > INT64_MAX / 4 || above > INT64_MAX / 4)
        return stni_fail(line->context, STN_ERR_ARGUMENT,
                         "%s: margin got widths %lld and %lld, or another size of the struct, wanted 0 or more", name,
                         below, above);
    if (is_repeated(line->boundary) && (below > most || above > most))
        return stni_fail(line->context, STN_ERR_ARGUMENT,
                         "%s: margin got widths %lld and %lld, wanted at most %lld where elements are repeated", name,
                         below, above, (long long)most);
    if (line->boundary == STNI_BOUNDARY_REFLECT && (below >= n || above >= n))
        return stni_fail(line->context, STN_ERR_SHAPE,
                         "%s: margin got widths %lld and %lld, wanted less than the %lld elements in all to reflect",
                         name, below, above, (long long)n);
    return STN_OK;
}
