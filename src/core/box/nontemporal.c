#include "core/box/nontemporal.h"

#include <stdint.h>

static int meets(const void *to, const char *from)
{
    uintptr_t ahead = ((uintptr_t)to - (uintptr_t)from) % STNI_STREAMING_PAGE;
    return ahead > 0 && ahead <= 1024;
}

char *stni_streaming_place(char *buffer, int n_dst, void *const *dst)
{
    char *best = buffer;
    for (int at = 0, least = n_dst + 1; at < STNI_STREAMING_PAGE && least > 0; at += 512) {
        int met = 0;
        for (int d = 0; d < n_dst; d++)
            met += meets(dst[d], buffer + at);
        if (met >= least)
            continue;
        least = met;
        best = buffer + at;
    }
    return best;
}
