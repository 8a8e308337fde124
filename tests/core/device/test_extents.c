/* Memory that is divided: whatever is taken, released, committed and given back, extents cover their segments, none
 * overlaps another, and what is free lies in one piece. */
#include "core/counted.h"
#include "harness.h"

#include "core/device/extents.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = 64, UNITS = 4096, SEGMENT_UNITS = 1024, PLAIN = 3, MOST_LIVE = 200 };

/* Addresses alone: nothing is read or written there. Segments: one that is reserved, then plain ones, side by side. */
static char *const base = (char *)(uintptr_t)0x100000000;

struct model {
    struct stni_extents extents;
    struct stni_extent *live[MOST_LIVE];
    int n_live;
    int has_segment[1 + PLAIN];
    unsigned char is_taken[UNITS];
    uint64_t seed;
};

static unsigned draw(struct model *m, unsigned n)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(m->seed >> 33) % n;
}

static void mark(struct model *m, const struct stni_extent *extent, unsigned char taken)
{
    const size_t from = (size_t)(extent->pointer - base) / UNIT, n = extent->bytes / UNIT;
    for (size_t u = from; u < from + n; u++) {
        CHECK((m->is_taken[u] == 0) == (taken != 0));
        m->is_taken[u] = taken;
    }
}

static void take(struct model *m, size_t units)
{
    if (m->n_live == MOST_LIVE)
        return;
    struct stni_extent *extent = stni_extents_take(&m->extents, units * UNIT);
    if (!extent)
        return;
    CHECK(extent->bytes >= units * UNIT);
    CHECK_I64(extent->state, STNI_EXTENT_LIVE);
    CHECK(stni_extents_find(&m->extents, extent->pointer) == extent);
    mark(m, extent, 1);
    m->live[m->n_live++] = extent;
}

static void release(struct model *m)
{
    if (m->n_live == 0)
        return;
    const unsigned i = draw(m, (unsigned)m->n_live);
    mark(m, m->live[i], 0);
    stni_extents_release(&m->extents, m->live[i]);
    m->live[i] = m->live[--m->n_live];
}

static void add(struct model *m)
{
    const unsigned i = draw(m, 1 + PLAIN);
    if (m->has_segment[i])
        return;
    m->has_segment[i] = stni_extents_add(&m->extents, base + (size_t)i * SEGMENT_UNITS * UNIT, SEGMENT_UNITS * UNIT,
                                         i == 0 ? STNI_EXTENT_ABSENT : STNI_EXTENT_FREE, i == 0) != NULL;
}

static void drop(struct model *m)
{
    for (struct stni_extent **at = &m->extents.segments; *at; at = &(*at)->next_segment)
        if (!(*at)->upper && (*at)->state == STNI_EXTENT_FREE && !(*at)->is_reserved) {
            m->has_segment[((*at)->pointer - base) / (SEGMENT_UNITS * UNIT)] = 0;
            stni_extents_drop(&m->extents, at);
            return;
        }
}

/* What room promises is there once it is committed. */
static void commit(struct model *m)
{
    size_t missing, units = 1 + draw(m, 300);
    struct stni_extent *absent = stni_extents_room(&m->extents, units * UNIT, &missing);
    if (!absent)
        return;
    CHECK(missing > 0 && missing <= absent->bytes);
    struct stni_extent *made = stni_extents_turn(&m->extents, absent, 0, missing);
    if (made) {
        CHECK_I64(made->state, STNI_EXTENT_FREE);
        CHECK(made->bytes >= units * UNIT);
        take(m, units);
    }
}

static void decommit(struct model *m)
{
    for (struct stni_extent *extent = m->extents.segments; extent; extent = extent->next_segment)
        for (struct stni_extent *e = extent->is_reserved ? extent : NULL; e; e = e->upper)
            if (e->state == STNI_EXTENT_FREE && draw(m, 2)) {
                const unsigned n = (unsigned)(e->bytes / UNIT), from = draw(m, n), units = 1 + draw(m, n - from);
                stni_extents_turn(&m->extents, e, (size_t)from * UNIT, (size_t)units * UNIT);
                return;
            }
}

