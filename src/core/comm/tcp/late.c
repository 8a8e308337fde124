/* Who is late: a rank that this one waits for may be there and wait itself, for one that does not come. So this one
 * asks when its deadline has passed: those it waits for, those for whom they wait, and so on. Who waits answers at
 * once, since it looks at what comes all the while; who does not answer has not arrived. */
#include "core/comm/tcp/tcp.h"

#include <stdio.h>

static int has_message_with(const struct stni_tcp_peer *peer)
{
    return peer->wanted.first || peer->sending.first || (peer->coming && peer->coming->call);
}

static void say(const struct stni_tcp_family *family, int rank, const struct stni_tcp_notice *notice)
{
    if (family->peers[rank].lanes[STNI_TCP_NOTICES] >= 0)
        stni_tcp_put(family->peers[rank].lanes[STNI_TCP_NOTICES], notice, sizeof *notice, stni_tcp_now());
}

void stni_tcp_begin_asking(struct stni_tcp_family *family)
{
    for (int r = 0; r < family->size; r++)
        family->peers[r].is_asked = family->peers[r].is_named = family->peers[r].has_answered = 0;
}

void stni_tcp_ask(struct stni_tcp_family *family, int rank)
{
    const struct stni_tcp_notice question = {.rank = family->rank, .status = STNI_TCP_ASKS};
    struct stni_tcp_peer *peer = &family->peers[rank];
    if (rank == family->rank || peer->is_asked)
        return;
    peer->is_asked = 1;
    say(family, rank, &question);
}

void stni_tcp_ask_named(struct stni_tcp_family *family)
{
    for (int r = 0; r < family->size; r++)
        if (family->peers[r].is_named)
            stni_tcp_ask(family, r);
}

/* Ranks beyond the text are not named: then this one is taken for the end of the line. */
void stni_tcp_answer(struct stni_tcp_family *family, int rank)
{
    struct stni_tcp_notice answer = {.rank = family->rank, .status = STNI_TCP_WAITS};
    int waits = 0;
    for (int r = 0; r < family->size; r++) {
        if (!has_message_with(&family->peers[r]))
            continue;
        waits = 1;
        if (r / 8 < (int)sizeof answer.text)
            answer.text[r / 8] = (char)(answer.text[r / 8] | 1 << r % 8);
    }
    if (waits && !family->aborted)
        say(family, rank, &answer);
}

void stni_tcp_take_answer(struct stni_tcp_family *family, int rank, const struct stni_tcp_notice *answer)
{
    family->peers[rank].has_answered = 1;
    for (int r = 0; r < family->size && r / 8 < (int)sizeof answer->text; r++)
        family->peers[r].is_named |= answer->text[r / 8] >> r % 8 & 1;
}

static int is_late(const struct stni_tcp_peer *peer)
{
    return peer->is_asked && !peer->has_answered;
}

int stni_tcp_list_late(const struct stni_tcp_family *family, char *text, size_t size, int *n)
{
    int late = 0;
    size_t at = 0;
    for (int r = 0; r < family->size; r++)
        late += is_late(&family->peers[r]);
    text[0] = '\0';
    *n = 0;
    for (int r = 0; r < family->size; r++) {
        if (late ? !is_late(&family->peers[r]) : !family->peers[r].is_awaited)
            continue;
        if (at + 32 > size) {
            snprintf(text + at, size - at, ", …");
            break;
        }
        at += (size_t)snprintf(text + at, size - at, "%s%d", (*n)++ ? ", " : "", r);
    }
    return late;
}
