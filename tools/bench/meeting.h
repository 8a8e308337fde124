/* Two threads that meet: the least that a collective between them has to do beside its copies. Peers "by hand" are
 * made of it. */
#ifndef BENCH_MEETING_H
#define BENCH_MEETING_H

#include <stdatomic.h>
#include <stdint.h>

enum { MEETING_RANKS = 2, MEETING_LINE = 128 }; /* bytes: processors fetch lines of 64 in pairs */

/** Zero before its first use. */
struct meeting {
    struct {
        _Alignas(MEETING_LINE) _Atomic uint64_t arrived; /* times that this rank has come */
        const void *shows[2]; /* what it lets the other read, at even and odd times: one may be ahead by one meeting while the other still looks */
    } rank[MEETING_RANKS];
};

/** Returns once both ranks have come as often as this one: what each wrote before is seen by the other. Waits without
 * sleeping. */
void meeting_wait(struct meeting *meeting, int rank);

/** As meeting_wait, and returns what the other rank shows. */
const void *meeting_show(struct meeting *meeting, int rank, const void *shows);

#endif