static int n_binned(const struct stni_extents *extents, int *n_wrong)
{
    int n = 0;
    for (int c = 0; c < STNI_SIZE_CLASSES; c++) {
        const uint64_t bit = extents->filled[c / 64] >> c % 64 & 1;
        *n_wrong += bit != (extents->bins[c] != NULL);
        for (const struct stni_extent *e = extents->bins[c], *before = NULL; e; before = e, e = e->next, n++)
            *n_wrong += e->state != STNI_EXTENT_FREE || stni_size_class(e->bytes) != c || e->previous != before;
    }
    return n;
}

static void check(const struct model *m)
{
    int n_free = 0, n_live = 0, n_wrong = 0;
    for (const struct stni_extent *segment = m->extents.segments; segment; segment = segment->next_segment) {
        size_t bytes = 0;
        for (const struct stni_extent *e = segment; e; bytes += e->bytes, e = e->upper) {
            n_free += e->state == STNI_EXTENT_FREE;
            n_live += e->state == STNI_EXTENT_LIVE;
            n_wrong += e->pointer != segment->pointer + bytes || e->bytes == 0;
            n_wrong += e->upper && e->upper->lower != e;
            n_wrong += e->upper && e->state == e->upper->state && e->state != STNI_EXTENT_LIVE;
            n_wrong += e->is_reserved != segment->is_reserved;
        }
        CHECK_I64((int64_t)bytes, SEGMENT_UNITS * UNIT);
    }
    CHECK_I64(n_binned(&m->extents, &n_wrong), n_free);
    CHECK_I64(n_live, m->n_live);
    CHECK_I64(n_wrong, 0);
}

static void act(struct model *m)
{
    static void (*const others[])(struct model *) = {release, release, release, add, drop, commit, commit, decommit};
    const unsigned which = draw(m, 12);
    if (which < sizeof others / sizeof *others)
        others[which](m);
    else
        take(m, 1 + draw(m, draw(m, 8) == 0 ? 400 : 20));
}

static void play(uint64_t seed, int failing)
{
    struct model m = {.seed = seed};
    for (int i = 0; i < 3000; i++) {
        if (failing && draw(&m, 3) == 0)
            counted_fail_at(1 + draw(&m, 2), 1);
        act(&m);
        counted_fail_at(0, 0);
        if (i % 16 == 0)
            check(&m);
    }
    check(&m);
    stni_extents_fini(&m.extents);
    CHECK_I64(counted_live(), 0);
}

static void extents_cover_their_segments(void)
{
    for (int seed = 0; seed < test_draws(20); seed++)
        play((uint64_t)seed, 0);
}

static void without_memory_for_records_nothing_is_lost(void)
{
    for (int seed = 0; seed < test_draws(20); seed++)
        play((uint64_t)seed, 1);
}

/* The nearest size that holds it, though a larger one was released later. */
static void the_nearest_size_is_cut(void)
{
    struct stni_extents extents = {0};
    struct stni_extent *e[5];
    stni_extents_add(&extents, base, 1000 * UNIT, STNI_EXTENT_FREE, 0);
    static const size_t units[] = {100, 10, 300, 10, 580};
    for (int i = 0; i < 5; i++)
        e[i] = stni_extents_take(&extents, units[i] * UNIT);
    CHECK(stni_extents_take(&extents, UNIT) == NULL);
    char *const small = e[0]->pointer, *const large = e[2]->pointer;
    stni_extents_release(&extents, e[0]);
    stni_extents_release(&extents, e[2]);
    CHECK(stni_extents_take(&extents, 90 * UNIT)->pointer == small);
    CHECK(stni_extents_take(&extents, 90 * UNIT)->pointer == large);
    CHECK(stni_extents_take(&extents, 210 * UNIT)->pointer == large + 90 * UNIT); /* all that is left of it */
    CHECK(stni_extents_take(&extents, 10 * UNIT)->pointer == small + 90 * UNIT);
    stni_extents_fini(&extents);
    CHECK_I64(counted_live(), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"extents_cover_their_segments", extents_cover_their_segments},
        {"without_memory_for_records_nothing_is_lost", without_memory_for_records_nothing_is_lost},
        {"the_nearest_size_is_cut", the_nearest_size_is_cut},
    };
    return TEST_MAIN(argc, argv, cases);
}
