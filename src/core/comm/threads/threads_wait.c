/* How thread ranks wait: a few pauses, then the processor is offered to others, then sleep on the own bell. Pauses
 * alone are the fastest where each rank has a core and never end where it has not.
 *
 * No wake is lost: the sleeper reads its bell, says whom it waits for, then looks at the word once more; the writer
 * writes the word, then looks who sleeps. All of these are sequentially consistent. An abort rings every bell. */
#include "core/comm/threads/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAUSES = 50, YIELDS = 64, YIELD_NANOSECONDS = 50000 };

#ifdef __x86_64__
#define CPU_PAUSE() __builtin_ia32_pause()
#else
#define CPU_PAUSE() ((void)0)
#endif

static const double nanoseconds = 1e9; /* in a second */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* INT64_MAX: never. */
static int64_t deadline_of(const struct stni_thread_member *member)
{
    double ahead = member->deadline_seconds * nanoseconds;
    return ahead < 0 || ahead > 1e18 ? INT64_MAX : now() + (int64_t)ahead;
}

/* 0 when the time has passed. */
static int futex_wait(_Atomic(uint32_t) *word, uint32_t value, int64_t until)
{
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until == INT64_MAX ? NULL : &t, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    return !(rc != 0 && errno == ETIMEDOUT);
}

void stni_thread_ring(struct stni_thread_slot *slot)
{
    atomic_fetch_add(&slot->bell, 1);
    syscall(SYS_futex, &slot->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void stni_thread_wake(struct stni_thread_slot *slot, int by)
{
    int asleep = atomic_load(&slot->asleep);
    if (asleep != 0 && (asleep == STNI_THREAD_ANY || asleep == by + 1))
        stni_thread_ring(slot);
}

void stni_thread_post(struct stni_thread_member *member, stni_thread_word *word, uint64_t value)
{
    struct stni_thread_group *group = member->group;
    atomic_store(word, value);
    for (int r = 0; r < group->size; r++)
        if (r != member->rank)
            stni_thread_wake(&group->slots[r], member->rank);
}

struct waiting {
    struct stni_thread_member *member;
    int peer;
    const stni_thread_word *word;
    uint64_t value;
    int poll_abort;
};

/* 1 when the wait is over, for whichever reason. The word is read last: what all ranks have come to has succeeded on
 * each, though one of them may abort or leave right behind it. */
static int over(const struct waiting *w, enum stni_thread_wait *result)
{
    const int gone = w->peer != STNI_THREAD_ANY && atomic_load(&w->member->group->slots[w->peer].gone);
    const int aborted = w->poll_abort && stni_thread_aborted(w->member);
    *result = STNI_WAIT_READY;
    if (atomic_load(w->word) >= w->value)
        return 1;
    *result = STNI_WAIT_ABORTED;
    if (aborted)
        return 1;
    *result = STNI_WAIT_GONE;
    return gone;
}

static enum stni_thread_wait sleep_until(const struct waiting *w, int64_t *until)
{
    struct stni_thread_slot *mine = &w->member->group->slots[w->member->rank];
    enum stni_thread_wait result;
    if (*until == 0)
        *until = deadline_of(w->member);
    for (int in_time = 1;;) {
        uint32_t bell = atomic_load(&mine->bell);
        atomic_store(&mine->asleep, w->peer == STNI_THREAD_ANY ? STNI_THREAD_ANY : w->peer + 1);
        if (over(w, &result))
            break;
        result = STNI_WAIT_LATE;
        if (!in_time)
            break;
        in_time = futex_wait(&mine->bell, bell, *until);
    }
    atomic_store(&mine->asleep, 0);
    return result;
}

/* Whoever sleeps last sees the circle. */
static enum stni_thread_wait sleep_in_agreement(const struct waiting *w, int64_t *until)
{
    const int *world = w->member->group->world_ranks;
    struct stni_thread_edge edge = {NULL,     world[w->member->rank], world[w->peer], w->word,
                                    w->value, w->member->agreement};
    const int circle = stni_thread_edge_add(w->member, &edge);
    const enum stni_thread_wait result = circle ? STNI_WAIT_CIRCLE : sleep_until(w, until);
    stni_thread_edge_remove(w->member, &edge);
    return result;
}

enum stni_thread_wait stni_thread_wait(struct stni_thread_member *member, int peer, const stni_thread_word *word,
                                       uint64_t value, int poll_abort, int64_t *until)
{
    for (int i = 0; i < PAUSES; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) >= value)
            return STNI_WAIT_READY;
        CPU_PAUSE();
    }
    struct waiting w = {member, peer, word, value, poll_abort};
    enum stni_thread_wait result;
    /* On a machine that others use too, a yield can last as long as their time slice: a sleeping rank is woken
     * sooner. */
    int64_t begin = now();
    for (int i = 0; i < YIELDS && now() - begin < YIELD_NANOSECONDS; i++) {
        if (over(&w, &result)) {
            member->waited += now() - begin;
            return result;
        }
        sched_yield();
    }
    result = member->agreement ? sleep_in_agreement(&w, until) : sleep_until(&w, until);
    member->waited += now() - begin;
    return result;
}
