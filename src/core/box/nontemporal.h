/* Results that are too large for the caches are written by non-temporal stores, from a buffer that stays in the L1
 * cache. */
#ifndef STNI_CORE_BOX_NONTEMPORAL_H
#define STNI_CORE_BOX_NONTEMPORAL_H

enum {
    STNI_STREAMING_PAGE = 4096,
    STNI_STREAMING_RESULT = 8 << 20 /* bytes of a result of arithmetic that the caches will not keep until it is read */
};

/* Where in `buffer` to put data that is then stored to all of dst; the buffer is one page longer than the data. A
 * load from the buffer that runs ahead of a non-temporal store must not have about the same offset in its page as
 * the store: the processor would take it for a load of data that is still being stored, and wait (4K aliasing). All
 * in all that is ten times slower (measured with distances under 1 KiB). */
char *stni_streaming_place(char *buffer, int n_dst, void *const *dst);

#endif
