/* Results that the caches cannot hold go past them, by non-temporal stores, through a buffer that stays in the L1 cache. */
#ifndef STNI_CORE_BOX_NONTEMPORAL_H
#define STNI_CORE_BOX_NONTEMPORAL_H

enum {
    STNI_STREAMING_PAGE = 4096,
    STNI_STREAMING_RESULT = 8 << 20 /* bytes of a result of arithmetic that the caches will not keep until it is read */
};

/* Where in `buffer`, which has a page more than is put there, to put what goes on to all of dst: loads of it that run ahead of non-temporal stores
 * must not meet the same offset in a page, or the processor takes them for loads of what is still being stored and waits, ten times
 * slower in all (measured with distances under 1 KiB). */
char *stni_streaming_place(char *buffer, int n_dst, void *const *dst);

#endif
